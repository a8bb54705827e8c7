"""One connection to a server: over TCP, TLS or a Unix socket."""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import suppress
from http.client import HTTPConnection

from edgecron.base.errors import ServerUnavailable
from edgecron.client.remote_server import PORTS, Server
from edgecron.supervisor.unix_sockets import connect

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
