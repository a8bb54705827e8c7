"""Serve the API from a thread of this process, at a TCP address or a Unix socket."""

from __future__ import annotations

import re
import socket
import stat
import threading
from collections.abc import Collection
from enum import Enum
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.bundle import hint_for_extra
from edgecron.base.errors import InvalidInput, NotSupported, UsageError
from edgecron.base.files import MAKE
from edgecron.base.paths import HTTP_PLACE, Location, is_root, resolve_path
from edgecron.base.sockets import PROC, connect, listen, own_users, tells_users
from edgecron.base.values import NamedTuple
from edgecron.client.opening import find_state_dir
from edgecron.http.access import LOOPBACK, Guard, Limits
from edgecron.supervisor.state_files import prepare_state_dir

if TYPE_CHECKING:
    from edgecron.http.app import Application
    from edgecron.http.connections import Server


SOCKET_NAME = "http.sock"
_UNIX = "unix:"
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/\s]+):)?(?P<port>[0-9]{1,5})")
_LOCAL = "127.0.0.1"
_WAITING = 64  # connections that are not taken yet


class TcpPlace(NamedTuple):
    """An address and a port; 0 is any free port. `host` has no brackets."""

    host: str
    port: int

    @property
    def is_private(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False  # A name can mean another address tomorrow.


class UnixPlace(NamedTuple):
    """A socket in the file system, for its owner."""

    path: Path

    @property
    def is_private(self) -> bool:
        return True


Place = TcpPlace | UnixPlace


def read_place(text: str, *, database: Location) -> Place:
    """Read a place such as `8745`, `127.0.0.1:8745` or `unix:/run/edgecron.sock`.

    `unix:` without a path is a socket in the state folder of the database. Raises InvalidInput.
    """
    if text.startswith(_UNIX):
        given = text.removeprefix(_UNIX)
        if not given:
            return UnixPlace(find_state_dir(database) / SOCKET_NAME)
        return UnixPlace(resolve_path(given, what="--http"))
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise UsageError(
            f"--http is {text!r}, expected HOST:PORT or unix:PATH, with a port up to 65535",
            hint=_hint_for_place(text),
        )
    host = (found["host"] or _LOCAL).strip("[]")
    # As a number: a private place must not depend on name resolution.
    return TcpPlace(_LOCAL if host.lower() == "localhost" else host, int(found["port"]))


def bind(place: Place) -> socket.socket:
    """Return a non-blocking socket that listens at a place. Raises InvalidInput."""
    try:
        if isinstance(place, UnixPlace):
            return _bind_unix(place.path)
        return _bind_tcp(place)
    except OSError as error:
        raise InvalidInput(
            f"can't serve at {words(place)}: {error.strerror or error}",
            hint="another program might use it; give another port, such as --http 127.0.0.1:8746",
        ) from error


def words(place: Place, listener: socket.socket | None = None) -> str:
    """Write a place as a client takes it, with the port that was assigned."""
    if isinstance(place, UnixPlace):
        return f"{_UNIX}{place.path}"
    port = place.port if listener is None else listener.getsockname()[1]
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"http://{host}:{port}"


def _bind_tcp(place: TcpPlace) -> socket.socket:
    found = socket.getaddrinfo(
        place.host, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_WAITING)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _bind_unix(path: Path) -> socket.socket:
    if path.parent.name.endswith(".state"):
        prepare_state_dir(path.parent)
    _clear_left_socket(path)
    return listen(path)


def _clear_left_socket(path: Path) -> None:
    """Remove the socket of a dead server; keep a living one, and any other file."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
    except FileNotFoundError:
        return
    try:
        connect(path, timeout_s=1.0).close()
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)


_END_S = 10  # for the thread to end
_GRACE_S = 2  # for answers in progress


class Audience(Enum):
    """Say who can use a server, beyond /healthz and, on this machine, /metrics."""

    TOKEN = "everyone who has the token"
    SOCKET = "this user and root, by the permissions of its socket"
    OWN_USERS = "this user and root, by the user of each connection"
    ALL_USERS = "every user of this machine, as the system does not report the user of a connection"


def find_audience(place: Place, *, has_token: bool, proc: Path = PROC) -> Audience:
    """Return who can use a server at a place."""
    if has_token:
        return Audience.TOKEN
    if isinstance(place, UnixPlace):
        return Audience.SOCKET
    return Audience.OWN_USERS if tells_users(proc) else Audience.ALL_USERS


def _hint_for_place(text: str) -> str:
    if re.fullmatch(r"[\w.-]+", text) and not text.isdecimal():
        return f"give a port, such as --http {text}:{HTTP_PLACE.rpartition(':')[2]}"
    return f"such as --http {HTTP_PLACE}, or --http unix:"


def check_served(place: Place, *, has_token: bool, proc: Path = PROC) -> None:
    """Refuse a place that would be open to other machines, and a missing package.

    Other users of this machine can use a server only if the kernel does not tell users. They can
    never use a server of root: each of them would be root. Raises InvalidInput and NotSupported.
    """
    if not place.is_private and not has_token:
        raise InvalidInput(
            f"{words(place)} can be reached from other machines, whose users could run"
            " commands as you",
            hint=f"make a token, {MAKE}, and give --token-file FILE; or serve 127.0.0.1",
        )
    audience = find_audience(place, has_token=has_token, proc=proc)
    if is_root() and audience is Audience.ALL_USERS:
        raise InvalidInput(
            f"{words(place)} can be reached by every user of this machine, each of whom could run"
            " commands as root: without /proc, edgecron can't identify them",
            hint=f"make a token, {MAKE}, and give --token-file FILE; or serve --http unix:",
        )
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise NotSupported(
            "the HTTP API needs starlette and uvicorn, which are not installed",
            hint=hint_for_extra("http"),
        )


class HttpService:
    """The API of a database at a place. `start` binds, and raises InvalidInput if it can't.

    `users` are those whose connections are the owner's before any request (default: this user and
    root, if the kernel tells users).
    """

    def __init__(
        self,
        database: Location,
        place: Place,
        *,
        token: str | None,
        limits: Limits | None = None,
        users: Collection[int] | None = None,
    ) -> None:
        self._database = database
        self._place = place
        self._token = token
        self._limits = limits or Limits()
        self._users = users
        self.audience = find_audience(place, has_token=token is not None)
        self._listener: socket.socket | None = None
        self._server: Server | None = None
        self._application: Application | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The URL of the server, with the port that was assigned."""
        return words(self._place, self._listener)

    def start(self) -> None:
        """Bind, and serve from a thread."""
        import uvicorn

        from edgecron.http.app import Application, opener_of
        from edgecron.http.connections import Server

        self._listener = bind(self._place)
        guard = self._guard()
        self._application = Application(opener_of(self._database), guard=guard, limits=self._limits)
        config = uvicorn.Config(
            self._application,
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=self._limits.head_bytes,
        )
        self._server = Server(config, limits=self._limits, users=self._owners())
        self._thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [self._listener]},
            name="edgecron-http",
        )
        self._thread.start()

    def _owners(self) -> Collection[int] | None:
        """Return the users whose connections are the owner's from the start."""
        if self._users is not None:
            return self._users
        return own_users() if tells_users() else None

    def _guard(self) -> Guard:
        if self._token is not None or isinstance(self._place, UnixPlace):
            return Guard(token=self._token, hosts=None)
        users = own_users() if self.audience is Audience.OWN_USERS else None
        return Guard(hosts=(*LOOPBACK, self._place.host), users=users)

    def close(self) -> None:
        """Stop serving; answers in progress get two seconds. Closing twice is harmless."""
        if self._server is not None and self._thread is not None:
            self._server.stop()
            if self._application is not None:
                self._application.close()
            self._thread.join(_END_S)
        if self._listener is not None:
            self._listener.close()
            if isinstance(self._place, UnixPlace):
                self._place.path.unlink(missing_ok=True)
        self._server = self._thread = self._listener = None
