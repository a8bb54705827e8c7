"""An engine, as the database knows it."""

from __future__ import annotations

from collections.abc import Collection, Set
from datetime import datetime

from edgecron.base.values import dataclass

PROGRAM = "py:"  # begins the queue of a program; its name follows
FUNCTION = "callable"  # the kind of a job that is called by its own name

Offers = Set[str]  # jobs, as `offer_of` has them


def find_program(queue: str) -> str | None:
    """The name of the program whose queue it is; None where it is no program's."""
    return queue.removeprefix(PROGRAM) if queue.startswith(PROGRAM) else None


def origin_of(program: str) -> str:
    """Whose a schedule is that a program has declared, in words."""
    return f"program {program}"


def offer_of(kind: str, job: str, *, schedule: str) -> str:
    """What an engine has to offer to run a job of this kind: a function is known by its own name,
    and what runs in a process of its own by that of its schedule, whatever its command is."""
    return f"{kind} {job if kind == FUNCTION else schedule}"


def is_taken(
    offer: str, queue: str, *, queues: Collection[str], offers: Collection[str] | None
) -> bool:
    """Whether an engine of these queues takes a job of a queue: with `offers`, of a program's only
    what is among them."""
    return queue in queues and (offers is None or find_program(queue) is None or offer in offers)


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
