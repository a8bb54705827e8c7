"""Reading: schedules, what is to come, runs, what they printed, and who is alive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput, NotFound, Unreadable
from edgecron.base.paths import state_dir
from edgecron.base.units import from_ms
from edgecron.client.opening import Opened

if TYPE_CHECKING:
    from edgecron.client.follow import Follower, LaterRuns, LaterTold
    from edgecron.engine.peers import EngineState
    from edgecron.engine.twins import Twin
    from edgecron.model.choices import Cause, Status
    from edgecron.model.claim import Output, OutputChunk
    from edgecron.model.filters import Filter
    from edgecron.model.listing import Choice, RunPage, SchedulePage, Standing
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Imported, Schedule, ScheduleSpec
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.next_fire import Timing
    from edgecron.planning.trust import ClockState
    from edgecron.triggers import Trigger
    from edgecron.views.outlook import LatePlaces

_MOST_NAMED = 500  # schedules whose fires are looked at one by one


class Reading(Opened):
    """What is, what was and what is to come. Nothing here changes a schedule or starts a run."""

    def schedules(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Schedule]:
        """Every schedule, by name, or those of a choice; or a page, of names after one.

        Raises Unreadable; see `schedule_page`.
        """
        return self.store.find_schedules(
            choice, now_ms=self._clock.now_ms(), after=after, limit=limit
        )

    def schedule_page(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> SchedulePage:
        """The same schedules, with the names of those whose rows can't be read."""
        return self.store.find_schedule_page(
            choice, now_ms=self._clock.now_ms(), after=after, limit=limit
        )

    def count_schedules(self) -> tuple[int, int, int]:
        """How many schedules there are, how many of them are broken, and how many nobody runs."""
        return self.store.count_schedules()

    def state(self, name: str) -> dict[str, str]:
        """What a schedule remembers from one run to the next: texts of JSON by key."""
        return self.store.find_state(self.store.get_schedule(name).id)

    def count_state(self, name: str) -> int:
        """How many keys that has."""
        return self.store.count_state(self.store.get_schedule(name).id)

    def standings(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Standing]:
        """How schedules stand: what a list shows of `schedules`, at a fraction of the cost."""
        return self.store.find_standings(
            choice, now_ms=self._clock.now_ms(), after=after, limit=limit
        )

    def schedule(self, name: str) -> Schedule:
        """The schedule of this name. Raises NotFound, with a suggestion."""
        return self.store.get_schedule(name)

    def triggers(self, schedule: Schedule) -> list[Trigger]:
        """The triggers of a schedule. Raises InvalidTrigger where they can't be read any more."""
        from edgecron.planning.times import load_triggers

        return load_triggers(self.store.compiled_of(schedule))

    def timing(self, schedule: Schedule) -> Timing:
        """What decides a schedule's times."""
        from edgecron.client.retiming import timing_of_stored

        return timing_of_stored(self.store, schedule)

    def next_fires(
        self, name: str | None = None, *, matches: Filter | None = None
    ) -> Iterator[UpcomingFire]:
        """Fires to come, in the order in which they may start: of one schedule, or of all, or of
        those whose names a filter lets through."""
        if name is not None:
            yield from self._fires_of(self.store.get_schedule(name))
            return
        if matches is not None and matches.has_names:
            yield from self._fires_named(matches)
            return
        from edgecron.planning.forecast import in_order

        yield from in_order(self.store.coming_schedules(), self._readable_fires_of)

    def _fires_named(self, wanted: Filter) -> Iterator[UpcomingFire]:
        """The same of some: where they are few, each one's own, and no other is looked at."""
        from heapq import merge

        from edgecron.planning.forecast import in_order
        from edgecron.store.schedule_lines import find_nearest_names

        names = find_nearest_names(
            self.store,
            lambda name: 0 if wanted.matches_name(name) else None,
            limit=_MOST_NAMED + 1,
        )
        if len(names) <= _MOST_NAMED:
            found = (self.store.find_schedule(name) for name in names)
            each = (self._readable_fires_of(one) for one in found if one is not None)
            yield from merge(*each, key=lambda fire: fire.due_at)
            return
        coming = self.store.coming_schedules(matches=wanted.matches_name)
        yield from in_order(coming, self._readable_fires_of)

    def _readable_fires_of(self, schedule: Schedule) -> Iterator[UpcomingFire]:
        # One that can't be read, such as for a zone that is gone, must not hide the others. The
        # engine marks it broken at its next time, which is shown.
        with suppress(InvalidInput):
            yield from self._fires_of(schedule)

    def _fires_of(self, schedule: Schedule) -> Iterator[UpcomingFire]:
        from edgecron.planning.forecast import fires_of

        return fires_of(schedule, lambda: self.timing(schedule))

    def execution(self, execution_id: int) -> Execution:
        """One run. Raises NotFound."""
        found = self.store.find_execution(execution_id)
        if found is None and self.store.is_removed(execution_id):
            raise NotFound(
                f"run {execution_id} was removed by retention",
                hint="what is left: edgecron history",
            )
        if found is None:
            raise NotFound(f"there is no run {execution_id}", hint="see: edgecron history")
        return found

    def history(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> list[Execution]:
        """The runs of `history_page`, without those whose rows can't be read."""
        return self.history_page(
            name,
            statuses=statuses,
            causes=causes,
            before_id=before_id,
            limit=limit,
            with_former=with_former,
        ).runs

    def history_page(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> RunPage:
        """Past and present runs, newest first; pages go on before the last id.

        If no schedule has this name, the runs of the newest that had it; `with_former` the runs of
        all that ever had it. Raises NotFound. A run that can't be read is named in the page, and
        the next run takes its place: less than `limit` is the end.
        """
        schedule_id = None if name is None else self._past_id(name)
        former_ids = (
            [] if name is None or not with_former else [id_ for id_, _ in self.removals(name)]
        )
        return self.store.find_executions(
            schedule_id=schedule_id,
            former_ids=[one for one in former_ids if one != schedule_id],
            statuses=statuses,
            causes=causes,
            before_id=before_id,
            limit=limit,
        )

    def waiting_runs(self, *, limit: int = 20) -> list[Execution]:
        """Runs that wait for a condition, those whose deadline comes first before the others."""
        return self.store.find_waiting(limit=limit)

    def last_run(self, name: str) -> Execution:
        """The newest run of a schedule, as `history` finds it, that was started, or NotFound."""
        found = self.store.last_execution_of(self._past_id(name))
        if found is None and self.removed_at(name) is not None:
            raise NotFound(
                f"schedule {name!r} was removed before it ran", hint=f"see: edgecron history {name}"
            )
        if found is None:
            raise NotFound(
                f"schedule {name!r} has not run yet", hint=f"run it now: edgecron run {name}"
            )
        return found

    def next_attempt(self, execution: Execution) -> Execution | None:
        """The attempt of the same fire that follows a run, or None where none does."""
        return self.store.find_next_attempt(execution)

    def spec_of(self, execution: Execution) -> ScheduleSpec | None:
        """What its schedule said when a run was decided; None where that can't be read any more."""
        try:
            found = self.store.load_schedules([(execution.schedule_id, execution.revision)])
        except Unreadable:
            return None
        return found[0].spec if found else None

    def later_runs(self, name: str, *, known: Execution | None) -> LaterRuns:
        """The runs of a schedule as they begin, those that go on now included, but for one."""
        from edgecron.client.follow import LaterRuns

        return LaterRuns(self.store, self.told_before(name, known=known))

    def told_before(self, name: str, *, known: Execution | None) -> LaterTold:
        """What `later_runs` begins with."""
        from edgecron.client.follow import told_before

        known_id = None if known is None else known.id
        return told_before(self.store, self._past_id(name), known_id=known_id)

    def removed_at(self, name: str) -> datetime | None:
        """When the newest schedule of this name was removed; None where one lives, or none was."""
        if self.store.find_id(name) is not None:
            return None
        removed = self.store.find_removed(name)
        return None if removed is None else from_ms(removed[1])

    def imported(self) -> list[Imported]:
        """The schedules that imports of crontabs made, those removed since as well."""
        from edgecron.model.schedule import Imported

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
        """Remember from which crontab lines schedules came, and what these say now."""
        self.store.note_imported(
            [(one.schedule_id, one.source or "", one.imprint or "{}") for one in entries]
        )

    def removals(self, name: str) -> list[tuple[int, datetime]]:
        """(id, when) of every schedule of this name that was removed, the newest first."""
        found = self.store.find_removals(name)
        return [(schedule_id, from_ms(removed_ms)) for schedule_id, removed_ms in found]

    def _past_id(self, name: str) -> int:
        schedule_id = self.store.find_id(name)
        if schedule_id is not None:
            return schedule_id
        removed = self.store.find_removed(name)
        return self.store.get_schedule(name).id if removed is None else removed[0]

    def output(self, execution_id: int) -> Output | None:
        """What a run printed, or None where it printed nothing or has not ended."""
        return self.store.find_output(execution_id)

    def output_so_far(self, execution: Execution) -> list[OutputChunk]:
        """What a running run has printed, as far as it is kept."""
        with self.follower(execution.id) as follower:
            return [chunk for _, chunk in follower.read_kept(execution)]

    def follow(self, execution_id: int) -> Iterator[tuple[int, OutputChunk]]:
        """What a run prints, as it comes, from its beginning to its end.

        With each chunk comes the number of bytes before it that were printed and not kept.
        """
        from edgecron.client.follow import follow_run

        return follow_run(self.store, execution_id, now=self.now, take_over=self.take_over)

    def follower(self, execution_id: int, *, position: int = 0) -> Follower:
        """The same for who waits for other things too, from so many bytes on."""
        from edgecron.client.follow import Follower

        return Follower(self.store, execution_id, position=position)

    def active_counts(self) -> dict[Status, int]:
        """How many runs are queued and running."""
        return self.store.count_active()

    def late_places(self) -> LatePlaces:
        """Which late runs hold the places for late runs, and how many wait for one."""
        from edgecron.planning.overlap import late_limit
        from edgecron.store.explanations import find_late
        from edgecron.views.outlook import LatePlaces

        held_by, waiting = find_late(self.store, now_ms=self._clock.now_ms())
        working = [one.info for one in self.engines() if one.is_working and one.info.queues]
        limits = [late_limit(one.max_running) for one in working if one.max_running is not None]
        places = sum(limits) if len(limits) == len(working) else None
        return LatePlaces(places=places, held_by=tuple(held_by), waiting=waiting)

    def engines(self) -> list[EngineState]:
        """The engines of this database that have not said goodbye, and how each of them does."""
        # Most verbs ask this for a hint alone: nothing heavy is loaded where there are none.
        if not self.store.find_engines():
            return []
        from edgecron.engine.peers import find_states

        return find_states(self.store, state_dir(self.path), clock=self._clock)

    def clock_state(self) -> ClockState:
        """Whether this machine's clock can be trusted, as an engine of this database sees it."""
        from edgecron.planning.trust import ClockState, is_trusted, resolve_mark_ms

        now_ms = self._clock.now_ms()
        marks = self.store.find_clock_marks()
        mark_ms = resolve_mark_ms(marks.trusted_high_ms)
        is_synchronised = self._clock.is_synchronised()
        return ClockState(
            now_ms=now_ms,
            mark_ms=mark_ms,
            is_synchronised=is_synchronised,
            is_trusted=is_trusted(now_ms, mark_ms=mark_ms, is_synchronised=is_synchronised),
            set_at_ms=marks.set_at_ms,
            set_by_ms=marks.set_by_ms,
        )

    def local_zone(self) -> str | None:
        """The zone that is local for the engines, by their last look; None before the first."""
        return self.store.find_clock_marks().local_timezone

    def twins(self) -> list[Twin]:
        """The processes that run a copy of this database: each schedule fires in both."""
        from edgecron.engine.twins import find_twins

        return find_twins(self.path, uuid=self.store.uuid)

    def disk_problem(self) -> str | None:
        """Why engines can't record a start: too little room beside the database; None if not."""
        from edgecron.client.doctor_files import check_space
        from edgecron.client.finding import CheckStatus

        found = check_space(self.path, state_dir(self.path))
        return next((one.message for one in found if one.status is CheckStatus.PROBLEM), None)

    def has_engine(self, queue: str, *, offer: str | None = None) -> bool:
        """Whether an engine that is alive and not stalled looks at a queue, and takes of it what
        has to be offered for a schedule; None is whatever may be there."""
        return any(state.is_working and state.info.takes(queue, offer) for state in self.engines())

    def is_supervised(self, execution: Execution) -> bool:
        """Whether the supervisor of a running run is alive."""
        from edgecron.supervisor.files import is_key, lock_is_held, lock_path

        key = execution.supervisor_id
        if key is None or not is_key(key):
            return False
        return lock_is_held(lock_path(state_dir(self.path), key))

    def take_over(self) -> None:
        """Write the ends that dead engines left, where no engine at work does it.

        Else what has long ended would still look like a run that goes on. Of another user's
        database nothing is taken over.
        """
        if self.store.count_active() and not any(state.is_working for state in self.engines()):
            from edgecron.engine.owner import find_stranger
            from edgecron.engine.peers import take_over_ends

            if find_stranger(self.path) is None:
                take_over_ends(self.store, state_dir(self.path), clock=self._clock)
