"""One command that runs: its pipes, its end by TERM and KILL, the record of how it ended."""

from __future__ import annotations

import os
from pathlib import Path

from edgecron.base.clock import Clock
from edgecron.base.units import format_duration_ms
from edgecron.model.claim import Stream
from edgecron.supervisor.files import spool_name
from edgecron.supervisor.flags import Flag
from edgecron.supervisor.output import OutputKeeper, Part
from edgecron.supervisor.records import EndCause, ExitRecord, StartRequest
from edgecron.supervisor.results import result_path, take_result
from edgecron.supervisor.run_session import RunSession
from edgecron.supervisor.spawn import Spawned

READ_BYTES = 64 * 1024
# The most that a pipe can hold for a user without privileges; beyond it somebody still writes.
DRAIN_BYTES = 1024 * 1024

# Each kills all that was there: only what starts others faster than it is looked at needs so many.
_MOST_SEARCHES = 100

_WAITID = getattr(os, "waitid", None)  # macOS has it from Python 3.13 on


class LiveRun:
    """A started command. The loop owns when; this knows how."""

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
    ) -> None:
        self.token = request.token
        self.pid = spawned.pid
        self.started_ms = started_ms
        self.timeout_ms = request.timeout_ms
        self.kill_grace_ms = request.kill_grace_ms
        self.streams = {spawned.stdout_fd: Stream.STDOUT, spawned.stderr_fd: Stream.STDERR}
        self.stdin_fd = spawned.stdin_fd
        self.becoming = spawned.becoming  # None where it is its command already
        self.ended_fds: list[int] = []  # pipes that came to their end while they were drained
        self.pidfd: int | None = None
        self.end_cause: EndCause | None = None  # why we end it; None while we do not
        self.flags: list[Flag] = []
        self.is_searched = False  # for what was started while we killed: to be reaped next turn
        self._searches = 0
        self._why: str | None = None  # what to say of our end of it, where its cause does not
        self._ended: tuple[int, int] | None = None  # finished_ms and duration_ms, once known
        self._process = spawned.process
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

    def abandon(self) -> None:
        """Let go of what was made for a command that its process did not become."""
        for fd in self.streams:
            os.close(fd)
        if self.stdin_fd is not None:
            os.close(self.stdin_fd)

    def read_output(self, position: int) -> Part:
        """What is kept of its output from a position on, a part of it at a time."""
        return self._keeper.read(position)

    @property
    def has_unsaved_output(self) -> bool:
        return not self._keeper.is_saved

    def save_output(self) -> None:
        """Have its output in a file, for an engine that finds this supervisor killed."""
        self._keeper.save()

    def read(self, fd: int) -> bool:
        """Take what a pipe holds, at most one read; False at its end."""
        return self._read(fd) != 0

    def feed(self) -> bool:
        """Give the command more of its stdin; False where there is no more to give."""
        assert self.stdin_fd is not None
        try:
            self._unfed = self._unfed[os.write(self.stdin_fd, self._unfed) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False  # it does not read on, as any filter may decide
        return bool(self._unfed)

    def terminate(self, cause: EndCause) -> None:
        """Ask it to end, with all that it has started."""
        self.end_cause = cause
        self._session.terminate()

    def kill(self) -> None:
        self.flags.append(Flag.KILLED)
        self._session.kill()

    def end_at_start(self, cause: EndCause, why: str) -> None:
        """Kill what became its command only when its start was given up already."""
        self.end_cause = cause
        self._why = why
        self.kill()

    def has_ended(self) -> bool:
        """Whether the main process has ended and is not reaped yet; False where unknown."""
        if _WAITID is None:
            return False
        try:
            return _WAITID(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def lingers(self) -> bool:
        """Whether a run that we end is only waiting for the rest of its session.

        Its main process has ended on TERM, but others of it hold its pipes: a shell is gone at
        once, while the program it had started cleans up. They have the rest of the grace. The
        main process stays unreaped until then, so that its group can't become anybody else's.
        """
        if self.end_cause is None or Flag.KILLED in self.flags or self.is_searched:
            return False
        if not self.has_ended():
            return False
        self._note_end()
        self._drain()
        return bool(self.streams) and self._session.has_others()

    def reap(self) -> ExitRecord | None:
        """The record of its end, or None while the main process runs, or `is_searched`.

        Pipes that others hold open are still in `streams` afterwards, and not ours to wait for.
        """
        if self.end_cause is not None and self.has_ended():
            # Before it is reaped, while its process id can't be anybody else's group.
            self._note_end()
            self._searches += 1
            self.is_searched = self._session.kill() and self._searches < _MOST_SEARCHES
            if self.is_searched:
                return None
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return self._record(None)
        if pid == 0:
            return None
        record = self._record(status)
        if self._process is not None:
            self._process.returncode = record.exit_code
        return record

    def _note_end(self) -> tuple[int, int]:
        if self._ended is None:
            elapsed_ms = self._clock.monotonic_ms() - self._started_monotonic_ms
            self._ended = (self._clock.now_ms(), elapsed_ms)
        return self._ended

    def _record(self, status: int | None) -> ExitRecord:
        finished_ms, duration_ms = self._note_end()
        self._drain()
        if self.end_cause is None:
            self._flag_leftovers()
        else:
            if _WAITID is None:
                self._session.kill()
            self.flags += self._session.flag_escaped()
        code = None if status is None else os.waitstatus_to_exitcode(status)
        number = -code if code is not None and code < 0 else None
        if status is not None and number is not None and os.WCOREDUMP(status):
            self.flags.append(Flag.CORE_DUMPED)
        result, unkept = take_result(self._result_path, of_another_user=self._is_of_another_user)
        if unkept is not None:
            self.flags.append(unkept)
        output = self._keeper.finish()
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
            error_msg=self._message(status),
            flags=tuple(self.flags),
            result=result,
            output=output,
        )

    def _flag_leftovers(self) -> None:
        if self.streams:
            self.flags.append(Flag.PIPE_HELD)
        self.flags += self._session.flag_left()

    def _message(self, status: int | None) -> str | None:
        if status is None:
            return "its exit code was lost: another part of the system had taken it"
        if self.end_cause is EndCause.TIMEOUT and self.timeout_ms is not None:
            return f"ran longer than {format_duration_ms(self.timeout_ms)}, and was ended"
        return self._why

    def _read(self, fd: int) -> int:
        """Bytes taken; 0 at the end of the pipe, -1 where nothing is there now."""
        try:
            content = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return -1
        if content:
            self._keeper.add(self.streams[fd], self._clock.now_ms(), content)
        return len(content)

    def _drain(self) -> None:
        """Take what is in the pipes, without waiting."""
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
