"""Move a schedule of another program to edgecron, and give it back.

A book beside the database records each move before its first step, and its end after the last one.
To adopt: record, make the schedule paused, disable the source, resume the schedule, record. To give
back: record, pause the schedule, restore the source, remove the schedule, forget. So in every state
between two steps at most one copy is active, and repeating the command completes the move.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from edgecron.base.errors import (
    AlreadyExists,
    Conflict,
    EdgecronError,
    InvalidFile,
    NotFound,
    os_words,
)
from edgecron.base.files import write_whole
from edgecron.base.paths import adoptions_path, make_folders
from edgecron.base.values import dataclass, replace
from edgecron.client.adoption_sources import Place, Source, open_source
from edgecron.client.machine_files import MachineJob, Origin
from edgecron.client.protocol import Client
from edgecron.formats.crontab_identity import imprint_of
from edgecron.formats.crontab_names import take_name
from edgecron.formats.document_tables import Wanted, compare_one
from edgecron.model.choices import Status
from edgecron.model.listing import RunChoice
from edgecron.model.schedule import Imported, Schedule, ScheduleSpec

ORIGIN = "adopt"


class Phase(StrEnum):
    """How far a move is."""

    ADOPTING = "adopting"
    ADOPTED = "adopted"
    RETURNING = "returning"
    RETURNED = "returned"  # its schedule must not be restored: its source runs it again


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """A move: the schedule's first name and its command, and where it came from.

    `schedule_id` is known when the move is complete: a person can rename the schedule.
    """

    name: str
    phase: Phase
    argv: tuple[str, ...]
    place: Place
    schedule_id: int | None = None

    @property
    def completion(self) -> str:
        """Words of the command that completes the move."""
        return (
            f"adopt --undo {self.name}" if self.phase is Phase.RETURNING else f"adopt {self.name}"
        )


class Book:
    """The moves of one database. Only within `opened` can they be changed."""

    def __init__(self, database: Path) -> None:
        self._path = adoptions_path(database)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Let no other process move schedules of this database meanwhile. Raises Conflict."""
        lock = self._path.with_name(self._path.name + ".lock")
        make_folders(self._path.parent)
        try:
            descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            words = os_words(error, is_named=True)
            raise EdgecronError(f"{lock} can't be opened: {words}") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    "another edgecron adopt is running", hint="repeat the command when it has ended"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def read(self) -> dict[str, Adoption]:
        """Return the moves that were not given back, by the name of their schedule.

        Raises InvalidFile.
        """
        return {name: one for name, one in self._read().items() if one.phase is not Phase.RETURNED}

    def find_of(self, schedule_id: int) -> Adoption | None:
        """Return the move of a schedule, also if it was given back. Raises InvalidFile."""
        return next((one for one in self._read().values() if one.schedule_id == schedule_id), None)

    def _read(self) -> dict[str, Adoption]:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            words = os_words(error, is_named=True)
            raise EdgecronError(f"{self._path} can't be read: {words}") from error
        try:
            found = [_from_object(one) for one in json.loads(content)]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidFile(f"{self._path} is damaged: {error}") from error
        return {one.name: one for one in found}

    def put(self, adoption: Adoption) -> None:
        """Record a move, instead of its earlier record. Raises EdgecronError."""
        self._write({**self._read(), adoption.name: adoption})

    def forget(self, name: str) -> None:
        """Remove the record of a move."""
        self._write({key: one for key, one in self._read().items() if key != name})

    def _write(self, adoptions: dict[str, Adoption]) -> None:
        text = json.dumps([_to_object(one) for one in adoptions.values()], indent=1)
        try:
            write_whole(self._path, [text.encode("ascii")])
        except OSError as error:
            words = os_words(error, is_named=True)
            raise EdgecronError(f"{self._path} can't be written: {words}") from error


