"""What the processes of a virtual machine say to each other: queues in the place of sockets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import SupervisorUnavailable
from edgecron.supervisor import link as real
from edgecron.supervisor.control import LiveState, SupervisorState
from edgecron.supervisor.link import BATCH, Event, SupervisorLink
from edgecron.supervisor.protocol import Kind, Phase, StartRequest
from tests.simulation.points import Fault, Point

if TYPE_CHECKING:
    from tests.simulation.machine import Machine
    from tests.simulation.virtual import VirtualSupervisor

ANSWER_MS = 200  # so long an engine waits for the answer of another one's supervisor
_numbers = count(1_000_000)  # of descriptors that no real one has


class Socket:
    """Two queues between an engine and a supervisor."""

    def __init__(self) -> None:
        self.to_engine: list[tuple[Kind, Any]] = []
        self.to_supervisor: list[tuple[Kind, Any]] = []
        self.is_open_at_engine = True
        self.is_open_at_supervisor = True
        self.number = next(_numbers)


class Link(SupervisorLink):
    """The engine's end. What it makes of the messages is the real one's."""

    def __init__(self, machine: Machine, socket: Socket, *, supervisor_id: str, pid: int) -> None:
        self._machine = machine
        self.socket = self._socket = socket
        self._messages = _readers(self)
        self._early = []
        self.state_dir = machine.state_dir
        self.supervisor_id = supervisor_id
        self.pid = pid
        self.is_alive = True
        self.end_message = None

    @property
    def has_unsent(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._socket.number

    def start(self, requests: Sequence[StartRequest]) -> None:
        for first in range(0, len(requests), BATCH):
            batch = [request.to_json() for request in requests[first : first + BATCH]]
            self._send(Kind.START, batch)

    def flush(self) -> None:
        """What is said is there at once."""

    def wait_hello(self, timeout_s: float) -> None:
        """As the real one: until the supervisor serves, by the virtual clock."""
        machine, socket = self._machine, self._socket
        until_ms = machine.true_ms + round(timeout_s * 1000)
        machine.sleep(
            lambda: (
                bool(socket.to_engine)
                or not socket.is_open_at_supervisor
                or machine.true_ms >= until_ms
            ),
            lambda: until_ms - machine.true_ms,
        )
        if not socket.to_engine or socket.to_engine[0][0] is not Kind.HELLO:
            raise SupervisorUnavailable("supervisor did not start, or did not answer in time")
        socket.to_engine.pop(0)

    def close(self) -> None:
        self._socket.is_open_at_engine = False
        self.is_alive = False

    def _send(self, kind: Kind, body: Any) -> None:
        self._machine.reach(Point.TALK, f"{kind} to {self.supervisor_id}", may_fail=False)
        if self._socket.is_open_at_supervisor:
            self._socket.to_supervisor.append((kind, body))

    def _receive_messages(self) -> list[tuple[Kind, Any]]:
        found, self._socket.to_engine = self._socket.to_engine, []
        if not self._socket.is_open_at_supervisor:
            self.is_alive = False
        return found


def _readers(link: Link) -> dict[Kind, Callable[[Any], list[Event]]]:
    return {
        Kind.STARTED: real.read_started,
        Kind.NOT_STARTED: real.read_not_started,
        Kind.EXITED: real.read_exited,
        Kind.REFUSED: link.read_refused,
    }


class End:
    """The supervisor's end of a socket."""

    def __init__(self, socket: Socket, on_message: Callable[[Kind, Any], None]) -> None:
        self.socket = socket
        self.on_message = on_message
        self.is_connected = True
        self.has_unsent = False
        self._unsent: list[tuple[Kind, Any]] = []

    def become_engine(self, on_message: Callable[[Kind, Any], None]) -> None:
        self.on_message = on_message

    def send(self, kind: Kind, body: Any) -> None:
        if self.is_connected:
            self._unsent.append((kind, body))

    def flush(self) -> None:
        if self.socket.is_open_at_engine:
            self.socket.to_engine += self._unsent
        self._unsent = []

    def take(self) -> None:
        """What the engine said, then that it has gone, where it has."""
        heard, self.socket.to_supervisor = self.socket.to_supervisor, []
        for kind, body in heard:
            try:
                self.on_message(kind, body)
            except OSError:  # as the real one: its runs go on, and the journal tells their ends
                self.is_connected = self.socket.is_open_at_supervisor = False
                return
        if not self.socket.is_open_at_engine:
            self.is_connected = False
            self._unsent = []


class Question:
    """The face of `Control`: asks a supervisor, and waits for its answer by the virtual clock."""

    is_of_our_version = True

    def __init__(self, machine: Machine, supervisor_id: str) -> None:
        self._machine = machine
        self._supervisor_id = supervisor_id
        if machine.reach(Point.TALK, f"ask {supervisor_id}") is Fault.DEAF:
            raise self._gone("it did not answer in time")
        if supervisor_id not in machine.supervisors:
            raise self._gone("it has gone")

    def __enter__(self) -> Question:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def status(self) -> SupervisorState:
        running, waiting, has_engine, *_ = self._ask(lambda one: one.status())
        live = tuple(LiveState(token=one[0], pid=one[1], started_ms=one[2]) for one in running)
        return SupervisorState(running=live, waiting=tuple(waiting), has_engine=has_engine)

    def revoke(self, tokens: Sequence[str]) -> dict[str, Phase]:
        found: dict[str, Phase] = self._ask(lambda one: one.revoke(list(tokens)))
        return found

    def cancel(self, tokens: Sequence[str]) -> dict[str, Phase]:
        found: dict[str, Phase] = self._ask(lambda one: one.cancel(list(tokens)))
        return found

    def adopt(self) -> Link:
        socket = Socket()
        try:
            refusal = self._ask(lambda one: one.adopt_socket(socket))
        except BaseException:
            socket.is_open_at_engine = False
            raise
        if refusal is not None:
            raise self._gone(refusal)
        link = self._machine.link(socket, self._supervisor_id)
        link.wait_hello(ANSWER_MS / 1000)
        return link

    def _ask(self, question: Callable[[VirtualSupervisor], Any]) -> Any:
        machine = self._machine
        machine.reach(Point.TALK, f"question to {self._supervisor_id}", may_fail=False)
        supervisor = machine.supervisors.get(self._supervisor_id)
        if supervisor is None:
            raise self._gone("it has gone")
        box: list[Any] = []
        supervisor.controls.asked.append((lambda: question(supervisor), box))
        until_ms = machine.true_ms + ANSWER_MS
        machine.sleep(
            lambda: (
                bool(box)
                or self._supervisor_id not in machine.supervisors
                or machine.true_ms >= until_ms
            ),
            lambda: until_ms - machine.true_ms,
        )
        if not box:
            raise self._gone("it did not answer in time")
        return box[0]

    def _gone(self, why: str) -> SupervisorUnavailable:
        return SupervisorUnavailable(f"supervisor {self._supervisor_id} can't be asked: {why}")
