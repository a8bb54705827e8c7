"""Engines as the database has them, and the jobs that they offer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from datetime import datetime

from edgecron.base.checks import check_name, is_name
from edgecron.base.errors import InvalidInput
from edgecron.base.tzif import DAY_S
from edgecron.base.values import dataclass

PROGRAM = "py:"  # begins the queue of a program; its name follows
FUNCTION = "callable"  # the kind of a job that is called by its own name
# The first word of the command of an added function in a process of its own; the second one is the
# import path. An engine of the program starts its own Python instead.
CALL = "edgecron-call"
IMPORTED = "imported"  # the offer of every engine of a program: functions by their import paths

ANYWHERE = "any"  # the placement of most schedules
EACH = "each"  # the placement of schedules that every machine runs
MACHINE = "machine"  # the kind of the scopes of such a schedule
LABEL = "label:"  # begins the placement on machines that have a label
_ON = " on "  # between a queue and the placement in it: "command on web1"
_LEAST_S = 1_200  # a shorter time says little about a day

Offers = Set[str]  # jobs, as `offer_of` has them


def find_program(queue: str) -> str | None:
    """The name of the program of a queue; None if it does not belong to a program."""
    return base_of(queue).removeprefix(PROGRAM) if queue.startswith(PROGRAM) else None


def check_placement(text: str, *, what: str) -> None:
    """Raise InvalidInput unless a text says on which machines a schedule runs."""
    if text in (ANYWHERE, EACH):
        return
    name = text.removeprefix(LABEL)
    if name in (ANYWHERE, EACH) or len(name) > 100 or not is_name(name):
        raise InvalidInput(
            f"{what} is {text[:120]!r}, expected any, each, the name of a machine, or label:SITE",
            hint="for example: web1, or label:berlin",
        )


def check_label(text: str, *, what: str) -> None:
    """Raise InvalidInput unless a text can be a label of a machine."""
    check_name(text, what=what)
    if text in (ANYWHERE, EACH):
        raise InvalidInput(
            f"{what} is {text!r}, which --on reserves for itself", hint="for example: berlin"
        )


def place(queue: str, on: str) -> str:
    """Return the queue of the runs of a placement: `command on web1`."""
    return f"{queue}{_ON}{on}"


def base_of(queue: str) -> str:
    """Return a queue without its placement."""
    return queue.partition(_ON)[0]


def placement_of(queue: str) -> str:
    """Return the placement in a queue; `any` if it has none."""
    return queue.partition(_ON)[2] or ANYWHERE


def queues_at(queues: tuple[str, ...], *, machine: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Return these queues; also each placed on this machine, on each machine, and on its labels."""
    places = (machine, EACH, *(f"{LABEL}{label}" for label in labels)) if machine else ()
    return queues + tuple(place(queue, on) for on in places for queue in queues)


def find_machine(queues: Iterable[str]) -> str | None:
    """Return the machine that the queues of an engine name; None if they name only labels."""
    places = map(placement_of, queues)
    named = (on for on in places if on not in (ANYWHERE, EACH) and not on.startswith(LABEL))
    return next(named, None)


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
    former_queues: tuple[str, ...] = ()  # before it was drained or began to stop
    drained_at: datetime | None = None  # since when it takes nothing new, until it is resumed

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
        return None if elapsed_s < _LEAST_S else round(self.written_bytes * DAY_S / elapsed_s)

    @property
    def name(self) -> str | None:
        """The name of its machine for placements; None if its version did not record it."""
        return find_machine(self.queues or self.former_queues) or self.host

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its machine."""
        places = dict.fromkeys(map(placement_of, self.queues or self.former_queues))
        return tuple(on.removeprefix(LABEL) for on in places if on.startswith(LABEL))

    @property
    def base_queues(self) -> tuple[str, ...]:
        """Its queues, without those of placements."""
        return tuple(queue for queue in self.queues if queue == base_of(queue))

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
