"""Runs that wait to be started: a few per turn of the loop, and again where the system is short.

What is to be another user's is begun, and starts when its process is that: see becomers.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from edgecron.base.clock import Clock
from edgecron.base.units import format_duration_ms
from edgecron.supervisor.becomers import Becomers
from edgecron.supervisor.becoming import NotBecome
from edgecron.supervisor.deadlines import Deadlines
from edgecron.supervisor.flags import Flag
from edgecron.supervisor.ledger import Ledger
from edgecron.supervisor.reactor import Reactor
from edgecron.supervisor.records import EndCause, ExitRecord, StartRequest
from edgecron.supervisor.results import forget_results, with_result_file
from edgecron.supervisor.run import LiveRun
from edgecron.supervisor.run_session import RunSession, Snapshots, find_mark
from edgecron.supervisor.spawn import Spawner, SpawnFailed, explain_refused

# So long commands are started before the others are looked after. Longer is slower too: each
# start costs the more, the more descriptors of runs that have ended are still open.
SLICE_MS = 4
PATIENCE_MS = 5_000  # so long a start is tried again where the system is short of something
PAUSE_MS = 100
WAKE_SPAWN = "spawn"  # the deadline until which no start is tried


class Starter:
    """The queue of requests whose tokens are on record; started runs go to `on_started`."""

    def __init__(
        self,
        state_dir: Path,
        reactor: Reactor,
        *,
        clock: Clock,
        deadlines: Deadlines,
        ledger: Ledger,
        snapshots: Snapshots,
        on_started: Callable[[LiveRun], None],
        spawner: Spawner | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._deadlines = deadlines
        self._ledger = ledger
        self._snapshots = snapshots
        self._on_started = on_started
        self._spawner = spawner or Spawner()
        # A plain dict would look through all that it once held to find its first.
        self._waiting: OrderedDict[str, StartRequest] = OrderedDict()
        self._becomers = Becomers(
            reactor,
            clock=clock,
            deadlines=deadlines,
            on_become=self._on_become,
            on_refused=self._on_refused,
        )
        self._withdrawn: dict[str, EndCause] = {}
        self._retried: dict[str, int] = {}  # since when, in monotonic milliseconds
        self._scarce_since_ms: int | None = None

    @property
    def tokens(self) -> list[str]:
        """Those that have not started, first come first."""
        return [*self._becomers.tokens, *self._waiting]

    @property
    def is_ready(self) -> bool:
        """Whether something can be tried at once."""
        return bool(self._waiting) and WAKE_SPAWN not in self._deadlines

    def __contains__(self, token: str) -> bool:
        return token in self._waiting or token in self._becomers

    def __bool__(self) -> bool:
        return bool(self._waiting or self._becomers)

    def has_begun(self, token: str) -> bool:
        """Whether it may become its command at any moment: it can't be taken back any more."""
        return token in self._becomers

    def add(self, requests: Sequence[StartRequest]) -> None:
        self._waiting.update((request.token, request) for request in requests)

    def withdraw(self, token: str, cause: EndCause) -> None:
        """End it without a start, or once that which has begun is over."""
        if token in self:
            self._withdrawn.setdefault(token, cause)
        if token in self._waiting:
            self._deadlines.clear(WAKE_SPAWN)

    def take_withdrawal(self, token: str) -> EndCause | None:
        """Why it is to be ended, asked once, of what had begun when it was withdrawn."""
        return self._withdrawn.pop(token, None)

    def on_deadline(self, key: str) -> bool:
        """False where the deadline is none of ours."""
        return self._becomers.on_deadline(key)

    def drop(self, token: str) -> bool:
        """Forget it before its start; False where it does not wait, or has begun."""
        if self._waiting.pop(token, None) is None:
            return False
        self._withdrawn.pop(token, None)
        self._clear_tries(token)
        return True

    def start_some(self) -> None:
        """Start what a short while allows."""
        until_ms = self._clock.monotonic_ms() + SLICE_MS
        while self.is_ready:
            token, request = next(iter(self._waiting.items()))
            if not self._start(request):
                return
            del self._waiting[token]
            if not self._waiting:
                self._scarce_since_ms = None  # The next one did not wait with these.
            if self._clock.monotonic_ms() >= until_ms:
                return

    def _start(self, request: StartRequest) -> bool:
        """Start it, or record why not. False: to be tried again later."""
        if self._end_withdrawn(request.token):
            return True
        try:
            if request.refused is not None:
                raise SpawnFailed(*request.refused)
            run = self._spawn(request)
        except SpawnFailed as failure:
            if failure.is_temporary and self._may_try_again(request.token, self._scarce()):
                return False
            self._record_failed(request.token, failure)
            return True
        if run.becoming is None:
            self._has_started(run)
        else:
            # Before it is its command, too: who ends what is left of it must find it.
            self._ledger.record_starts([run])
            self._becomers.add(request, run, run.becoming)
        return True

    def _scarce(self) -> int:
        """Since when the system is short of something.

        Those behind have waited as long: each is tried once more, then given up too.
        """
        if self._scarce_since_ms is None:
            self._scarce_since_ms = self._clock.monotonic_ms()
        return self._scarce_since_ms

    def _has_started(self, run: LiveRun) -> None:
        self._scarce_since_ms = None
        if self._retried.pop(run.token, None) is not None:
            run.flags.append(Flag.SPAWN_RETRIED)
        self._on_started(run)

    def _on_become(self, run: LiveRun, given_up: NotBecome | None) -> None:
        """Another user's process is its command, and `given_up` says why it was killed as well."""
        if given_up is not None:
            cause = self._withdrawn.pop(run.token, EndCause.SIGNAL)
            run.end_at_start(cause, f"{given_up.words}, and it was ended as it began")
        self._has_started(run)

    def _on_refused(self, request: StartRequest, refused: NotBecome) -> None:
        """Another user's process did not become its command."""
        failure, token = explain_refused(refused, request), request.token
        forget_results(token, self._state_dir)  # Another try makes its file anew.
        if self._end_withdrawn(token):
            return
        since_ms = self._retried.get(token, self._clock.monotonic_ms())
        if failure.is_temporary and self._may_try_again(token, since_ms):
            self._ledger.record_failed_start(token)
            self._waiting[token] = request  # After the others, who may have what it is short of.
        else:
            self._record_failed(token, failure)

    def _end_withdrawn(self, token: str) -> bool:
        """Record the end of what was withdrawn and never started; False where it was not."""
        cause = self._withdrawn.pop(token, None)
        if cause is None:
            return False
        self._clear_tries(token)
        now_ms = self._clock.now_ms()
        self._ledger.record_exit(ExitRecord(token=token, cause=cause, finished_ms=now_ms))
        return True

    def _spawn(self, request: StartRequest) -> LiveRun:
        environment = with_result_file(request, self._state_dir)
        # Before: on a busy machine a short command has ended when its start returns.
        started_ms, started_monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        spawned = self._spawner.spawn(request, env=environment)
        mark = find_mark(environment)
        return LiveRun(
            request,
            spawned,
            session=RunSession(spawned.pid, mark=mark, snapshots=self._snapshots),
            clock=self._clock,
            started_ms=started_ms,
            started_monotonic_ms=started_monotonic_ms,
            state_dir=self._state_dir,
        )

    def _may_try_again(self, token: str, since_ms: int) -> bool:
        """Whether it was not tried for long enough; then it is when the loop wakes."""
        now_ms = self._clock.monotonic_ms()
        self._retried.setdefault(token, now_ms)
        if now_ms - since_ms >= PATIENCE_MS:
            return False
        self._deadlines.set(WAKE_SPAWN, now_ms + PAUSE_MS)
        return True

    def _clear_tries(self, token: str) -> None:
        """Remove what starts that failed have made for a run that will have no other."""
        if self._retried.pop(token, None) is not None:
            forget_results(token, self._state_dir)

    def _record_failed(self, token: str, failure: SpawnFailed) -> None:
        forget_results(token, self._state_dir)
        is_scarce = self._retried.pop(token, None) is not None
        tried = f"; tried for {format_duration_ms(PATIENCE_MS)}" if is_scarce else ""
        self._ledger.record_exit(
            ExitRecord(
                token=token,
                cause=EndCause.SPAWN,
                finished_ms=self._clock.now_ms(),
                error_code=failure.code,
                error_msg=failure.message + tried,
                flags=(Flag.SPAWN_RETRIED,) if is_scarce else (),
            )
        )
