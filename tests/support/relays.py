"""A relay of connections, as the far end of a tunnel, and one that loses answers."""

from __future__ import annotations

import select
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


class LosingRelay:
    """Passes connections on, and cuts off those over which something is asked: as soon as that is
    answered, and not passed on. `left` is how often it does so still, `lost` how often it did."""

    def __init__(self, port: int, *, word: bytes, times: int) -> None:
        self._port = port
        self._word = word
        self.left = times
        self.lost = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._serve)]

    def __enter__(self) -> LosingRelay:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        """What is connected is to be closed by then."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._relay, args=(near,))
            self._threads.append(thread)
            thread.start()

    def _relay(self, near: socket.socket) -> None:
        is_lost = False
        with closing(near), closing(socket.create_connection(("127.0.0.1", self._port))) as far:
            while True:
                source = select.select([near, far], [], [])[0][0]
                content = source.recv(65536)
                if not content or (source is far and is_lost):
                    return
                if source is near and self._word in content and self.left:
                    is_lost, self.left, self.lost = True, self.left - 1, self.lost + 1
                (far if source is near else near).sendall(content)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    while content := source.recv(65536):
        sink.sendall(content)
    sink.shutdown(socket.SHUT_WR)
