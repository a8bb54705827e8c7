"""Where the API is served: an address and a port, or a Unix socket."""

from __future__ import annotations

import re
import socket
import stat
from ipaddress import ip_address
from pathlib import Path

from edgecron.base.errors import InvalidInput, UsageError
from edgecron.base.paths import resolve_path, state_dir
from edgecron.base.values import NamedTuple
from edgecron.supervisor.addresses import connect, listen
from edgecron.supervisor.files import prepare_state_dir

DEFAULT = "127.0.0.1:8745"
SOCKET_NAME = "http.sock"
_UNIX = "unix:"
_ADDRESS = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/\s]+):)?(?P<port>[0-9]{1,5})")
_LOCAL = "127.0.0.1"
_WAITING = 64  # connections that are not taken yet


class TcpPlace(NamedTuple):
    """An address and a port, 0 for any that is free. `host` has no brackets."""

    host: str
    port: int

    @property
    def is_private(self) -> bool:
        """Whether this machine alone reaches it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False  # Whatever a name means today, it may mean another place tomorrow.


class UnixPlace(NamedTuple):
    """A socket in the file system, for its owner alone."""

    path: Path

    @property
    def is_private(self) -> bool:
        return True


Place = TcpPlace | UnixPlace


def read_place(text: str, *, database: Path) -> Place:
    """`8745`, `127.0.0.1:8745`, `unix:/run/edgecron.sock`; `unix:` alone lies beside a database.

    Raises InvalidInput.
    """
    if text.startswith(_UNIX):
        given = text.removeprefix(_UNIX)
        if not given:
            return UnixPlace(state_dir(database) / SOCKET_NAME)
        return UnixPlace(resolve_path(given, what="--http"))
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise UsageError(
            f"--http is {text!r}, expected HOST:PORT or unix:PATH",
            hint=f"such as --http {DEFAULT}, or --http unix:",
        )
    host = (found["host"] or _LOCAL).strip("[]")
    # By its number: what serves this machine alone must not depend on how a name is looked up.
    return TcpPlace(_LOCAL if host.lower() == "localhost" else host, int(found["port"]))


def bind(place: Place) -> socket.socket:
    """A socket that listens there, blocking nobody. Raises InvalidInput where it can't."""
    try:
        if isinstance(place, UnixPlace):
            return _bind_unix(place.path)
        return _bind_tcp(place)
    except OSError as error:
        raise InvalidInput(
            f"nothing can be served at {words(place)}: {error.strerror or error}",
            hint="is another engine served there? give another place, such as --http 127.0.0.1:0",
        ) from error


def words(place: Place, listener: socket.socket | None = None) -> str:
    """A place as a person gives it to a client; with the port that it was given."""
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
    """Remove the socket of a server that has died; one that lives, or anything else, is left."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return
    except FileNotFoundError:
        return
    try:
        connect(path, timeout_s=1.0).close()
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
