"""A supervisor with real commands under it, and waits that are bounded and never by time."""

from __future__ import annotations

import fcntl
import itertools
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgecron.base.clock import Clock, SystemClock
from edgecron.embedding.travel_engine import FakeClock
from edgecron.model.run import Output, Stream
from edgecron.supervisor.control import LIVE, Control
from edgecron.supervisor.journal import JournalState, Trace, read_journal
from edgecron.supervisor.launch import StartBy, start
from edgecron.supervisor.link import Event, Exited, NotStarted, Started, SupervisorLink
from edgecron.supervisor.live_run import LiveRun, Recorder
from edgecron.supervisor.output import Part, load_output
from edgecron.supervisor.protocol import GIVEN_BACK, ExitRecord, Phase, StartRequest
from edgecron.supervisor.reactor import Deadlines, Peer, Reactor
from edgecron.supervisor.run_session import Snapshots
from edgecron.supervisor.start import Spawner, StartQueue

BOUND_MS = 20_000
_KEY = "deadbeef"


class Bench:
    """One supervisor, the events that came from it, and words to say what a test needs."""

    def __init__(
        self,
        state_dir: Path,
        *,
        by: StartBy | None = None,
        places: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.state_dir = state_dir
        self.link: SupervisorLink = start(
            state_dir, clock=clock or SystemClock(), by=by, places=places
        )
        self.events: list[Event] = []
        # Some files of runs lie outside the state folder, and tests run side by side.
        self._mark = os.urandom(4).hex()
        self._numbers = itertools.count(1)

    def request(self, *argv: str, **changes: Any) -> StartRequest:
        values: dict[str, Any] = {
            "token": f"{self._mark}-{next(self._numbers)}",
            "argv": argv,
            "env": {"PATH": "/usr/local/bin:/usr/bin:/bin"},
            "cwd": "/",
            "output_cap_bytes": 256 * 1024,
            "kill_grace_ms": 10_000,
        }
        return StartRequest(**(values | changes))

    def start(self, *argv: str, **changes: Any) -> str:
        request = self.request(*argv, **changes)
        self.link.start([request])
        return request.token

    def shell(self, line: str, **changes: Any) -> str:
        return self.start("/bin/sh", "-c", line, **changes)

    def wait_for(self, is_there: Callable[[], bool], what: str) -> None:
        poller = select.poll()
        poller.register(self.link, select.POLLIN)
        while not is_there():
            assert self.link.is_alive, f"the supervisor ended before {what}"
            assert poller.poll(BOUND_MS), f"nothing came while waiting for {what}"
            self.events += self.link.receive()

    def ended(self, token: str) -> ExitRecord:
        self.wait_for(lambda: token in self.exits(), f"the end of {token}")
        return self.exits()[token]

    def started(self, token: str) -> Started:
        def find() -> list[Started]:
            return [e for e in self.events if isinstance(e, Started) and e.token == token]

        self.wait_for(lambda: bool(find()), f"the start of {token}")
        return find()[0]

    def exits(self) -> dict[str, ExitRecord]:
        return {e.record.token: e.record for e in self.events if isinstance(e, Exited)}

    def wait_given_back(self, *tokens: str) -> None:
        """Until the supervisor has given these back, and nothing else."""
        self.wait_for(lambda: len(self.not_started()) >= len(tokens), "what is given back")
        codes = {token: event.error_code for token, event in self.not_started().items()}
        assert codes == dict.fromkeys(tokens, GIVEN_BACK)

    def not_started(self) -> dict[str, NotStarted]:
        return {e.token: e for e in self.events if isinstance(e, NotStarted)}

    def journal(self) -> JournalState:
        return read_journal(self.state_dir, self.link.supervisor_id)

    def output(self, record: ExitRecord) -> Output:
        output, is_whole = load_output(record.output, self.state_dir)
        assert is_whole
        return output

    def printed(self, record: ExitRecord, stream: Stream = Stream.STDOUT) -> bytes:
        chunks = self.output(record).chunks
        return b"".join(chunk.content for chunk in chunks if chunk.stream is stream)

    def run(self, *argv: str, **changes: Any) -> ExitRecord:
        return self.ended(self.start(*argv, **changes))

    def run_shell(self, line: str, **changes: Any) -> ExitRecord:
        return self.ended(self.shell(line, **changes))

    def guardian(self) -> int:
        """The process id of the supervisor's parent."""
        return parent_of(self.link.pid)

    def kill_guardian(self) -> None:
        pid = self.guardian()
        os.kill(pid, signal.SIGKILL)
        wait_gone(pid)

    def wait_for_death(self) -> None:
        """Until the link says that the supervisor has gone."""
        poller = select.poll()
        poller.register(self.link, select.POLLIN)
        while self.link.is_alive:
            assert poller.poll(BOUND_MS), "the supervisor has not ended"
            self.events += self.link.receive()
        self.link.close()

    def close(self) -> None:
        """End every run and the supervisor. May be called again."""
        pid = self.link.pid
        if self.link.is_alive:
            self.link.stop_all()
        self.link.close()
        try:
            wait_gone(pid)
        except AssertionError:
            os.kill(pid, signal.SIGKILL)
            raise


class Starting:
    """The starts of a supervisor, with its journal and without a loop around them."""

    def __init__(
        self,
        state_dir: Path,
        *,
        clock: FakeClock | None = None,
        spawner: Spawner | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.deadlines = Deadlines()
        self.started: list[LiveRun] = []
        self.snapshots = Snapshots(self.clock)
        self._state_dir = state_dir
        ours, theirs = socket.socketpair()
        theirs.close()
        self._reactor = Reactor()
        self._spawner = spawner or Spawner()
        self._engine = Peer(ours, self._reactor, on_message=lambda kind, body: None)
        self.recorder = Recorder(
            state_dir,
            key=_KEY,
            clock=self.clock,
            deadlines=self.deadlines,
            engine=self._engine,
        )
        self.queue = StartQueue(
            state_dir,
            clock=self.clock,
            deadlines=self.deadlines,
            recorder=self.recorder,
            snapshots=self.snapshots,
            spawner=self._spawner,
        )

    def start(self, *requests: StartRequest) -> None:
        """Begin to start them."""
        self.queue.add(requests)
        self.started += self.queue.start_some(live=0)

    def traces(self) -> dict[str, Trace]:
        """What is on record of each token."""
        self.recorder.flush()
        return read_journal(self._state_dir, _KEY).traces

    def close(self) -> None:
        """Close all descriptors; a process that was ended on its way has gone by now."""
        self._reactor.turn(0)
        self._engine.disconnect()
        self.recorder.close()
        self._spawner.close()
        for run in self.started:
            for fd in (*run.streams, *run.ended_fds):
                os.close(fd)


def follow(control: Control, token: str) -> Iterator[tuple[Phase, Part]]:
    """What a run prints, as it comes, until it has ended."""
    control.begin_follow(token)
    poller = select.poll()
    poller.register(control, select.POLLIN)
    while True:
        assert poller.poll(BOUND_MS), f"nothing came of {token}"
        for phase, part in control.take_followed():
            yield phase, part
            if phase not in LIVE:
                return


class Bell:
    """A FIFO that a command rings (`echo > path`), so that a test knows how far it is."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, lines: int = 1) -> bytes:
        """Wait for so many lines at least."""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        heard = b""
        while heard.count(b"\n") < lines:
            assert poller.poll(BOUND_MS), f"nobody rang {self.path}"
            heard += os.read(self._fd, 4096)
        return heard

    def has_rung(self) -> bool:
        """Whether it was rung since the last wait."""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        return bool(poller.poll(0))

    def close(self) -> None:
        os.close(self._fd)


class Gate:
    """A FIFO that a command waits at (`read go < path`) until the test opens it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def open(self) -> None:
        os.write(self._fd, b"go\n")

    def close(self) -> None:
        os.close(self._fd)


class Unanswering:
    """A program in a place that never answers who would run it, as on a server that has gone.

    The kernel has them wait while somebody else holds a lease of the file. Unless told
    otherwise it runs the shell text that is its argument.
    """

    def __init__(self, path: Path, text: str = '#!/bin/sh\neval "$1"\n') -> None:
        path.write_text(text, encoding="ascii")
        path.chmod(0o755)
        self.path = str(path)
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.fcntl(self._fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(self._fd, fcntl.F_SETOWN, 0)  # No signal to who holds it up.

    def wait_asked(self) -> None:
        """Until somebody waits for an answer."""
        until_s = time.monotonic() + BOUND_MS / 1000
        while fcntl.fcntl(self._fd, fcntl.F_GETLEASE) == fcntl.F_WRLCK:
            assert time.monotonic() < until_s, f"nobody asks for {self.path}"
            os.sched_yield()

    def answer(self) -> None:
        """From now on; again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_pids(bell: Bell, count: int) -> list[int]:
    words: list[bytes] = []
    rest = b""
    while len(words) < count:
        rest += bell.wait()
        words = rest.split(b"\n")[:-1]
    return [int(word) for word in words]


def wait_gone(pid: int) -> None:
    """Until a process that need not be our child has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        assert poller.poll(BOUND_MS), f"process {pid} has not ended"
    finally:
        os.close(pidfd)


def wait_all_gone(pidfds: Iterable[int]) -> None:
    """Until all of these processes have ended; closes the descriptors."""
    for pidfd in pidfds:
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        assert poller.poll(BOUND_MS), "a process has not ended"
        os.close(pidfd)


def is_running(pid: int) -> bool:
    """Whether it is alive, and no zombie."""
    pidfd = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    has_ended = poller.poll(0)
    os.close(pidfd)
    return not has_ended


def escaping(line: str) -> str:
    """Shell text that runs a line as a daemon does: in a session of its own, with no pipe held."""
    return f"setsid sh -c '{line}' </dev/null >/dev/null 2>&1 &"


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[1])


def children_of(pid: int) -> Sequence[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]
