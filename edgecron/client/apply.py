"""Apply a document: change all its schedules in one transaction, or none."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from edgecron.base.errors import AlreadyExists, Conflict, InvalidInput
from edgecron.base.values import dataclass, replace
from edgecron.client.opening import TRIES
from edgecron.client.retiming import missed_of, retime
from edgecron.client.stored_plans import (
    FIRST_STEPS,
    WHOLE,
    apply_lock,
    next_size,
    step_of,
    steps_to_json,
)
from edgecron.formats.document_tables import (
    TRIGGERS,
    Action,
    Document,
    Problem,
    Step,
    compare,
    refuse,
    spec_table,
)
from edgecron.model.choices import Reason
from edgecron.model.conditions import check_kept, check_needed, check_needs, parse_needs
from edgecron.model.schedule import Act, Schedule
from edgecron.planning.next_fire import Missed, fresh_fire
from edgecron.planning.times import CompiledSpec, check_upstreams
from edgecron.store.sql.revisions import PendingApply
from edgecron.store.sql.schedule_changes import Retiming

if TYPE_CHECKING:
    from edgecron.client.schedule_changes import ScheduleChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The writes of one step.

    `compiled` None leaves the definition as it is, `enabled` None leaves that field; `resumption`
    are the times of a schedule that is resumed.
    """

    step: Step
    compiled: CompiledSpec | None = None
    retiming: Retiming | None = None
    enabled: bool | None = None
    resumption: Retiming | None = None
    missed: tuple[Missed, ...] = ()