def _to_object(adoption: Adoption) -> dict[str, object]:
    place = adoption.place
    return {
        "name": adoption.name,
        "phase": adoption.phase.value,
        "argv": adoption.argv,
        "schedule_id": adoption.schedule_id,
        "root": place.root,
        "origin": place.origin.value,
        "source": place.source,
        "line": place.line,
        "raw": place.raw,
    }


def _from_object(found: dict[str, object]) -> Adoption:
    line, raw, argv = found["line"], found["raw"], found["argv"]
    schedule_id = found["schedule_id"]
    return Adoption(
        name=str(found["name"]),
        phase=Phase(str(found["phase"])),
        argv=tuple(str(word) for word in argv) if isinstance(argv, list) else (),
        place=Place(
            root=str(found["root"]),
            origin=Origin(str(found["origin"])),
            source=str(found["source"]),
            line=line if isinstance(line, int) else None,
            raw=None if raw is None else str(raw),
        ),
        schedule_id=schedule_id if isinstance(schedule_id, int) else None,
    )


def adopt(client: Client, book: Book, job: MachineJob, spec: ScheduleSpec, root: Path) -> Schedule:
    """Move a job to edgecron as `spec`, under a free name. Return its schedule.

    If a step fails, everything is put back, and the step's error is raised.
    """
    place = Place(root=str(root), origin=job.origin, source=job.source, line=job.line, raw=job.raw)
    for begun in book.read().values():
        if begun.place == place and begun.phase is not Phase.ADOPTED:
            raise Conflict(
                f"an earlier move of {job.name} was interrupted",
                hint=f"complete it: edgecron adopt {begun.name}",
            )
    source = open_source(place)
    if not source.is_active():
        raise Conflict(
            f"{job.source} is disabled, so there is nothing to move",
            hint="list jobs that are enabled: edgecron scan",
        )
    taken = dict.fromkeys((one.name for one in client.schedules()), 1)
    taken |= dict.fromkeys(book.read(), 1)
    spec = replace(spec, name=take_name(spec.name, taken=taken))
    adoption = Adoption(name=spec.name, phase=Phase.ADOPTING, argv=spec.job.argv, place=place)
    book.put(adoption)
    try:
        step = compare_one(Wanted(spec=spec, enabled=False), None)
        [schedule] = client.apply([step], origin=ORIGIN)
        if job.origin is Origin.CRON:
            client.note_imported(
                [
                    Imported(
                        schedule_id=schedule.id,
                        source=job.source,
                        imprint=imprint_of(spec),
                    )
                ]
            )
        return _finish(client, book, adoption, source, schedule=schedule)
    except (EdgecronError, OSError):
        # What fails here, too, stays in the book, and `undo` can be repeated.
        with suppress(EdgecronError, OSError):
            _give_back(client, book, adoption, source)
        raise


def complete(client: Client, book: Book, name: str) -> Schedule | None:
    """Complete a move that was interrupted; None if it had changed nothing, and is forgotten.

    Raises NotFound if there is no such move, AlreadyExists if it is complete.
    """
    adoption = find(book, name)
    schedule = _find_schedule(client, adoption)
    if adoption.phase is Phase.ADOPTED:
        raise AlreadyExists(
            f"{name} is adopted already", hint=f"to give it back: edgecron adopt --undo {name}"
        )
    source = open_source(adoption.place)
    if schedule is None:
        source.restore()
        book.forget(name)
        return None
    return _finish(client, book, adoption, source, schedule=schedule)


def undo(client: Client, book: Book, name: str) -> Adoption:
    """Give a schedule back to the program that had it, whatever state its move is in.

    Raises NotFound, and Conflict while one of its runs is active.
    """
    adoption = find(book, name)
    source = open_source(adoption.place)
    source.is_active()  # If it is gone, nothing is changed.
    schedule = _find_schedule(client, adoption)
    try:
        _give_back(client, book, adoption, source)
    except (EdgecronError, OSError):
        # Then edgecron continues to run the schedule, unless it was paused.
        with suppress(EdgecronError, OSError):
            if adoption.phase is Phase.ADOPTED and schedule is not None:
                source.disable()
                _run_as_before(client, schedule)
                book.put(replace(adoption, schedule_id=schedule.id))
        raise
    return adoption


