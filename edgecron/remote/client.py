"""RemoteClient: the parts of it together, and where it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.clock import SystemClock
from edgecron.remote.browsing import Browsing
from edgecron.remote.following import Following
from edgecron.remote.line import HttpLine
from edgecron.remote.reading import Reading
from edgecron.remote.servertime import ServerTime
from edgecron.remote.writing import Writing

if TYPE_CHECKING:
    from edgecron.remote.lines import Lines
    from edgecron.remote.places import Server


class RemoteClient(Reading, Browsing, Writing, Following):
    """The database of another machine, as a Client is one of this machine. For one thread.

    `time` is shared by the clients of one server. Every question may raise ServerUnavailable, and
    what the Client there raises.
    """

    def __init__(self, lines: Lines, *, time: ServerTime | None = None) -> None:
        super().__init__(lines, time=time or ServerTime(SystemClock()))


class HttpLines:
    """Lines to a server. `token` None sends none."""

    def __init__(self, server: Server, *, token: str | None = None) -> None:
        self.place = server.url
        self._server = server
        self._token = token

    def open(self) -> HttpLine:
        return HttpLine(self._server, self._token)
