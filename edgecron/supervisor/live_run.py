"""A started command: its pipes, its processes, and the records of its start and end."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecron.base.clock import Clock
from edgecron.base.units import format_duration_ms, format_size
from edgecron.base.values import dataclass
from edgecron.model.run import Stream
from edgecron.supervisor.forked_start import SpawnFailed, StartReport
from edgecron.supervisor.journal import Journal
from edgecron.supervisor.output import OutputKeeper, Part
from edgecron.supervisor.protocol import EndCause, ExitRecord, Flag, Kind, StartRequest
from edgecron.supervisor.reactor import Deadlines, Peer
from edgecron.supervisor.results import result_path, take_result
from edgecron.supervisor.run_session import RunSession, read_start_time
from edgecron.supervisor.state_files import spool_name

if TYPE_CHECKING:
    from edgecron.supervisor.limits import RunLimits

READ_BYTES = 64 * 1024
# The most that a pipe holds for a user without privileges. More means that a process still writes.
DRAIN_BYTES = 1024 * 1024

# Each search kills all that it finds. Only a run that forks faster than that needs so many.
_MOST_SEARCHES = 100


@dataclass(slots=True)
class Spawned:
    """A started command and our ends of its pipes, which do not block.

    `report` is not None for a fork that has yet to become its command.
    """

    pid: int
    stdout_fd: int
    stderr_fd: int
    stdin_fd: int | None
    report: StartReport | None = None


class LiveRun:
    """A started command. It carries out its end; `LiveRuns` decides when."""

    def __init__(
        self,
        request: StartRequest,
        spawned: Spawned,
        *,
        session: RunSession,
        clock: Clock,
        started_ms: int,
        started_monotonic_ms: int,
        state_dir: Path,
        limits: RunLimits | None = None,
    ) -> None:
        self.token = request.token
        self.request = request
        self.pid = spawned.pid
        self.started_ms = started_ms
        self.timeout_ms = request.timeout_ms
        self.stall_timeout_ms = request.stall_timeout_ms
        self.streams = {spawned.stdout_fd: Stream.STDOUT, spawned.stderr_fd: Stream.STDERR}
        self.stdin_fd = spawned.stdin_fd
        self.report = spawned.report  # of a fork that is not its command yet
        self.start_failure: SpawnFailed | None = None  # the fork ended without being its command
        self.retried_since_ms: int | None = None  # its start failed first at this monotonic time
        self.ended_fds: list[int] = []  # pipes that ended while they were drained
        self.pidfd: int | None = None
        self.end_cause: EndCause | None = None  # why we end it; None if we do not
        self.flags: list[Flag] = [] if limits is None else list(limits.flags)
        self._limits = limits
        # While its processes are stopped: what is left until each of its deadlines.
        self.suspended: dict[str, int] | None = None
        self._end_message: str | None = None
        self.is_searched = False  # `kill` found new processes: reap it in the next turn
        self._searches = 0
        self._late_message: str | None = None  # why a fork was killed before it was its command
        self._ended: tuple[int, int] | None = None  # finished_ms and duration_ms, once known
        self._session = session
        self._clock = clock
        self._started_monotonic_ms = started_monotonic_ms
        self._is_of_another_user = request.identity is not None
        self._result_path = result_path(
            self.token, state_dir, of_another_user=self._is_of_another_user
        )
        self._unfed = memoryview((request.stdin or "").encode("utf-8", "surrogateescape"))
        self._keeper = OutputKeeper(
            cap_bytes=request.output_cap_bytes, spool=state_dir / spool_name(self.token)
        )

    @property
    def has_unsaved_output(self) -> bool:
        return not self._keeper.is_saved

    @property
    def is_cleared(self) -> bool:
        """Whether what its main process leaves is killed: we end it, or the request says so."""
        return self.end_cause is not None or self.request.leaves_nothing

    def save_output(self) -> None:
        """Save the output in a file, for the case that the supervisor is killed."""
        self._keeper.save()

    def read_output(self, position: int) -> Part:
        """Return a part of the kept output, from a position on."""
        return self._keeper.read(position)

    def read(self, fd: int) -> bool:
        """Read a pipe once; False at its end."""
        return self._read(fd) != 0

    def feed(self) -> bool:
        """Write more of the stdin text; False if no more is to be written."""
        assert self.stdin_fd is not None
        try:
            self._unfed = self._unfed[os.write(self.stdin_fd, self._unfed) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False  # the command does not read the rest, as a filter may
        return bool(self._unfed)

    def note_stall(self) -> None:
        """Remember in its record that it printed nothing for its stall timeout."""
        if Flag.STALLED not in self.flags:
            self.flags.append(Flag.STALLED)

    def suspend(self, left_ms: dict[str, int]) -> None:
        """Stop all processes of the run; `left_ms` is kept until `resume`."""
        self.suspended = left_ms
        if Flag.SUSPENDED not in self.flags:
            self.flags.append(Flag.SUSPENDED)
        self._session.stop()

    def resume(self) -> dict[str, int]:
        """Let all processes of the run continue; returns what was given to `suspend`."""
        left_ms, self.suspended = self.suspended or {}, None
        self._session.resume()
        return left_ms

    def terminate(self, cause: EndCause, message: str | None = None) -> None:
        """Ask all processes of the run to end."""
        self.end_cause, self._end_message = cause, message
        self.suspended = None
        self._session.terminate()

    def kill(self) -> None:
        self.flags.append(Flag.KILLED)
        self._session.kill()

    def kill_late_start(self) -> None:
        """Kill a fork that has not become its command in time."""
        assert self.report is not None
        self.end_cause = self.end_cause or EndCause.SPAWN
        self._late_message = self.report.note_late()
        self.kill()

    def has_ended(self) -> bool:
        """Report whether the main process has ended and is not reaped; False if unknown."""
        if not hasattr(os, "waitid"):  # macOS has it from Python 3.13 on
            return False
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def is_lingering(self) -> bool:
        """Report whether a run that we end has lost its main process, but not all others.

        After TERM a shell ends before the program that it had started, which still cleans up and
        holds the pipes. These processes have the rest of the grace. The main process stays
        unreaped until then: its number must not become another process group's.
        """
        if self.end_cause is None or Flag.KILLED in self.flags or self.is_searched:
            return False
        if not self.has_ended():
            return False
        self._note_end()
        self._drain()
        return bool(self.streams) and self._session.has_others()

    def reap(self) -> ExitRecord | None:
        """Reap the main process and return the record; None while it runs, or if `is_searched`.

        `streams` then has the pipes that other processes still hold.
        """
        if self.is_cleared and self.has_ended():
            # Before it is reaped: until then no other group can have its number.
            self._note_end()
            self._searches += 1
            self.is_searched = self._session.kill() and self._searches < _MOST_SEARCHES
            if self.is_searched:
                return None
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return self._record(None)
        return None if pid == 0 else self._record(status)

    def _note_end(self) -> tuple[int, int]:
        if self._ended is None:
            elapsed_ms = self._clock.monotonic_ms() - self._started_monotonic_ms
            self._ended = (self._clock.now_ms(), elapsed_ms)
        return self._ended

    def _record(self, status: int | None) -> ExitRecord:
        finished_ms, duration_ms = self._note_end()
        self._drain()
        if not self.is_cleared:
            if self.streams:
                self.flags.append(Flag.PIPE_HELD)
            self.flags += self._session.flag_left()
        else:
            if not hasattr(os, "waitid"):
                self._session.kill()
            self.flags += self._session.flag_escaped()
        code = None if status is None else os.waitstatus_to_exitcode(status)
        number = -code if code is not None and code < 0 else None
        if status is not None and number is not None and os.WCOREDUMP(status):
            self.flags.append(Flag.CORE_DUMPED)
        if self._limits is not None and self._limits.end():
            self.flags.append(Flag.OUT_OF_MEMORY)
        result, result_flag = take_result(
            self._result_path, of_another_user=self._is_of_another_user
        )
        output = self._keeper.finish()
        if code is not None and self.report is not None:
            self.start_failure = self.report.find_failure(code)
            if self.start_failure is not None:
                return self._start_failure_record(self.start_failure, finished_ms)
        if result_flag is not None:
            self.flags.append(result_flag)
        if self._keeper.is_lost:
            self.flags.append(Flag.OUTPUT_LOST)
        return ExitRecord(
            token=self.token,
            cause=self.end_cause or (EndCause.EXIT if number is None else EndCause.SIGNAL),
            exit_code=code if number is None else 128 + number,
            signal=number,
            started_ms=self.started_ms,
            finished_ms=finished_ms,
            duration_ms=duration_ms,
            pid=self.pid,
            error_code="ETIMEDOUT" if self.end_cause is EndCause.SPAWN else None,
            error_msg=self._error_message(status),
            flags=tuple(self.flags),
            result=result,
            output=output,
        )

    def _start_failure_record(self, failure: SpawnFailed, finished_ms: int) -> ExitRecord:
        """Return the record of a fork that never became its command."""
        cause = self.end_cause or EndCause.SPAWN
        is_failure = cause is EndCause.SPAWN
        return ExitRecord(
            token=self.token,
            cause=cause,
            finished_ms=finished_ms,
            error_code=failure.code if is_failure else None,
            error_msg=failure.message if is_failure else None,
            flags=() if self.retried_since_ms is None else (Flag.SPAWN_RETRIED,),
        )

    def _error_message(self, status: int | None) -> str | None:
        if status is None:
            return "its exit code was lost: another part of the system had taken it"
        if self.end_cause is EndCause.TIMEOUT and self.timeout_ms is not None:
            return f"ran longer than {format_duration_ms(self.timeout_ms)}, and was ended"
        if self.end_cause is EndCause.STALLED and self.stall_timeout_ms is not None:
            silent = format_duration_ms(self.stall_timeout_ms)
            return f"printed nothing for {silent}, and was ended"
        if Flag.OUT_OF_MEMORY in self.flags and self.request.memory_max_bytes is not None:
            most = format_size(self.request.memory_max_bytes)
            return f"needed more memory than its limit of {most}, and the kernel ended it"
        return self._end_message or self._late_message

    def _read(self, fd: int) -> int:
        """Return the number of bytes read; 0 at the end of the pipe, -1 if it is empty."""
        try:
            content = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return -1
        if content:
            self._keeper.add(self.streams[fd], self._clock.now_ms(), content)
        return len(content)

    def _drain(self) -> None:
        """Read what is in the pipes, without waiting."""
        for fd in list(self.streams):
            left = DRAIN_BYTES
            while left > 0:
                taken = self._read(fd)
                if taken == 0:
                    del self.streams[fd]
                    self.ended_fds.append(fd)
                if taken <= 0:
                    break
                left -= taken


WAKE_JOURNAL = "journal"  # the deadline at which `retry` is called
RETRY_MS = 1_000
RETRY_MOST_MS = 30_000


class Recorder:
    """Writes the journal, reports to the engine, and knows the ends that are not acknowledged."""

    def __init__(
        self,
        state_dir: Path,
        *,
        key: str,
        clock: Clock,
        deadlines: Deadlines,
        engine: Peer,
    ) -> None:
        self._state_dir = state_dir
        self._clock = clock
        self._deadlines = deadlines
        self.engine = engine
        self._journal = Journal(state_dir, key, boot_id=clock.boot_id())
        self._retry_ms = RETRY_MS
        self._unacknowledged: dict[str, str | None] = {}  # the spool of each token

    @property
    def has_backlog(self) -> bool:
        return self._journal.has_backlog

    def close(self) -> None:
        """Close the journal without writing the backlog."""
        self._journal.close()

    def knows(self, token: str) -> bool:
        """Return whether a run has ended and its end is not acknowledged."""
        return token in self._unacknowledged

    def open_tokens(self, tokens: Sequence[str]) -> bool:
        """Record tokens before they start. False if that failed: they must not start."""
        if not tokens:
            return True
        try:
            self._journal.write_tokens(tokens)
        except OSError as error:
            code = errno.errorcode.get(error.errno or 0, "EIO")
            self.refuse(
                tokens, code, f"the journal can't be written, nothing was started: {error.strerror}"
            )
            return False
        return True

    def refuse(self, tokens: Sequence[str], code: str, message: str) -> None:
        """Report tokens to the engine that were not started, and are not on record."""
        self.engine.send(Kind.NOT_STARTED, [[token, code, message] for token in tokens])

    def revoke(self, tokens: Sequence[str]) -> None:
        """Record with the next `flush` that open tokens will never start, and report it.

        They can then be queued again, even if the supervisor dies.
        """
        if tokens:
            self._journal.add_revoked(tokens)
            self.refuse(tokens, "ECANCELED", "it was revoked before its start")

    def find_unacknowledged(self) -> list[dict[str, Any]]:
        """Return the JSON of all ends that are not acknowledged. Raises OSError."""
        return self._journal.find_exits(self._unacknowledged.keys())

    def record_start(self, token: str, *, pid: int, started_ms: int) -> None:
        """Record a start with the next `flush`."""
        start_time = read_start_time(pid)
        self._journal.add_start(token, pid=pid, start_time=start_time, started_ms=started_ms)

    def record_exit(self, record: ExitRecord) -> None:
        """Record an end with the next `flush`, and report it."""
        body = record.to_json()
        self._journal.add_exit(body)
        self._unacknowledged[record.token] = record.output.get("spool")
        self.engine.send(Kind.EXITED, body)

    def acknowledge(self, tokens: Sequence[str], *, busy: Collection[str]) -> None:
        """Forget ends that the engine has on record. `busy` are the tokens that have not ended."""
        for token in tokens:
            spool = self._unacknowledged.pop(token, None)
            if spool is not None:
                with contextlib.suppress(OSError):  # the cleanup of the journal removes it
                    (self._state_dir / spool).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a long journal does no harm
            self._journal.shrink(busy | self._unacknowledged.keys())

    def flush(self) -> None:
        """Write what this turn has recorded, unless the disk was full a moment ago."""
        if self._journal.has_backlog and WAKE_JOURNAL not in self._deadlines:
            self.retry()

    def retry(self) -> None:
        """Write the backlog, or try again later."""
        try:
            self._journal.write_backlog()
        except OSError:
            self._deadlines.set(WAKE_JOURNAL, self._clock.monotonic_ms() + self._retry_ms)
            self._retry_ms = min(2 * self._retry_ms, RETRY_MOST_MS)
        else:
            self._retry_ms = RETRY_MS
