"""Read runs and their output, and cancel them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.errors import Conflict, NotFound, SupervisorUnavailable, Unreadable
from edgecron.base.units import to_ms
from edgecron.client.opening import TRIES, Engines
from edgecron.client.schedules import Schedules
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.listing import ALL_RUNS, RunBounds, RunChoice, RunPage, RunSort
from edgecron.model.run import Execution, Progress, progress_text
from edgecron.planning.admission import late_limit
from edgecron.store.sql.explanations import find_late
from edgecron.store.sql.history import Wanted, find_bounds, find_page, find_sorted

if TYPE_CHECKING:
    from edgecron.client.following import BegunRuns, LocalFollower, LocalLaterRuns
    from edgecron.model.run import Output, OutputChunk
    from edgecron.model.schedule import ScheduleSpec
    from edgecron.views.outlook import LatePlaces


_REPORT_MS = 1_000  # between two reports of a run, at least


class Runs(Engines, Schedules):
    """Read runs, and cancel them."""

    def execution(self, execution_id: int) -> Execution:
        """Return a run. Raises NotFound, or Unreadable."""
        found = self.store.find_execution(execution_id)
        if found is None and self.store.is_removed(execution_id):
            raise NotFound(
                f"run {execution_id} was removed by retention",
                hint="to see the others: edgecron history",
            )
        if found is None:
            raise NotFound(f"there is no run {execution_id}", hint="see: edgecron history")
        return found

    def history(
        self, name: str | None = None, *, choice: RunChoice = ALL_RUNS, limit: int = 20
    ) -> list[Execution]:
        """Return runs, newest first, without the unreadable ones: see `history_page`."""
        return self.history_page(name, choice=choice, limit=limit).runs

    def history_page(
        self, name: str | None = None, *, choice: RunChoice = ALL_RUNS, limit: int = 20
    ) -> RunPage:
        """Return runs, newest first, and the ids of unreadable runs between them.

        If no schedule has this name, the runs of the newest removed one. Fewer than `limit` is the
        end. Raises NotFound.
        """
        ids = None if name is None else [self.past_id(name)]
        if name is not None and ids is not None and choice.with_former:
            ids = list(dict.fromkeys([*ids, *(one.schedule_id for one in self.removals(name))]))
        wanted = Wanted(
            schedule_ids=ids,
            statuses=choice.statuses,
            causes=choice.causes,
            before_id=choice.before_id,
            since_ms=None if choice.since is None else to_ms(choice.since),
            until_ms=None if choice.until is None else to_ms(choice.until),
        )
        return find_page(self.store, wanted, limit=limit)

    def waiting_runs(self, *, limit: int = 20) -> list[Execution]:
        """Return runs that wait for a condition, the earliest deadline first."""
        return self.store.find_waiting(limit=limit)

    def last_run(self, name: str) -> Execution:
        """Return the newest run of a schedule that started. Raises NotFound."""
        found = self.store.last_execution_of(self.past_id(name))
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
        """Return the retry of a run; None if there is none."""
        return self.store.find_next_attempt(execution)

    def spec_of(self, execution: Execution) -> ScheduleSpec | None:
        """Return what a run's schedule said when the run was decided; None if that was pruned."""
        try:
            found = self.store.load_schedules([(execution.schedule_id, execution.revision)])
        except Unreadable:
            return None
        return found[0].spec if found else None

    def later_runs(self, name: str, *, known: Execution | None) -> LocalLaterRuns:
        """Open the runs of a schedule that begin from now on, except a known one."""
        from edgecron.client.following import LocalLaterRuns

        return LocalLaterRuns(self.store, self.begun_runs(name, known=known))

    def begun_runs(self, name: str, *, known: Execution | None) -> BegunRuns:
        """Return the position from which `later_runs` starts."""
        from edgecron.client.following import begun_runs

        known_id = None if known is None else known.id
        return begun_runs(self.store, self.past_id(name), known_id=known_id)

    def output(self, execution_id: int) -> Output | None:
        """Return the stored output of an ended run; None if it printed nothing or has not ended."""
        return self.store.find_output(execution_id)

    def output_so_far(self, execution: Execution) -> list[OutputChunk]:
        """Return what a running run has printed, if it is still kept."""
        with self.follower(execution.id) as follower:
            return [chunk for _, chunk in follower.read_kept(execution)]

    def follower(self, execution_id: int, *, position: int = 0) -> LocalFollower:
        """Open the output of a run, live, from a position in bytes. Close it when done."""
        from edgecron.client.following import LocalFollower

        return LocalFollower(self.store, execution_id, position=position)

    def late_places(self) -> LatePlaces:
        """Return which late runs hold the places for late runs, and how many wait for one."""
        from edgecron.views.outlook import LatePlaces

        held_by, waiting = find_late(self.store, now_ms=self._clock.now_ms())
        working = [one.info for one in self.engines() if one.is_working and one.info.queues]
        limits = [late_limit(one.max_running) for one in working if one.max_running is not None]
        places = sum(limits) if len(limits) == len(working) else None
        return LatePlaces(places=places, held_by=tuple(held_by), waiting=waiting)

    def run_bounds(self) -> RunBounds:
        """Return the first and the last id of all runs; 0 and 0 if there is none."""
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
        since: datetime | None = None,
        until: datetime | None = None,
        least_ms: int | None = None,
        most_ms: int | None = None,
        sort: RunSort | None = None,
        is_descending: bool = False,
    ) -> RunPage:
        """Return runs before or after an id, newest first, as a list shows them.

        An empty tuple of statuses, causes or reasons, and None elsewhere, let every run through. If
        `reasons` contains None, runs without a reason are found. A page with fewer runs than
        `limit` is the last one. With `sort`, return the first runs in that order, which reads all.
        """
        wanted = Wanted(
            schedule_ids=schedule_ids,
            statuses=statuses,
            causes=causes,
            reasons=reasons,
            before_id=before_id,
            after_id=after_id,
            since_ms=None if since is None else to_ms(since),
            until_ms=None if until is None else to_ms(until),
            least_ms=least_ms,
            most_ms=most_ms,
        )
        if sort is not None:
            return find_sorted(self.store, wanted, sort, is_descending=is_descending, limit=limit)
        return find_page(self.store, wanted, limit=limit)

    def last_failure(self) -> Execution | None:
        """Return the newest run that failed or was interrupted; None if there is none."""
        found = self.run_page(statuses=(Status.FAILED, Status.INTERRUPTED), limit=1).runs
        return found[0] if found else None

    _reported: tuple[int, int] | None = None  # the run that reported last, and when, monotonic

    def report_progress(self, execution_id: int, fraction: float | None, text: str = "") -> bool:
        """Record how far a run is, at most once a second; return whether it was recorded.

        `fraction` is from 0 to 1, or None if unknown. Raises InvalidInput.
        """
        progress = progress_text(Progress(fraction=fraction, text=text))
        now_ms = self._clock.monotonic_ms()
        last = self._reported
        if last is not None and last[0] == execution_id and now_ms - last[1] < _REPORT_MS:
            return False
        self._reported = (execution_id, now_ms)
        return self.store.report_progress(execution_id, progress)

    def cancel(self, execution_id: int) -> Execution:
        """Cancel a queued run, or let the supervisor of a running one end its processes.

        They get TERM, the grace period, then KILL; the run becomes `cancelled` when an engine
        records the end. Raises NotFound, Conflict if the run has ended already, and
        SupervisorUnavailable if no supervisor is left to end it.
        """
        from edgecron.client.engine_health import end_run
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
                        end_run(row, self.state_dir)
                    except SupervisorUnavailable:
                        # It may have ended while no engine could record it.
                        self.take_over()
                        ended = self.execution(execution_id)
                        if ended.status in ACTIVE:
                            refuse_foreign(self.path)
                            raise
                        if ended.status is Status.CANCELLED:
                            return ended  # The supervisor ended before it answered.
                        continue
                    return self.execution(execution_id)
            else:
                raise Conflict(
                    f"run {execution_id} has ended already: {execution.status}",
                    hint="see the active runs: edgecron history --status queued --status running",
                )
        raise Conflict(f"another program is changing run {execution_id}", hint="try again")
