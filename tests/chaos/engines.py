"""Engines as a service manager keeps them: started again whenever they have ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.chaos.field import Field, JobLog
from tests.chaos.history import Remark

_AGAIN_S = 0.7  # between an end that nobody asked for and the next start
_STOP_BOUND_S = 60.0  # for what TERM must have ended, however busy the machine
POLICIES = (
    ("--on-shutdown", "leave"),
    ("--on-shutdown", "wait", "--shutdown-timeout", "4s"),
    ("--on-shutdown", "stop"),
)


class Slot:
    """A place for one engine after the other; `label` tells them apart in the jobs' log."""

    def __init__(
        self, field: Field, number: int, *, start_at: float, within: Sequence[str] = ()
    ) -> None:
        """`within` are the words before its command."""
        self._within = within
        self._field = field
        self._number = number
        self._count = 0
        self._start_at: float | None = start_at
        self._term_at: float | None = None
        self._was_hurt = False
        self.policy: tuple[str, ...] = POLICIES[number % len(POLICIES)]
        self.process: subprocess.Popen[bytes] | None = None
        self.remarks: list[Remark] = []
        self.restarts = 0
        self.may_start = True
        self.is_stopped = False
        self._up_since = 0.0

    @property
    def label(self) -> str:
        return f"engine-{self._number}.{self._count}"

    @property
    def out(self) -> Path:
        return self._field.logs / f"{self.label}.log"

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_well(self, *, for_s: float) -> bool:
        """Whether it has run for so long, and has said that it has begun."""
        is_old = time.monotonic() - self._up_since >= for_s
        return self.is_up and not self.is_stopped and is_old and b"engine_started" in self._said()

    def _said(self) -> bytes:
        try:
            return self.out.read_bytes()
        except OSError:
            return b""

    def tick(self, jobs: JobLog) -> None:
        """Start what is to be started, and take note of what has ended."""
        now = time.monotonic()
        if self.process is None:
            if self._start_at is not None and now >= self._start_at and self.may_start:
                self._start()
        elif (code := self.process.poll()) is not None:
            self._note_end(code, jobs)
            self.process = None
            if self._start_at is None:
                self._start_at = now + _AGAIN_S
        elif self._term_at is not None and now > self._term_at + _STOP_BOUND_S:
            if not self._was_hurt:
                words = f"{self.label} has not ended {_STOP_BOUND_S:.0f} s after TERM"
                self.remarks.append(Remark(number="I20", text=words))
            self.process.kill()

    def _start(self) -> None:
        self._count += 1
        self._start_at = self._term_at = None
        self._was_hurt = self.is_stopped = False
        self.restarts += self._count > 1
        options = ("--log-format", "json", "--max-running", "16", *self.policy)
        with self.out.open("wb") as out, self.out.with_suffix(".err").open("wb") as err:
            self.process = subprocess.Popen(
                [*self._within, sys.executable, "-m", "edgecron", "daemon", *options],
                env=self._field.environment(self.label),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self._field.folder,
                start_new_session=True,
            )
        self._up_since = time.monotonic()

    def kill(self, *, again_s: float) -> None:
        self._was_hurt = True
        self._send(signal.SIGKILL)
        self._start_at = time.monotonic() + again_s

    def term(self, *, again_s: float | None) -> None:
        """TERM; None never starts another one."""
        if self._term_at is None:
            self._send(signal.SIGTERM)
            self._term_at = time.monotonic()
        self._start_at = float("inf") if again_s is None else time.monotonic() + again_s

    def stop(self) -> None:
        """SIGSTOP, until `go_on`."""
        self._was_hurt = self.is_stopped = True
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        self.is_stopped = False
        self._up_since = time.monotonic()
        self._send(signal.SIGCONT)

    def hurt(self) -> None:
        """Something was done to what it needs to end in good order."""
        self._was_hurt = True

    def _send(self, number: int) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def _note_end(self, code: int, jobs: JobLog) -> None:
        """I20: nothing that it has started outlives one that was to end it. And how it ended."""
        # 5 is a database that can't be used, 3 one whose folder was moved away. TERM ends a daemon
        # by the signal if it comes before all else.
        fine = {0, 3, 5, -signal.SIGKILL} | ({-signal.SIGTERM} if self._term_at else set())
        if code not in fine:
            said = self.out.with_suffix(".err").read_text(errors="replace")[-2000:]
            text = f"{self.label} has ended with {code}, and said: {said}"
            self.remarks.append(Remark(number="LOG", text=text))
        must_be_alone = self._term_at is not None and not self._was_hurt and code == 0
        if must_be_alone and self.policy[1] in ("stop", "wait"):
            mine = [one for one in jobs.living() if one["by"] == self.label]
            text = f"{self.label} ({' '.join(self.policy)}) has ended, and left {mine}"
            if any(_is_there(one["pid"]) for one in mine):
                self.remarks.append(Remark(number="I20", text=text))


def _is_there(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def end_all(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
