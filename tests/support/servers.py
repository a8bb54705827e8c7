"""Real web servers that serve the recipes, and what their jobs write."""

from __future__ import annotations

import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgecron.client import Client
from edgecron.model.choices import Status
from edgecron.model.run import Execution
from tests.support.processes import ends

BOUND_S = 60.0  # four interpreters begin at once, on a machine that may be busy
ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "tests" / "recipes"
_MARK = "TESTS_SERVER_MARK"  # in the environment of all that a server starts
_NAP_S = 0.02


@dataclass(frozen=True)
class Fire:
    """A line that a job has written: which one, for which time, and in which process."""

    name: str
    plan: str
    pid: int


class Fires:
    """What jobs append to their file. It is a FIFO here, so that a test can wait for it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        # Written to as long as a job may come, also while nobody reads.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""
        self._all: list[Fire] = []

    def wait_for(self, count: int, name: str, *, after: int = 0) -> list[Fire]:
        """So many fires of a job, or more, that came after the first `after` of all."""
        while len(found := [one for one in self._all[after:] if one.name == name]) < count:
            if not select.select([self._fd], [], [], BOUND_S)[0]:
                raise AssertionError(f"no fire {count} of {name} in time after {self._all[-5:]}")
            self._read()
        return found

    def all(self) -> list[Fire]:
        """Every one that was written so far."""
        while select.select([self._fd], [], [], 0)[0]:
            self._read()
        return list(self._all)

    def close(self) -> None:
        os.close(self._fd)

    def _read(self) -> None:
        *whole, self._rest = (self._rest + os.read(self._fd, 65536)).split(b"\n")
        for line in whole:
            name, plan, pid = line.decode().split()
            self._all.append(Fire(name, plan, int(pid)))


class Plant:
    """A copy of a recipe in a folder of its own, its jobs' file, and the servers of it."""

    def __init__(
        self, folder: Path, stack: ExitStack, *, recipe: str = "web", database: str = "plant.db"
    ) -> None:
        self.folder = folder / recipe
        shutil.copytree(RECIPES / recipe, self.folder, ignore=shutil.ignore_patterns("__pycache__"))
        self.database = self.folder / database
        self._stack = stack
        self.fires = Fires(self.folder / "polled.txt")
        stack.callback(self.fires.close)
        os.mkfifo(self.folder / "gate")
        self._gate_fd = os.open(self.folder / "gate", os.O_RDWR | os.O_NONBLOCK)
        stack.callback(os.close, self._gate_fd)

    def start(self, *words: str) -> Server:
        """Start `python WORDS` in the folder of the recipe."""
        server = Server(self.folder, words)
        self._stack.callback(server.close)
        return server

    def let_go(self) -> None:
        """Let one of those go that wait at the gate."""
        os.write(self._gate_fd, b"go\n")

    def engines(self) -> set[int]:
        """The processes whose engines are alive now."""
        if not self.database.exists():
            return set()
        with Client(self.database) as client:
            return {one.info.pid for one in client.engines() if one.is_alive}

    def wait_engines(self, count: int, *, without: Collection[int] = ()) -> set[int]:
        """Wait until so many processes have an engine, none of `without` among them."""
        found: set[int] = set()

        def are_there() -> bool:
            nonlocal found
            found = self.engines()
            return len(found) == count and found.isdisjoint(without)

        wait_until(are_there, lambda: f"{count} engines, without {without}: there are {found}")
        return found

    def runs(self, name: str | None = None) -> list[Execution]:
        """Every run, oldest first."""
        with Client(self.database) as client:
            return client.history(name, limit=10_000)[::-1]

    def check_one_fire_each(self, *, may_be_interrupted: bool = False) -> None:
        """Each time was run once, as its row says; when all servers have ended."""
        fired = [(one.name, one.plan) for one in self.fires.all()]
        assert len(fired) == len(set(fired)), "a time was run twice"

        by_status: dict[Status, set[tuple[str, str]]] = {}
        for run in self.runs():
            if run.schedule in ("poll", "brisk", "hold"):
                row = (run.schedule, run.plan_at.isoformat())
                by_status.setdefault(run.status, set()).add(row)
        ran = by_status.pop(Status.SUCCESS)
        by_status.pop(Status.SKIPPED, None)
        by_status.pop(Status.QUEUED, None)  # It had not begun, and the next engine will run it.
        begun = by_status.pop(Status.INTERRUPTED, set()) if may_be_interrupted else set()
        assert by_status == {}
        assert ran <= set(fired) <= ran | begun


