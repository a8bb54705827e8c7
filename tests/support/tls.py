"""A proxy that speaks TLS before a server that does not, with a certificate of its own."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trustme

_PART = 65_536


def made_authority(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What speaks TLS as 127.0.0.1, and the file of who signed its certificate."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return context, file


@contextmanager
def behind_tls(context: ssl.SSLContext, port: int) -> Iterator[int]:
    """The port of a proxy before one of this machine."""
    links: list[socket.socket] = []
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def begin(work: threading.Thread) -> None:
            threads.append(work)
            work.start()

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                begin(threading.Thread(target=answer, args=(plain,)))

        def answer(plain: socket.socket) -> None:
            try:
                near = context.wrap_socket(plain, server_side=True)
            except OSError:  # Whoever came does not trust us, or speaks no TLS.
                plain.close()
                return
            far = socket.create_connection(("127.0.0.1", port))
            links.extend((near, far))
            begin(threading.Thread(target=_pump, args=(far, near)))
            _pump(near, far)

        begin(threading.Thread(target=serve))
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for link in links:
                _end(link)
            for work in threads:
                work.join(10)
            for link in links:
                link.close()


def _pump(from_: socket.socket, to: socket.socket) -> None:
    with suppress(OSError):
        while part := from_.recv(_PART):
            to.sendall(part)
    _end(to)


def _end(link: socket.socket) -> None:
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
