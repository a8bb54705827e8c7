"""An engine's place in the state folder: the lock that says it lives, and its doorbell."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from edgecron.engine.liveness import engine_lock_path, take_engine_lock
from edgecron.engine.wake import Doorbell
from edgecron.supervisor.files import prepare_state_dir
from edgecron.supervisor.forks import leave_in_children


class EnginePlace:
    """Taken when it is made, and kept until `close`, also where somebody deletes the folder.

    It is of the process that has made it: a child that is forked later has no part in it.
    """

    def __init__(self, state_dir: Path, key: str) -> None:
        self._state_dir = state_dir
        self._key = key
        self._pid = os.getpid()
        self._lock_fds = [take_engine_lock(state_dir, key)]
        try:
            self.doorbell = Doorbell(state_dir, key)
        except BaseException:
            self._let_go()
            raise
        leave_in_children(self)

    def leave_to_parent(self) -> None:
        if self._lock_fds:  # Else it was closed before: the numbers are others' by now.
            self.doorbell.leave()
            self._close_locks()

    def keep(self) -> bool:
        """Take the place again where its files have gone; whether they had.

        Others find the lock that was deleted as long as it is open. Raises OSError, or
        SupervisorUnavailable, where it can't be taken.
        """
        if self._is_there():
            return False
        prepare_state_dir(self._state_dir)
        self._lock_fds.append(take_engine_lock(self._state_dir, self._key))
        self.doorbell.renew()
        return True

    def close(self) -> None:
        """Leave it. What can't be removed, as from a folder that is closed by now, is left to
        others: it is as if we had been killed. Nothing in a child."""
        if os.getpid() != self._pid or not self._lock_fds:
            return
        self.doorbell.close()
        self._let_go()

    def _is_there(self) -> bool:
        try:
            found = os.lstat(engine_lock_path(self._state_dir, self._key))
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(self._lock_fds[-1]))

    def _let_go(self) -> None:
        with suppress(OSError):
            engine_lock_path(self._state_dir, self._key).unlink(missing_ok=True)
        self._close_locks()

    def _close_locks(self) -> None:
        while self._lock_fds:
            os.close(self._lock_fds.pop())
