"""TLS: a connection to a server whose name somebody vouches for whom this system trusts.

OpenSSL looks for those where the system keeps them that it was built for. The single binary brings
its own OpenSSL along, and runs on others.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.base.errors import ServerUnavailable

if TYPE_CHECKING:
    import socket

    from edgecron.client.remote_server import Server

# The places that Go's crypto/x509 knows for Linux, in its order.
PLACES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine, OpenWrt
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/pki/tls/cacert.pem",  # OpenELEC
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # newer Fedora and RHEL
    "/etc/ssl/cert.pem",  # Alpine, FreeBSD, macOS
)
# What OpenSSL finds in a folder: a hash of the name, and a number.
_HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+", re.ASCII)
_NAME_IT = "SSL_CERT_FILE=FILE edgecron ..."


def wrapped(link: socket.socket, server: Server) -> ssl.SSLSocket:
    """A connection over TLS, to whom a certificate of the right name names.

    Raises ServerUnavailable where there is none that is trusted, or no TLS at all.
    """
    context = made_context()
    try:
        return context.wrap_socket(link, server_hostname=server.host)
    except ssl.SSLCertVerificationError as error:
        link.close()
        hint = f"where it is your own, name it, or who signed it: {_NAME_IT}"
        if not knows_any(context):
            hint = f"this machine names nobody to trust: install ca-certificates, or {_NAME_IT}"
        raise ServerUnavailable(
            f"the certificate of {server.url} is not trusted: {error.verify_message}", hint=hint
        ) from error
    except ssl.SSLError as error:
        link.close()
        raise ServerUnavailable(
            f"{server.url} does not speak TLS, or not ours: {error.reason or error}",
            hint="edgecron itself serves plain http: give http://, or the address of the proxy"
            " that speaks https before it",
        ) from error


def made_context(*, places: Sequence[str] = PLACES) -> ssl.SSLContext:
    """What a client speaks TLS by: it asks for a certificate of the right name, which somebody
    signed whom this system trusts.

    SSL_CERT_FILE and SSL_CERT_DIR are read by OpenSSL; nothing is set in the environment.
    """
    context = ssl.create_default_context()
    if not knows_any(context):
        load_first(context, places=places)
    return context


def knows_any(context: ssl.SSLContext) -> bool:
    """Whether there is anybody that a certificate may be signed by, or somebody has named a place
    for them, which no other stands in for."""
    return context.cert_store_stats()["x509"] > 0 or not is_without_authorities(
        ssl.get_default_verify_paths(), environ=os.environ
    )


def is_without_authorities(default: ssl.DefaultVerifyPaths, *, environ: Mapping[str, str]) -> bool:
    """Whether OpenSSL's own folder, which it reads only where it needs one of them, has none."""
    if {default.openssl_cafile_env, default.openssl_capath_env} & environ.keys():
        return False
    try:
        return not any(map(_HASHED.fullmatch, os.listdir(default.openssl_capath)))
    except OSError:
        return True


def load_first(context: ssl.SSLContext, *, places: Sequence[str]) -> None:
    """Trust those that the first file names which has any; where none has, nobody."""
    for place in places:
        # Not there, not for us to read, or no certificates: there are others.
        with suppress(OSError):
            context.load_verify_locations(cafile=place)
            return
