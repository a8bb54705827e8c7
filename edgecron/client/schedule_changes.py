"""Create, change, pause, resume, reschedule, remove and restore schedules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from edgecron.base.checks import check_aware, check_aware_or_none, check_name, check_range
from edgecron.base.errors import Conflict, InvalidInput, NotFound
from edgecron.base.paths import adoptions_path, is_there
from edgecron.base.units import format_instant, format_ms, to_ms
from edgecron.base.values import replace
from edgecron.base.window_texts import split_once_in
from edgecron.client.calendars import read_calendars
from edgecron.client.opening import TRIES, Engines
from edgecron.client.retiming import (
    keep_triggers,
    missed_of,
    retime,
    retime_declared,
    timing_of_stored,
)
from edgecron.client.schedules import Schedules
from edgecron.model.choices import Reason
from edgecron.model.conditions import check_kept, check_needed, check_needs
from edgecron.model.listing import Idle, find_idle, idle_words, standing_of
from edgecron.model.schedule import Author, Imported, Schedule, ScheduleSpec
from edgecron.planning.next_fire import fresh_fire
from edgecron.planning.times import (
    CompiledSpec,
    check_upstreams,
    compile_spec,
    timing_words,
    trigger_words,
)
from edgecron.store.sql.schedule_changes import Retiming


class ScheduleChanges(Engines, Schedules):
    """Changes of schedules. Each is one transaction, made on the schedule as it was read."""

    def add(self, spec: ScheduleSpec, *, origin: str = "python") -> Schedule:
        """Add a schedule. It computes from now and never fires for the past.

        Raises AlreadyExists, InvalidTrigger, UnknownTimezone or another InvalidInput.
        """
        return self.add_all([spec], origin=origin)[0]

    def add_all(self, specs: Sequence[ScheduleSpec], *, origin: str = "python") -> list[Schedule]:
        """Add several schedules in one transaction: all, or none and an error."""
        now_ms = self._clock.now_ms()
        made = []
        for spec in specs:
            compiled = self.compile(spec)
            retiming = Retiming(next=fresh_fire(compiled.timing, now_ms), decided_until_ms=now_ms)
            made.append((compiled, retiming))
        self._check_upstreams([compiled for compiled, _ in made])
        self._check_needs(specs)
        self.store.insert_schedules(
            made,
            boot_id=self._clock.boot_id(),
            origin=origin,
            now_ms=now_ms,
            author=self.author_of(origin),
        )
        self.ring()
        return [self.store.get_schedule(spec.name) for spec in specs]

    def _check_upstreams(self, written: Sequence[CompiledSpec]) -> None:
        wanted = {one.spec.name: [name for name, _ in one.upstreams] for one in written}
        if any(wanted.values()):
            names = self.store.find_names()
            check_upstreams(wanted, known=self.store.find_upstreams(), names=names)

    def _check_needs(self, specs: Sequence[ScheduleSpec]) -> None:
        for spec in specs:
            check_kept(spec.policies.while_needs)
        wanted = {spec.name: spec.all_needs for spec in specs if spec.all_needs}
        if wanted:
            for needs in wanted.values():
                check_needs(needs)
            names = {*self.store.find_names(), *(spec.name for spec in specs)}
            check_needed(wanted, names=names)

    def acknowledge(self, schedule_id: int, error: str, execution_id: int) -> None:
        """Acknowledge the failures of a schedule with an error, up to a run.

        Raises NotFound if the schedule has no such run.
        """
        self.store.acknowledge(schedule_id, error[:64], execution_id)

    def limit_group(self, group: str, max_running: int | None) -> None:
        """Limit the active runs of a group, over all its schedules; None removes the limit.

        Runs that wait for a place start if there is one now.
        """
        check_name(group, what="group name")
        check_range("max-running of a group", max_running, 1, 1_000_000)
        self.store.set_group_limit(group, max_running)
        self.ring()

    def edit(
        self,
        name: str,
        change: Callable[[ScheduleSpec], ScheduleSpec],
        *,
        origin: str = "python",
    ) -> Schedule:
        """Change a schedule. New triggers compute from now; other edits keep the next time.

        A change that changes nothing is not written. Raises Conflict for a new name if other
        schedules name the old one. `change` is called again if the schedule has changed meanwhile.
        """
        for _ in range(TRIES):
            schedule = self.store.get_schedule(name)
            changed = self.edit_once(schedule, change(schedule.spec), origin=origin)
            if changed is not None:
                return changed
        raise Conflict(f"another program is changing schedule {name!r}", hint="try again")

    def edit_once(
        self, schedule: Schedule, spec: ScheduleSpec, *, origin: str = "python"
    ) -> Schedule | None:
        """Change a schedule if it still is as it was read; None if it has changed.

        The same definition is not written again.
        """
        if not self._edit_once(schedule, spec, origin):
            return None
        self.ring()
        return self.store.get_schedule(spec.name)

    def _edit_once(
        self, schedule: Schedule, spec: ScheduleSpec, origin: str, author: Author | None = None
    ) -> bool:
        """Write another definition. With an `author`, only the days of calendars differ."""
        now_ms = self._clock.now_ms()
        compiled, retiming = self.prepare_edit(schedule, spec, now_ms=now_ms)
        if author is None:
            self.check_definition(schedule, compiled)
        if retiming is None and compiled.spec == schedule.spec:
            return True  # An empty revision would be what `undo` takes back.
        return self.store.update_schedule(
            schedule,
            compiled,
            retiming=retiming,
            boot_id=self._clock.boot_id(),
            origin=origin,
            now_ms=now_ms,
            author=author or self.author_of(origin),
        )

    def renew_days(
        self, schedule: Schedule, spec: ScheduleSpec, *, origin: str, author: Author
    ) -> bool:
        """Change the days of a schedule's calendars; False if it has changed since it was read.

        It stays a schedule of `origin`: the file that applied it can still remove it.
        """
        is_written = self._edit_once(schedule, spec, origin, author)
        self.ring()
        return is_written

    def check_definition(self, schedule: Schedule, compiled: CompiledSpec) -> None:
        """Check that what another definition of a schedule follows and needs exists.

        Raises InvalidInput, and Conflict for a new name if other schedules name the old one.
        """
        spec, former = compiled.spec, schedule.spec
        is_renamed = spec.name != former.name
        if is_renamed:
            self._need_no_dependents(former.name)
        is_same = trigger_words(spec) == trigger_words(former)
        if is_renamed or not is_same or schedule.trigger_error is not None:
            self._check_upstreams([compiled])
        has_other_needs = (spec.all_needs, spec.policies.while_needs) != (
            former.all_needs,
            former.policies.while_needs,
        )
        if is_renamed or has_other_needs:
            self._check_needs([spec])

    def _need_no_dependents(self, name: str) -> None:
        """Raise Conflict if other schedules name this one: they would not find its new name."""
        dependents = self.find_dependents(name)
        if dependents:
            raise Conflict(
                f"other schedules follow or need {name!r}: {', '.join(dependents)}",
                hint="remove it from their triggers and needs first; add the new name after that",
            )

    def remove(self, name: str) -> Schedule:
        """Remove a schedule: queued runs are cancelled, running ones finish, the history stays."""
        return self._change(
            name,
            lambda schedule, now_ms: self.store.remove_schedule(
                schedule,
                missed=missed_of(self.store, schedule, now_ms=now_ms, reason=Reason.REMOVED),
                now_ms=now_ms,
                author=self.author_of(),
            ),
        )

    def undo_removal(self, name: str | None = None) -> list[Schedule]:
        """Undo the last removal: of this name, or of any. Restores all of its schedules or none.

        They compute from now; times that passed meanwhile become skipped runs. Raises NotFound,
        Conflict if a definition was forgotten, and AlreadyExists if a name is taken by now.
        """
        now_ms = self._clock.now_ms()
        found = self.store.find_last_removed(name)
        if not found:
            what = (
                "there is no removed schedule"
                if name is None
                else f"no schedule {name!r} was removed"
            )
            raise NotFound(what, hint="see: edgecron list")
        with self.store.transaction():
            for schedule, state in found:
                self.restore_one(schedule, state, now_ms=now_ms)
        self.ring()
        return [self.store.get_schedule(schedule.name) for schedule, _ in found]

    def restore_one(self, schedule: Schedule, state: str | None, *, now_ms: int) -> None:
        """Restore a removed schedule. `state` says how it was: see `find_last_removed`."""
        if state == "forgotten":
            raise Conflict(
                f"schedule {schedule.name!r} can't be restored: its definition was forgotten",
                hint="make it again with: edgecron add",
            )
        if is_there(adoptions_path(self.store.path)):
            from edgecron.client.adoption import refuse_returned  # Rarely needed, slow to load.

            refuse_returned(self.store.path, schedule)
        before = replace(schedule, enabled=state == "enabled")
        timing = timing_of_stored(self.store, before)
        retiming = retime(self.store, before, timing, now_ms=now_ms, reason=Reason.REMOVED)
        if not self.store.restore_removed(
            before,
            retiming=retiming,
            boot_id=self._clock.boot_id(),
            now_ms=now_ms,
            author=self.author_of(),
        ):
            raise Conflict(
                f"schedule {schedule.name!r} was restored by another program in the meantime",
                hint=f"see: edgecron show {schedule.name}",
            )

    def remove_unreadable(self, name: str) -> bool:
        """Remove a schedule that can't be read; False if there is none of this name."""
        was_there = self.store.remove_unreadable(
            name, now_ms=self._clock.now_ms(), author=self.author_of()
        )
        self.ring()
        return was_there

    def pause(self, name: str, *, until: datetime | None = None) -> Schedule:
        """Pause a schedule until an instant, or without end: no waiting run starts."""
        check_aware_or_none("the end of the pause", until)
        until_ms = None if until is None else to_ms(until)

        def pause_once(schedule: Schedule, now_ms: int) -> bool:
            following = None
            if until_ms is not None:
                if until_ms <= now_ms:
                    raise InvalidInput(
                        "the end of the pause is in the past", hint="give a time in the future"
                    )
                following = self.find_after_pause(schedule, until_ms=until_ms)
            return self.store.pause_schedule(
                schedule,
                until_ms=until_ms,
                following=following,
                now_ms=now_ms,
                author=self.author_of(),
            )

        return self._change(name, pause_once)

    def reschedule(self, name: str, run_at: datetime) -> Schedule:
        """Move the next run to another time, once; the run after it follows its trigger.

        Its plan time stays. Raises InvalidInput for a time in the past or within a pause, Conflict
        if there is no next fire to move.
        """
        check_aware("the new time", run_at)
        run_ms = to_ms(run_at)

        def reschedule_once(schedule: Schedule, now_ms: int) -> bool:
            if run_ms <= now_ms:
                raise InvalidInput("the new time is in the past", hint="give a time in the future")
            self._need_next(schedule)
            until = schedule.paused_until
            if until is not None and run_ms < to_ms(until):
                raise InvalidInput(
                    f"schedule {name!r} is paused until {format_instant(until)}",
                    hint=f"give a later time, or first: edgecron resume {name}",
                )
            self._check_in_window(schedule, run_ms)
            return self.store.reschedule(
                schedule, run_ms=run_ms, now_ms=now_ms, author=self.author_of()
            )

        return self._change(name, reschedule_once)

    def _check_in_window(self, schedule: Schedule, run_ms: int) -> None:
        """Raise InvalidInput if a trigger `once in` does not let the next fire start then."""
        if schedule.next_plan_at is None or split_once_in(schedule.next_source or "") is None:
            return
        opens_ms = to_ms(schedule.next_plan_at)
        closes_ms = self.timing(schedule).closes_ms(opens_ms)
        if closes_ms is not None and not opens_ms <= run_ms < closes_ms:
            raise InvalidInput(
                "the new time is outside of the window, which is open from"
                f" {format_ms(opens_ms)} to {format_ms(closes_ms)}",
                hint=f"give a time in the window; to run now: edgecron run {schedule.name}",
            )

    def _need_next(self, schedule: Schedule) -> None:
        """Raise Conflict if a schedule has no next fire to move."""
        name, now = schedule.name, self.now()
        standing = standing_of(schedule)
        idle = find_idle(standing, now=now)
        until = schedule.paused_until
        if (
            until is not None
            and schedule.next_plan_at is not None
            and schedule.next_plan_at < until
        ):
            why, hint = "it has no times after its pause", f"first: edgecron resume {name}"
        elif idle is None:
            return
        else:
            why = idle_words(standing, now=now) or ""
            hint = {
                Idle.VANISHED: f"remove it: edgecron rm {name}",
                Idle.BROKEN: f"fix it first: edgecron edit {name}",
                Idle.PAUSED: f"first: edgecron resume {name}",
                Idle.MAX_RUNS: f"first: edgecron edit {name} --max-runs none",
            }.get(idle, f"run it now: edgecron run {name}")
        raise Conflict(f"schedule {name!r} has no next time to move: {why}", hint=hint)

    def refuse_doubled(self, name: str) -> None:
        """Raise Conflict if another program still runs a schedule that it should give up."""
        if is_there(adoptions_path(self.store.path)) and self.store.find_id(name) is not None:
            from edgecron.client.adoption import refuse_doubled  # Rarely needed, slow to load.

            refuse_doubled(self.store.path, self.store.get_schedule(name))

    def resume(self, name: str) -> Schedule:
        """Resume a schedule. Times that passed meanwhile become one skipped run."""
        self.refuse_doubled(name)

        def resume_once(schedule: Schedule, now_ms: int) -> bool:
            until = schedule.paused_until
            is_held = not schedule.enabled or (until is not None and to_ms(until) > now_ms)
            if not is_held and schedule.trigger_error is None:
                return True  # The pause is over: the engine decides the rest.
            free = replace(schedule, enabled=True, paused_until=None)
            reason = Reason.PAUSED if is_held else Reason.MISFIRE
            retiming = retime(self.store, free, self.timing(schedule), now_ms=now_ms, reason=reason)
            return self.store.resume_schedule(
                schedule,
                retiming=retiming,
                boot_id=self._clock.boot_id(),
                now_ms=now_ms,
                author=self.author_of(),
            )

        return self._change(name, resume_once)

    def _change(self, name: str, once: Callable[[Schedule, int], bool]) -> Schedule:
        for _ in range(TRIES):
            schedule = self.store.get_schedule(name)
            if once(schedule, self._clock.now_ms()):
                self.ring()
                return self.store.find_schedule(name) or schedule
        raise Conflict(f"another program is changing schedule {name!r}", hint="try again")

    def compile(
        self,
        spec: ScheduleSpec,
        *,
        is_past_ok: bool = False,
        made_at: datetime | None = None,
        known: Collection[str] = (),
    ) -> CompiledSpec:
        """Check a specification as `add` would, without a change.

        With `is_past_ok`, a time of `at` can have passed, as can those of the `known` texts.
        `made_at` anchors an `every` without `from` (default: now).
        """
        now = self.now()
        return compile_spec(
            read_calendars(spec, now=now),
            seed=self.store.seed,
            made_at=made_at or now,
            now=None if is_past_ok else now,
            known=known,
        )

    def compile_change(self, schedule: Schedule, spec: ScheduleSpec) -> CompiledSpec:
        """Check another specification of a schedule as `edit` would, without a change."""
        compiled, _ = self.prepare_edit(schedule, spec, now_ms=self._clock.now_ms())
        return compiled

    def prepare_edit(
        self,
        schedule: Schedule,
        spec: ScheduleSpec,
        *,
        now_ms: int,
        is_declared: bool = False,
        is_past_ok: bool = False,
    ) -> tuple[CompiledSpec, Retiming | None]:
        """Compile a changed specification, with its new times; None if they do not move.

        If `is_declared`, intervals keep their anchor: two versions of a program that change the
        schedule in turn at each start must not postpone it for ever.
        """
        spec = read_calendars(spec, now=self.now(), former=schedule.spec)
        is_mended = schedule.trigger_error is not None
        if not is_mended and trigger_words(spec) == trigger_words(schedule.spec):
            # Keep them as they were expanded: an `every` without `from` would get another anchor.
            compiled = keep_triggers(self.store, self.store.compiled_of(schedule), spec)
        else:
            made_at = schedule.created_at if is_declared else None
            compiled = self.compile(
                spec,
                is_past_ok=is_declared or is_past_ok,
                made_at=made_at,
                known=schedule.spec.triggers,
            )
        if not is_mended and timing_words(spec) == timing_words(schedule.spec):
            return compiled, None
        if is_declared:
            return compiled, retime_declared(self.store, schedule, compiled.timing, now_ms=now_ms)
        return compiled, retime(
            self.store, schedule, compiled.timing, now_ms=now_ms, reason=Reason.EDITED
        )

    def imported(self) -> list[Imported]:
        """Return the schedules that crontab imports made, including removed ones."""
        found = [
            Imported(schedule_id=schedule_id, source=source, imprint=imprint)
            for schedule_id, source, imprint in self.store.find_imported()
        ]
        found += [
            Imported(schedule_id=schedule_id, source=None, imprint=None, spec=spec)
            for schedule_id, spec in self.store.find_imported_before()
        ]
        return found

    def note_imported(self, entries: Sequence[Imported]) -> None:
        """Record from which crontab lines schedules came, and what the lines say now."""
        self.store.note_imported(
            [(one.schedule_id, one.source or "", one.imprint or "{}") for one in entries]
        )
