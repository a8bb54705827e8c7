"""Lines to whoever answers questions: what RemoteClient asks of them, and who gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from edgecron.client.remote_answers import Reply
    from edgecron.client.resources import Request


class Line(Protocol):
    """One question at a time. For one thread, but for `interrupt`."""

    def ask(self, request: Request) -> Reply:
        """Return the answer. Raises ServerUnavailable, and QueryInterrupted; ServerLost where
        it may be back soon."""

    def begin(self, request: Request) -> None:
        """Send a request whose answer waits for news."""

    def fileno(self) -> int | None:
        """What can be read from once the answer to what was begun comes; None: it is there."""

    def finish(self, *, is_late: bool = False) -> Reply:
        """The answer to what was begun; where it is late, what is not there is not waited for."""

    def interrupt(self) -> None:
        """From any thread: end what is being asked, where something is."""

    def is_waited_for(self) -> bool:
        """Whether a server that was lost is waited for; who waits is told so once."""

    def close(self) -> None:
        """End what was begun, too. The next question opens it again."""


class Lines(Protocol):
    """Who gives lines. `place` is where they lead, for people to read."""

    place: str

    def open(self) -> Line:
        """A line of its own; nothing is connected before it is asked something."""
