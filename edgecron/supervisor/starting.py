"""Runs that wait to be started: a few per turn of the loop, and again where the system is short."""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from edgecron.clock import Clock
from edgecron.supervisor.cgroups import RunCgroup, RunCgroups
from edgecron.supervisor.deadlines import Deadlines
from edgecron.supervisor.flags import Flag
from edgecron.supervisor.ledger import Ledger
from edgecron.supervisor.looks import Looks
from edgecron.supervisor.members import Members
from edgecron.supervisor.records import EndCause, ExitRecord, StartRequest
from edgecron.supervisor.results import forget_results, with_result_file
from edgecron.supervisor.run import LiveRun
from edgecron.supervisor.spawn import Spawner, SpawnFailed
from edgecron.timetext import format_duration_ms

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
        *,
        clock: Clock,
        deadlines: Deadlines,
        ledger: Ledger,
        looks: Looks,
        cgroups: RunCgroups | None,
        on_started: Callable[[LiveRun], None],
        spawner: Spawner | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._deadlines = deadlines
        self._ledger = ledger
        self._looks = looks
        self._cgroups = cgroups
        self._on_started = on_started
        self._spawner = spawner or Spawner()
        # A plain dict would look through all that it once held to find its first.
        self._waiting: OrderedDict[str, StartRequest] = OrderedDict()
        self._withdrawn: dict[str, EndCause] = {}
        self._retried: set[str] = set()
        self._scarce_since_ms: int | None = None

    @property
    def tokens(self) -> list[str]:
        """Those that wait, first come first."""
        return list(self._waiting)

    @property
    def is_ready(self) -> bool:
        """Whether something can be tried at once."""
        return bool(self._waiting) and WAKE_SPAWN not in self._deadlines

    def __contains__(self, token: str) -> bool:
        return token in self._waiting

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, requests: Sequence[StartRequest]) -> None:
        self._waiting.update((request.token, request) for request in requests)

    def withdraw(self, token: str, cause: EndCause) -> None:
        """End it without a start."""
        if token in self._waiting:
            self._withdrawn.setdefault(token, cause)
            self._deadlines.clear(WAKE_SPAWN)

    def drop(self, token: str) -> bool:
        """Forget it before its start; False where it does not wait."""
        if self._waiting.pop(token, None) is None:
            return False
        self._withdrawn.pop(token, None)
        self._clear_tries(token)
        self._retried.discard(token)
        return True

    def start_some(self) -> None:
        """Start what a short while allows."""
        try:
            self._start_slice(self._clock.monotonic_ms() + SLICE_MS)
        finally:
            if self._cgroups is not None:
                self._cgroups.go_home()

    def _start_slice(self, until_ms: int) -> None:
        while self.is_ready:
            token, request = next(iter(self._waiting.items()))
            if not self._start(request):
                return
            del self._waiting[token]
            self._withdrawn.pop(token, None)
            self._retried.discard(token)
            if not self._waiting:
                self._scarce_since_ms = None  # The next one did not wait with these.
            if self._clock.monotonic_ms() >= until_ms:
                return

    def _start(self, request: StartRequest) -> bool:
        """Start it, or record why not. False: to be tried again later."""
        cause = self._withdrawn.get(request.token)
        if cause is not None:
            self._clear_tries(request.token)
            now_ms = self._clock.now_ms()
            self._ledger.record_exit(
                ExitRecord(token=request.token, cause=cause, finished_ms=now_ms)
            )
            return True
        try:
            if request.refused is not None:
                raise SpawnFailed(*request.refused)
            run = self._spawn(request)
        except SpawnFailed as failure:
            if failure.is_temporary and self._may_try_again(request.token):
                return False
            self._record_failed(request.token, failure)
            return True
        self._scarce_since_ms = None
        if request.token in self._retried:
            run.flags.append(Flag.SPAWN_RETRIED)
        self._on_started(run)
        return True

    def _spawn(self, request: StartRequest) -> LiveRun:
        environment = with_result_file(request, self._state_dir)
        cgroup = self._enter_cgroup(request.token)
        # Before: on a busy machine a short command has ended when its start returns.
        started_ms, started_monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        try:
            spawned = self._spawner.spawn(request, env=environment)
        except SpawnFailed:
            if cgroup is not None:
                cgroup.owner.go_home()
                cgroup.let_go()
            raise
        members = Members(
            spawned.pid,
            environment=environment,
            looks=self._looks,
            cgroup=cgroup,
        )
        return LiveRun(
            request,
            spawned,
            members=members,
            clock=self._clock,
            started_ms=started_ms,
            started_monotonic_ms=started_monotonic_ms,
            state_dir=self._state_dir,
        )

    def _enter_cgroup(self, token: str) -> RunCgroup | None:
        if self._cgroups is None:
            return None
        try:
            return self._cgroups.enter(token)
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, "EIO")
            message = f"the supervisor can't leave the cgroup of another run: {error.strerror}"
            raise SpawnFailed(code, message, is_temporary=True) from error

    def _may_try_again(self, token: str) -> bool:
        now_ms = self._clock.monotonic_ms()
        if self._scarce_since_ms is None:
            self._scarce_since_ms = now_ms
        self._retried.add(token)
        # Those behind it have waited as long: each is tried once more, then given up too.
        if now_ms - self._scarce_since_ms >= PATIENCE_MS:
            return False
        self._deadlines.set(WAKE_SPAWN, now_ms + PAUSE_MS)
        return True

    def _clear_tries(self, token: str) -> None:
        """Remove what starts that failed have made for a run that will have no other."""
        if token in self._retried:
            forget_results(token, self._state_dir)

    def _record_failed(self, token: str, failure: SpawnFailed) -> None:
        forget_results(token, self._state_dir)
        is_scarce = token in self._retried
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