def find(book: Book, name: str) -> Adoption:
    """Return a move. Raises NotFound."""
    adoption = book.read().get(name)
    if adoption is None:
        raise NotFound(f"{name} was not adopted", hint="list what was adopted: edgecron adopt")
    return adoption


def _finish(
    client: Client, book: Book, adoption: Adoption, source: Source, *, schedule: Schedule
) -> Schedule:
    """Disable the source, then let the schedule run."""
    source.disable()
    resumed = client.resume(schedule.name)
    book.put(replace(adoption, phase=Phase.ADOPTED, schedule_id=schedule.id))
    return resumed


def _run_as_before(client: Client, before: Schedule) -> None:
    """End the pause of a schedule, except for one that a person had made."""
    if before.paused_until is not None:
        client.pause(before.name, until=before.paused_until)
    elif before.enabled:
        client.resume(before.name)


def _give_back(client: Client, book: Book, adoption: Adoption, source: Source) -> None:
    """Pause the schedule, restore the source, then remove the schedule.

    Raises Conflict while a run is active.
    """
    schedule = _find_schedule(client, adoption)
    if schedule is not None:
        adoption = replace(adoption, schedule_id=schedule.id)
    book.put(replace(adoption, phase=Phase.RETURNING))
    if schedule is not None:
        client.pause(schedule.name)  # Without end, also if a person has paused it for a time.
        choice = RunChoice(statuses=(Status.RUNNING,))
        for run in client.history(schedule.name, choice=choice, limit=1):
            raise Conflict(
                f"run {run.id} of {schedule.name} is still active",
                hint=f"wait for its end, or: edgecron cancel {run.id}",
            )
    source.restore()
    if schedule is not None:
        client.remove(schedule.name)
    if adoption.schedule_id is None:
        book.forget(adoption.name)
    else:
        book.put(replace(adoption, phase=Phase.RETURNED))


def refuse_returned(database: Path, schedule: Schedule) -> None:
    """Raise Conflict if a removed schedule was given back: its source would run it, too."""
    adoption = Book(database).find_of(schedule.id)
    if adoption is not None and adoption.phase in (Phase.RETURNING, Phase.RETURNED):
        raise Conflict(
            f"schedule {schedule.name!r} can't be restored: it was given back to"
            f" {adoption.place.origin}, which runs it now",
            hint="to move it again, find its name: edgecron scan",
        )


def refuse_doubled(database: Path, schedule: Schedule) -> None:
    """Raise Conflict if the move of a schedule was interrupted and its source still runs it."""
    for one in Book(database).read().values():
        is_same = one.schedule_id == schedule.id
        if one.schedule_id is None:
            is_same = one.name == schedule.name and one.argv == schedule.spec.job.argv
        if is_same and one.phase is not Phase.ADOPTED and _is_running_it(one.place):
            raise Conflict(
                f"schedule {schedule.name!r} can't run: its move was interrupted, and"
                f" {one.place.origin} still runs it",
                hint=f"complete the move: edgecron {one.completion}",
            )


def _is_running_it(place: Place) -> bool:
    try:
        return open_source(place).is_active()
    except (NotFound, Conflict):  # It is gone.
        return False


def _find_schedule(client: Client, adoption: Adoption) -> Schedule | None:
    """Find the schedule of a move; None if it does not exist.

    Raises Conflict if its name is now another schedule's.
    """
    if adoption.schedule_id is not None:
        return next((one for one in client.schedules() if one.id == adoption.schedule_id), None)
    try:
        schedule = client.schedule(adoption.name)
    except NotFound:
        return None
    if schedule.spec.job.argv != adoption.argv:
        raise Conflict(
            f"schedule {adoption.name!r} was not made by edgecron adopt",
            hint=f"rename it first: edgecron edit {adoption.name} --name NEW",
        )
    return schedule
