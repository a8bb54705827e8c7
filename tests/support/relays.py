"""A relay of connections, as the far end of a tunnel."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager


@contextmanager
def relaying(port: int) -> Iterator[int]:
    """Pass one connection on to a port of this machine; gives the port to ask in its place."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=_relay, args=(listener, port))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            thread.join()


def _relay(listener: socket.socket, port: int) -> None:
    taken, _ = listener.accept()
    with closing(taken), closing(socket.create_connection(("127.0.0.1", port))) as made:
        back = threading.Thread(target=_pass_on, args=(made, taken))
        back.start()
        _pass_on(taken, made)
        back.join()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    while content := source.recv(65536):
        sink.sendall(content)
    sink.shutdown(socket.SHUT_WR)
