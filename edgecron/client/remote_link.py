"""A server, as `--url` names it: wait for it, and connect over TCP, TLS or a Unix socket."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, RemoteDisconnected
from pathlib import Path
from typing import Any

from edgecron.base.errors import (
    AccessRefused,
    InvalidInput,
    QueryInterrupted,
    ServerLost,
    ServerUnavailable,
    ServerUnheard,
)
from edgecron.base.paths import resolve_path
from edgecron.base.sockets import connect
from edgecron.base.values import NamedTuple

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
        # Never quoted: it can hold a password.
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


class ServerWait:
    """Wait for a server that stops and comes back, once it has answered.

    `report` is called once when the server is lost, and once when it answers again. `is_on` says
    whether to wait still.
    """

    def __init__(
        self, report: Callable[[str], object], *, is_on: Callable[[], bool] = lambda: True
    ) -> None:
        self._report = report
        self._is_on = is_on
        self._has_answered = False
        self._is_lost = False  # and reported

    def must_wait(self, loss: str) -> bool:
        """Return whether to wait for a server that was lost."""
        if not (self._has_answered and self._is_on()):
            return False
        if not self._is_lost:
            self._report(f"{loss}; waiting until it is back")
        self._is_lost = True
        return True

    def note_answer(self, place: str) -> None:
        self._has_answered = True
        if self._is_lost:
            self._report(f"{place} answers again")
            self._is_lost = False


_CONNECT_S = 3.0
_ANSWER_S = 60.0  # between two parts of an answer
_UNREACHABLE_S = 9  # after which the kernel gives up a connection
# Files of trusted certificates on Linux, from Go's crypto/x509. The single binary brings its own
# OpenSSL, which does not know the places of the system on which it runs.
PLACES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine, OpenWrt
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/pki/tls/cacert.pem",  # OpenELEC
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # newer Fedora and RHEL
    "/etc/ssl/cert.pem",  # Alpine, FreeBSD, macOS
)
_CHOICES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # OpenSSL reads them itself
_NAME_IT = "SSL_CERT_FILE=FILE edgecron ..."


class NothingThere(ServerUnavailable):
    """A server has nothing at a path: its version is older, or the address is wrong."""


class Link(HTTPConnection):
    """A connection of the standard library, also over a Unix socket."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.host or "localhost", server.port or PORTS["http"])
        self.default_port = PORTS["https" if server.is_tls else "http"]
        self._server = server
        # `sock` is cleared before the body of an answer after which the server closes is read.
        self.latest: socket.socket | None = None

    def connect(self) -> None:
        server = self._server
        if server.path is not None:
            link = connect(server.path, timeout_s=_CONNECT_S)
        else:
            link = socket.create_connection((server.host, server.port), timeout=_CONNECT_S)
            _notice_loss(link)
            if server.is_tls:
                link = _start_tls(link, server)
        link.settimeout(_ANSWER_S)
        self.sock = self.latest = link


def _notice_loss(link: socket.socket) -> None:
    """Let the kernel find out within seconds that the other machine is gone."""
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 3),
        ("TCP_KEEPINTVL", 2),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _UNREACHABLE_S * 1000),
    ):
        if hasattr(socket, name):
            with suppress(OSError):
                link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _start_tls(link: socket.socket, server: Server) -> ssl.SSLSocket:
    """Start TLS on a connection.

    Raises ServerUnavailable if the certificate is not trusted, or the other side speaks no TLS.
    """
    context = _create_context()
    try:
        return context.wrap_socket(link, server_hostname=server.host)
    except ssl.SSLCertVerificationError as error:
        link.close()
        raise ServerUnavailable(
            f"the certificate of {server.url} is not trusted: {error.verify_message}",
            hint=f"if the certificate is your own, name it or its issuer: {_NAME_IT}; if this"
            " machine trusts no issuer, install ca-certificates",
        ) from error
    except ssl.SSLError as error:
        link.close()
        raise ServerUnavailable(
            f"{server.url} does not speak TLS, or only an old version: {error.reason or error}",
            hint="edgecron itself serves http: give http://, or the address of a proxy that"
            " speaks https",
        ) from error


