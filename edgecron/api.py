"""Scheduler: the embedding face, and the only wiring of store, clock and engine.

The command line and the dashboard see a database through this and nothing else.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.clock import Clock, SystemClock
from edgecron.errors import Conflict, InvalidInput, NotFound, SupervisorUnavailable
from edgecron.model import (
    ACTIVE,
    Cause,
    Execution,
    Output,
    OutputChunk,
    Reason,
    Schedule,
    ScheduleSpec,
    Status,
)
from edgecron.paths import database_path, state_dir
from edgecron.timetext import from_ms, to_ms

if TYPE_CHECKING:
    from edgecron.engine.peers import EngineState
    from edgecron.planning import Timing
    from edgecron.store import SqliteStore
    from edgecron.timing import CompiledSpec
    from edgecron.triggers import Trigger
    from edgecron.upcoming import UpcomingFire

_TRIES = 20  # of a change that others keep making first


class Scheduler:
    """A database of schedules and runs. For one thread; the file is opened on first use.

    `database` None means EDGECRON_DB, else the default of this user. With `must_exist`, a missing
    file raises NotFound instead of being made.
    """

    def __init__(
        self,
        database: str | Path | None = None,
        *,
        clock: Clock | None = None,
        must_exist: bool = False,
    ) -> None:
        self.path = database_path(None if database is None else str(database))
        self._clock: Clock = clock or SystemClock()
        self._must_exist = must_exist
        self._open_store: SqliteStore | None = None

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; harmless when it is closed already."""
        if self._open_store is not None:
            self._open_store.close()
            self._open_store = None

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def store(self) -> SqliteStore:
        """The open store."""
        if self._open_store is None:
            from edgecron.store import open_store

            self._open_store = open_store(
                self.path, now_ms=self._clock.now_ms(), must_exist=self._must_exist
            )
        return self._open_store

    # Writing schedules.

    def add(self, spec: ScheduleSpec, *, origin: str = "python") -> Schedule:
        """Make a schedule. It computes from now and never fires for the past.

        Raises AlreadyExists, InvalidTrigger, UnknownTimezone or another InvalidInput.
        """
        return self.add_all([spec], origin=origin)[0]

    def add_all(self, specs: Sequence[ScheduleSpec], *, origin: str = "python") -> list[Schedule]:
        """Make several schedules in one transaction: all, or none and an error."""
        from edgecron.planning import fresh_fire
        from edgecron.store.schedules import Retiming

        now_ms = self._clock.now_ms()
        made = []
        for spec in specs:
            compiled = self.compile(spec)
            retiming = Retiming(next=fresh_fire(compiled.timing, now_ms), decided_until_ms=now_ms)
            made.append((compiled, retiming))
        self._check_upstreams([compiled for compiled, _ in made])
        self.store.insert_schedules(
            made, boot_id=self._clock.boot_id(), origin=origin, now_ms=now_ms
        )
        self._ring()
        return [self.store.get_schedule(spec.name) for spec in specs]

    def _check_upstreams(self, written: Sequence[CompiledSpec]) -> None:
        wanted = {one.spec.name: [name for name, _ in one.upstreams] for one in written}
        if any(wanted.values()):
            from edgecron.upstreams import check_upstreams

            names = self.store.find_names()
            check_upstreams(wanted, known=self.store.find_upstreams(), names=names)

    def compile(self, spec: ScheduleSpec) -> CompiledSpec:
        """Check a specification as `add` would, writing nothing."""
        from edgecron.timing import compile_spec

        now = self.now()
        return compile_spec(spec, seed=self.store.seed, made_at=now, now=now)

    def edit(
        self,
        name: str,
        change: Callable[[ScheduleSpec], ScheduleSpec],
        *,
        origin: str = "python",
    ) -> Schedule:
        """Change a schedule. New triggers compute from now; other edits keep the next time.

        `change` may be called again where somebody else changed the schedule meanwhile.
        """
        for _ in range(_TRIES):
            schedule = self.store.get_schedule(name)
            spec = change(schedule.spec)
            if self._edit_once(schedule, spec, origin):
                self._ring()
                return self.store.get_schedule(spec.name)
        raise Conflict(f"schedule {name!r} is being changed by others", hint="try again")

    def _edit_once(self, schedule: Schedule, spec: ScheduleSpec, origin: str) -> bool:
        from edgecron.retiming import keep_triggers, retime
        from edgecron.timing import timing_words, trigger_words

        now_ms = self._clock.now_ms()
        retiming = None
        if schedule.trigger_error is None and trigger_words(spec) == trigger_words(schedule.spec):
            # Kept as they were expanded: a bare `every` would get another anchor.
            compiled = keep_triggers(self.store, schedule, spec)
        else:
            compiled = self.compile(spec)
            self._check_upstreams([compiled])
        is_mended = schedule.trigger_error is not None
        if is_mended or timing_words(spec) != timing_words(schedule.spec):
            retiming = retime(
                self.store, schedule, compiled.timing, now_ms=now_ms, reason=Reason.EDITED
            )
        return self.store.update_schedule(
            schedule,
            compiled,
            retiming=retiming,
            boot_id=self._clock.boot_id(),
            origin=origin,
            now_ms=now_ms,
        )

    def remove(self, name: str) -> Schedule:
        """Remove a schedule: what is queued is cancelled, what runs finishes, history stays."""
        from edgecron.retiming import missed_of

        return self._change(
            name,
            lambda schedule, now_ms: self.store.remove_schedule(
                schedule,
                missed=missed_of(self.store, schedule, now_ms=now_ms, reason=Reason.REMOVED),
                now_ms=now_ms,
            ),
        )

    def pause(self, name: str, *, until: datetime | None = None) -> Schedule:
        """Hold everything of a schedule that has not started, without end or until an instant."""
        from edgecron.planning import next_after_pause

        until_ms = None if until is None else to_ms(until)

        def pause_once(schedule: Schedule, now_ms: int) -> bool:
            following = None
            if until_ms is not None:
                if until_ms <= now_ms:
                    raise InvalidInput("the end of the pause is in the past")
                following = next_after_pause(
                    self.timing(schedule),
                    until_ms,
                    decided_until_ms=to_ms(schedule.decided_until),
                    planned_count=schedule.planned_count,
                )
            return self.store.pause_schedule(
                schedule, until_ms=until_ms, following=following, now_ms=now_ms
            )

        return self._change(name, pause_once)

    def resume(self, name: str) -> Schedule:
        """Let a schedule fire again; the times that passed meanwhile become one skipped range."""
        from edgecron.retiming import retime

        def resume_once(schedule: Schedule, now_ms: int) -> bool:
            until = schedule.paused_until
            is_held = not schedule.enabled or (until is not None and to_ms(until) > now_ms)
            if not is_held and schedule.trigger_error is None:
                return True  # The pause is over: what comes now is for the engine to decide.
            free = replace(schedule, enabled=True, paused_until=None)
            reason = Reason.PAUSED if is_held else Reason.MISFIRE
            retiming = retime(self.store, free, self.timing(schedule), now_ms=now_ms, reason=reason)
            return self.store.resume_schedule(
                schedule, retiming=retiming, boot_id=self._clock.boot_id(), now_ms=now_ms
            )

        return self._change(name, resume_once)

    def run_now(self, name: str) -> list[Execution]:
        """Queue a fire of a schedule, in each of its scopes; its next time does not change.

        A row comes back `skipped` where overlap left it out.
        """
        from edgecron.planning import Fire

        for _ in range(_TRIES):
            schedule = self.store.get_schedule(name)
            now_ms = self._clock.now_ms()
            fire = Fire(
                plan_ms=now_ms,
                due_ms=now_ms,
                cause=Cause.MANUAL,
                source=None,
                fire_key=f"manual:{os.urandom(6).hex()}",
            )
            decided = self.store.enqueue_fire(schedule, fire, now_ms=now_ms)
            if decided is not None:
                self._ring()
                return [self.execution(one.execution_id) for one in decided]
        raise Conflict(f"schedule {name!r} is being changed by others", hint="try again")

    def cancel(self, execution_id: int) -> Execution:
        """End a run: withdraw a queued one, or have a running one's process group ended.

        A running one gets TERM, its grace, then KILL; its row says `cancelled` once its engine,
        or the next one, has written the end. Raises NotFound, Conflict where it has ended
        already, SupervisorUnavailable where nobody is left to end it.
        """
        from edgecron.engine.owner import refuse_foreign
        from edgecron.engine.peers import end_run

        for _ in range(_TRIES):
            now_ms = self._clock.now_ms()
            execution = self.execution(execution_id)
            if execution.status is Status.QUEUED:
                if self.store.cancel_queued(execution_id, now_ms=now_ms):
                    self._ring()
                    return self.execution(execution_id)
            elif execution.status is Status.RUNNING:
                row = self.store.request_cancel(execution_id, now_ms=now_ms)
                if row is not None:
                    try:
                        end_run(row, state_dir(self.path))
                    except SupervisorUnavailable:
                        # It may have ended with nobody there to write it down.
                        self.take_over()
                        if self.execution(execution_id).status in ACTIVE:
                            refuse_foreign(self.path)
                            raise
                        continue
                    return self.execution(execution_id)
            else:
                raise Conflict(f"run {execution_id} has ended already: {execution.status}")
        raise Conflict(f"run {execution_id} is being changed by others", hint="try again")

    def _change(self, name: str, once: Callable[[Schedule, int], bool]) -> Schedule:
        for _ in range(_TRIES):
            schedule = self.store.get_schedule(name)
            if once(schedule, self._clock.now_ms()):
                self._ring()
                return self.store.find_schedule(name) or schedule
        raise Conflict(f"schedule {name!r} is being changed by others", hint="try again")

    # Reading.

    def now(self) -> datetime:
        """Wall time of this scheduler's clock, aware, in UTC."""
        return from_ms(self._clock.now_ms())

    def schedules(self) -> list[Schedule]:
        """Every schedule, by name."""
        return self.store.find_schedules()

    def schedule(self, name: str) -> Schedule:
        """The schedule of this name. Raises NotFound, with a suggestion."""
        return self.store.get_schedule(name)

    def triggers(self, schedule: Schedule) -> list[Trigger]:
        """The triggers of a schedule. Raises InvalidTrigger where they can't be read any more."""
        from edgecron.timing import load_triggers

        return load_triggers(self.store.compiled_of(schedule))

    def timing(self, schedule: Schedule) -> Timing:
        """What decides a schedule's times."""
        from edgecron.retiming import timing_of_stored

        return timing_of_stored(self.store, schedule)

    def next_fires(self, name: str | None = None) -> Iterator[UpcomingFire]:
        """Fires to come, in the order in which they may start: of one schedule, or of all."""
        if name is not None:
            yield from self._fires_of(self.store.get_schedule(name))
            return
        streams = [self._readable_fires_of(schedule) for schedule in self.store.find_schedules()]
        yield from heapq.merge(*streams, key=lambda fire: (fire.due_at, fire.schedule))

    def _readable_fires_of(self, schedule: Schedule) -> Iterator[UpcomingFire]:
        # One that can't be read, such as for a zone that is gone, must not hide the others. The
        # engine marks it broken at its next time, which is shown.
        with suppress(InvalidInput):
            yield from self._fires_of(schedule)

    def _fires_of(self, schedule: Schedule) -> Iterator[UpcomingFire]:
        from edgecron.upcoming import fires_of

        return fires_of(schedule, lambda: self.timing(schedule))

    def execution(self, execution_id: int) -> Execution:
        """One run. Raises NotFound."""
        found = self.store.find_execution(execution_id)
        if found is None:
            raise NotFound(f"there is no run {execution_id}", hint="see: edgecron history")
        return found

    def history(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        before_id: int | None = None,
        limit: int = 20,
    ) -> list[Execution]:
        """Past and present runs, newest first; pages go on before the last id.

        Where no schedule has this name, those of the newest that had it. Raises NotFound.
        """
        schedule_id = None if name is None else self._past_id(name)
        return self.store.find_executions(
            schedule_id=schedule_id, statuses=statuses, before_id=before_id, limit=limit
        )

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

    def removed_at(self, name: str) -> datetime | None:
        """When the newest schedule of this name was removed; None where one lives, or none was."""
        if self.store.find_schedule(name) is not None:
            return None
        removed = self.store.find_removed(name)
        return None if removed is None else from_ms(removed[1])

    def _past_id(self, name: str) -> int:
        if self.store.find_schedule(name) is None:
            removed = self.store.find_removed(name)
            if removed is not None:
                return removed[0]
        return self.store.get_schedule(name).id

    def output(self, execution_id: int) -> Output | None:
        """What a run printed, or None where it printed nothing or has not ended."""
        return self.store.find_output(execution_id)

    def output_so_far(self, execution: Execution) -> list[OutputChunk]:
        """What a running run has printed, as far as it is kept."""
        from edgecron.following import output_so_far

        return output_so_far(self.store, execution)

    def follow(self, execution_id: int) -> Iterator[tuple[int, OutputChunk]]:
        """What a run prints, as it comes, from its beginning to its end.

        With each chunk comes the number of bytes before it that were printed and not kept.
        """
        from edgecron.following import follow_run

        return follow_run(self.store, execution_id)

    def active_counts(self) -> dict[Status, int]:
        """How many runs are queued and running."""
        return self.store.count_active()

    def engines(self) -> list[EngineState]:
        """The engines of this database that have not said goodbye, and how each of them does."""
        # Most verbs ask this for a hint alone: nothing heavy is loaded where there are none.
        if not self.store.find_engines():
            return []
        from edgecron.engine.peers import find_states

        return find_states(self.store, state_dir(self.path), clock=self._clock)

    def has_engine(self, queue: str) -> bool:
        """Whether an engine that is alive and not stalled looks at a queue."""
        return any(state.is_working and queue in state.info.queues for state in self.engines())

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

    def _ring(self) -> None:
        from edgecron.engine.wake import ring_engines

        ring_engines(state_dir(self.path))
