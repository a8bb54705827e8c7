"""What lets a subscriber hear of the runs of all engines."""

from __future__ import annotations

from tests.support.edits import Edit

from .hunts import STORIES, fails
from .mutation import Hunt, Mutation

ALL: tuple[Mutation, ...] = (
    Mutation(
        name="ends-of-known-runs",
        guard="the end of a run that was active at the look before is told",
        proves=("I25",),
        edits=(
            Edit(
                function="RunWatch._find_changed",
                old="sorted(gone | begun - self._ended)",
                new="sorted(begun - self._ended)",
            ),
        ),
        hunt=Hunt(tests=(STORIES,), says=fails("I25")),
    ),
    Mutation(
        name="starts-once",
        guard="a start is told once",
        proves=("I25",),
        edits=(
            Edit(
                function="RunWatch._tell",
                old="row.claimed_at is not None and _Told.STARTED not in told",
                new="row.claimed_at is not None",
            ),
        ),
        hunt=Hunt(tests=(STORIES,), says=fails("I25")),
    ),
)
