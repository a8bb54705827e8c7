"""Start commands as places become free: a few per turn, and again after a shortage of the system.

A request first waits in the reserve. When a place is free, its token goes to the journal, and then
it is started. A token that is not in the journal was never started, whatever happens to this
process.

A command starts in its own session, with only the descriptors 0, 1 and 2. `subprocess` starts it by
vfork. Other starts take a fork: see `forked_start`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.units import format_duration_ms
from edgecron.supervisor.forked_start import SpawnFailed, StartReport, explain_error, start_forked
from edgecron.supervisor.live_run import LiveRun, Recorder, Spawned
from edgecron.supervisor.protocol import EndCause, ExitRecord, Flag, StartRequest
from edgecron.supervisor.reactor import Deadlines
from edgecron.supervisor.results import forget_results, with_result_file
from edgecron.supervisor.run_session import RunSession, Snapshots, find_mark
from edgecron.supervisor.runner import RESERVE_MS

if TYPE_CHECKING:
    from edgecron.supervisor.limits import Limiter, RunLimits

# The time for starts in a turn. A longer one is slower: each start costs more while descriptors of
# ended runs are still open.
SLICE_MS = 4
RETRY_LIMIT_MS = 5_000  # the time for which a start is tried during a shortage
RETRY_PAUSE_MS = 100
WAKE_STARTS = "starts"  # the deadline until which no start is tried
WAKE_RESERVE = "reserve"  # the deadline at which `take_overdue` is called
OOM_SCORE = "/proc/self/oom_score_adj"
_MOST_DESCRIPTORS = 65_536  # more are of no use, and some systems report no limit


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


class Spawner:
    """Starts commands. Raises the supervisor's limit of descriptors, but not that of commands."""

    def __init__(self) -> None:
        self._null_fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        # Read once: the file costs as many system calls as the rest of a start.
        self._oom_score = read_oom_score()
        self._command_limit: tuple[int, int] | None = None
        self._reserve: list[int] = []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
        wanted = min(wanted, _MOST_DESCRIPTORS)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with contextlib.suppress(OSError, ValueError):  # macOS can refuse
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                self._command_limit = (soft, hard)
                self._own_limit = (wanted, hard)
                self._fill_reserve()

    def close(self) -> None:
        """Close our own descriptors; the raised limit stays."""
        _close_all([self._null_fd, *self._reserve])

    def spawn(
        self,
        request: StartRequest,
        *,
        env: Mapping[str, str],
        limits: RunLimits | None = None,
    ) -> Spawned:
        """Start the command with the environment `env`, which replaces that of the request.

        Raises SpawnFailed, with nothing left behind.
        """
        opened: list[int] = []
        feed_fd: int | None = None
        report = None
        try:
            stdin_fd = self._null_fd
            if request.stdin:
                stdin_fd, feed_fd = _pipe(opened)
            stdout_fd, stdout_child = _pipe(opened)
            stderr_fd, stderr_child = _pipe(opened)
            stdio = (stdin_fd, stdout_child, stderr_child)
            with unprotected_from_oom(self._oom_score):
                if request.needs_fork:
                    pid, report = self._fork(request, stdio, env=env, limits=limits)
                else:
                    pid = self._popen(request, stdio, env=env)
        except OSError as error:
            _close_all(opened)
            raise explain_error(error, request) from error
        except (ValueError, subprocess.SubprocessError) as error:
            _close_all(opened)
            raise SpawnFailed("EINVAL", f"command can't be started: {error}") from error
        ours = {stdout_fd, stderr_fd, feed_fd}
        _close_all([fd for fd in opened if fd not in ours])
        for fd in ours - {None}:
            assert fd is not None
            os.set_blocking(fd, False)
        return Spawned(pid, stdout_fd, stderr_fd, feed_fd, report)

    def _popen(
        self, request: StartRequest, stdio: tuple[int, int, int], *, env: Mapping[str, str]
    ) -> int:
        with self._limit_of_commands():
            process = subprocess.Popen(
                request.argv,
                stdin=stdio[0],
                stdout=stdio[1],
                stderr=stdio[2],
                cwd=request.cwd,
                env=env,
                # exec closes all our descriptors (CLOEXEC). To list them for each command takes
                # as long as the rest of a start if many runs are live.
                close_fds=False,
                start_new_session=True,
            )
        process.returncode = 0  # `subprocess` must not wait for it: we do.
        return process.pid

    def _fork(
        self,
        request: StartRequest,
        stdio: tuple[int, int, int],
        *,
        env: Mapping[str, str],
        limits: RunLimits | None,
    ) -> tuple[int, StartReport]:
        identity = request.identity
        if identity is not None:
            # Or the command could not open /dev/stdout, as `tee` does.
            for fd in set(stdio) - {self._null_fd}:
                os.fchown(fd, identity.uid, identity.gid)
        return start_forked(
            request, stdio=stdio, env=env, descriptors=self._command_limit, limits=limits
        )

    @contextlib.contextmanager
    def _limit_of_commands(self) -> Iterator[None]:
        """Lower our limit while a command starts, so that the command inherits the lower one."""
        if self._command_limit is None:
            yield
            return
        # `subprocess` opens two descriptors, whose numbers must be below the lower limit.
        _close_all(self._reserve)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._command_limit)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._own_limit)
            self._fill_reserve()

    def _fill_reserve(self) -> None:
        self._reserve = []
        for _ in range(3):
            with contextlib.suppress(OSError):  # none left: the next start fails, and is retried
                self._reserve.append(os.dup(self._null_fd))


@contextlib.contextmanager
def unprotected_from_oom(own: int, path: str = OOM_SCORE) -> Iterator[None]:
    """Give up a protection from the kernel's OOM killer while a command starts.

    A service manager can protect engine and supervisor (systemd: `OOMScoreAdjust=-500`). A command
    must not inherit that, or one that eats all memory would survive its supervisor. `own` is our
    score.
    """
    is_lowered = own < 0 and _write_oom_score(path, 0)
    try:
        yield
    finally:
        if is_lowered:
            _write_oom_score(path, own)


def read_oom_score(path: str = OOM_SCORE) -> int:
    """Read our score for the OOM killer; 0 if the system has none."""
    try:
        with open(path, "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0  # only Linux has it


def _write_oom_score(path: str, score: int) -> bool:
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(str(score).encode())
    except OSError:
        return False
    return True


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened.extend(ends)
    return ends


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
