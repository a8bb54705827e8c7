"""Applying: what a document wants of schedules is done to all of them at once, or not at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from edgecron.api.compiling import Compiling
from edgecron.api.opening import TRIES
from edgecron.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from edgecron.api.prepared import Prepared
    from edgecron.documents.comparing import Step
    from edgecron.documents.document import Document
    from edgecron.model import Schedule
    from edgecron.timing import CompiledSpec


class Applying(Compiling):
    """Changes of several schedules in one transaction."""

    def plan_document(
        self, document: Document, *, origin: str, is_pruned: bool = False
    ) -> tuple[Step, ...]:
        """What applying a document would do to each schedule; nothing is written.

        Raises InvalidDocument with everything that is wrong with it.
        """
        from edgecron.documents.comparing import compare
        from edgecron.documents.document import Problem, refuse

        steps = compare(
            document.wanted,
            self.store.find_schedules(),
            origins=self.store.find_origins(),
            origin=origin,
            is_pruned=is_pruned,
        )
        problems: list[Problem] = []
        prepared: list[Prepared] = []
        for step in steps:
            try:
                prepared.append(self._prepare(step))
            except InvalidInput as error:
                problems.append(Problem(schedule=step.name, message=error.message, hint=error.hint))
        if problems:
            raise refuse(problems, document.text)
        self._check_together(prepared)
        return steps

    def check(self, step: Step) -> CompiledSpec | None:
        """Check a step as `apply` would, writing nothing.

        The specification with its triggers expanded; None where it stays as it is. Raises what
        `apply` raises.
        """
        from edgecron.errors import AlreadyExists

        name = step.name if step.wanted is None else step.wanted.spec.name
        own_name = None if step.schedule is None else step.schedule.name
        if name != own_name and self.store.find_schedule(name) is not None:
            raise AlreadyExists(f"schedule {name!r} exists already")
        prepared = self._prepare(step)
        self._check_together([prepared])
        return prepared.compiled

    def apply(self, steps: Sequence[Step], *, origin: str) -> list[Schedule]:
        """Do what the steps of a plan say, all or nothing; the schedules that they changed.

        Raises Conflict where somebody changed one of them since, and what a single change raises.
        """
        from edgecron.documents.comparing import Action

        for _ in range(TRIES):
            prepared = [self._prepare(step) for step in steps]
            self._check_together(prepared)
            if self._write(prepared, origin):
                self._ring()
                return [
                    self.store.get_schedule(one.step.wanted.spec.name)
                    for one in prepared
                    if one.step.wanted is not None and one.step.action is not Action.KEEP
                ]
            steps = [self._reread(step) for step in steps]
        raise Conflict("these schedules are being changed by others", hint="try again")

    def _reread(self, step: Step) -> Step:
        """The step on the schedule as it is now. Raises Conflict where a person changed that."""
        if step.schedule is None:
            return step
        schedule = self.store.find_schedule(step.schedule.name)
        if schedule is None or (schedule.id, schedule.revision) != (
            step.schedule.id,
            step.schedule.revision,
        ):
            raise Conflict(
                f"schedule {step.schedule.name!r} was changed by others meanwhile, and nothing of"
                " this was done",
                hint="look at it again, and repeat",
            )
        from edgecron.values import replace

        return replace(step, schedule=schedule)

    def _prepare(self, step: Step) -> Prepared:
        from edgecron.api.prepared import Prepared
        from edgecron.documents.comparing import Action
        from edgecron.documents.keys import spec_table
        from edgecron.model import Reason
        from edgecron.planning import fresh_fire
        from edgecron.retiming import missed_of, retime
        from edgecron.store.changing import Retiming
        from edgecron.values import replace

        now_ms = self._clock.now_ms()
        schedule, wanted = step.schedule, step.wanted
        if step.action is Action.CREATE and wanted is not None:
            compiled = self.compile(wanted.spec, is_past_ok=wanted.is_declared)
            following = fresh_fire(compiled.timing, now_ms)
            return Prepared(
                step=step,
                compiled=compiled,
                retiming=Retiming(next=following, decided_until_ms=now_ms),
                enabled=False if wanted.enabled is False else None,
            )
        if step.action is Action.REMOVE and schedule is not None:
            missed = missed_of(self.store, schedule, now_ms=now_ms, reason=Reason.REMOVED)
            return Prepared(step=step, missed=missed)
        if step.action is not Action.CHANGE or schedule is None or wanted is None:
            return Prepared(step=step)
        compiled, retiming = self._prepare_edit(
            schedule, wanted.spec, now_ms=now_ms, is_declared=wanted.is_declared
        )
        is_same = spec_table(wanted.spec) == spec_table(schedule.spec)
        prepared = Prepared(
            step=step,
            compiled=None if is_same and wanted.spec.name == schedule.name else compiled,
            retiming=retiming,
        )
        if wanted.enabled in (None, schedule.enabled):
            return prepared
        if not wanted.enabled:
            return replace(prepared, enabled=False)
        free = replace(schedule, enabled=True, paused_until=None)
        resumption = retime(self.store, free, compiled.timing, now_ms=now_ms, reason=Reason.PAUSED)
        return replace(prepared, enabled=True, retiming=None, resumption=resumption)

    def _check_together(self, prepared: Collection[Prepared]) -> None:
        """Check what schedules come after and need, as all of it will be. Raises InvalidInput."""
        from edgecron.conditions import check_needed, check_needs
        from edgecron.documents.keys import TRIGGERS
        from edgecron.upstreams import check_upstreams

        gone = {
            one.step.schedule.name
            for one in prepared
            if one.step.schedule is not None and _leaves_name(one.step)
        }
        written = [(one.step, one.compiled) for one in prepared if one.compiled is not None]
        names = set(self.store.find_names()) - gone | {one.spec.name for _, one in written}
        upstreams = {
            one.spec.name: [name for name, _ in one.upstreams]
            for step, one in written
            if gone or _is_new(step, *TRIGGERS)
        }
        if any(upstreams.values()):
            check_upstreams(upstreams, known=self.store.find_upstreams(), names=names)
        needs = {
            one.spec.name: one.spec.policies.needs
            for step, one in written
            if gone or _is_new(step, "needs")
        }
        for texts in needs.values():
            check_needs(texts)
        check_needed({name: texts for name, texts in needs.items() if texts}, names=names)
        for name in sorted(gone):
            dependents = set(self.find_dependents(name)) - gone - needs.keys()
            if dependents:
                raise Conflict(
                    f"schedule {name!r} is named by others: {', '.join(sorted(dependents))}",
                    hint="change their triggers and needs first",
                )

    def _write(self, prepared: Sequence[Prepared], origin: str) -> bool:
        """Write it all; False, and nothing of it, where one schedule is not as it was read."""
        now_ms = self._clock.now_ms()
        try:
            with self.store.together():
                for one in prepared:
                    if not self._write_one(one, origin, now_ms):
                        raise _NotAsRead
        except _NotAsRead:
            return False
        return True

    def _write_one(self, one: Prepared, origin: str, now_ms: int) -> bool:
        from edgecron.documents.comparing import Action
        from edgecron.values import replace

        schedule, wanted = one.step.schedule, one.step.wanted
        boot_id = self._clock.boot_id()
        if one.step.action is Action.REMOVE and schedule is not None:
            return self.store.remove_schedule(schedule, missed=one.missed, now_ms=now_ms)
        if one.step.action not in (Action.CREATE, Action.CHANGE) or wanted is None:
            return True
        if schedule is None:
            assert one.compiled is not None
            assert one.retiming is not None
            made = [(one.compiled, one.retiming)]
            self.store.insert_schedules(made, boot_id=boot_id, origin=origin, now_ms=now_ms)
            if one.enabled is not None:
                schedule = self.store.get_schedule(wanted.spec.name)
        elif one.compiled is not None:
            if not self.store.update_schedule(
                schedule,
                one.compiled,
                retiming=one.retiming,
                boot_id=boot_id,
                origin=origin,
                now_ms=now_ms,
            ):
                return False
            schedule = replace(schedule, spec=one.compiled.spec, revision=schedule.revision + 1)
        if wanted.limit is not None:
            self.store.set_group_limit(*wanted.limit)
        if one.enabled is None or schedule is None:
            return True
        if one.resumption is not None:
            return self.store.resume_schedule(
                schedule, retiming=one.resumption, boot_id=boot_id, now_ms=now_ms
            )
        return self.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=now_ms)


class _NotAsRead(Exception):
    """Ends a transaction in which a schedule was not as it was read."""


def _is_new(step: Step, *keys: str) -> bool:
    """Whether what a schedule says under one of these keys was never checked before."""
    return step.schedule is None or any(one.key in ("name", *keys) for one in step.changes)


def _leaves_name(step: Step) -> bool:
    """Whether no schedule has this step's old name after it."""
    from edgecron.documents.comparing import Action

    is_renamed = (
        step.schedule is not None
        and step.wanted is not None
        and step.wanted.spec.name != step.schedule.name
    )
    return step.action is Action.REMOVE or is_renamed
