"""The ASGI application: check requests, route them, and answer on threads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import Message, Receive, Scope, Send

from edgecron.base.errors import EdgecronError
from edgecron.base.files import check_token
from edgecron.base.paths import Location, user_name
from edgecron.base.units import format_instant
from edgecron.base.values import replace
from edgecron.client import Client
from edgecron.client.resources import TIME_HEADER
from edgecron.http.access import LOOPBACK, OPEN_PATHS, SLOT, Guard, Limits, Slot, has_body
from edgecron.http.client_threads import (
    END,
    EVENTS,
    ChangeWatch,
    EventsResponse,
    Opened,
    Streams,
    Workers,
    need_database,
)
from edgecron.http.messages import Answer, ApiRequest, PollAgain, Refused, Route, error_answer
from edgecron.http.openapi import openapi_route
from edgecron.http.request_checks import read_request
from edgecron.http.routes import make_routes
from edgecron.model.schedule import HTTP, Author

BUSY_WAIT_S = 2.0  # for another process's lock, before a request gets 503


def application(
    database: str | Path | Opened | None = None,
    *,
    token: str | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    limits: Limits | None = None,
) -> Application:
    """Return an ASGI application over a database: a path, or a function that opens a Client.

    With `token`, each request must carry it. Without, the Host of a request must be one of `hosts`
    (None: any): see `access`. All users of the API can run commands as this user. Without a token
    these are all who reach your server: on 127.0.0.1, every user of the machine. No request creates
    the database. `close`, or the end of its lifespan, ends its threads.
    """
    opened = database if callable(database) else opener_of(database)
    if token is not None:
        token = check_token(token.encode(), what="token")
    guard = Guard(token=token, hosts=None if token is not None else hosts)
    return Application(opened, guard=guard, limits=limits or Limits())


def opener_of(database: str | Location | None) -> Opened:
    """Return a function that opens the Client of a thread."""

    def opened() -> Client:
        return Client(database, must_exist=True, busy_wait_s=BUSY_WAIT_S, origin=HTTP)

    return opened


class Application:
    """The routes, with their checks and threads. It can be mounted under a path."""

    def __init__(
        self,
        opened: Opened,
        *,
        guard: Guard,
        limits: Limits,
    ) -> None:
        self._limits = limits
        self._workers = Workers(opened)
        self._streams = Streams(opened, limits)
        self._watch = ChangeWatch(opened)
        self._guard = guard
        described = make_routes(self._watch)
        all_routes = (*described, openapi_route(described, has_token=guard.token is not None))
        self._routed = Starlette(
            routes=[self._route_of(path, handlers) for path, handlers in _by_path(all_routes)],
            exception_handlers={
                EdgecronError: _answer_error,
                HTTPException: _answer_no_route,
                ClientDisconnect: _answer_disconnect,
                Exception: _answer_defect,
            },
            lifespan=self._living,
        )
        self._routed.router.redirect_slashes = False

    def close(self) -> None:
        """End streams, running requests and threads. Closing twice is harmless."""
        self._streams.close()
        self._workers.close()
        self._watch.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self._routed(scope, receive, send)
        else:
            await self._answer(scope, *_ending_unread(scope, receive, send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            _check_head(scope, self._limits)
            slot = _slot_of(scope)
            is_owner = self._guard.check(
                request.method,
                _path_of(scope),
                headers=request.headers,
                find_user=_find_nobody if slot is None else slot.find_user,
            )
            if is_owner and slot is not None:
                slot.admit()
        except Refused as refused:
            await _response(error_answer(refused))(scope, receive, send)
            return
        await self._routed(scope, receive, send)

    def _route_of(self, path: str, routes: dict[str, Route]) -> StarletteRoute:
        async def endpoint(request: Request) -> Response:
            route = routes["GET" if request.method == "HEAD" else request.method]
            body = await _read_body(request, self._limits, route)
            api_request = _api_request(request, body, route)
            if route.is_streamed and EVENTS in request.headers.get("accept", ""):
                return await self._follow(api_request)
            user = None if request.method in ("GET", "HEAD") else _user_of(request.scope)
            return _response(await self._found(route, api_request, user))

        return StarletteRoute(path, endpoint, methods=list(routes))

    async def _follow(self, api_request: ApiRequest) -> Response:
        """Answer with the output of a run as events. Raises NotFound."""
        last = api_request.headers.get("last-event-id", "0")
        if last == END:
            return Response(status_code=204)  # Browsers reconnect until they get 204.
        stream = self._streams.open(int(api_request.words["id"]), position=int(last))
        try:
            await stream.begin()
        except BaseException:  # A client that disconnects cancels this task.
            stream.close()
            raise
        return EventsResponse(stream)

    async def _found(self, route: Route, api_request: ApiRequest, user: str | None) -> Answer:
        """Return the answer of a route; call it again while the answer waits for news.

        `user` is recorded with the changes that the request makes.
        """
        waited_s = 0.0
        while True:
            future = self._workers.submit(partial(_handled, route, api_request, user))
            found = await asyncio.wrap_future(future)
            if isinstance(found, Answer):
                return found
            if waited_s >= found.wait_s:
                return found.at_end
            await asyncio.sleep(found.pause_s)
            waited_s += found.pause_s

    @asynccontextmanager
    async def _living(self, _: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(self.close)


def _by_path(routes: Sequence[Route]) -> list[tuple[str, dict[str, Route]]]:
    found: dict[str, dict[str, Route]] = {}
    for route in routes:
        found.setdefault(route.path, {})[route.method] = route
    return list(found.items())


def _user_of(scope: Scope) -> str | None:
    """Return the user of this machine who sends a request, or the address of another machine."""
    slot = _slot_of(scope)
    user_id = None if slot is None else slot.find_user()
    if user_id is not None:
        return user_name(user_id)
    address = scope.get("client")
    return None if address is None or address[0] in LOOPBACK else str(address[0])


def _handled(
    route: Route, api_request: ApiRequest, user: str | None, client: Client
) -> Answer | PollAgain:
    client.author = Author(HTTP, user)
    if route.path not in OPEN_PATHS:  # /healthz reports a missing database itself.
        need_database(client)
    found = route.handle(client, api_request)
    time = {TIME_HEADER.lower(): format_instant(client.now())}
    if isinstance(found, Answer):
        return replace(found, headers={**found.headers, **time})
    at_end = replace(found.at_end, headers={**found.at_end.headers, **time})
    return replace(found, at_end=at_end)


def _path_of(scope: Scope) -> str:
    """Return the path below the one under which the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _slot_of(scope: Scope) -> Slot | None:
    """Return the slot of a connection; None if another server than ours serves it."""
    slot = scope.get("state", {}).get(SLOT)
    return slot if isinstance(slot, Slot) else None


