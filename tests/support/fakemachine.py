"""A machine whose kernel files are written by hand, and a kernel that reports changes of them."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from edgecron.base.bus_facts import NO_FACTS, BusFacts
from edgecron.base.machine import KernelMachine, PathFacts, look_at_path
from edgecron.engine.step import Hosting
from tests.support.clock import FakeClock

_ROUTE_HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"


class FakeMachine:
    """A folder with the files of /proc, /sys and /dev that edgecron reads. At first: a laptop."""

    def __init__(self, root: Path, clock: FakeClock) -> None:
        self.root = root
        self.clock = clock
        self.bus = FakeBus()
        self._hanging: dict[str, threading.Event] = {}
        self._free: dict[str, int] = {}
        self.set_routes("eth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0")
        self.set_interface("eth0", flags="0x1003", operstate="up")
        self.set_supply("AC", type="Mains", online="1")
        self.set_supply("BAT0", type="Battery", energy_now="8000", energy_full="10000")
        self.write("proc/loadavg", "0.50 0.40 0.30 1/100 1234\n")
        self.write("proc/pressure/io", "some avg10=1.50 avg60=0.1 avg300=0.0 total=1\n")
        self.write("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")

    def facts(self) -> KernelMachine:
        return KernelMachine(
            self.clock, root=self.root, wait_s=0.2, look_path=self._look, bus=self.bus
        )

    def set_free(self, path: str, count: int) -> None:
        """Let a path exist with so many free bytes."""
        self._free[str(self.root / path.lstrip("/"))] = count

    def hang(self, path: str) -> None:
        """Let each look at a path hang until `answer`, as a network file system can."""
        self._hanging[str(self.root / path.lstrip("/"))] = threading.Event()

    def answer(self) -> None:
        """Let all paths answer, also the looks that hang."""
        hanging, self._hanging = self._hanging, {}
        for event in hanging.values():
            event.set()

    def _look(self, path: str) -> PathFacts:
        hanging = self._hanging.get(path)
        if hanging is not None:
            hanging.wait()
        if path in self._free:
            return PathFacts(exists=True, free_bytes=self._free[path], is_mount=False)
        return look_at_path(path)

    def hosting(self, reports: FakeReports | None = None) -> Hosting:
        """What an engine on this machine gets from it."""
        hosting = Hosting(machine=self.facts())
        return hosting if reports is None else hosting._replace(reports=reports)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def set_routes(self, *lines: str, six: str = "") -> None:
        self.write("proc/net/route", _ROUTE_HEAD + "".join(f"{line}\n" for line in lines))
        self.write("proc/net/ipv6_route", six)

    def set_interface(self, name: str, *, flags: str, operstate: str) -> None:
        self.write(f"sys/class/net/{name}/flags", f"{flags}\n")
        self.write(f"sys/class/net/{name}/operstate", f"{operstate}\n")

    def set_supply(self, name: str, **values: str) -> None:
        for key, value in values.items():
            self.write(f"sys/class/power_supply/{name}/{key}", f"{value}\n")

    def set_on_mains(self, is_on: bool) -> None:
        self.set_supply("AC", online=str(int(is_on)))

    def type_at(self, terminal: str) -> None:
        """Somebody types at a terminal now."""
        self.write(f"dev/{terminal}", "")
        at_ns = self.clock.now_ms() * 1_000_000
        os.utime(self.root / "dev" / terminal, ns=(at_ns, at_ns))


class FakeReports:
    """A kernel that reports changes on a pipe, which a test writes to."""

    def __init__(self) -> None:
        self.openings = 0
        self._pipe: tuple[int, int] | None = None

    @property
    def is_open(self) -> bool:
        return self._pipe is not None

    def open(self) -> int | None:
        self.openings += 1
        self._pipe = os.pipe()
        return self._pipe[0]

    def clear(self) -> None:
        pass

    def close(self) -> None:
        assert self._pipe is not None
        for fd in self._pipe:
            os.close(fd)
        self._pipe = None


class FakeBus:
    """A system bus whose services report what a test sets. At first: there are no services."""

    def __init__(self) -> None:
        self.facts: BusFacts | None = NO_FACTS  # None: the bus does not answer
        self.looks = 0
        self._pipe: tuple[int, int] | None = None

    @property
    def is_followed(self) -> bool:
        return self._pipe is not None

    def report(self, **facts: object) -> None:
        """A service reports a change."""
        self.facts = (self.facts or NO_FACTS)._replace(**facts)  # type: ignore[arg-type]
        if self._pipe is not None:
            os.write(self._pipe[1], b".")

    def look(self, *, wait_s: float) -> BusFacts | None:
        self.looks += 1
        if self._pipe is None:
            self._pipe = os.pipe2(os.O_NONBLOCK)
        return self.facts

    def filenos(self) -> list[int]:
        return [] if self._pipe is None else [self._pipe[0]]

    def clear(self) -> None:
        if self._pipe is not None:
            with suppress(BlockingIOError):
                os.read(self._pipe[0], 4096)

    def forget(self) -> None:
        if self._pipe is not None:
            for fd in self._pipe:
                os.close(fd)
            self._pipe = None
