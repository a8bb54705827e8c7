"""Requests to the server of another machine, the methods that are one request, and its changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from edgecron.base.checks import check_name
from edgecron.base.clock import SystemClock
from edgecron.base.errors import InvalidName, NotFound
from edgecron.base.units import from_ms
from edgecron.client.protocol import Client
from edgecron.client.remote_server import ServerTime
from edgecron.client.resources import resource_types

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.client.remote_connection import Connector, ServerConnection
    from edgecron.model.listing import Choice


P = ParamSpec("P")
R = TypeVar("R")
HELD_S = 5.0  # how long the server holds a request for news; it answers a change immediately


def asked(
    method: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate[Requests, P], R]:
    """Make a method that asks the server for the resource of its name, with its arguments."""
    name, code = method.__name__, method.__code__
    positional = code.co_varnames[1 : code.co_argcount]

    @wraps(method)
    def ask(client: Requests, /, *args: P.args, **given: P.kwargs) -> R:
        found: R = client.request(name, **dict(zip(positional, args, strict=False)), **given)
        return found

    return ask


def choice_fields(choice: Choice | None) -> dict[str, object]:
    """Return a choice as parameters of lists of schedules, without those that choose nothing."""
    if choice is None:
        return {}
    fields = {
        "word": choice.words,
        "group": choice.group,
        "failed": choice.is_failed,
        "paused": choice.is_paused,
    }
    return {name: value for name, value in fields.items() if value}


class Requests:
    """The connection to a server and what is asked over it. For one thread.

    Nothing is connected before the first request. `time` is shared by the clients of one server.
    Each method can raise ServerUnavailable, and what the Client there raises.
    """

    def __init__(self, connector: Connector, *, time: ServerTime | None = None) -> None:
        self._connector = connector
        self._time = time or ServerTime(SystemClock())
        self._connection = connector.open(self._time)
        self._changes: ChangeWatch | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None
        self._connection.close()

    @property
    def clock(self) -> Clock:
        return self._time

    @property
    def place(self) -> str:
        return self._connector.place

    def now(self) -> datetime:
        if not self._time.is_known:
            self._status("now")
        return from_ms(self._time.now_ms())

    def interrupt(self) -> None:
        self._connection.interrupt()

    def request(self, name: str, /, **arguments: Any) -> Any:
        """Ask for a resource by its name, and return the value of its answer."""
        if "name" in resource_types(name).resource.path_words:
            check_schedule(arguments["name"])
        return self._connection.ask(name, **arguments)

    def _status(self, part: str) -> Any:
        """Return one part of what the server says of itself."""
        return getattr(self.request("status", only=(part,)), part)


def check_schedule(name: str) -> None:
    """Raise NotFound for a name that no schedule can have, as on the machine of the database.

    The server would refuse the path as wrong input.
    """
    try:
        check_name(name, what="schedule name")
    except InvalidName:
        raise NotFound(f"there is no schedule {name!r}", hint="see: edgecron list") from None


class ChangeWatch:
    """Know whether the database has changed, at no cost: the server holds a request until then."""

    def __init__(self, mark: int, connection: ServerConnection) -> None:
        self._mark = mark
        self._connection = connection

    def mark(self) -> int:
        """Return the newest mark. Raises ServerLost if the server no longer answers."""
        connection = self._connection
        if connection.is_begun:
            _, is_answered = connection.poll(timeout_s=0)
            if not is_answered:
                return self._mark
            found: int | None = connection.finish("await_change")
            self._mark = self._mark if found is None else found
        connection.begin("await_change", wait_s=HELD_S, mark=self._mark)
        return self._mark

    def close(self) -> None:
        self._connection.close()
