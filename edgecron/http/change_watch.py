"""Tell clients that the database has changed: one thread checks, while any client asks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.base.errors import EdgecronError

if TYPE_CHECKING:
    from edgecron.client import Client


_LOOK_S = 0.25
_MOST_LOOKS = 40  # without a request in between; then the thread ends
_BASE_BITS = 48


class ChangeWatch:
    """Checks a database from the first request until some time after the last one.

    A mark is the same for all threads of the server.
    """

    def __init__(self, opened: Callable[[], Client]) -> None:
        self._opened = opened
        self._bell = threading.Condition()
        self._thread: threading.Thread | None = None
        self._mark: int | None = None
        self._error: EdgecronError | None = None
        self._looks = 0
        self._is_closed = False

    def mark(self) -> int:
        """Return a number that changes with each commit, and after a time without checks.

        Raises what the checking Client raises.
        """
        with self._bell:
            self._looks = 0
            if self._thread is None and not self._is_closed:
                self._mark = self._error = None
                self._thread = threading.Thread(target=self._look, name="edgecron-http-watch")
                self._thread.start()
            self._bell.wait_for(
                lambda: self._mark is not None or self._error is not None or self._is_closed
            )
            if self._error is not None:
                raise self._error
            return self._mark or 0

    def close(self) -> None:
        """End the thread. Closing twice is harmless."""
        with self._bell:
            self._is_closed = True
            self._bell.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _look(self) -> None:
        try:
            with self._opened() as client:
                self._follow(client)
        except EdgecronError as error:
            with self._bell:
                self._error = error
        finally:
            with self._bell:
                self._thread = None
                self._bell.notify_all()

    def _follow(self, client: Client) -> None:
        seen = client.change_mark()
        with self._bell:
            # A mark that no client has seen: changes since the last thread are unknown.
            self._mark = int.from_bytes(os.urandom(_BASE_BITS // 8))
            self._bell.notify_all()
        while True:
            with self._bell:
                self._looks += 1
                if self._is_closed or self._looks > _MOST_LOOKS:
                    return
                self._bell.wait_for(lambda: self._is_closed, timeout=_LOOK_S)
            found = client.change_mark()
            if found != seen:
                seen = found
                with self._bell:
                    self._mark = (self._mark or 0) + 1
