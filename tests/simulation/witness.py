"""The witness of a virtual machine: what the database says, and whether that changed as it may."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import apsw

from edgecron.model.schedule import ScheduleSpec
from tests.simulation.accounts import check_unchanged
from tests.simulation.machine import Machine
from tests.simulation.people import Life, Wanted, periods_of

Row = dict[str, Any]
ACTIVE = ("queued", "running")
_COLUMNS = (
    "id", "schedule_id", "revision", "scope_kind", "scope_id", "plan_at", "fire_key",
    "attempt", "max_attempts", "cause", "status", "reason", "due_at", "queued_at", "claimed_at",
    "started_at", "finished_at", "duration_ms", "exit_code", "lease_token", "engine_id",
    "supervisor_id", "missed_from_at", "missed_to_at", "missed_count", "cancel_requested_at",
)  # fmt: skip
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM executions WHERE {{}} ORDER BY id"


@dataclass(kw_only=True)
class Asked:
    """What people asked for, whether or not they got it."""

    anchor_ms: int
    specs: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    touched_ms: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    # Of `enqueue`: the key, how many fires, and the ids of all their runs.
    acknowledged: list[tuple[str | None, int, tuple[int, ...]]] = field(default_factory=list)
    group_sizes: set[int] = field(default_factory=set)
    added: set[str] = field(default_factory=set)  # names of acknowledged `scheduler.add`
    removed: set[str] = field(default_factory=set)  # names that somebody was to remove
    moved: set[str] = field(default_factory=set)  # of which a fire was to start at another time

    def note(self, spec: ScheduleSpec) -> None:
        self.specs[spec.name].append(_words_of(spec))


class Witness:
    """Reads by a connection of its own, and keeps what it saw: also what was removed since."""

    def __init__(self, machine: Machine, asked: Asked) -> None:
        self.machine = machine
        self.asked = asked
        self.lives: dict[int, Life] = {}
        self.rows: dict[int, Row] = {}  # all that there are or ever were
        self.gone: set[int] = set()  # ids of those that are no more
        self.changed: set[int] = set()  # ids of those that are new or not what they were
        self._raw: dict[int, tuple[Any, ...]] = {}
        self._active: set[int] = set()
        self._last: dict[Any, int] = {}  # the newest row of each schedule and scope
        self._prunings = 0  # how often rows were removed, at the last look
        self.database: Any = (
            apsw.Connection(str(machine.path), flags=apsw.SQLITE_OPEN_READONLY)
            if machine.server is None
            else machine.server.open_reader()
        )

    def close(self) -> None:
        self.database.close()

    def remember(self) -> None:
        """Read what is about to be removed."""
        with self.database:
            self.read_rows()
            self.read_lives()

    def read_rows(self, *, is_whole: bool = True) -> None:
        """The rows, and whether they have changed only as they may.

        Not the whole: those that are new, or may still change.
        """
        before = self._raw
        newest = self._newest
        if is_whole:
            raw = {row[0]: row for row in self.database.execute(_SELECT.format("true"))}
            self._check_vanished(before.keys() - raw.keys())
            assert not raw.keys() & self.gone, "I10 what was removed came back"
        else:
            may_change = [id_ for id_ in self._active | newest if id_ in before]
            ids = ", ".join(map(str, (0, *may_change)))
            where = f"id > {max(before, default=0)} OR id IN ({ids})"
            found = {row[0]: row for row in self.database.execute(_SELECT.format(where))}
            raw = before | found
        changed = [id_ for id_, row in raw.items() if before.get(id_) is not row]
        changed = [id_ for id_ in changed if before.get(id_) != raw[id_]]
        fresh = {id_: dict(zip(_COLUMNS, raw[id_], strict=True)) for id_ in changed}
        check_unchanged(
            [self.rows[id_] for id_ in changed if id_ in self.rows],
            list(fresh.values()),
            newest=newest,
        )
        for id_, row in fresh.items():
            if id_ in self.rows:
                self.rows[id_].update(row)
            else:
                self.rows[id_] = row
            if row["status"] in ACTIVE:
                self._active.add(id_)
            else:
                self._active.discard(id_)
            scope = (row["schedule_id"], row["scope_kind"], row["scope_id"])
            if self._last.get(scope, 0) < id_:
                self._last[scope] = id_
        self.changed.update(changed)
        self._raw = raw

    def _check_vanished(self, vanished: set[int]) -> None:
        prunings = self.machine.points_of_deletes
        assert not vanished or prunings > self._prunings, f"I10 {sorted(vanished)[:5]}"
        for id_ in vanished:
            assert self.rows[id_]["status"] not in ACTIVE, f"I10 {self.rows[id_]}"
        self.gone |= vanished
        self._prunings = prunings

    @property
    def _newest(self) -> set[int]:
        """The newest row of each schedule and scope, as it was at the check before: it may grow."""
        return set(self._last.values())

    def read_lives(self) -> None:
        now: list[Any] = self.database.execute(
            "SELECT id, name, created_at, decided_until, deleted_at FROM schedules"
        ).fetchall()
        revisions: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        for id_, revision, at_ms, snapshot in self.database.execute(
            "SELECT schedule_id, revision, at, snapshot FROM schedule_revisions ORDER BY 1, 2"
        ):
            revisions[id_].append((revision, at_ms, snapshot))
        for id_, name, made_ms, decided_ms, deleted_ms in now:
            life = self.lives.get(id_)
            if life is None:
                life = self.lives[id_] = self._new_life(id_, name, made_ms, revisions[id_][0][2])
            for revision, at_ms, snapshot in revisions[id_]:
                if revision not in life.specs:
                    self._add_revision(life, revision, at_ms, snapshot)
            life.is_there = deleted_ms is None
            life.removed_ms = decided_ms if deleted_ms is None else deleted_ms
            life.touched_ms += [
                at_ms for at_ms in self.asked.touched_ms[name] if at_ms not in life.touched_ms
            ]

    def _new_life(self, id_: int, name: str, made_ms: int, snapshot: str) -> Life:
        return Life(
            schedule_id=id_,
            spec=self.asked_spec(name, snapshot),
            made_ms=made_ms,
            wanted=[],
        )

    def _add_revision(self, life: Life, revision: int, at_ms: int, snapshot: str) -> None:
        spec = self.asked_spec(life.spec.name, snapshot)
        assert revision > max(life.specs, default=0), f"revision {revision} of {life.spec.name}"
        life.specs[revision] = spec
        life.touched_ms.append(at_ms)
        periods_s = periods_of(spec.triggers)
        if not life.wanted or life.wanted[-1].periods_s != periods_s:
            life.wanted.append(Wanted(since_ms=at_ms, periods_s=periods_s))

    def asked_spec(self, name: str, snapshot: str) -> ScheduleSpec:
        """What was asked for, of which this is the copy in the database."""
        told = json.loads(snapshot)
        words = (tuple(json.loads(told["triggers"])), *(told[one] for one in _WORDS))
        for spec, asked in self.asked.specs[name]:
            if asked == words:
                found: ScheduleSpec = spec
                return found
        raise AssertionError(f"nobody asked for this {name}: {words}")


_WORDS = (
    "job", "catch_up", "overlap", "max_running", "retries", "retry_delay_s", "on_interrupt",
    "jitter_s", "priority", "timeout_s", "max_runs", "needs",
)  # fmt: skip


def _words_of(spec: ScheduleSpec) -> tuple[Any, ...]:
    told = spec.policies
    words = (
        tuple(spec.triggers),
        json.dumps(list(spec.job.argv), separators=(",", ":")),
        told.catch_up.value,
        told.overlap.value,
        told.max_running,
        told.retries,
        told.retry_delay_s,
        told.on_interrupt.value,
        told.jitter_s,
        told.priority,
        told.timeout_s,
        spec.max_runs,
        json.dumps(list(told.needs), separators=(",", ":")),
    )
    return spec, words
