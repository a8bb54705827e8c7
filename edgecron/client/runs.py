"""Read runs and their output, start runs by hand, and cancel them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.checks import check_json
from edgecron.base.errors import Conflict, InvalidInput, NotFound, SupervisorUnavailable, Unreadable
from edgecron.base.paths import state_dir
from edgecron.base.units import to_ms
from edgecron.client.opening import TRIES
from edgecron.client.schedules import Schedules
from edgecron.model.choices import ACTIVE, Cause, Status
from edgecron.model.reports import Progress, progress_text
from edgecron.planning.next_fire import Fire
from edgecron.planning.overlap import late_limit
from edgecron.store.sqlite.explanations import find_late
from edgecron.store.sqlite.history import Wanted, find_bounds, find_page

if TYPE_CHECKING:
    from edgecron.client.follow import Follower, LaterRuns, LaterTold
    from edgecron.model.choices import Cause, Status
    from edgecron.model.claim import Output, OutputChunk
    from edgecron.model.listing import (
        RunBounds,
        RunPage,
    )
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.planning.next_fire import Fire
    from edgecron.views.outlook import LatePlaces


_REPORT_MS = 1_000  # between two reports of a run, at least
KEY_S = 24 * 3600  # for so long a key is known
MOST_KEY_LETTERS = 255
MOST_PAYLOAD_BYTES = 64 * 1024  # of a run's own: it goes to a command as a variable


class Runs(Schedules):
    """Reads of runs, and what a person does with them."""

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
            []
            if name is None or not with_former
            else [one.schedule_id for one in self.removals(name)]
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
        from edgecron.views.outlook import LatePlaces

        held_by, waiting = find_late(self.store, now_ms=self._clock.now_ms())
        working = [one.info for one in self.engines() if one.is_working and one.info.queues]
        limits = [late_limit(one.max_running) for one in working if one.max_running is not None]
        places = sum(limits) if len(limits) == len(working) else None
        return LatePlaces(places=places, held_by=tuple(held_by), waiting=waiting)

    def run_bounds(self) -> RunBounds:
        """The first and the last id of all runs."""
        return find_bounds(self.store)

    def run_page(
        self,
        *,
        before_id: int | None = None,
        after_id: int | None = None,
        limit: int = 100,
        statuses: tuple[Status, ...] = (),
        schedule_ids: Sequence[int] | None = None,
        causes: tuple[str, ...] = (),
        reasons: tuple[str | None, ...] = (),
    ) -> RunPage:
        """Runs, newest first: those next to `after_id` where it is given, else the newest.

        Empty is any; of `schedule_ids`, None is. A reason of None is a run without one. A run that
        can't be read is named in the page, and the next run takes its place: less than `limit` is
        the end.
        """
        wanted = Wanted(
            schedule_ids=schedule_ids,
            statuses=statuses,
            causes=causes,
            reasons=reasons,
            before_id=before_id,
            after_id=after_id,
        )
        return find_page(self.store, wanted, limit=limit)

    def last_failure(self) -> Execution | None:
        """The newest run that failed or was interrupted."""
        found = self.run_page(statuses=(Status.FAILED, Status.INTERRUPTED), limit=1).runs
        return found[0] if found else None

    # Who asks for one run after the other does so of one schedule; whether it is still as it was is
    # looked at with each.
    _asked_last: Schedule | None = None

    _reported: tuple[int, int] | None = None  # the run that reported last, and when, monotonic

    def run_now(self, name: str, *, payload: str | None = None) -> list[Execution]:
        """Queue a fire of a schedule, in each of its scopes; its next time does not change.

        `payload`, a text of JSON, is that of this fire and its retries in the place of its
        schedule's. A row comes back `skipped` where overlap left it out. Raises InvalidInput for
        a payload that is no JSON, or longer than 64 KiB.
        """
        return [self.execution(one) for one in self.ask(name, payload=payload)]

    def ask(self, name: str, *, payload: str | None = None, is_one: bool = False) -> list[int]:
        """As `run_now`: the ids of the rows, for who does not look at them.

        With `is_one` there is to be one: raises InvalidInput where it has several scopes.
        """
        if payload is not None:
            check_json(payload, what="payload", most_bytes=MOST_PAYLOAD_BYTES)
        for _ in range(TRIES):
            schedule = self._asked_last
            if schedule is None or schedule.spec.name != name or (is_one and _is_many(schedule)):
                schedule = self.store.get_schedule(name)
            if is_one and _is_many(schedule):
                raise InvalidInput(
                    f"{name!r} has {len(schedule.spec.scopes)} scopes, and nothing of it was run",
                    hint="use fire(), which gives a run for each",
                )
            now_ms = self._clock.now_ms()
            fire = _fire_by_hand(f"manual:{os.urandom(6).hex()}", payload, now_ms=now_ms)
            decided = self.store.enqueue_fire(schedule, fire, now_ms=now_ms)
            self._asked_last = schedule if decided is not None else None
            if decided is not None:
                self.ring()
                return [one.execution_id for one in decided]
        raise Conflict(f"schedule {name!r} is being changed by others", hint="try again")

    def run_once(
        self,
        name: str,
        *,
        key: str,
        payload: str | None = None,
        asked_at: datetime | None = None,
    ) -> list[Execution]:
        """As `run_now`, once for a key: with one that was given before, the rows of that time, as
        they are now.

        A key is the schedule's own, and known for 24 hours, or until retention removes its rows;
        longer while these are among the newest 100 of the schedule, for a clock may be set.
        `asked_at` is when it was asked for first, None where that is now. Raises InvalidInput for
        a key that is not of 1 to 255 printable characters of ASCII, KeyReused for one that was
        given with another payload, and Conflict where nobody can know it any more.
        """
        fire_key = _fire_key(key)
        if payload is not None:
            check_json(payload, what="payload", most_bytes=MOST_PAYLOAD_BYTES)
        for _ in range(TRIES):
            schedule = self.store.get_schedule(name)
            now_ms = self._clock.now_ms()
            fire = _fire_by_hand(fire_key, payload, now_ms=now_ms)
            found = self.store.enqueue_once(
                schedule,
                fire,
                asked_ms=now_ms if asked_at is None else to_ms(asked_at),
                since_ms=now_ms - KEY_S * 1000,
                now_ms=now_ms,
            )
            if found is not None:
                self.ring()
                return [self.execution(one) for one in found]
        raise Conflict(f"schedule {name!r} is being changed by others", hint="try again")

    def report_progress(self, execution_id: int, fraction: float | None, text: str = "") -> bool:
        """Say how far a run is; whether that is on record. Not where the run does not go on, nor
        within a second after the last time: flash is not for writing.

        `fraction` is from 0 to 1, None where that can't be told. Raises InvalidInput for others.
        """
        progress = progress_text(Progress(fraction=fraction, text=text))
        now_ms = self._clock.monotonic_ms()
        last = self._reported
        if last is not None and last[0] == execution_id and now_ms - last[1] < _REPORT_MS:
            return False
        self._reported = (execution_id, now_ms)
        return self.store.report_progress(execution_id, progress)

    def cancel(self, execution_id: int) -> Execution:
        """End a run: withdraw a queued one, or have a running one's session or cgroup ended.

        A running one gets TERM, its grace, then KILL; its row says `cancelled` once its engine,
        or the next one, has written the end. Raises NotFound, Conflict where it has ended
        already, SupervisorUnavailable where nobody is left to end it.
        """
        from edgecron.engine.health import end_run
        from edgecron.engine.state_folder import refuse_foreign

        for _ in range(TRIES):
            now_ms = self._clock.now_ms()
            execution = self.execution(execution_id)
            if execution.status is Status.QUEUED:
                if self.store.cancel_queued(execution_id, now_ms=now_ms):
                    self.ring()
                    return self.execution(execution_id)
            elif execution.status is Status.RUNNING:
                row = self.store.request_cancel(execution_id, now_ms=now_ms)
                if row is not None:
                    try:
                        end_run(row, state_dir(self.path))
                    except SupervisorUnavailable:
                        # It may have ended with nobody there to write it down.
                        self.take_over()
                        ended = self.execution(execution_id)
                        if ended.status in ACTIVE:
                            refuse_foreign(self.path)
                            raise
                        if ended.status is Status.CANCELLED:
                            return ended  # by us: its supervisor has gone before it said so
                        continue
                    return self.execution(execution_id)
            else:
                raise Conflict(f"run {execution_id} has ended already: {execution.status}")
        raise Conflict(f"run {execution_id} is being changed by others", hint="try again")


def _fire_by_hand(fire_key: str, payload: str | None, *, now_ms: int) -> Fire:
    return Fire(
        plan_ms=now_ms,
        due_ms=now_ms,
        cause=Cause.MANUAL,
        source=None,
        fire_key=fire_key,
        payload=payload,
    )


def _fire_key(key: str) -> str:
    """What tells the fire of an idempotency key from others. Raises InvalidInput."""
    if not (1 <= len(key) <= MOST_KEY_LETTERS and key.isascii() and key.isprintable()):
        raise InvalidInput(
            f"key is {key[:60]!a}, expected 1 to {MOST_KEY_LETTERS} printable characters of ASCII"
        )
    from hashlib import sha256

    return f"manual:{sha256(key.encode()).hexdigest()[:32]}"


def _is_many(schedule: Schedule) -> bool:
    """Whether a fire of it has several runs."""
    return len(schedule.spec.scopes) > 1