def _find_nobody() -> None:
    """Return no user: the connection belongs to another server."""


def _check_head(scope: Scope, limits: Limits) -> None:
    """Raise Refused for a head that is too large, or that gives two lengths of its body."""
    head_bytes = sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if head_bytes > limits.head_bytes:
        raise Refused(
            431,
            "head_too_large",
            f"the headers are larger than {limits.head_bytes} bytes",
            hint="send fewer or shorter headers",
        )
    if len(scope["path"]) + len(scope["query_string"]) > limits.path_bytes:
        raise Refused(
            414,
            "path_too_long",
            f"the path is longer than {limits.path_bytes} bytes",
            hint="send fewer or shorter parameters",
        )
    # A proxy before us could use the other one, and take the rest for another request.
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
        raise Refused(
            400,
            "bad_request",
            "the head has both Content-Length and Transfer-Encoding",
            hint="send one of them",
        )


async def _read_body(request: Request, limits: Limits, route: Route) -> bytes:
    """Read a body. Raises Refused if it is too large, or takes too long."""
    body = bytearray()
    most_bytes = limits.call_bytes if route.is_large else limits.body_bytes
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > most_bytes:
        raise _too_large(most_bytes)
    try:
        async with asyncio.timeout(limits.body_s) as bound:
            begun_s = asyncio.get_running_loop().time()
            async for chunk in request.stream():
                body += chunk
                if len(body) > most_bytes:
                    raise _too_large(most_bytes)
                # A large body gets this time for each part of it.
                bound.reschedule(begun_s + limits.body_s * (1 + len(body) // limits.body_bytes))
    except TimeoutError:
        raise Refused(
            408, "body_too_slow", f"the body took longer than {limits.body_s:g} s"
        ) from None
    return bytes(body)


def _too_large(most_bytes: int) -> Refused:
    return Refused(
        413,
        "body_too_large",
        f"the body is larger than {most_bytes} bytes",
        hint="send less in one request",
    )


def _api_request(request: Request, body: bytes, route: Route) -> ApiRequest:
    return read_request(
        route.operation,
        words=dict(request.path_params),
        query=request.query_params.multi_items(),
        headers=request.headers.items(),
        body=body,
        root=request.scope.get("root_path", ""),
        path=_path_of(request.scope),
    )


def _ending_unread(scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Wrap `receive` and `send` to end the connection if a body was not read to its end.

    Otherwise the server would read and drop the rest for as long as the client sends. A stranger
    gets one answer per connection.
    """
    is_read = not has_body(Headers(scope=scope))
    slot = _slot_of(scope)

    async def receive_noting() -> Message:
        nonlocal is_read
        message = await receive()
        is_read = is_read or not message.get("more_body", False)
        return message

    async def send_ending(message: Message) -> None:
        is_stranger = slot is not None and not slot.is_own
        if message["type"] == "http.response.start" and (is_stranger or not is_read):
            message["headers"] = [*message["headers"], (b"connection", b"close")]
        await send(message)

    return receive_noting, send_ending


def _response(answer: Answer) -> Response:
    return Response(
        answer.body,
        status_code=answer.status,
        headers={
            "cache-control": "no-store" if answer.status >= 400 else "no-cache",
            "x-content-type-options": "nosniff",
            **answer.headers,
        },
        media_type=answer.media_type,
    )


async def _answer_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, EdgecronError)
    return _response(error_answer(error))


async def _answer_no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name, message = {
        404: ("no_route", "there is nothing at this path"),
        405: ("wrong_method", f"this path does not support {request.method}"),
    }.get(error.status_code, ("refused", error.detail))
    hint = "for all paths: GET /api/v1/openapi.json"
    allowed = (error.headers or {}).get("Allow")
    if allowed:
        methods = ", ".join(sorted(re.findall(r"\w+", allowed)))
        hint = f"it supports {methods}; {hint}"
    return _response(
        error_answer(Refused(error.status_code, name, message, hint=hint, headers=error.headers))
    )


async def _answer_disconnect(_: Request, __: Exception) -> Response:
    # The client disconnected before the end of its request.
    return Response(status_code=400)


async def _answer_defect(_: Request, error: Exception) -> Response:
    # The server logs the traceback.
    return _response(
        error_answer(
            Refused(
                500,
                "defect",
                f"the request failed because of a defect in edgecron, {type(error).__name__}",
                hint="please report it with the lines of the server's log",
            )
        )
    )
