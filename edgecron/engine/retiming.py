"""Stored times put right, schedule by schedule, in slices that let the engine keep serving."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import SENSELESS
from edgecron.engine.catalogue import Catalogue
from edgecron.engine.events import EventKind
from edgecron.engine.telling import Teller
from edgecron.planning.corrections import KeptTimes, Retimed
from edgecron.planning.next_fire import Timing

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_SLICE = 256  # ids that one look at the database spans
# What one step looks at, and what it plans at most: about 50 ms.
_MOST_IDS = 65_536
_MOST_FOUND = 512
_TRIES = 5  # of changes that peers are quicker than

Find = Callable[[range], list[KeptTimes]]
Plan = Callable[[Timing | None, KeptTimes], Retimed | None]


class Retiming:
    """Sweeps over all schedules, each of which gives new times to those that it finds.

    A sweep that takes longer than a step continues with the next one, from where it was.
    """

    def __init__(self, *, store: Store, clock: Clock, catalogue: Catalogue, teller: Teller) -> None:
        self._store = store
        self._clock = clock
        self._catalogue = catalogue
        self._teller = teller
        self._next_ids: dict[str, int] = {}  # of the sweeps that are unfinished

    @property
    def is_unfinished(self) -> bool:
        """Whether a sweep has not come to the last schedule yet."""
        return bool(self._next_ids)

    def has_begun(self, name: str) -> bool:
        """Whether a sweep has passed some schedules and not all."""
        return name in self._next_ids

    def restart(self) -> None:
        """Have every unfinished sweep begin again: what its plans went by has changed."""
        self._next_ids.clear()

    def sweep(self, name: str, find: Find, plan: Plan, *, reason: str) -> bool:
        """Give all schedules that are found the times that are planned.

        False if that is unfinished, because it takes longer than a step or because peers were
        quicker.
        """
        next_id = self._next_ids.pop(name, 1)
        end_id = next_id + _MOST_IDS
        last_id = self._store.find_last_schedule_id()
        count = tries = 0
        while next_id <= last_id and next_id < end_id and count < _MOST_FOUND and tries < _TRIES:
            ids = range(next_id, next_id + _SLICE)
            found = find(ids)
            count += len(found)
            if self._retime(found, plan, reason=reason):
                next_id, tries = ids.stop, 0
            else:
                tries += 1
        if next_id <= last_id:
            self._next_ids[name] = next_id
        return next_id > last_id

    def _retime(self, found: list[KeptTimes], plan: Plan, *, reason: str) -> bool:
        changes = self._plan_all(found, plan)
        done = self._store.retime(changes, marks=None) if changes else []
        for change, ok in zip(changes, done, strict=True):
            if ok and change.has_moved:
                self.tell_moved(change, reason)
        return all(done)

    def _plan_all(self, found: Sequence[KeptTimes], plan: Plan) -> list[Retimed]:
        """What is to be changed. A schedule that can't be read is marked as broken, and left."""
        self._catalogue.load(
            (kept.schedule_id, kept.revision) for kept in found if not kept.is_idle
        )
        changes = []
        for kept in found:
            timing = None
            if not kept.is_idle:
                entry = self._catalogue.find(kept.schedule_id, kept.revision)
                timing = None if entry is None else entry.timing
                if timing is None:
                    error = entry.error if entry else None
                    self.mark_broken(
                        kept, error or f"its revision {kept.revision} is not on record"
                    )
                    continue
            try:
                change = plan(timing, kept)
            except SENSELESS as error:
                self.mark_broken(kept, f"its stored times can't be read: {error!r}")
                continue
            if change is not None:
                changes.append(change)
        return changes

    def mark_broken(self, kept: KeptTimes, error: str) -> None:
        """Stop a schedule that can't be read, and report it."""
        now_ms = self._clock.now_ms()
        if self._store.mark_broken(
            kept.schedule_id, revision=kept.revision, error=error, now_ms=now_ms
        ):
            self._teller.tell(EventKind.BROKEN, None, kept.name, {"error": error})

    def tell_moved(self, change: Retimed, reason: str) -> None:
        """Report that a schedule has another next time."""
        details: dict[str, object] = {"reason": reason}
        for name, fire in (("next_was_ms", change.kept.next), ("next_ms", change.next)):
            if fire is not None:
                details[name] = fire.due_ms
        self._teller.tell(EventKind.RETIMED, None, change.kept.name, details)
