"""Schedules as this engine knows them: loaded and compiled once for each revision."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from edgecron.errors import InvalidInput
from edgecron.model import ScheduleSpec
from edgecron.planning import Timing
from edgecron.store.contract import Store
from edgecron.timing import load_timing

_MOST_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A schedule at one revision. `timing` is None where its trigger can't be read: `error`."""

    spec: ScheduleSpec
    timing: Timing | None
    error: str | None = None


class Catalogue:
    """A bounded memory of entries by (schedule id, revision), which never go stale."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: OrderedDict[tuple[int, int], Entry] = OrderedDict()

    def load(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Load and compile what is not known yet."""
        missing = [key for key in wanted if key not in self._entries]
        for stored in self._store.load_schedules(missing) if missing else ():
            try:
                timing = load_timing(stored.spec, stored.compiled, seed=self._store.seed)
                entry = Entry(stored.spec, timing)
            except InvalidInput as error:
                entry = Entry(stored.spec, None, str(error))
            self._entries[stored.id, stored.revision] = entry
        while len(self._entries) > _MOST_KEPT:
            self._entries.popitem(last=False)

    def find(self, schedule_id: int, revision: int) -> Entry | None:
        """The entry, loaded where it must be; None where the revision is gone."""
        key = (schedule_id, revision)
        if key not in self._entries:
            self.load([key])
        return self._entries.get(key)
