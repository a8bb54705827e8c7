"""Name a server, and keep its time: what `--url` stands for."""

from __future__ import annotations

import re
from pathlib import Path

from edgecron.base.errors import InvalidInput
from edgecron.base.paths import resolve_path
from edgecron.base.values import NamedTuple

DEFAULT_PLACE = "127.0.0.1:8745"  # where an engine serves the HTTP API
_UNIX = "unix:"
PORTS = {"http": 80, "https": 443}
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-fA-F:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<base>(?:/[\w.~-]+)*)/?",
    re.ASCII | re.IGNORECASE,
)
_LOOPBACK = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1", re.ASCII | re.IGNORECASE)


class Server(NamedTuple):
    """Where to ask. `path` is that of a Unix socket, else None; `base` comes before /api.

    `url` is how a person wrote it, and may be shown: there is no password in it.
    """

    url: str
    host: str
    port: int
    base: str
    is_tls: bool = False
    path: Path | None = None

    @property
    def is_open(self) -> bool:
        """Whether what is sent can be read on its way."""
        return self.path is None and not self.is_tls and _LOOPBACK.fullmatch(self.host) is None


def read_server(text: str, *, what: str = "--url") -> Server:
    """`http://pi:8745`, `https://jobs.example/edge`, `unix:/run/edgecron.sock`.

    Raises InvalidInput.
    """
    if text.startswith(_UNIX) and len(text) > len(_UNIX):
        path = resolve_path(text.removeprefix(_UNIX), what=what)
        return Server(f"{_UNIX}{path}", "", 0, "", path=path)
    found = _URL.fullmatch(text)
    port = int(found["port"] or PORTS[found["scheme"].lower()]) if found else 0
    if found is None or not 1 <= port <= 65_535:
        is_scheme_known = re.match("https?://", text, re.IGNORECASE) is not None
        # Never quoted: somebody may have written a password into it.
        raise InvalidInput(
            f"{what} is not an address of a server"
            + ("" if is_scheme_known else ": it does not begin with http://, https:// or unix:"),
            hint="such as http://pi:8745, https://jobs.example or unix:/run/edgecron.sock;"
            " a token is given with --token-file",
        )
    return Server(
        url=text.rstrip("/"),
        host=found["host"].strip("[]"),
        port=port,
        base=found["base"],
        is_tls=found["scheme"].lower() == "https",
    )
