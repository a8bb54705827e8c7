"""Requests to the server of another machine: those of one line, its changes, and its runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from edgecron.base.checks import check_name
from edgecron.base.clock import Clock, ServerTime, SystemClock
from edgecron.base.errors import InvalidName, NotFound, NotSupported
from edgecron.base.units import format_duration_ms, from_ms
from edgecron.client.protocol import Client
from edgecron.client.remote_link import NothingThere
from edgecron.client.resources import API_NAMES, resource_types
from edgecron.model.choices import Status
from edgecron.model.listing import ALL_RUNS, Choice, RunChoice, RunPage
from edgecron.model.run import AS_SCHEDULED, Execution, RunOptions

if TYPE_CHECKING:
    from edgecron.client.following import BegunRuns, Piece
    from edgecron.client.remote_connection import Connector, ServerConnection
    from edgecron.client.resource_functions import Begun, Printed


P = ParamSpec("P")
R = TypeVar("R")
HELD_S = 5.0  # how long the server holds a request for news; it answers a change immediately


def asked(
    method: Callable[Concatenate[Client, P], R], *, what: str = ""
) -> Callable[Concatenate[Requests, P], R]:
    """Make a method that asks the server for the resource of its name, with its arguments.

    A run is sent as its id. `what` names a resource that an older server lacks: then the method
    raises NotSupported.
    """
    name, code = method.__name__, method.__code__
    positional = code.co_varnames[1 : code.co_argcount]

    @wraps(method)
    def ask(client: Requests, /, *args: P.args, **given: P.kwargs) -> R:
        renamed = API_NAMES.get(name, {})
        arguments = {
            renamed.get(key, key): one.id if isinstance(one, Execution) else one
            for key, one in {**dict(zip(positional, args, strict=False)), **given}.items()
        }
        try:
            found: R = client.request(name, **arguments)
        except NothingThere:
            if not what:
                raise
            raise NotSupported(
                f"the server is older: it has no {what}",
                hint="use the same version on both machines",
            ) from None
        return found

    return ask


def told(
    method: Callable[Concatenate[Client, P], R], part: str
) -> Callable[Concatenate[Requests, P], R]:
    """Make a method that returns one part of the status of the server."""

    @wraps(method)
    def ask(client: Requests, /, *_: P.args, **__: P.kwargs) -> R:
        found: R = client._status(part)
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
        """Return one part of the status of the server."""
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


_MOST_RUNS = 1000
# While the server holds a request, the client can't check whether anything looks after the run.
_HELD_QUEUED_S = 2.0
_Ask = Callable[..., Any]


class RemoteRuns(Requests):
    """Read runs, follow them and start them."""

    execution = asked(Client.execution)
    run_page = asked(Client.run_page)
    run_bounds = asked(Client.run_bounds)
    waiting_runs = asked(Client.waiting_runs)
    last_run = asked(Client.last_run)
    last_failure = asked(Client.last_failure)
    output = asked(Client.output)
    cancel = asked(Client.cancel)
    next_attempt = asked(Client.next_attempt)
    spec_of = asked(Client.spec_of)
    is_supervised = asked(Client.is_supervised)

    def history(
        self, name: str | None = None, *, choice: RunChoice = ALL_RUNS, limit: int = 20
    ) -> list[Execution]:
        return self.history_page(name, choice=choice, limit=limit).runs

    def history_page(
        self, name: str | None = None, *, choice: RunChoice = ALL_RUNS, limit: int = 20
    ) -> RunPage:
        found, before_id = RunPage([], []), choice.before_id
        while len(found.runs) < limit:
            size = min(limit - len(found.runs), _MOST_RUNS)
            page: RunPage = self.request(
                "history_page",
                schedule=name,
                status=choice.statuses,
                cause=choice.causes,
                before=before_id,
                since=choice.since,
                until=choice.until,
                limit=size,
                former=choice.with_former,
            )
            found.runs.extend(page.runs)
            found.unreadable.extend(page.unreadable)
            if len(page.runs) < size:
                break
            before_id = page.runs[-1].id
        return found

    def follower(self, execution_id: int, *, position: int = 0) -> RemoteFollower:
        return RemoteFollower(
            self.request, self._connector.open(self._time), execution_id, position=position
        )

    def later_runs(self, name: str, *, known: Execution | None) -> RemoteLaterRuns:
        begun = self.request("begun_runs", name=name, known=None if known is None else known.id)
        return RemoteLaterRuns(self.request, self._connector.open(self._time), begun)

    def run_now(
        self, name: str, *, payload: str | None = None, options: RunOptions = AS_SCHEDULED
    ) -> list[Execution]:
        """Send a fresh key: if the answer is lost, the request can be repeated."""
        key = os.urandom(16).hex()
        return self.run_once(name, key=key, payload=payload, options=options)

    def run_once(
        self,
        name: str,
        *,
        key: str,
        payload: str | None = None,
        asked_at: datetime | None = None,
        options: RunOptions = AS_SCHEDULED,
    ) -> list[Execution]:
        check_schedule(name)
        found: list[Execution] = self._connection.ask_keyed(
            "run_once",
            name=name,
            key=key,
            payload_text=payload,
            asked_at=asked_at or self.now(),
            delay=_duration_text(options.delay_s),
            at=options.at,
            priority=options.priority,
            timeout=_duration_text(options.timeout_s),
            scope=None if options.scope is None else ":".join(options.scope).removesuffix(":"),
        )
        return found


def _duration_text(seconds: float | None) -> str | None:
    return None if seconds is None else format_duration_ms(round(seconds * 1000))


class RemoteFollower:
    """The output of a run on another machine: a Follower."""

    def __init__(
        self, ask: _Ask, connection: ServerConnection, execution_id: int, *, position: int
    ) -> None:
        self._ask = ask
        self._connection = connection
        self.execution_id = execution_id
        self._position = position
        self._status: Status | None = None  # of the run, as last read
        self._pieces: list[Piece] = []  # received, and not read yet
        self.is_silent = False  # the last wait ended without news

    def __enter__(self) -> RemoteFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @property
    def is_due_for_check(self) -> bool:
        """Whether nothing was heard for a while: check whether anything looks after the run."""
        return self.is_silent

    def read(self, execution: Execution) -> list[Piece]:
        """Return what came since the last call; `execution` is the run as it is now."""
        self._status = execution.status
        found, self._pieces = self._pieces, []
        return found

    def read_kept(self, execution: Execution) -> list[Piece]:
        """Return what the run has printed so far, if it is still kept."""
        found = self.read(execution)
        self._connection.close()  # Its request asks for the same output.
        has_more = True
        while has_more:
            printed: Printed = self._ask(
                "printed", execution_id=self.execution_id, position=self._position
            )
            found += self._take(printed)
            has_more = printed.has_more
        return found

    def read_stored(self) -> Iterator[Piece]:
        """Return the rest, after the end of the run was recorded."""
        yield from self.read_kept(self._ask("execution", execution_id=self.execution_id))

    def wait(self, also: Sequence[int] = (), *, until_s: float = 0.0) -> set[int]:
        """Sleep until there can be news, or one of these descriptors is readable; return those."""
        connection = self._connection
        if not connection.is_begun:
            status = self._status or Status.QUEUED
            least_s = _HELD_QUEUED_S if status is Status.QUEUED else HELD_S
            connection.begin(
                "await_printed",
                wait_s=min(max(least_s, until_s), HELD_S),
                execution_id=self.execution_id,
                position=self._position,
                status=status,
            )
        ready, is_answered = connection.poll(also)
        self.is_silent = False
        if is_answered:
            printed: Printed | None = connection.finish("await_printed")
            self.is_silent = printed is None
            if printed is not None:
                self._pieces += self._take(printed)
                self._status = printed.run.status
        return ready

    def _take(self, printed: Printed) -> list[Piece]:
        pieces: list[Piece] = [(skipped, chunk) for skipped, chunk in printed.chunks]
        self._position += sum(skipped + len(chunk.content) for skipped, chunk in pieces)
        return pieces


class RemoteLaterRuns:
    """The runs of a schedule on another machine: LaterRuns."""

    is_due_for_check = True  # each wait is long

    def __init__(self, ask: _Ask, connection: ServerConnection, told: BegunRuns) -> None:
        self._ask = ask
        self._connection = connection
        self._told = told
        self._begun: Begun | None = None

    def wait(self) -> None:
        """Sleep until a run may have begun."""
        if self._begun is None:
            self._connection.begin("await_begun", wait_s=HELD_S, told=self._told)
            self._connection.poll()
            self._begun = self._connection.finish("await_begun")

    def find_next(self) -> Execution | None:
        """Return the next run that has begun, each once; None if there is none yet."""
        found: Begun | None = self._begun or self._ask("await_begun", told=self._told)
        self._begun = None
        if found is None:
            return None
        self._told = found.told
        return found.run
