"""The supervisor of an engine: there, and on record, before anything is claimed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.base.errors import SupervisorUnavailable
from edgecron.engine.events import EventKind
from edgecron.engine.liveruns import LiveRuns
from edgecron.engine.telling import Teller
from edgecron.model.choices import COMMAND_QUEUE

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


class Supervision:
    """Starts a supervisor where one is needed, and another one where that has died."""

    def __init__(self, *, store: Store, live: LiveRuns, teller: Teller) -> None:
        self._store = store
        self._live = live
        self._teller = teller
        self._noted_id: str | None = None
        self._is_lacking = False  # which was told

    @property
    def is_settled(self) -> bool:
        """Whether what answers for the next claim is as it is on record."""
        return not self._live.has_supervisor or self._live.supervisor_id == self._noted_id

    def drop_dead(self) -> bool:
        """Let go of supervisors that died; whether one has. What they ran is judged like that of
        any other."""
        dead = self._live.drop_dead()
        for runs in dead:
            self._teller.tell(EventKind.SUPERVISOR_DIED, details={"runs": runs})
        return bool(dead)

    def mind(self, engine_id: int, *, is_new: bool) -> None:
        """Have one where there is a command to run. `is_new`: there may be one since the last time.

        Raises SupervisorUnavailable where none can be started, and nothing runs without.
        """
        if is_new and not self._live.is_wanting and self._store.is_used(COMMAND_QUEUE):
            self._live.want_supervisor()
        if self._live.is_start_due():
            self._start()
        if not self.is_settled:
            # Before anything is claimed for it: nobody then clears its files away.
            self._store.note_supervisor(engine_id, self._live.supervisor_id)
            self._noted_id = self._live.supervisor_id

    def _start(self) -> None:
        try:
            self._live.start_supervisor()
        except (SupervisorUnavailable, OSError) as error:
            if not self._live.may_take:
                raise
            # Functions need none, and are not to wait for it.
            self._live.put_off()
            if not self._is_lacking:
                self._teller.tell(EventKind.SUPERVISOR_TROUBLE, details={"error": str(error)})
            self._is_lacking = True
        else:
            if self._is_lacking:
                self._teller.tell(EventKind.SUPERVISOR_WELL)
            self._is_lacking = False
