"""Start requests as places become free: a few per turn, and again after a shortage of the system.

A request first waits in the reserve. When a place is free, its token goes to the journal, and then
it is started. A token that is not in the journal was never started, whatever happens to this
process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.units import format_duration_ms
from edgecron.supervisor.forked_start import SpawnFailed
from edgecron.supervisor.live_run import LiveRun, Recorder
from edgecron.supervisor.protocol import EndCause, ExitRecord, Flag, StartRequest
from edgecron.supervisor.reactor import Deadlines
from edgecron.supervisor.results import forget_results, with_result_file
from edgecron.supervisor.run_session import RunSession, Snapshots, find_mark
from edgecron.supervisor.runner import RESERVE_MS
from edgecron.supervisor.spawn import Spawner

if TYPE_CHECKING:
    from edgecron.supervisor.limits import Limiter, RunLimits

# The time for starts in a turn. A longer one is slower: each start costs more while descriptors of
# ended runs are still open.
SLICE_MS = 4
RETRY_LIMIT_MS = 5_000  # the time for which a start is tried during a shortage
RETRY_PAUSE_MS = 100
WAKE_STARTS = "starts"  # the deadline until which no start is tried
WAKE_RESERVE = "reserve"  # the deadline at which `take_overdue` is called


class StartQueue:
    """Requests in the order in which they came, of which at most `places` run at the same time."""

    def __init__(
        self,
        state_dir: Path,
        *,
        clock: Clock,
        deadlines: Deadlines,
        recorder: Recorder,
        snapshots: Snapshots,
        places: int | None = None,
        spawner: Spawner | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._deadlines = deadlines
        self._recorder = recorder
        self._snapshots = snapshots
        self._places = places
        self._spawner = spawner or Spawner()
        # The first item of a plain dict is slow to find after many removals.
        self._reserve: OrderedDict[str, tuple[StartRequest, int]] = OrderedDict()  # and since when
        self._waiting: OrderedDict[str, StartRequest] = OrderedDict()  # they have a place
        self._retried: dict[str, int] = {}  # the monotonic time of each token's first failure
        self._shortage_since_ms: int | None = None
        self._limiter: Limiter | None = None  # before the first run with limits

    @property
    def tokens(self) -> list[str]:
        return [*self._waiting, *self._reserve]

    def is_ready(self, *, live: int) -> bool:
        """Whether a start can be tried now, while so many runs are live."""
        is_shortage = WAKE_STARTS in self._deadlines
        return self._free_count(live) > 0 or (bool(self._waiting) and not is_shortage)

    def __contains__(self, token: str) -> bool:
        return token in self._waiting or token in self._reserve

    def __bool__(self) -> bool:
        return bool(self._waiting or self._reserve)

    def add(self, requests: Sequence[StartRequest]) -> None:
        """Add requests to the reserve."""
        now_ms = self._clock.monotonic_ms()
        self._reserve.update((request.token, (request, now_ms)) for request in requests)
        self._watch_reserve()

    def take_overdue(self) -> list[str]:
        """Remove the requests that have waited in the reserve for too long; their tokens."""
        before_ms = self._clock.monotonic_ms() - RESERVE_MS
        overdue = [token for token, (_, since_ms) in self._reserve.items() if since_ms <= before_ms]
        for token in overdue:
            del self._reserve[token]
        self._watch_reserve()
        return overdue

    def take_reserved(self) -> list[str]:
        """Remove all requests from the reserve; their tokens."""
        reserved = list(self._reserve)
        self._reserve.clear()
        self._watch_reserve()
        return reserved

    def _watch_reserve(self) -> None:
        """Set the deadline of the first request: it has waited longest."""
        self._deadlines.clear(WAKE_RESERVE)
        for _, since_ms in self._reserve.values():
            self._deadlines.set(WAKE_RESERVE, since_ms + RESERVE_MS)
            return

    def _free_count(self, live: int) -> int:
        """How many requests of the reserve have a free place."""
        if self._places is None:
            return len(self._reserve)
        return min(len(self._reserve), self._places - live - len(self._waiting))

    def _leave_reserve(self, live: int) -> None:
        """Give the free places to requests, and put their tokens in the journal."""
        count = self._free_count(live)
        if count <= 0:
            return
        requests = [self._reserve.popitem(last=False)[1][0] for _ in range(count)]
        self._watch_reserve()
        if self._recorder.open_tokens([request.token for request in requests]):
            self._waiting.update((request.token, request) for request in requests)

    def cancel(self, token: str, cause: EndCause) -> None:
        """End a run before its start, if it waits."""
        flags = (Flag.SPAWN_RETRIED,) if token in self._retried else ()
        if self.remove(token):
            now_ms = self._clock.now_ms()
            self._recorder.record_exit(
                ExitRecord(token=token, cause=cause, finished_ms=now_ms, flags=flags)
            )

    def remove(self, token: str) -> bool:
        """Remove a run before its start; False if it does not wait."""
        if self._reserve.pop(token, None) is not None:
            return True
        if self._waiting.pop(token, None) is None:
            return False
        if self._retried.pop(token, None) is not None:
            forget_results(token, self._state_dir)
        return True

    def retry(self, run: LiveRun, failure: SpawnFailed) -> None:
        """Start a fork again that could not become its command, or record its end."""
        now_ms = self._clock.monotonic_ms()
        since_ms = now_ms if run.retried_since_ms is None else run.retried_since_ms
        self._retried[run.token] = since_ms
        if now_ms - since_ms >= RETRY_LIMIT_MS:
            self._record_failure(run.token, failure)
            return
        self._waiting[run.token] = run.request  # after the others, which may need less
        self._deadlines.set(WAKE_STARTS, now_ms + RETRY_PAUSE_MS)

    def start_some(self, *, live: int) -> list[LiveRun]:
        """Start runs for a few milliseconds, beside so many live ones.

        The end of a run that can't start is recorded.
        """
        self._leave_reserve(live)
        started: list[LiveRun] = []
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._waiting and WAKE_STARTS not in self._deadlines:
            request = next(iter(self._waiting.values()))
            try:
                started.append(self._start(request))
            except SpawnFailed as failure:
                if failure.is_temporary and self._can_retry(request.token):
                    break
                self._record_failure(request.token, failure)
            del self._waiting[request.token]
            if not self._waiting:
                self._shortage_since_ms = None
            if self._clock.monotonic_ms() >= until_ms:
                break
        return started

    def _start(self, request: StartRequest) -> LiveRun:
        if request.refused is not None:
            raise SpawnFailed(*request.refused)
        run = self._spawn(request)
        self._shortage_since_ms = None
        run.retried_since_ms = self._retried.pop(request.token, None)
        if run.retried_since_ms is not None:
            run.flags.append(Flag.SPAWN_RETRIED)
        return run

    def _spawn(self, request: StartRequest) -> LiveRun:
        environment = with_result_file(request, self._state_dir)
        # Before the start: on a busy machine a short command has ended when `spawn` returns.
        started_ms, started_monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        limits = self._prepare_limits(request) if request.has_limits else None
        try:
            spawned = self._spawner.spawn(request, env=environment, limits=limits)
        except SpawnFailed:
            if limits is not None:
                limits.end()
            raise
        mark = find_mark(environment)
        return LiveRun(
            request,
            spawned,
            session=RunSession(spawned.pid, mark=mark, snapshots=self._snapshots),
            clock=self._clock,
            started_ms=started_ms,
            started_monotonic_ms=started_monotonic_ms,
            state_dir=self._state_dir,
            limits=limits,
        )

    def _prepare_limits(self, request: StartRequest) -> RunLimits:
        # Few schedules have limits, and each supervisor would load what sets them.
        from edgecron.supervisor.limits import Limiter, find_subtree

        if self._limiter is None:
            self._limiter = Limiter(find_subtree())
        return self._limiter.prepare(request)

    def _can_retry(self, token: str) -> bool:
        """Set the time of the next try; False if the shortage lasts too long.

        The runs behind this one have waited as long: each of them gets one try.
        """
        now_ms = self._clock.monotonic_ms()
        if self._shortage_since_ms is None:
            self._shortage_since_ms = now_ms
        self._retried.setdefault(token, now_ms)
        if now_ms - self._shortage_since_ms >= RETRY_LIMIT_MS:
            return False
        self._deadlines.set(WAKE_STARTS, now_ms + RETRY_PAUSE_MS)
        return True

    def _record_failure(self, token: str, failure: SpawnFailed) -> None:
        forget_results(token, self._state_dir)
        is_retried = self._retried.pop(token, None) is not None
        tried = f"; tried for {format_duration_ms(RETRY_LIMIT_MS)}" if is_retried else ""
        self._recorder.record_exit(
            ExitRecord(
                token=token,
                cause=EndCause.SPAWN,
                finished_ms=self._clock.now_ms(),
                error_code=failure.code,
                error_msg=failure.message + tried,
                flags=(Flag.SPAWN_RETRIED,) if is_retried else (),
            )
        )
