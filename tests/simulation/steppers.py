"""Processes of a virtual machine: each has a stack of its own, and one of them moves at a time.

A stepper is a thread that runs only while it was given the turn, and gives it back wherever it
sleeps or is made to pause, in the middle of a transaction too. Who moves next is decided by
whoever calls `resume`: a seeded scheduler, or a test.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Killed(BaseException):
    """The process is gone from here on. No handler of the code under test may stop it."""


class Stepper:
    """One process. `work` is what it does from its start to its end."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self.is_done = False
        self.is_killed = False
        self.error: BaseException | None = None  # that ended it, and is nobody's intention
        self.stalled_until_ms = 0  # by the time that truly passes
        self.is_due: Callable[[], bool] | None = None  # while it sleeps: whether it wakes
        self.wake_in_ms: Callable[[], int | None] = lambda: None
        self._work = work
        self._thread: threading.Thread | None = None
        self._turn = threading.Semaphore(0)
        self._back = threading.Semaphore(0)

    def resume(self) -> None:
        """Let it move until it pauses or ends. Raises what it ended by, unless it was killed."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name=self.name)
            self._thread.start()
        self._turn.release()
        self._back.acquire()
        if self.is_done:
            self._thread.join()
            if self.error is not None:
                raise self.error

    def pause(self) -> None:
        """Give the turn back; by the stepper itself. Raises Killed where it ended meanwhile."""
        self._back.release()
        self._turn.acquire()
        if self.is_killed:
            raise Killed(self.name)

    def kill(self) -> None:
        """SIGKILL, by whoever has the turn: it does nothing more."""
        self.is_killed = True
        if self._thread is None:
            self.is_done = True
        elif not self.is_done:
            self.resume()

    def _live(self) -> None:
        self._turn.acquire()
        try:
            if not self.is_killed:
                self._work()
        except Killed:
            self.is_killed = True
        except BaseException as error:  # noqa: BLE001 - raised where the turn goes back to
            self.error = error
        finally:
            self.is_done = True
            self._back.release()
