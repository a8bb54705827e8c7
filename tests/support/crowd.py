"""Fifty runs at once, each at a gate of its own."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path

from edgecron.model.run import Stream
from tests.support.engines import Place
from tests.support.processes import BOUND_S, parent_of

COUNT = 50
LINES = 900  # about 20 KB per stream, before the gate and after: more than memory holds
FEW = 9  # as every fifth run prints: it needs no spool


class Crowd:
    """Fifty schedules. A run prints, comes to a gate of its own, prints again, and exits with its
    number. A child of each sleeps meanwhile."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._arrivals = folder / "crowd"
        os.mkfifo(self._arrivals)
        self._arrivals_fd = os.open(self._arrivals, os.O_RDWR | os.O_NONBLOCK)
        self._gates = []
        self.pids: dict[int, tuple[int, int]] = {}  # of the job and of its child
        self.jobs: dict[int, int] = {}  # pidfds
        self.children: dict[int, int] = {}
        for number in range(COUNT):
            gate = folder / f"gate-{number}"
            os.mkfifo(gate)
            self._gates.append(os.open(gate, os.O_RDWR | os.O_NONBLOCK))
            place.add(name_of(number), "@yearly", self._line(number, gate))

    def _line(self, number: int, gate: Path) -> str:
        return f"""
            echo began-{number} >>"$LOG"
            {printing(number, "before")}
            sleep 600 </dev/null >/dev/null 2>&1 &
            echo {number} $$ $! >{self._arrivals}
            read go <{gate}
            {{ kill $!; wait $!; }} 2>/dev/null
            {printing(number, "after")}
            echo went-{number} >>"$LOG"
            exit {number}"""

    def run(self) -> None:
        """Have all of them run, and wait until each is at its gate."""
        for number in range(COUNT):
            self._place.client.run_now(name_of(number))
        rest = b""
        while len(self.jobs) < COUNT:
            ready, _, _ = select.select([self._arrivals_fd], [], [], BOUND_S)
            assert ready, f"only these have come: {sorted(self.jobs)}"
            *whole, rest = (rest + os.read(self._arrivals_fd, 65536)).split(b"\n")
            for line in whole:
                number, job, child = map(int, line.split())
                self.pids[number] = (job, child)
                self.jobs[number] = os.pidfd_open(job)
                self.children[number] = os.pidfd_open(child)

    @property
    def supervisors(self) -> set[int]:
        """The process ids of those that run them."""
        return {parent_of(job) for job, _ in self.pids.values()}

    @property
    def supervisor(self) -> int:
        """The process id of the one that runs all of them."""
        [found] = self.supervisors
        return found

    def let_through(self, numbers: range) -> None:
        for number in numbers:
            os.write(self._gates[number], b"go\n")

    def processes(self) -> list[int]:
        """A pidfd for each job and each of their children."""
        return [*self.jobs.values(), *self.children.values()]

    def close(self) -> None:
        for pidfd in self.processes():
            # A descriptor can't mean anybody else, as a number can.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        for fd in (self._arrivals_fd, *self._gates):
            os.close(fd)


def name_of(number: int) -> str:
    return f"job-{number}"


def printing(number: int, part: str) -> str:
    """Shell for numbered lines on stdout, then on stderr."""
    count = lines_of(number)
    return "; ".join(
        f"seq -f '{number} {stream.name} {part} %05g' {count} >&{stream.value}" for stream in Stream
    )


def printed(number: int, stream: Stream) -> bytes:
    """All that the shell prints on a stream."""
    return "".join(
        f"{number} {stream.name} {part} {line:05}\n"
        for part in ("before", "after")
        for line in range(1, lines_of(number) + 1)
    ).encode()


def lines_of(number: int) -> int:
    return FEW if number % 5 == 0 else LINES