class Server:
    """A server of a recipe, with all that it starts."""

    def __init__(self, folder: Path, words: tuple[str, ...]) -> None:
        self.folder = folder
        self._log = folder / f"{words[-1]}.log"
        self._mark = f"{_MARK}={folder} {words[-1]}"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                cwd=folder,
                env=os.environ
                | {
                    "PYTHONPATH": str(ROOT),
                    "PYTHONUNBUFFERED": "1",  # what is said shows at once
                    _MARK: self._mark.partition("=")[2],
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        """What it and its workers have printed."""
        return self._log.read_text("utf-8", "replace")

    def wait_said(self, words: str) -> None:
        wait_until(lambda: words in self.said, lambda: f"{words!r} in {self.said}")

    def ask(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Ask over its Unix socket; the status, and JSON."""
        with closing(self.connect()) as connection:
            connection.request(method, path, headers=dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status < 500, f"{answer.status} {text!r}: {self.said}"
            return answer.status, json.loads(text or b"null")

    def connect(self) -> http.client.HTTPConnection:
        """A connection to its Unix socket, `web.sock`, once somebody listens there."""
        connection = http.client.HTTPConnection("localhost", timeout=BOUND_S)
        wait_until(lambda: self._is_connected(connection), lambda: f"no answer: {self.said}")
        return connection

    def _is_connected(self, connection: http.client.HTTPConnection) -> bool:
        assert self.process.poll() is None, f"it has ended: {self.said}"
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(BOUND_S)
        folder_fd = os.open(self.folder, os.O_RDONLY)  # a path of any length has this short one
        try:
            connection.sock.connect(f"/proc/self/fd/{folder_fd}/web.sock")
        except (FileNotFoundError, ConnectionRefusedError):
            connection.sock.close()
            return False
        finally:
            os.close(folder_fd)
        return True

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it, and wait until nothing that it had started is left; its exit code."""
        self.send(number)
        return self.wait_end()

    def wait_end(self) -> int:
        """Wait until it has ended with all that it had started; its exit code."""
        code = self.process.wait(BOUND_S)
        for pid, words in self.processes().items():
            assert has_ended(pid), f"left after the end: {words}; {self.said}"
        assert self.processes() == {}
        return code

    def processes(self) -> dict[int, str]:
        """Every process that it has started and that goes on: its supervisors, too."""
        mark = self._mark.encode()
        found = {}
        for folder in Path("/proc").iterdir():
            with suppress(OSError):  # It has ended, or is none of ours.
                if folder.name.isdigit() and mark in (folder / "environ").read_bytes().split(b"\0"):
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(folder.name)] = words
        return found

    def close(self) -> None:
        """End what is left of it, however it ended. May be called again."""
        # A process that starts while one looks is found by the next look.
        while found := self.processes():
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
            assert all(has_ended(pid) for pid in found)
        self.process.wait()


def has_ended(pid: int) -> bool:
    """Whether a process ends within a bound."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return ends(pidfd, bound_s=BOUND_S)
    finally:
        os.close(pidfd)


def wait_until(is_so: Callable[[], bool], what: Callable[[], str]) -> None:
    """Look now and then until something is so, bounded. `what` says what is missing."""
    for _ in range(round(BOUND_S / _NAP_S)):
        if is_so():
            return
        select.select([], [], [], _NAP_S)
    raise AssertionError(f"not in time: {what()}")