def _create_context() -> ssl.SSLContext:
    """Trust what this system trusts, or only what SSL_CERT_FILE and SSL_CERT_DIR name."""
    context = ssl.create_default_context()
    if not any(name in os.environ for name in _CHOICES):
        for place in PLACES:
            # The file is missing, unreadable or without certificates: try the next one.
            with suppress(OSError):
                context.load_verify_locations(cafile=place)
                break
    return context


# About a change that the server may have received.
NOT_KNOWN = "it is unknown whether the server did it"
LOOK = "check first; repeat the command if the server did not do it"
_REFUSED = (401, 403)
_BEHIND = (502, 503, 504)  # a proxy answers, but not the server behind it


def judge(url: str, *, status: int, body: bytes, has_token: bool, is_write: bool) -> bytes:
    """Return the body of an answer if it comes from an edgecron, even if it is an error of ours.

    `is_write`: the request changes something. Raises AccessRefused if a token is needed, ServerLost
    if the server might be back soon, and ServerUnavailable if it is not an edgecron we can talk to.
    """
    if 200 <= status < 300:
        return body
    error = _error_in(body)
    if error is None and status in _BEHIND:
        words = f"{url} answers with status {status}: it is a proxy, and the server"
        words += " behind it does not answer"
        if is_write:  # The server may only be slow.
            raise ServerLost(f"{words}; {NOT_KNOWN}", hint=LOOK)
        raise ServerLost(words, hint="start a server there: edgecron daemon --http")
    if error is None:
        raise ServerUnavailable(
            f"{url} is not an edgecron server: it answers with status {status}",
            hint="give the address that the daemon's --http has",
        )
    if error.get("code") == "overloaded":
        # The server is busy or stopping, and has not begun with the request.
        raise ServerUnheard(f"{url} does not answer: {error.get('message')}")
    if error.get("code") == QueryInterrupted.code:
        # A server that stops interrupts its requests, at any point of a change.
        words = f"{url} stopped before it completed the request"
        raise ServerLost(f"{words}; {NOT_KNOWN}" if is_write else words, hint=LOOK)
    if status in _REFUSED and "type" not in error:
        raise _refusal(url, error, has_token=has_token)
    if error.get("code") in ("no_route", "wrong_method"):
        raise NothingThere(
            f"{url} is an edgecron server, but it has nothing at this path",
            hint="give the address that the daemon's --http has, without a path; if that is right,"
            " use the same version on both machines",
        )
    return body


def _refusal(url: str, error: dict[str, Any], *, has_token: bool) -> AccessRefused:
    if error.get("code") == "other_user":
        return AccessRefused(
            f"{url} refused access: {error.get('message')}",
            hint="run the command as one of these users; or start the daemon with a token, and use"
            " --token-file FILE",
        )
    if not has_token:
        return AccessRefused(
            f"{url} needs a token",
            hint="give the token of its daemon: --token-file FILE",
        )
    return AccessRefused(
        f"{url} refused access: {error.get('message') or 'the token is wrong'}",
        hint="check that --token-file names the token of its daemon",
    )


def _error_in(body: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = content.get("error") if isinstance(content, dict) else None
    return error if isinstance(error, dict) else None


def connection_error(
    server: Server, error: OSError, *, is_write: bool, may_be_heard: bool
) -> ServerLost:
    """Return the error for a connection that failed.

    `may_be_heard`: some of the request was sent.
    """
    words = f"{server.url} {_os_words(error)}"
    if is_write and may_be_heard:
        return ServerLost(f"{words}; {NOT_KNOWN}", hint=LOOK)
    kind = ServerLost if may_be_heard else ServerUnheard
    if server.path is not None:
        hint = f"start a server there: edgecron daemon --http unix:{server.path}"
    elif isinstance(error, socket.gaierror):
        hint = "check the name of the host"
    elif isinstance(error, ConnectionResetError) and not server.is_tls:
        hint = "if the server speaks https, give https://"
    else:
        hint = "start a server there: edgecron daemon --http; or check the port"
    return kind(words, hint=hint)


def _os_words(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "can't be reached: its name is unknown"
    if isinstance(error, TimeoutError):
        return "does not answer"
    if isinstance(error, RemoteDisconnected):
        return "closed the connection without an answer"
    return f"can't be reached: {(error.strerror or str(error)).lower()}"
