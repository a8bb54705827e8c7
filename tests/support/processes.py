"""Real engines as real processes, watched through the lines they print."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgecron.base.paths import Location, location_text
from tests.support.program import PACKAGE, PROGRAM

BOUND_S = 30.0


class Daemon:
    """`edgecron daemon` on a database, with its log as JSON.

    `program` is the folder that the package is taken from, None for the one that is tested;
    `through` what it is started by, as `("nohup",)`; `terminal` what it has as its stdin.
    """

    def __init__(
        self,
        database: Location,
        *options: str,
        program: Path | None = None,
        through: tuple[str, ...] = (),
        terminal: int | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [
                *through, *(PROGRAM if program is None else PACKAGE),
                "--db", location_text(database), "daemon",
                "--log-format", "json", *options,
            ],
            cwd=program,  # the first place that `-m` looks at
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout is not None
        self._fd = self.process.stdout.fileno()
        self._rest = b""
        self.lines: list[dict[str, Any]] = []
        self._unseen: list[dict[str, Any]] = []

    def wait_for(
        self, event: str, *, schedule: str | None = None, bound_s: float = BOUND_S
    ) -> dict[str, Any]:
        """The next line of an event, bounded; those before it are passed over."""

        def matches(line: dict[str, Any]) -> bool:
            return line["event"] == event and schedule in (None, line.get("schedule"))

        return self.wait_until(matches, what=f"{event} {schedule or ''}", bound_s=bound_s)

    def wait_until(
        self, matches: Callable[[dict[str, Any]], bool], *, what: str, bound_s: float = BOUND_S
    ) -> dict[str, Any]:
        while True:
            while self._unseen:
                line = self._unseen.pop(0)
                if matches(line):
                    return line
            if not select.select([self._fd], [], [], bound_s)[0]:
                raise AssertionError(f"no line {what!r} within {bound_s} s after {self.lines[-5:]}")
            content = os.read(self._fd, 65536)
            if not content:
                error = self.process.stderr.read() if self.process.stderr else b""
                raise AssertionError(f"the daemon ended before {what!r}: {error!r}")
            *whole, self._rest = (self._rest + content).split(b"\n")
            found = [json.loads(line) for line in whole]
            self.lines.extend(found)
            self._unseen.extend(found)

    def kill(self) -> None:
        """kill -9 of the engine alone: its supervisor lives in a session of its own."""
        self.process.send_signal(signal.SIGKILL)
        self._close()

    def wait_end(self, *, bound_s: float = BOUND_S) -> int:
        """Wait until it ends by itself; its exit code."""
        return self._close(bound_s)

    def stop(self, *, bound_s: float = BOUND_S) -> int:
        """TERM, and wait; its exit code."""
        self.process.terminate()
        return self._close(bound_s)

    def close(self) -> None:
        """Stop it where it still runs, and let go of it. May be called again."""
        if self.process.poll() is None:
            self.process.terminate()
        if self.process.stdout is not None and not self.process.stdout.closed:
            self._close()

    def _close(self, bound_s: float = BOUND_S) -> int:
        try:
            code = self.process.wait(bound_s)
            while content := os.read(self._fd, 65536):
                self._rest += content
            self.lines.extend(json.loads(line) for line in self._rest.splitlines())
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            for pipe in (self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()
        return code


class Gate:
    """Where a job says that it has come, and waits until the test lets it through.

    `line` is what the job runs there, in a shell.
    """

    def __init__(self, folder: Path) -> None:
        self._arrivals, self._way = folder / "arrivals", folder / "way"
        os.mkfifo(self._arrivals)
        os.mkfifo(self._way)
        self._fd = os.open(self._arrivals, os.O_RDWR | os.O_NONBLOCK)
        self.line = f"echo $$ >{self._arrivals}; read go <{self._way}"

    def wait_arrival(self, *, bound_s: float = BOUND_S) -> int:
        """The process id of the job that came."""
        if not select.select([self._fd], [], [], bound_s)[0]:
            raise AssertionError(f"no job came within {bound_s} s")
        return int(os.read(self._fd, 64))

    def open(self) -> None:
        """Let one job through; it must be on its way."""
        fd = os.open(self._way, os.O_WRONLY)
        os.write(fd, b"go\n")
        os.close(fd)

    def close(self) -> None:
        """Let go of it, and of whoever still waits there: else their supervisors live for ever."""
        os.close(self._fd)
        # Who waits for a writer goes on when there is one, and then finds the end of the file.
        os.close(os.open(self._way, os.O_RDWR | os.O_NONBLOCK))


def parent_of(pid: int) -> int:
    """The process id of a process's parent."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[1])


def ends(pidfd: int, *, bound_s: float = BOUND_S) -> bool:
    """Whether a process ends within a bound."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(bound_s * 1000))
