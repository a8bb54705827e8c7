"""Runners take claims and give outcomes; they never see the database.

callables.py     functions of the program itself, on worker threads (threads.py) or a loop
calls.py         what they are called with, and callends.py how that ended
command.py       commands and shell lines, by the supervisor
accounts.py      who it runs as
environment.py   what a command finds in its environment
reports.py       what functions report while they run: their progress, changes of state
results.py       what a command has left as its result, and what may come with it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edgecron.base.values import dataclass
from edgecron.model.choices import JobKind
from edgecron.model.claim import Claim, Outcome
from edgecron.model.reports import Reported

THREADS = "threads"  # in the place of a supervisor's id: what runs on the engine's own threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A running execution that a runner answers for."""

    execution_id: int
    lease_token: str
    ok_codes: tuple[int, ...]


class Runner(Protocol):
    """What the engine asks of a runner. For one thread."""

    supervisor_id: str  # what its runs answer to; THREADS where that is no supervisor

    @property
    def kinds(self) -> frozenset[JobKind]:
        """The jobs it can run."""

    @property
    def is_alive(self) -> bool:
        """False once nothing more will come: what is still live is a matter for recovery."""

    @property
    def failure(self) -> str | None:
        """Why it is no longer alive, where it said so."""

    @property
    def live_count(self) -> int:
        """Claims that were taken and whose outcome was not collected."""

    def fileno(self) -> int:
        """A descriptor that is readable when `collect` has something, or `is_alive` has changed."""

    def start(self, claims: Sequence[Claim]) -> None:
        """Run these, each token once. What can't be started is an outcome like any other."""

    def collect(self) -> list[Outcome]:
        """The runs that ended since, without waiting. Flag `not_started`: it may be queued again.

        Outcomes are kept for recovery until they are acknowledged.
        """

    def take_progress(self) -> list[Reported]:
        """How far runs are that said so since the last time, the newest of each.

        Where there was some, the next is to be looked for; where not, `fileno` tells of it.
        """

    def acknowledge(self, tokens: Sequence[str]) -> None:
        """Say that the outcomes of these tokens are on record."""

    def cancel(self, token: str) -> None:
        """Have a run ended: its outcome follows. One that has ended meanwhile is left as it is."""

    def stop(self) -> None:
        """Have all runs ended: their outcomes follow, `cancelled` for `shutdown`."""

    def close(self) -> None:
        """Let go: what runs goes on without us, and its end stays on record for recovery.

        What waits to be sent is sent. To end all first: `stop`, then collect until `live_count`
        is 0.
        """
