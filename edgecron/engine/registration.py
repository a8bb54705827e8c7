"""An engine's row in its database: who it is, what it takes, and that it has stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.model.engine import Offers
from edgecron.store.contract import BEAT_MS
from edgecron.triggers.zones import local_zone_mark

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


class Registration:
    """Made with the engine's first pass, and kept by each.

    `queues` are those that it is counted on for. `find_offers` says what it takes of its program's
    queue, which may change; None where that is whatever is there. `announce` tells the other
    engines of the database that it has come.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        key: str,
        pid: int,
        queues: tuple[str, ...],
        max_running: int,
        find_offers: Callable[[], Offers] | None,
        announce: Callable[[], object],
    ) -> None:
        self.engine_id: int | None = None  # before the first pass
        self.offers: Offers | None = None  # as they are on record
        self._store = store
        self._clock = clock
        self._key = key
        self._pid = pid
        self._queues = queues
        self._max_running = max_running
        self._find_offers = find_offers
        self._announce = announce
        self._beat_at_ms: int | None = None
        self._local_timezone: str | None = None  # as it is on record

    def get_id(self) -> int:
        """The id in the database, after the first `keep`."""
        assert self.engine_id is not None
        return self.engine_id

    def keep(self) -> int:
        """Have the database say what is so now; the id."""
        offers = None if self._find_offers is None else self._find_offers()
        if self.engine_id is None:
            self._local_timezone = local_zone_mark()
            self.engine_id = self._store.register_engine(
                key=self._key,
                pid=self._pid,
                boot_id=self._clock.boot_id(),
                queues=self._queues,
                now_ms=self._clock.now_ms(),
                offers=offers,
                max_running=self._max_running,
                local_timezone=self._local_timezone,
            )
            self._announce()  # Before anything is claimed: they watch it, should we die.
        elif offers is not None and offers != self.offers:
            self._store.note_offers(self.engine_id, offers, now_ms=self._clock.now_ms())
        self.offers = offers
        return self.engine_id

    def note_zone(self, local_timezone: str | None) -> None:
        """Record another zone of this engine's; None if it has not looked at it yet."""
        if local_timezone not in (None, self._local_timezone):
            self._store.note_zone(self.get_id(), local_timezone)
            self._local_timezone = local_timezone

    def beat(self, *, is_running: bool) -> None:
        """Say of what runs, now and then, that it lives."""
        if not is_running:
            self._beat_at_ms = None
            return
        now_ms = self._clock.monotonic_ms()
        if self._beat_at_ms is None:
            self._beat_at_ms = now_ms + BEAT_MS
        elif now_ms >= self._beat_at_ms:
            self._store.beat(self.get_id(), now_ms=self._clock.now_ms())
            self._beat_at_ms = now_ms + BEAT_MS

    def close_queues(self) -> None:
        """Put on record that this engine is not to be counted on for what is due."""
        if self.engine_id is not None:
            self._store.close_queues(self.engine_id, now_ms=self._clock.now_ms())

    def end(self) -> None:
        """Put on record that it has stopped."""
        if self.engine_id is not None:
            self._store.retire_engine(self.engine_id, now_ms=self._clock.now_ms())
