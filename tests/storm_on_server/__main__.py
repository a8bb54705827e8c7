"""A storm over a real PostgreSQL server, and its verdict. See the package."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg

from edgecron.base.errors import EdgecronError
from edgecron.base.paths import read_location
from edgecron.client import Client
from edgecron.model.choices import CatchUp, JobKind, OnInterrupt, Overlap, Status
from edgecron.model.engine import EACH
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.contract import LEASE_MS
from tests.chaos.faults import wall_ms
from tests.chaos.field import JobLog, pairs
from tests.storm_on_server.faults import Faults, make_plan
from tests.storm_on_server.field import MACHINES, MachineSlot, ServerField
from tests.storm_on_server.verdicts import COLUMNS, Account, Life, judge

_JOB = Path(__file__).parents[1] / "chaos" / "job.py"
_ANCHOR = "2026-01-01T00:00:00Z"
_ANCHOR_MS = 1_767_225_600_000
_TURN_S = 0.05
_ACT_EVERY_S = 2.5
# Engines must be well again: a lease of each must end, and another must be held for a whole term.
_HEAL_S = 2 * LEASE_MS / 1000 + 30
_GROUP, _GROUP_LIMIT = "together", 2
_BOUND_S = 120.0
_MOST_SHOWN = 40

# Name, period in seconds, for how long a job lasts, its exit code, policies, whether in the group.
_TRIGGERS = {"after-end": "every 3s after end", "follows": "after long"}  # else on demand
_SCHEDULES: tuple[tuple[str, int | None, float, int, Policies, bool], ...] = (
    ("beat", 1, 0.05, 0, Policies(catch_up=CatchUp.ALL), False),
    ("pulse", 2, 0.5, 0, Policies(), False),
    ("long", 5, 4.0, 0, Policies(), False),
    ("waits", 4, 3.0, 0, Policies(overlap=Overlap.QUEUE), False),
    ("beside", 6, 14.0, 0, Policies(overlap=Overlap.ALLOW), False),
    ("fails", 7, 0.2, 3, Policies(retries=1, retry_delay_s=1), False),
    ("again", 9, 6.0, 0, Policies(on_interrupt=OnInterrupt.RETRY, retries=1), False),
    ("hour", 45, 30.0, 0, Policies(), False),
    ("first", 3, 1.0, 0, Policies(overlap=Overlap.QUEUE), True),
    ("second", 4, 1.5, 0, Policies(), True),
    ("third", 5, 2.0, 0, Policies(overlap=Overlap.ALLOW), True),
    ("after-end", None, 0.2, 0, Policies(overlap=Overlap.ALLOW), False),
    ("follows", None, 0.2, 0, Policies(overlap=Overlap.ALLOW), False),
    ("scan", 4, 1.0, 0, Policies(on=EACH), False),
    ("asked", None, 1.0, 0, Policies(overlap=Overlap.ALLOW), False),
)


class Storm:
    def __init__(self, folder: Path, *, seed: int, duration_s: int, engines: int) -> None:
        self._random = random.Random(seed)
        self._began = time.monotonic()
        self._duration_s = duration_s
        self.field = ServerField(folder)
        self.jobs = JobLog(self.field.log)
        self.slots = [MachineSlot(self.field, number) for number in range(engines)]
        self.faults = Faults(self.field, self.slots)
        self._plan = make_plan(seed, duration_s=duration_s, has_cables=self.field.has_cables)
        self._undo: list[tuple[float, Callable[[], None]]] = []
        self._promised: list[int] = []
        self._remarks: list[str] = []
        self._act_at_s = 0.0
        self._joined_ms = 0  # when all machines had engines
        self._well_ms = 0  # when all engines were well again

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:5.0f} s  {text}", file=sys.stderr, flush=True)

    def run(self) -> Account:
        made_ms = self._add_schedules()
        self._wait(self._is_well, "engines up", bound_s=_BOUND_S)
        self._joined_ms = wall_ms()
        self.say(f"{len(_SCHEDULES)} schedules, {len(self.slots)} engines")
        self._blow()
        self.say("all is healed")
        self._wait(self._is_well, "engines up again", bound_s=_BOUND_S)
        self._well_ms = wall_ms()
        self._wait(self._is_served, "each schedule has fired again", bound_s=_HEAL_S)
        removed_ms = wall_ms()
        self._remove_schedules()
        self._wait(self._is_quiet, "no run active", bound_s=_HEAL_S)
        for slot in self.slots:
            slot.term(again_s=None)
        self._wait(lambda: not any(one.is_up for one in self.slots), "engines down", bound_s=90)
        self._wait(lambda: not pairs(self.field.folder), "supervisors down", bound_s=60)
        self.jobs.read()
        return self._account(made_ms, removed_ms)

    # What happens.

    def _client(self) -> Client:
        return Client(read_location(self.field.own_url))

    def _add_schedules(self) -> int:
        with self._client() as client:
            client.add_all([self._spec(*one) for one in _SCHEDULES])
            client.limit_group(_GROUP, _GROUP_LIMIT)
            return max(round(1000 * one.created_at.timestamp()) for one in client.schedules())

    def _spec(
        self,
        name: str,
        every_s: int | None,
        lasts_s: float,
        code: int,
        policies: Policies,
        is_grouped: bool,
    ) -> ScheduleSpec:
        argv = (sys.executable, "-I", "-S", str(_JOB), str(self.field.log), "short")
        return ScheduleSpec(
            name=name,
            triggers=(
                f"every {every_s}s from {_ANCHOR}"
                if every_s is not None
                else _TRIGGERS.get(name, "on demand"),
            ),
            job=Job(kind=JobKind.COMMAND, argv=(*argv, str(lasts_s), str(code))),
            policies=policies,
            group=_GROUP if is_grouped else None,
        )

    def _blow(self) -> None:
        began, told_s = time.monotonic(), 0.0
        while True:
            now_s = time.monotonic() - began
            for one in [one for one in self._undo if one[0] <= now_s]:
                self._undo.remove(one)
                one[1]()
            while self._plan and self._plan[0].at_s <= now_s:
                fault = self._plan.pop(0)
                undo = self.faults.begin(fault)
                if undo is not None:
                    self._undo.append((now_s + fault.lasts_s, undo))
            if now_s > self._duration_s and not self._undo and not self._plan:
                return
            if now_s > self._act_at_s and not self.faults.is_server_down:
                self._act_at_s = now_s + _ACT_EVERY_S
                self._act()
            if now_s > told_s + 30:
                told_s = now_s
                self.jobs.read()
                self.say(f"{len(self.jobs.starts)} runs, {self.faults.counts.total()} faults")
            self._turn()

    def _act(self) -> None:
        """A person asks for a run, or cancels one."""
        try:
            with self._client() as client:
                if self._random.random() < 0.6:
                    self._promised += [one.id for one in client.run_now("asked")]
                    return
                running = [one for one in client.history(limit=30) if one.status is Status.RUNNING]
                if running:
                    client.cancel(self._random.choice(running).id)
        except EdgecronError:
            pass  # The run has ended, or the server. Nothing was promised.

    def _remove_schedules(self) -> None:
        with self._client() as client:
            for name, *_ in reversed(_SCHEDULES):
                client.remove(name)

    def _turn(self) -> None:
        for slot in self.slots:
            slot.tick(self.jobs)
        time.sleep(_TURN_S)

    def _wait(self, is_so: Callable[[], bool], what: str, *, bound_s: float) -> None:
        until = time.monotonic() + bound_s
        while not is_so():
            if time.monotonic() > until:
                self._remarks.append(f"not within {bound_s:.0f} s: {what}")
                return
            self._turn()
        self.say(what)

    def _is_well(self) -> bool:
        return all(one.is_well(for_s=1.0) for one in self.slots)

    def _is_served(self) -> bool:
        """Whether every schedule has started since the engines were well again."""
        self.jobs.read()
        seen = {one["schedule"] for one in self.jobs.starts if one["wall_ms"] > self._well_ms}
        return all(name in seen for name, *_ in _SCHEDULES if name != "asked")

    def _is_quiet(self) -> bool:
        sql = "SELECT count(*) FROM executions WHERE status IN ('queued', 'running')"
        return self._rows(sql) == [(0,)] and not list(self.jobs.living())

    def _rows(self, sql: str) -> list[Any]:
        with closing(psycopg.connect(self.field.own_url, autocommit=True)) as connection:
            connection.execute("SET search_path = edgecron")
            return connection.execute(sql.encode()).fetchall()

    # What is known then.

    def _account(self, made_ms: int, removed_ms: int) -> Account:
        columns = ", ".join("s.name" if one == "schedule" else f"e.{one}" for one in COLUMNS)
        rows = self._rows(
            f"SELECT {columns} FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id"
        )
        remarks = list(self._remarks)
        for slot in self.slots:
            remarks += [one.text for one in slot.remarks]
        for path in (*self.field.logs.glob("*.err"), *self.field.folder.rglob("*.crash")):
            text = path.read_text(errors="replace")
            if "Traceback" in text or path.suffix == ".crash":
                remarks.append(f"{path.name}: {text[-2000:]}")
        return Account(
            lives=[
                life
                for one in _SCHEDULES
                for life in self._lives(*one, made_ms=made_ms, removed_ms=removed_ms)
            ],
            rows=[dict(zip(COLUMNS, row, strict=True)) for row in rows],
            starts=self.jobs.starts,
            promised=self._promised,
            alive=[f"supervisor {one.supervisor}" for one in pairs(self.field.folder)],
            remarks=remarks,
        )

    def _lives(
        self,
        name: str,
        period_s: int | None,
        _lasts_s: float,
        _code: int,
        policies: Policies,
        is_grouped: bool,
        *,
        made_ms: int,
        removed_ms: int,
    ) -> list[Life]:
        is_each = policies.on == EACH
        hosts = {self.field.host(slot.machine) for slot in self.slots}
        return [
            Life(
                name=name,
                scope=scope,
                anchor_ms=_ANCHOR_MS,
                period_ms=None if period_s is None else 1000 * period_s,
                made_ms=self._joined_ms if is_each else made_ms,
                removed_ms=removed_ms,
                skips_overlap=policies.overlap is not Overlap.ALLOW,
                group_limit=_GROUP_LIMIT if is_grouped else None,
            )
            for scope in (sorted(hosts) if is_each else ("",))
        ]

    def figures(self, account: Account) -> dict[str, object]:
        """What happened, as numbers."""
        lost = [row for row in account.rows if row["reason"] == "lost"]
        took_over = []
        for _, from_ms, to_ms in self.faults.cuts:
            if to_ms - from_ms > LEASE_MS + 5_000:
                at_ms = [
                    row["finished_at"]
                    for row in lost
                    if from_ms + LEASE_MS / 3 < row["finished_at"] < to_ms
                    and "has not reached" in (row["error_msg"] or "")
                ]
                took_over += [(min(at_ms) - from_ms) / 1000] if at_ms else []
        events: Counter[str] = Counter()
        for path in self.field.logs.glob("engine-*.log"):
            for line in path.read_text(errors="replace").splitlines():
                with suppress(ValueError):
                    events[json.loads(line).get("event", "?")] += 1
        return {
            "runs": len(account.starts),
            "rows": dict(Counter(row["status"] for row in account.rows)),
            "faults": dict(self.faults.counts),
            "lost": len(lost),
            "takeover_s": [round(one, 1) for one in took_over],
            "events": dict(events),
        }

    def end(self) -> None:
        """End whatever is left, however it came to an end."""
        for _, undo in self._undo:
            with suppress(Exception):
                undo()
        for slot in self.slots:
            if slot.process is not None and slot.process.poll() is None:
                slot.process.kill()
                slot.process.wait()
        ended = [pid for one in pairs(self.field.folder) for pid in (one.guardian, one.supervisor)]
        ended += [one["pid"] for one in self.jobs.living()]
        for pid in ended:
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.field.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storm_on_server", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the plan (a new one)")
    parser.add_argument("--duration", type=int, default=60, metavar="S", help="of each storm (60)")
    parser.add_argument(
        "--storms", type=int, default=1, metavar="N", help="one after the other (1)"
    )
    parser.add_argument("--engines", type=int, default=2 * len(MACHINES), metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # It still ends all that it started.
    first = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    told: list[dict[str, Any]] = []
    for seed in range(first, first + options.storms):
        told.append(_blow_once(seed, options))
        if options.json is not None:
            options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return int(any(one["violations"] for one in told))


def _blow_once(seed: int, options: argparse.Namespace) -> dict[str, Any]:
    print(f"seed {seed}", flush=True)
    # A short path: that of a socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="ecs-", dir="/dev/shm"))
    storm = Storm(folder, seed=seed, duration_s=options.duration, engines=options.engines)
    try:
        account = storm.run()
        rows = [[row[one] for one in COLUMNS] for row in account.rows]
        (folder / "rows.json").write_text(json.dumps([COLUMNS, *rows]), encoding="utf-8")
        found: dict[str, Any] = {
            "seed": seed,
            **storm.figures(account),
            "violations": list(judge(account)),
        }
    finally:
        storm.end()
    print(json.dumps({**found, "violations": len(found["violations"])}))
    for text in found["violations"][:_MOST_SHOWN]:
        print(f"VIOLATION {text}")
    if found["violations"]:
        print(f"logs and journals: {folder}")
    else:
        shutil.rmtree(folder)
    return found


if __name__ == "__main__":
    sys.exit(main())
