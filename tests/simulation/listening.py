"""A program without an engine, which subscribes to the events of all engines of the database."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from edgecron.client import Client
from edgecron.embedding.events import PendingEvent
from edgecron.embedding.run_watch import RunWatch
from tests.simulation.machine import Machine

_ACTIVE = ("queued", "running")


class Listener:
    """Hears of the runs when it looks, and is judged by what it heard."""

    def __init__(self, machine: Machine) -> None:
        self._client = Client(machine.location, clock=machine.clock)
        self._heard: dict[int, list[str]] = {}
        self._watch = RunWatch(
            lend=lambda: nullcontext(self._client),
            open_client=lambda: self._client,
            deliver=self._hear,
            is_needed=lambda: False,  # It has no thread: it looks when it is told.
            clock=machine.clock,
        )
        self._watch.look_now()

    def _hear(self, pending: PendingEvent) -> None:
        assert pending.event.execution_id is not None
        self._heard.setdefault(pending.event.execution_id, []).append(pending.kind)

    def look(self) -> None:
        self._watch.look_now()

    def check(self, rows: Mapping[int, dict[str, Any]]) -> None:
        """I25: it heard once of each start and once of each end of these runs, in this order."""
        for id_, row in rows.items():
            heard = [kind for kind in self._heard.get(id_, ()) if kind != "owed"]
            ends = [kind for kind in heard if kind != "started"]
            end = "skipped" if row["status"] == "skipped" else "finished"
            assert ends == ([] if row["status"] in _ACTIVE else [end]), f"I25 {row}: {heard}"
            # A run can be queued again after a claim of which it has heard.
            starts = len(heard) - len(ends)
            assert starts == 1 or (starts == 0 and row["claimed_at"] is None), f"I25 {row}: {heard}"
            assert "started" not in heard[1:], f"I25 {row}: {heard}"

    def close(self) -> None:
        self._client.close()
