"""What goes wrong: each fault is begun, and undone when its time is over."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.chaos.engines import Slot
from tests.chaos.field import Field, JobLog, Pair, pairs
from tests.chaos.history import Trouble
from tests.chaos.people import People
from tests.chaos.plan import Fault
from tests.chaos.twins import RunningCopy

FOREIGN = Path(__file__).with_name("foreign.py")
Undo = Callable[[], None]
# What people can't do meanwhile without making another database in its place.
_ABSENCES = ("away", "replaced", "replaced_unseen")


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Faults:
    """Does and undoes; `troubles` is what has been wrong, `counts` what was really done."""

    def __init__(self, field: Field, slots: list[Slot], jobs: JobLog, people: People) -> None:
        self._field = field
        self._slots = slots
        self._jobs = jobs
        self._people = people
        self._absent: Undo | None = None
        self.troubles: list[Trouble] = []
        self.counts: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()  # there was nobody that they could hit
        self.copies: list[RunningCopy] = []

    @property
    def is_absent(self) -> bool:
        """Whether the database is not in its place."""
        return self._absent is not None

    def begin(self, fault: Fault) -> Undo | None:
        """Do it; how it is undone, None where there was nobody to do it to."""
        began_ms = wall_ms()
        self._ended: tuple[str, ...] = ()
        undo: Undo | None = getattr(self, f"_{fault.kind}")(fault)
        if undo is None:
            self.missed[fault.kind] += 1
            return None
        self.counts[fault.kind] += 1
        ended = self._ended
        if fault.kind in _ABSENCES:
            self._absent = undo

        def heal() -> None:
            undo()
            if fault.kind in _ABSENCES:
                self._absent = None
            self.troubles.append(
                Trouble(
                    kind=fault.kind,
                    began_ms=began_ms,
                    healed_ms=wall_ms(),
                    ended=ended,
                )
            )

        return heal

    # Engines.

    def _slot(self, fault: Fault) -> Slot | None:
        up = [slot for slot in self._slots if slot.is_up]
        return up[int(fault.pick * len(up))] if up else None

    def _kill_engine(self, fault: Fault) -> Undo | None:
        slot = self._slot(fault)
        if slot is None:
            return None
        slot.kill(again_s=fault.lasts_s)
        return _nothing

    def _kill_all_engines(self, fault: Fault) -> Undo | None:
        for slot in self._slots:
            slot.kill(again_s=fault.lasts_s)
        return _nothing

    def _term_engine(self, fault: Fault) -> Undo | None:
        slot = self._slot(fault)
        if slot is None:
            return None
        slot.term(again_s=fault.lasts_s)
        return _nothing

    def _stop_engine(self, fault: Fault) -> Undo | None:
        slot = self._slot(fault)
        if slot is None:
            return None
        slot.stop()
        return slot.go_on

    # Supervisors.

    def _pair(self, fault: Fault) -> Pair | None:
        found = sorted(pairs(self._field.place), key=lambda pair: pair.supervisor)
        for slot in self._slots:
            slot.hurt()  # It may be theirs, and can't end what runs in good order then.
        return found[int(fault.pick * len(found))] if found else None

    def _kill_supervisor(self, fault: Fault) -> Undo | None:
        return self._end_supervisor(fault, signal.SIGKILL)

    def _term_supervisor(self, fault: Fault) -> Undo | None:
        return self._end_supervisor(fault, signal.SIGTERM)

    def _end_supervisor(self, fault: Fault, number: int) -> Undo | None:
        pair = self._pair(fault)
        if pair is None:
            return None
        self._ended = (pair.key,)
        return _send(number, pair.supervisor)

    def _stop_supervisor(self, fault: Fault) -> Undo | None:
        pair = self._pair(fault)
        return None if pair is None else _pause(pair.supervisor)

    def _kill_guardian(self, fault: Fault) -> Undo | None:
        pair = self._pair(fault)
        if pair is None or pair.guardian is None:
            return None
        return _send(signal.SIGKILL, pair.guardian)

    def _stop_guardian(self, fault: Fault) -> Undo | None:
        pair = self._pair(fault)
        if pair is None or pair.guardian is None:
            return None
        return _pause(pair.guardian)

    def _kill_pair(self, fault: Fault) -> Undo | None:
        """Guardian first: then nobody ends what runs but the next recovery."""
        pair = self._pair(fault)
        if pair is None or pair.guardian is None:
            return None
        self._ended = (pair.key,)
        return _send(signal.SIGKILL, pair.guardian, pair.supervisor)

    def _kill_everything(self, fault: Fault) -> Undo | None:
        for slot in self._slots:
            slot.kill(again_s=1 + fault.pick)
        found = pairs(self._field.place)
        self._ended = tuple(pair.key for pair in found)
        guardians = [pair.guardian for pair in found if pair.guardian is not None]
        return _send(signal.SIGKILL, *guardians, *(pair.supervisor for pair in found))

    # Jobs.

    def _job(self, fault: Fault) -> int | None:
        living = sorted(one["pid"] for one in self._jobs.living())
        return living[int(fault.pick * len(living))] if living else None

    def _kill_job(self, fault: Fault) -> Undo | None:
        pid = self._job(fault)
        return None if pid is None else _send(signal.SIGKILL, pid)

    def _term_job(self, fault: Fault) -> Undo | None:
        pid = self._job(fault)
        return None if pid is None else _send(signal.SIGTERM, pid)

    def _stop_job(self, fault: Fault) -> Undo | None:
        pid = self._job(fault)
        return None if pid is None else _pause(pid)

    # People.

    def _kill_person(self, fault: Fault) -> Undo | None:
        pid = self._people.hurt(fault.pick)
        return None if pid is None else _send(signal.SIGKILL, pid)

    def _stop_person(self, fault: Fault) -> Undo | None:
        pid = self._people.hurt(fault.pick)
        return None if pid is None else _pause(pid)

    # Storage.

    def _lock(self, fault: Fault) -> Undo | None:
        return self._foreign("lock", fault)

    def _reader(self, fault: Fault) -> Undo | None:
        return self._foreign("read", fault)

    def _foreign(self, what: str, fault: Fault) -> Undo | None:
        program = [sys.executable, str(FOREIGN), what, str(self._field.database)]
        process = subprocess.Popen(
            [*program, str(fault.lasts_s)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

        def undo() -> None:
            process.kill()
            process.wait()

        return undo

    def _copy(self, fault: Fault) -> Undo | None:
        if self.is_absent:
            return None
        copy = RunningCopy(self._field, len(self.copies))
        self.copies.append(copy)
        beside = self._well_engines()
        return lambda: copy.end(is_beside=bool(beside & self._well_engines()))

    def _well_engines(self) -> set[str]:
        return {slot.label for slot in self._slots if slot.is_well(for_s=2)}

    def _away(self, fault: Fault) -> Undo | None:
        """Nobody is started before it is back."""
        for slot in self._slots:
            slot.may_start = False
        return self._move()

    def _replaced(self, fault: Fault) -> Undo | None:
        """Engines are started meanwhile, as a service manager does: they make a new database.

        Who puts the old one back starts them anew.
        """
        put_back = self._move()

        def undo() -> None:
            put_back()
            for slot in self._slots:
                slot.kill(again_s=0.2)

        return undo

    def _replaced_unseen(self, fault: Fault) -> Undo | None:
        """Likewise, and engines find out by themselves."""
        return self._move()

    def _move(self) -> Undo:
        place = self._field.place
        away = place.with_name("away")
        place.rename(away)
        for slot in self._slots:
            slot.hurt()

        def undo() -> None:
            if place.exists():
                place.rename(place.with_name(f"other-{wall_ms()}"))
            away.rename(place)
            for slot in self._slots:
                slot.may_start = True

        return undo

    def _full(self, fault: Fault) -> Undo | None:
        filler = self._field.disk / "filler"
        block = b"\0" * 65536
        fd = os.open(filler, os.O_WRONLY | os.O_CREAT, 0o600)
        with suppress(OSError):
            while True:
                os.write(fd, block)
        with suppress(OSError):
            while True:
                os.write(fd, block[:512])
        os.close(fd)
        for slot in self._slots:
            slot.hurt()
        return filler.unlink

    def _closed_file(self, fault: Fault) -> Undo | None:
        return self._close(self._field.database, 0)

    def _closed_folder(self, fault: Fault) -> Undo | None:
        return self._close(self._field.place, 0o500)

    def _closed_state(self, fault: Fault) -> Undo | None:
        return self._close(self._field.database.with_name("edge.db.state"), 0)

    def _close(self, path: Path, mode: int) -> Undo | None:
        if not path.exists():
            return None
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        for slot in self._slots:
            slot.hurt()
        return lambda: path.chmod(before)

    def clear_up(self) -> None:
        """Remove what other databases have left on the disk."""
        for copy in self.copies:
            copy.remove()
        for other in self._field.disk.glob("other-*"):
            shutil.rmtree(other)


def _nothing() -> None:
    pass


def _send(number: int, *pids: int) -> Undo:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return _nothing


def _pause(pid: int) -> Undo | None:
    try:
        fd = os.pidfd_open(pid)
        signal.pidfd_send_signal(fd, signal.SIGSTOP)
    except ProcessLookupError:
        return None

    def undo() -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGCONT)
        os.close(fd)

    return undo
