"""An engine whose runs end at once: what is left is deciding, claiming, and writing ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from edgecron.base.clock import Clock
from edgecron.base.paths import Location, ServerUrl, state_dir
from edgecron.engine.loop import Loop
from edgecron.engine.other_engines import LocalEngines
from edgecron.engine.presence import EngineIdentity, EngineSettings
from edgecron.engine.runners import Runners
from edgecron.engine.sleep import system_sleeper, watch_writes
from edgecron.engine.state_folder import EngineFiles
from edgecron.engine.step import Engine
from edgecron.model.choices import JobKind, Status
from edgecron.model.run import Claim, Outcome, Reported, Stall
from edgecron.planning.retention import UNLIMITED
from edgecron.store.sqlite.store import SqliteStore, open_store
from edgecron.supervisor.state_files import lock_path, prepare_state_dir, take_lock


class InstantRunner:
    """Says of all that it is given that it went well.

    It reports no end while `holds_ends` says so. `seen` hears of each batch of claims. It holds a
    supervisor's lock, so that nobody judges what it runs.
    """

    def __init__(
        self,
        clock: Clock,
        seen: Callable[[Sequence[Claim]], object],
        *,
        folder: Path,
        holds_ends: Callable[[], bool],
    ) -> None:
        self.supervisor_id = os.urandom(8).hex()
        self._lock = lock_path(folder, self.supervisor_id)
        self._lock_fd = take_lock(self._lock)
        self.kinds = frozenset(JobKind)
        self.is_alive = True
        self.failure = None
        self.places = None
        self.wake_ms = None
        self._clock = clock
        self._seen = seen
        self._holds_ends = holds_ends
        self._outcomes: list[Outcome] = []
        self._fds = os.pipe()

    @property
    def live_count(self) -> int:
        return len(self._outcomes)

    def fileno(self) -> int:
        return self._fds[0]

    def start(self, claims: Sequence[Claim]) -> None:
        self._seen(claims)
        now_ms = self._clock.now_ms()
        self._outcomes += [
            Outcome(
                execution_id=claim.execution_id,
                lease_token=claim.lease_token,
                status=Status.SUCCESS,
                reason=None,
                exit_code=0,
                started_ms=now_ms,
                finished_ms=now_ms,
                duration_ms=0,
            )
            for claim in claims
        ]

    def collect(self) -> list[Outcome]:
        if self._holds_ends():
            return []
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def lose(self, token: str, message: str) -> None:
        """No run here has conditions."""

    def suspend(self, token: str) -> None:
        """No run here has conditions."""

    def resume(self, token: str) -> None:
        """No run here has conditions."""

    def take_progress(self) -> list[Reported]:
        return []

    def take_stalls(self) -> list[Stall]:
        return []

    def acknowledge(self, tokens: Sequence[str]) -> None: ...

    def cancel(self, token: str) -> None: ...

    def stop(self) -> None: ...

    def close(self) -> None:
        self._lock.unlink(missing_ok=True)
        for fd in (*self._fds, self._lock_fd):
            os.close(fd)


def _open(database: Location, clock: Clock) -> SqliteStore:
    """Open a file, or the database of a server, whose store has the same methods."""
    if not isinstance(database, ServerUrl):
        return open_store(database, now_ms=clock.now_ms())
    from edgecron.store.postgres.store import open_store as open_server  # its driver is an extra

    return cast("SqliteStore", open_server(database.full, now_ms=clock.now_ms()))


class EngineRig:
    """An engine on a database, stepped by hand or run by its loop. Others see that it lives."""

    def __init__(
        self,
        database: Location,
        clock: Clock,
        *,
        places: int = 100_000,
        seen: Callable[[Sequence[Claim]], object] = lambda claims: None,
    ) -> None:
        self.store: SqliteStore = _open(database, clock)
        clock = self.store.clock_for(clock)
        folder = prepare_state_dir(state_dir(self.store.path))
        key = os.urandom(8).hex()
        self._place = EngineFiles(folder, key)
        self.holds_ends = False  # While it is True, no run ends.
        runner = InstantRunner(clock, seen, folder=folder, holds_ends=lambda: self.holds_ends)
        settings = EngineSettings(max_running=places, retention=UNLIMITED)
        self.engine = Engine(
            settings,
            EngineIdentity(key, os.getpid(), machine=f"bench{os.getpid()}"),
            store=self.store,
            clock=clock,
            others=LocalEngines(folder, boot_id=clock.boot_id(), key=key, clock=clock),
            runners=Runners(lambda: runner, clock=clock),
            report=lambda event: None,
        )
        self.engine.tidy()  # As before its first sleep: commits do not move the log any more.
        sleeper = system_sleeper(clock)
        self.loop = Loop(
            self.engine,
            settings,
            clock=clock,
            sleeper=sleeper,
            files=self._place,
            write_watch=watch_writes(database, self.store, hears_all=False),
        )
        self._sleeper = sleeper

    def close(self) -> None:
        self.loop.close()
        self._sleeper.close()
        self.engine.close()
        self.store.close()
        self._place.close()
