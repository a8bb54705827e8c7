"""Engines as the database has them, and the jobs that they offer."""

from __future__ import annotations

from collections.abc import Collection, Set
from datetime import datetime

from edgecron.base.values import dataclass

PROGRAM = "py:"  # begins the queue of a program; its name follows
FUNCTION = "callable"  # the kind of a job that is called by its own name
# The first word of the command of an added function in a process of its own; the second one is the
# import path. An engine of the program starts its own Python instead.
CALL = "edgecron-call"
IMPORTED = "imported"  # the offer of every engine of a program: functions by their import paths

_DAY_S = 86_400
_LEAST_S = 1_200  # a shorter time says little about a day

Offers = Set[str]  # jobs, as `offer_of` has them


def find_program(queue: str) -> str | None:
    """The name of the program of a queue; None if it does not belong to a program."""
    return queue.removeprefix(PROGRAM) if queue.startswith(PROGRAM) else None


def origin_of(program: str) -> str:
    """The origin of a schedule that a program has declared, in words."""
    return f"program {program}"


def is_import_path(job: str) -> bool:
    """Whether a function is named by its import path, such as `reports.daily:send`."""
    return ":" in job  # No name of a schedule has one.


def offer_of(kind: str, job: str, *, schedule: str) -> str:
    """Return the offer that an engine needs to run a job.

    A declared function is identified by its own name, any other job by the name of its schedule.
    `job` is the first word of a command.
    """
    if kind != FUNCTION:
        return IMPORTED if job == CALL else f"{kind} {schedule}"
    return IMPORTED if is_import_path(job) else f"{kind} {job}"


def is_taken(
    offer: str, queue: str, *, queues: Collection[str], offers: Collection[str] | None
) -> bool:
    """Whether an engine of these queues takes a job. `offers` limits the jobs of a program."""
    return queue in queues and (offers is None or find_program(queue) is None or offer in offers)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """An engine as the database has it.

    Its kernel lock shows whether it is running; on other machines its lease does.
    """

    id: int
    key: str
    pid: int
    boot_id: str
    queues: tuple[str, ...]
    offers: tuple[str, ...] | None  # the jobs that it takes of a program's queue; None is any
    version: str
    supervisor_id: str | None  # the one that it claims for
    started_at: datetime
    stopped_at: datetime | None
    max_running: int | None = None  # None if its version did not record it
    local_timezone: str | None = None  # its zone `local`; None if its version did not record it
    written_bytes: int | None = None  # to disks, from its start to `written_at`; None if unknown
    written_at: datetime | None = None
    machine: str | None = None  # the one that it runs on; None: that of the database file
    is_stale: bool = False  # its lease has ended: its machine can't reach the database

    @property
    def host(self) -> str | None:
        """The name of its machine's host; None if all engines run on one machine."""
        return None if self.machine is None else self.machine.partition("/")[0]

    @property
    def written_per_day(self) -> int | None:
        """How many bytes it writes to disks in a day; None if unknown or too early to say."""
        if self.written_bytes is None or self.written_at is None:
            return None
        elapsed_s = (self.written_at - self.started_at).total_seconds()
        return None if elapsed_s < _LEAST_S else round(self.written_bytes * _DAY_S / elapsed_s)

    def takes(self, queue: str, offer: str | None) -> bool:
        """Whether it takes a job of a queue; with None, any job."""
        if offer is None:
            return queue in self.queues
        return is_taken(offer, queue, queues=self.queues, offers=self.offers)

    def shares(self, queue: str, offers: Offers | None) -> bool:
        """Whether it takes any job of a queue that an engine with these offers takes."""
        if queue not in self.queues or find_program(queue) is None:
            return queue in self.queues
        return self.offers is None or offers is None or not offers.isdisjoint(self.offers)
