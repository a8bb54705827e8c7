"""A storm, from the first schedule to the last process: the order of events."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw

from tests.chaos.agenda import Agenda
from tests.chaos.crowd import PULSES, crowd, words
from tests.chaos.engines import Slot
from tests.chaos.faults import Faults, Undo, wall_ms
from tests.chaos.field import Field, JobLog, pairs
from tests.chaos.history import Body, History, Promise, Remark, Trouble
from tests.chaos.people import People
from tests.chaos.plan import BY_NAME, Plan
from tests.chaos.reading import read_bodies, read_integrity, read_lives, read_rows
from tests.chaos.rows import is_in_doubt
from tests.chaos.watch import ACTIVE, Watch, open_database

VERBS = Path(__file__).with_name("verbs.py")
_TURN_S = 0.05
_SET_UP_BOUND_S = 120.0
_PULSE_BOUND_S = 120.0  # for the first fire after the last fault, on a machine that is busy
_QUIET_BOUND_S = 150.0  # for everything to end that has begun, on a machine that is busy
_SLOW_S = 1.5  # a turn, or a start of Python, that takes longer is the machine's doing
_PROBE_EVERY_S = 5.0

Say = Callable[[str], None]


class Storm:
    def __init__(self, field: Field, plan: Plan, *, engines: int, pace: int, say: Say) -> None:
        self.field = field
        self.plan = plan
        began = time.monotonic()
        self.say = lambda text: say(f"{time.monotonic() - began:4.0f} s  {text}")
        self.jobs = JobLog(field.log)
        self.slots = [Slot(field, number, start_at=0.0) for number in range(engines)]
        self.people = People(field, self.jobs)
        self.faults = Faults(field, self.slots, self.jobs, self.people)
        self.watch = Watch(field.database)
        self.remarks: list[Remark] = []
        self.slow: list[Trouble] = []
        self._pace = pace
        self._last_turn = time.monotonic()
        self._probe: tuple[subprocess.Popen[bytes], int] | None = None
        self._probe_at = 0.0

    def run(self) -> History:
        began_ms = wall_ms()
        self._set_up()
        self.say(f"{len(crowd(self._pace))} schedules, {len(self.slots)} engines")
        self._blow()
        self.say("the storm is over")
        healed_ms = self._come_to_calm()
        self.say("service is full again")
        doctor = self._ask_doctor()
        removed_ms = wall_ms()
        self._remove_all()
        self._wait(self._is_quiet, bound_s=_QUIET_BOUND_S)
        self.say("all is quiet")
        self._end_engines()
        return self._history(began_ms, healed_ms, removed_ms, doctor)

    # What happens.

    def _set_up(self) -> None:
        wanted = [words(member, self.field.log) for member in crowd(self._pace)]
        subprocess.run(
            [sys.executable, str(VERBS)],
            input=json.dumps(wanted),
            env=self.field.environment("person"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # that no engine is alive yet
            text=True,
            check=True,
        )
        self._last_turn = time.monotonic()
        self._wait(self._is_up, bound_s=_SET_UP_BOUND_S)

    def _blow(self) -> None:
        """Faults and acts in the order of their times, for as long as the plan says."""
        agenda = Agenda()
        for fault in self.plan.faults:
            lane = BY_NAME[fault.kind].lane
            agenda.add(fault.at_s, self._beginner(fault), lane=lane, lasts_s=fault.lasts_s)
        for act in self.plan.acts:
            agenda.add(act.at_s, self._actor(act))
        began = time.monotonic()
        told_s = 0.0
        while (now_s := time.monotonic() - began) < self.plan.duration_s or agenda:
            agenda.run_due(lambda: time.monotonic() - began)
            if now_s >= told_s + 30:
                told_s = now_s
                self.say(self._progress())
            self._turn()

    def _beginner(self, fault: Any) -> Callable[[], Undo | None]:
        return lambda: self.faults.begin(fault)

    def _actor(self, act: Any) -> Callable[[], None]:
        return lambda: self.people.act(act, is_absent=self.faults.is_absent)

    def _come_to_calm(self) -> int:
        """Wait until every engine is up, and what is due begins; when all was healed."""
        self.people.finish()
        self._do("resume", "paused")
        self._wait(self._is_up, bound_s=_PULSE_BOUND_S)
        healed_ms = wall_ms()

        def has_begun() -> bool:
            self.jobs.read()
            return any(
                one["schedule"] == PULSES[0] and one["wall_ms"] > healed_ms
                for one in self.jobs.starts[-200:]
                if not one["by"].startswith("copy-")
            )

        if not self._wait(has_begun, bound_s=_PULSE_BOUND_S):
            text = f"nothing has begun {_PULSE_BOUND_S:.0f} s after all had healed"
            self.remarks.append(Remark(number="I16", text=text))
        self._wait(lambda: not self.people.is_busy, bound_s=60)
        return healed_ms

    def _ask_doctor(self) -> tuple[dict[str, Any], ...] | None:
        """What doctor finds that is a problem; engines that are only at work get a second look."""
        found: tuple[dict[str, Any], ...] | None = None
        for _ in range(5):
            code, out = self._do("doctor", "--deep", "--json", is_sure=False)
            if code not in (0, 1):
                found = None
                continue
            found = tuple(one for one in json.loads(out) if one["status"] == "problem")
            if not found:
                break
            self._pass_time(3)
        return found

    def _remove_all(self) -> None:
        rows = json.loads(self._do("list", "--json")[1])
        # What follows others goes first: it then is not fired by their end.
        names = sorted((row["name"] for row in rows), key=lambda name: "follow" not in name)
        began_ms = wall_ms()
        if self._do("rm", *names)[0] == 0:
            at_ms = wall_ms()
            self.people.promises += [
                Promise(kind="rm", began_ms=began_ms, at_ms=at_ms, name=name) for name in names
            ]

    def _is_quiet(self) -> bool:
        marks = ", ".join(f"'{status}'" for status in ACTIVE)
        asked = f"SELECT count(*) FROM executions WHERE status IN ({marks})"
        try:
            with closing(open_database(self.field.database)) as connection:
                [(count,)] = connection.execute(asked).fetchall()
        except apsw.BusyError:
            return False
        return count == 0 and not list(self.jobs.living())

    def _end_engines(self) -> None:
        for slot in self.slots:
            slot.term(again_s=None)
        self._wait(lambda: not any(slot.is_up for slot in self.slots), bound_s=90)
        self._turn()
        self._wait(lambda: not pairs(self.field.place), bound_s=60)

    # How.

    def _turn(self) -> None:
        """Look after everybody, and rest."""
        now = time.monotonic()
        if now - self._last_turn > _SLOW_S:
            self._note_slow(now - self._last_turn)
        for slot in self.slots:
            slot.tick(self.jobs)
        self.people.tick()
        self.watch.tick()
        self._ask_machine()
        self._last_turn = time.monotonic()
        time.sleep(_TURN_S)

    def _ask_machine(self) -> None:
        """Whether the machine itself is slow: how long it takes to start Python."""
        now = time.monotonic()
        if self._probe is None and now >= self._probe_at:
            program = [sys.executable, "-I", "-S", "-c", "pass"]
            self._probe = subprocess.Popen(program), wall_ms()
        elif self._probe is not None and self._probe[0].poll() is not None:
            took_s = (wall_ms() - self._probe[1]) / 1000
            if took_s > _SLOW_S:
                self._note_slow(took_s)
            self._probe, self._probe_at = None, now + _PROBE_EVERY_S

    def _note_slow(self, for_s: float) -> None:
        now_ms = wall_ms()
        began_ms = now_ms - round(for_s * 1000)
        self.slow.append(Trouble(kind="slow_machine", began_ms=began_ms, healed_ms=now_ms))

    def _wait(self, is_so: Callable[[], bool], *, bound_s: float) -> bool:
        until = time.monotonic() + bound_s
        while not is_so():
            if time.monotonic() > until:
                return False
            self._turn()
        return True

    def _pass_time(self, seconds: float) -> None:
        self._wait(lambda: False, bound_s=seconds)

    def _is_up(self) -> bool:
        return all(slot.is_well(for_s=0.5) for slot in self.slots)

    def _do(self, *arguments: str, is_sure: bool = True) -> tuple[int, str]:
        """Run a command line to its end, meanwhile looking after everybody."""
        process = subprocess.Popen(
            [sys.executable, "-m", "edgecron", *arguments],
            env=self.field.environment("person"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # Nothing that is run here says more than a pipe holds before it is read.
        out, err = process.communicate(timeout=120)
        self._last_turn = time.monotonic()
        if is_sure and process.returncode != 0:
            text = f"edgecron {arguments[0]} ended with {process.returncode}: {err[-500:]}"
            self.remarks.append(Remark(number="VERB", text=text))
        return process.returncode, out

    def _progress(self) -> str:
        self.jobs.read()
        faults = sum(self.faults.counts.values())
        acts = sum(self.people.counts.values())
        return (
            f"{len(self.jobs.starts)} runs, {faults} faults, {acts} acts, {self.watch.looks} looks"
        )

    # What is known then.

    def _history(
        self,
        began_ms: int,
        healed_ms: int,
        removed_ms: int,
        doctor: tuple[dict[str, Any], ...] | None,
    ) -> History:
        self.watch.look()
        self.jobs.read()
        with closing(open_database(self.field.database)) as connection:
            rows, lives = read_rows(connection), read_lives(connection)
            integrity = read_integrity(connection)
        return History(
            began_ms=began_ms,
            healed_ms=healed_ms,
            removed_ms=removed_ms,
            rows=rows,
            lives=lives,
            bodies=self._bodies({life.name for life in lives}),
            troubles=(*self.faults.troubles, *self.slow),
            changes=tuple(self.watch.changes),
            steps_back=tuple(self.watch.steps_back),
            promises=tuple(self.people.promises),
            refusals=tuple(self.people.refusals),
            remarks=(*self._all_remarks(), *self._crashes()),
            alive=self._alive(),
            modes=self._modes(),
            integrity=integrity,
            doctor=doctor,
        )

    def _bodies(self, known: set[str]) -> tuple[Body, ...]:
        """Without those of schedules that were added to the database that stood in for ours."""
        elsewhere = {
            promise.name
            for promise in self.people.added
            if promise.name not in known and is_in_doubt(promise, self.faults.troubles)
        }
        found = read_bodies(self.jobs.starts)
        return tuple(body for body in found if body.schedule not in elsewhere)

    def _all_remarks(self) -> Sequence[Remark]:
        found = [*self.remarks, *self.people.remarks, *self.watch.remarks]
        for slot in self.slots:
            found += slot.remarks
        for copy in self.faults.copies:
            found += copy.remarks
        return found

    def _crashes(self) -> list[Remark]:
        """What ended by a defect: tracebacks of engines, and what supervisors have left."""
        found = []
        for path in sorted(self.field.logs.glob("engine-*.err")):
            text = path.read_text(errors="replace")
            if "Traceback" in text:
                found.append(Remark(number="LOG", text=f"{path.name}: {text[-3000:]}"))
        for path in sorted(self.field.place.rglob("*.crash")):
            text = path.read_text(errors="replace")
            found.append(Remark(number="LOG", text=f"{path.name}: {text[-3000:]}"))
        return found

    def _alive(self) -> tuple[str, ...]:
        jobs = [f"job {one['schedule']} pid {one['pid']}" for one in self.jobs.living()]
        supervisors = [f"supervisor {pair.supervisor}" for pair in pairs(self.field.place)]
        engines = [f"engine {slot.label}" for slot in self.slots if slot.is_up]
        return (*jobs, *supervisors, *engines)

    def _modes(self) -> dict[str, int]:
        found = {}
        for path in [self.field.place, *self.field.place.rglob("*")]:
            with suppress(FileNotFoundError):
                found[str(path.relative_to(self.field.disk))] = path.lstat().st_mode & 0o7777
        return found

    def end(self) -> None:
        """End whatever is left, however it came to an end."""
        for slot in self.slots:
            if slot.process is not None and slot.process.poll() is None:
                slot.process.kill()
                slot.process.wait()
        for pair in pairs(self.field.folder):
            for pid in (pair.supervisor, pair.guardian):
                if pid is not None:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                        os.kill(pid, signal.SIGKILL)
        for one in list(self.jobs.living()):
            with suppress(ProcessLookupError):
                os.kill(one["pid"], signal.SIGKILL)
        self.people.end()
        self.faults.clear_up()
