"""Runners take claims and return outcomes. They never see the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edgecron.base.values import dataclass
from edgecron.model.choices import JobKind
from edgecron.model.run import Claim, Outcome, Reported, Stall

THREADS = "threads"  # the supervisor id of runs on the engine's own threads
RESERVE_MS = 250  # the time for which a claim waits for a place of its runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A run of which a runner owes the outcome."""

    execution_id: int
    lease_token: str
    ok_codes: tuple[int, ...]


class Runner(Protocol):
    """The interface of a runner. For one thread."""

    supervisor_id: str  # THREADS if it has no supervisor

    @property
    def places(self) -> int | None:
        """How many claims it has started at the same time, at most; None: it starts all of them."""

    @property
    def kinds(self) -> frozenset[JobKind]:
        """The jobs it can run."""

    @property
    def is_alive(self) -> bool:
        """False once no more outcomes come: recovery then decides on the live runs."""

    @property
    def failure(self) -> str | None:
        """Why it is no longer alive, if it reported that."""

    @property
    def live_count(self) -> int:
        """The number of started claims without a collected outcome."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when `collect` or `is_alive` has news."""

    def start(self, claims: Sequence[Claim]) -> None:
        """Run these claims, each token once. A start that fails is an outcome.

        Claims beyond `places` wait until one is free, for RESERVE_MS at most. Then their outcome
        has the flag `given_back`, and they can be queued again.
        """

    def collect(self) -> list[Outcome]:
        """Return the outcomes since the last call, without waiting.

        A run with the flag `not_started` can be queued again. Outcomes are kept for recovery until
        they are acknowledged.
        """

    @property
    def wake_ms(self) -> int | None:
        """How long until `collect` has news that `fileno` does not show; None: none will come."""

    def take_progress(self) -> list[Reported]:
        """Return the newest progress of each run that reported some since the last call.

        If there was some, call again later; if not, `fileno` becomes readable for the next one.
        """

    def take_stalls(self) -> list[Stall]:
        """Return the runs that stalled, as of the last `collect`.

        A run can be returned again after another engine has adopted it.
        """

    def acknowledge(self, tokens: Sequence[str]) -> None:
        """Report that the outcomes of these tokens are on record."""

    def cancel(self, token: str) -> None:
        """End a run; its outcome follows. A run that has ended stays as it is."""

    def lose(self, token: str, message: str) -> None:
        """End a run whose condition was lost; its outcome follows, `cancelled` for `condition`."""

    def suspend(self, token: str) -> None:
        """Stop a run for a while; its timeout does not count that time. A function continues."""

    def resume(self, token: str) -> None:
        """Let a run continue."""

    def stop(self) -> None:
        """End all runs; their outcomes follow, `cancelled` for `shutdown`."""

    def close(self) -> None:
        """Send the rest and disconnect. Runs continue, and recovery finds their ends.

        To end them first, call `stop`, then `collect` until `live_count` is 0.
        """
