"""What is claimed in a pass of an engine, with ends, ahead of its time, or by the pass itself."""

from __future__ import annotations

from collections.abc import Callable

from edgecron.engine.claiming import Claiming
from edgecron.store.contract import ClaimBatch, Seat

Claim = Callable[[Seat, int], ClaimBatch]


class Batches:
    """Claims for an engine, and keeps what they did until its pass is counted and told.

    `replaced` has what a claim replaces ended, here and by peers.
    """

    def __init__(self, claiming: Claiming, *, replaced: Callable[[], object]) -> None:
        self._claiming = claiming
        self._replaced = replaced
        self._filled: list[ClaimBatch] = []  # claimed in this pass with the ends that made room
        self._ahead: list[ClaimBatch] = []  # claimed since the last pass
        self._untold: list[ClaimBatch] = []  # claimed in this pass, by it or with ends

    def begin(self) -> None:
        """A pass begins."""
        self._filled = []
        self._claiming.start_taken()  # where trouble kept it from being started

    def claim(self, claim: Claim) -> ClaimBatch:
        """Run one claim transaction, and start what it granted."""
        batch = self._claiming.take(claim)
        self._note(batch)
        return batch

    def claim_ahead(self, claim: Claim) -> ClaimBatch:
        """As `claim`, for what is due in a moment; see `Claiming.start_taken`."""
        batch = self._claiming.take_ahead(claim)
        self._ahead.append(batch)
        self._note(batch)
        return batch

    def note_filled(self, batch: ClaimBatch) -> None:
        """Note what was claimed with ends: it is of this pass."""
        self._note(batch)
        self._filled.append(batch)

    @property
    def has_filled(self) -> bool:
        """Whether free places were given to what is queued, with ends."""
        return bool(self._filled)

    def take_batches(self) -> list[ClaimBatch]:
        """What was claimed besides by the pass itself, once."""
        batches, self._filled, self._ahead = self._filled + self._ahead, [], []
        return batches

    def tell(self) -> None:
        """Tell of the claims of a pass: of a thousand, the last is not to wait for the others'
        lines in a log."""
        while self._untold:
            self._claiming.tell(self._untold.pop(0))

    def _note(self, batch: ClaimBatch) -> None:
        # It is told of before an end is, or with the pass.
        self._untold.append(batch)
        if batch.has_replaced:
            self._replaced()
