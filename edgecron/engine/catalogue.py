"""Schedules as this engine knows them: loaded and compiled once for each revision."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput
from edgecron.base.values import dataclass
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import Timing
from edgecron.planning.times import load_timing
from edgecron.store.contract import StoredSchedule

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_MOST_KEPT = 20_000
_AT_ONCE = (
    64  # a row takes three times the memory of its entry, and is not given back to the system
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A schedule at one revision.

    Where it can't be read, `error` says why and `timing` is None; `spec` too, if that is what
    can't be.
    """

    spec: ScheduleSpec | None
    timing: Timing | None
    error: str | None = None

    @property
    def name(self) -> str | None:
        return None if self.spec is None else self.spec.name


class Catalogue:
    """A bounded memory of entries by (schedule id, revision), which never go stale."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._entries: OrderedDict[tuple[int, int], Entry] = OrderedDict()

    def load(self, wanted: Iterable[tuple[int, int]]) -> None:
        """Load and compile what is not known yet."""
        missing = [key for key in wanted if key not in self._entries]
        for first in range(0, len(missing), _AT_ONCE):
            for stored in self._read(missing[first : first + _AT_ONCE]):
                self._entries[stored.id, stored.revision] = self._compile(stored)
        while len(self._entries) > _MOST_KEPT:
            self._entries.popitem(last=False)

    def _read(self, keys: list[tuple[int, int]]) -> list[StoredSchedule]:
        try:
            return self._store.load_schedules(keys)
        except InvalidInput:
            # One of them holds what no edgecron writes: the others must not fall with it.
            return [stored for key in keys for stored in self._load_alone(key)]

    def _load_alone(self, key: tuple[int, int]) -> list[StoredSchedule]:
        try:
            return self._store.load_schedules([key])
        except InvalidInput as error:
            self._entries[key] = Entry(None, None, str(error))
            return []

    def _compile(self, stored: StoredSchedule) -> Entry:
        try:
            timing = load_timing(stored.spec, stored.compiled, seed=self._store.seed)
        except InvalidInput as error:
            return Entry(stored.spec, None, str(error))
        return Entry(stored.spec, timing)

    def find(self, schedule_id: int, revision: int) -> Entry | None:
        """The entry, loaded where it must be; None where the revision is gone."""
        key = (schedule_id, revision)
        if key not in self._entries:
            self.load([key])
        return self._entries.get(key)
