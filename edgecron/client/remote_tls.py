"""TLS for connections to a server: verify its certificate and its name."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.errors import ServerUnavailable

if TYPE_CHECKING:
    import socket

    from edgecron.client.remote_server import Server

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


def wrap_socket(link: socket.socket, server: Server) -> ssl.SSLSocket:
    """Start TLS on a connection.

    Raises ServerUnavailable if the certificate is not trusted, or the other side speaks no TLS.
    """
    context = create_context()
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


def create_context() -> ssl.SSLContext:
    """Trust what this system trusts, or only what SSL_CERT_FILE and SSL_CERT_DIR name."""
    context = ssl.create_default_context()
    if not any(name in os.environ for name in _CHOICES):
        for place in PLACES:
            # The file is missing, unreadable or without certificates: try the next one.
            with suppress(OSError):
                context.load_verify_locations(cafile=place)
                break
    return context