class Apply:
    """Change several schedules of a database: all of them, or none."""

    def __init__(self, database: ScheduleChanges) -> None:
        self._database = database
        self._store = database.store
        self._clock = database.clock

    def plan(self, document: Document, *, origin: str, is_pruned: bool = False) -> tuple[Step, ...]:
        """Return what applying a document would do to each schedule, without a change.

        Raises InvalidDocument with everything that is wrong with it.
        """
        steps = compare(
            document.wanted,
            self._store.find_schedules(),
            origins=self._store.find_origins(),
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
        return tuple(self._with_notes(prepared))

    def check(self, step: Step) -> CompiledSpec | None:
        """Check a step as `apply` would, without a change.

        Return the compiled specification; None if it stays as it is. Raises what `apply` raises.
        """
        name = step.name if step.wanted is None else step.wanted.spec.name
        own_name = None if step.schedule is None else step.schedule.name
        if name != own_name and self._store.find_schedule(name) is not None:
            raise AlreadyExists(
                f"schedule {name!r} exists already",
                hint=f"change it: edgecron edit {name}; or take another name",
            )
        prepared = self._prepare(step)
        self._check_together([prepared])
        return prepared.compiled

    def carry_out(self, steps: Sequence[Step], *, origin: str) -> list[Schedule]:
        """Carry out the steps of a plan, all or none, and return the schedules that they changed.

        Raises Conflict if one of them has changed since, and the errors of a single change.
        """
        self.finish()
        steps = [step for step in steps if step.action not in (Action.KEEP, Action.LEAVE)]
        if len(steps) > WHOLE and not any(
            step.wanted is not None and step.wanted.is_declared for step in steps
        ):
            return self._apply_in_slices(steps, origin)
        for _ in range(TRIES):
            prepared = [self._prepare(step) for step in steps]
            self._check_together(prepared)
            if self._write(prepared, origin):
                self._database.ring()
                return [
                    self._store.get_schedule(one.step.wanted.spec.name)
                    for one in prepared
                    if one.step.wanted is not None and one.step.action is not Action.KEEP
                ]
            steps = [self._reread(step) for step in steps]
        raise Conflict("another program is changing these schedules", hint="try again")

    def _apply_in_slices(self, steps: Sequence[Step], origin: str) -> list[Schedule]:
        with apply_lock(self._database.path) as is_ours:
            # Everything that can be refused is refused before anything is written.
            prepared = [self._prepare(self._reread(step)) for step in steps]
            self._check_together(prepared)
            self._need_free_names(steps)
            pending = PendingApply(origin, self._clock.now_ms(), steps_to_json(steps))
            if not is_ours or not self._store.decide_apply(pending):
                raise Conflict("another apply of many schedules is running", hint="try again")
            self._carry_out(prepared, pending)
        names = [step.wanted.spec.name for step in steps if step.wanted is not None]
        return [self._store.get_schedule(name) for name in names]

    def finish(self) -> int:
        """Finish an apply whose process has died; return how many steps it had."""
        if self._store.find_pending_apply() is None:
            return 0
        with apply_lock(self._database.path) as is_ours:
            pending = self._store.find_pending_apply()  # Its process may have finished meanwhile.
            if not is_ours or pending is None:
                return 0
            stored = json.loads(pending.steps)
            steps = [step_of(one, self._store.find_schedule) for one in stored]
            self._carry_out([self._prepare(step) for step in steps], pending)
            return len(steps)

    def _carry_out(self, prepared: Sequence[Prepared], pending: PendingApply) -> None:
        """Write a decided apply slice by slice. Engines get the lock between two slices."""
        stored = {one["name"]: one for one in json.loads(pending.steps)}
        at, size, tries = 0, FIRST_STEPS, 0
        while at < len(prepared):
            part = prepared[at : at + size]
            began_ms = self._clock.monotonic_ms()
            if self._write_slice(part, pending.origin):
                took_ms = self._clock.monotonic_ms() - began_ms
                self._database.ring()
                self._store.let_others_write()
                at, tries = at + size, 0
                size = next_size(size, took_ms=took_ms)
                continue
            tries += 1
            if tries > TRIES:
                raise Conflict("another program is changing these schedules", hint="try again")
            again = [step_of(stored[one.step.name], self._store.find_schedule) for one in part]
            prepared = [*prepared[:at], *map(self._prepare, again), *prepared[at + size :]]
        self._store.finish_apply()
        self._database.ring()

    def _write_slice(self, part: Sequence[Prepared], origin: str) -> bool:
        try:
            return self._write(part, origin)
        except AlreadyExists:  # It was created after the apply was decided.
            return False

    def _need_free_names(self, steps: Sequence[Step]) -> None:
        """Raise AlreadyExists if a schedule to create exists meanwhile."""
        for step in steps:
            if step.schedule is None and self._store.find_schedule(step.name) is not None:
                raise AlreadyExists(
                    f"schedule {step.name!r} exists already",
                    hint=f"change it: edgecron edit {step.name}; or take another name",
                )

    def _reread(self, step: Step) -> Step:
        """Return the step with the schedule as it is now. Raises Conflict if it was changed."""
        if step.schedule is None:
            return step
        schedule = self._store.find_schedule(step.schedule.name)
        if schedule is None or (schedule.id, schedule.revision) != (
            step.schedule.id,
            step.schedule.revision,
        ):
            raise Conflict(
                f"another program changed schedule {step.schedule.name!r} in the meantime;"
                " nothing was applied",
                hint="check the schedule, then repeat",
            )

        return replace(step, schedule=schedule)

    def _prepare(self, step: Step) -> Prepared:
        now_ms = self._clock.now_ms()
        schedule, wanted = step.schedule, step.wanted
        if step.action is Action.CREATE and wanted is not None:
            is_past_ok = wanted.is_declared or wanted.is_portable
            compiled = self._database.compile(wanted.spec, is_past_ok=is_past_ok)
            following = fresh_fire(compiled.timing, now_ms)
            return Prepared(
                step=step,
                compiled=compiled,
                retiming=Retiming(next=following, decided_until_ms=now_ms),
                enabled=False if wanted.enabled is False else None,
            )
        if step.action is Action.REMOVE and schedule is not None:
            missed = missed_of(self._store, schedule, now_ms=now_ms, reason=Reason.REMOVED)
            return Prepared(step=step, missed=missed)
        if step.action is not Action.CHANGE or schedule is None or wanted is None:
            return Prepared(step=step)
        compiled, retiming = self._database.prepare_edit(
            schedule,
            wanted.spec,
            now_ms=now_ms,
            is_declared=wanted.is_declared,
            is_past_ok=wanted.is_portable,
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
        self._database.refuse_doubled(schedule.name)
        free = replace(schedule, enabled=True, paused_until=None)
        resumption = retime(self._store, free, compiled.timing, now_ms=now_ms, reason=Reason.PAUSED)
        return replace(prepared, enabled=True, retiming=None, resumption=resumption)

    def _check_together(self, prepared: Collection[Prepared]) -> None:
        """Check what schedules follow and need, after all steps. Raises InvalidInput.

        A portable document can name missing schedules: `_with_notes` reports them.
        """
        gone = _gone_names(prepared)
        written = [(one.step, one.compiled) for one in prepared if one.compiled is not None]
        names = self._names_after(prepared)
        for step, one in written:
            if step.wanted is not None and step.wanted.is_portable:
                names |= _named_by(one)
        upstreams = {
            one.spec.name: [name for name, _ in one.upstreams]
            for step, one in written
            if gone or _is_new(step, *TRIGGERS)
        }
        if any(upstreams.values()):
            check_upstreams(upstreams, known=self._store.find_upstreams(), names=names)
        needs = {
            one.spec.name: one.spec.all_needs
            for step, one in written
            if gone or _is_new(step, "needs", "once")
        }
        for texts in needs.values():
            check_needs(texts)
        for _, one in written:
            check_kept(one.spec.policies.while_needs)
        check_needed({name: texts for name, texts in needs.items() if texts}, names=names)
        for name in sorted(gone):
            dependents = set(self._database.find_dependents(name)) - gone - needs.keys()
            if dependents:
                raise Conflict(
                    f"other schedules follow or need {name!r}: {', '.join(sorted(dependents))}",
                    hint="change their triggers and needs first",
                )

    def _names_after(self, prepared: Collection[Prepared]) -> set[str]:
        written = {one.compiled.spec.name for one in prepared if one.compiled is not None}
        return set(self._store.find_names()) - _gone_names(prepared) | written

    def _with_notes(self, prepared: Collection[Prepared]) -> Iterator[Step]:
        """Return the steps, with a note if a written schedule can't run as it says."""
        names = self._names_after(prepared)
        for one in prepared:
            notes = [] if one.compiled is None else self._find_notes(one.compiled, names)
            yield replace(one.step, note="; ".join(notes)) if notes else one.step

    def _find_notes(self, compiled: CompiledSpec, names: Collection[str]) -> list[str]:
        spec = compiled.spec
        notes = []
        try:
            check_upstreams(
                {spec.name: [name for name, _ in compiled.upstreams]}, known=(), names=names
            )
        except InvalidInput as error:
            notes.append(f"{error.message} ({error.hint})" if error.hint else error.message)
        try:
            check_needed({spec.name: spec.all_needs}, names=names)
        except InvalidInput as error:
            notes.append(f"{error.message} ({error.hint})" if error.hint else error.message)
        if not compiled.has_events and fresh_fire(compiled.timing, self._clock.now_ms()) is None:
            notes.append("its times have passed: it does not run again")
        return notes

    def _write(self, prepared: Sequence[Prepared], origin: str) -> bool:
        """Write all steps; False, and nothing is written, if a schedule was changed since."""
        now_ms = self._clock.now_ms()
        try:
            with self._store.transaction():
                for one in prepared:
                    if not self._write_one(one, origin, now_ms):
                        raise _NotAsRead
        except _NotAsRead:
            return False
        return True

    def _write_one(self, one: Prepared, origin: str, now_ms: int) -> bool:
        schedule, wanted = one.step.schedule, one.step.wanted
        boot_id = self._clock.boot_id()
        author = self._database.author_of(origin)
        if one.step.action is Action.REMOVE and schedule is not None:
            return self._store.remove_schedule(
                schedule, missed=one.missed, now_ms=now_ms, author=author
            )
        if one.step.action not in (Action.CREATE, Action.CHANGE) or wanted is None:
            return True
        if schedule is None:
            assert one.compiled is not None
            assert one.retiming is not None
            made = [(one.compiled, one.retiming)]
            self._store.insert_schedules(
                made, boot_id=boot_id, origin=origin, now_ms=now_ms, author=author
            )
            if one.enabled is not None:
                schedule = self._store.get_schedule(wanted.spec.name)
        elif one.compiled is not None:
            if not self._store.update_schedule(
                schedule,
                one.compiled,
                retiming=one.retiming,
                boot_id=boot_id,
                origin=origin,
                now_ms=now_ms,
                author=author,
            ):
                return False
            schedule = replace(schedule, spec=one.compiled.spec, revision=schedule.revision + 1)
        if wanted.limit is not None:
            self._store.set_group_limit(*wanted.limit)
        if one.enabled is None or schedule is None:
            return True
        is_part = one.compiled is not None  # of the change that wrote the definition
        if one.resumption is not None:
            return self._store.resume_schedule(
                schedule,
                retiming=one.resumption,
                boot_id=boot_id,
                now_ms=now_ms,
                act=Act.PART if is_part else Act.RESUME,
                author=author,
            )
        return self._store.pause_schedule(
            schedule,
            until_ms=None,
            following=None,
            now_ms=now_ms,
            act=Act.PART if is_part else Act.PAUSE,
            author=author,
        )


class _NotAsRead(Exception):
    """Roll back: a schedule was changed since it was read."""


def _gone_names(prepared: Collection[Prepared]) -> set[str]:
    return {
        one.step.schedule.name
        for one in prepared
        if one.step.schedule is not None and _leaves_name(one.step)
    }


def _named_by(compiled: CompiledSpec) -> set[str]:
    """Return the names of the schedules that a schedule follows or needs."""
    needed = {one.schedule for one in parse_needs(compiled.spec.all_needs)}
    return {name for name, _ in compiled.upstreams} | {name for name in needed if name}


def _is_new(step: Step, *keys: str) -> bool:
    """Whether one of these keys is new or changed, and so not checked yet."""
    return step.schedule is None or any(one.key in ("name", *keys) for one in step.changes)


def _leaves_name(step: Step) -> bool:
    """Whether the old name of a step's schedule is free after it."""
    is_renamed = (
        step.schedule is not None
        and step.wanted is not None
        and step.wanted.spec.name != step.schedule.name
    )
    return step.action is Action.REMOVE or is_renamed
