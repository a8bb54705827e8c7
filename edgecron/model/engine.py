"""An engine, as the database knows it."""

from __future__ import annotations

from datetime import datetime

from edgecron.base.values import dataclass
from edgecron.model.queues import is_taken


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """An engine as the database knows it; whether it is alive is what its kernel lock says."""

    id: int
    key: str
    pid: int
    boot_id: str
    queues: tuple[str, ...]
    offers: tuple[str, ...] | None  # what it takes of a program's queue; None is whatever is there
    version: str
    supervisor_id: str | None  # the one that it claims for
    started_at: datetime
    stopped_at: datetime | None
    max_running: int | None = None  # None if its version did not record it
    local_timezone: str | None = None  # the mark of its `local`; None likewise

    def takes(self, queue: str, offer: str | None) -> bool:
        """Whether it looks at a queue, and offers this; None is whatever may be there."""
        if offer is None:
            return queue in self.queues
        return is_taken(offer, queue, queues=self.queues, offers=self.offers)
