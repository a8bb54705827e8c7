"""Functions that outlive their engine, as where it died: their ends are written all the same."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import DatabaseGone, EdgecronError, SchemaTooNew
from edgecron.engine.place import EnginePlace
from edgecron.engine.wake import ring_engines
from edgecron.model.claim import Outcome
from edgecron.store.sqlite import open_store
from edgecron.supervisor.flags import Flag
from edgecron.supervisor.runner import Runner

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_PAUSES_S = (1, 5, 15, 60)  # while ends can't be written; then they are given up

_KEPT: set[Leftover] = set()


class Leftover:
    """Waits for functions whose runner was closed, on a thread of its own.

    The lock of their engine is kept until the last has ended: until then nobody takes one for
    dead. The thread is a daemon, and nobody joins it: what it waits for may never return. Where the
    process ends first, they are `interrupted`.
    """

    def __init__(
        self,
        runner: Runner,
        *,
        database: Path,
        state_dir: Path,
        place: EnginePlace,
        engine_id: int,
        clock: Clock,
    ) -> None:
        self._runner = runner
        self._database = database
        self._state_dir = state_dir
        self._place = place
        self._engine_id = engine_id
        self._clock = clock

    def start(self) -> None:
        """Begin to wait. Where no thread can be had, the lock is kept, and no end is written."""
        _KEPT.add(self)
        threading.Thread(target=self._run, name="edgecron-leftover", daemon=True).start()

    def _run(self) -> None:
        try:
            self._write_ends()
        finally:
            self._place.close()
            _KEPT.discard(self)
            ring_engines(self._state_dir)

    def _write_ends(self) -> None:
        poll = select.poll()
        poll.register(self._runner.fileno(), select.POLLIN)
        while True:
            outcomes = self._runner.collect()
            is_last = not self._runner.live_count
            if (outcomes or is_last) and not self._write(outcomes, is_last=is_last):
                return
            if is_last:
                return
            poll.poll()

    def _write(self, outcomes: Sequence[Outcome], *, is_last: bool) -> bool:
        """Put ends on record; whether that could be done."""
        for pause_s in (*_PAUSES_S, None):
            try:
                now_ms = self._clock.now_ms()
                store = open_store(self._database, now_ms=now_ms, must_exist=True)
                try:
                    self._put_down(store, outcomes, now_ms=now_ms)
                    if is_last:
                        store.retire_engine(self._engine_id, now_ms=now_ms)
                finally:
                    store.close()
            except (DatabaseGone, SchemaTooNew):
                return False
            except (EdgecronError, OSError):
                if pause_s is not None:
                    time.sleep(pause_s)
            else:
                ring_engines(self._state_dir)
                return True
        return False

    def _put_down(self, store: Store, outcomes: Sequence[Outcome], *, now_ms: int) -> None:
        unbegun = {one.lease_token for one in outcomes if Flag.NOT_STARTED in one.flags}
        store.finish([one for one in outcomes if one.lease_token not in unbegun], now_ms=now_ms)
        for row in store.find_running() if unbegun else ():
            if row.lease_token in unbegun:
                store.requeue(row, now_ms=now_ms)
