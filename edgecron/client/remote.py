"""RemoteClient: the parts of it together, and where it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.base.clock import SystemClock
from edgecron.client.remote_browsing import Browsing
from edgecron.client.remote_follow import Following
from edgecron.client.remote_line import HttpLine
from edgecron.client.remote_reading import Reading
from edgecron.client.remote_time import ServerTime
from edgecron.client.remote_writing import Writing

if TYPE_CHECKING:
    from edgecron.client.remote_lines import Lines
    from edgecron.client.remote_places import Server


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
