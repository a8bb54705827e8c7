"""The judge of a virtual machine: what must hold whenever a database is looked at, and at the end.

It reads by a connection of its own, in the middle of whatever the processes are doing, and shares
no code with edgecron. TABLE says when each invariant of the catalogue is checked, and how.
"""

from __future__ import annotations

import stat
from collections import Counter, defaultdict
from typing import Any

from edgecron.supervisor.protocol import EndCause
from tests.simulation.accounts import (
    check_added,
    check_after,
    check_attempts,
    check_coverage,
    check_enqueued,
    check_intervals,
    is_of_events,
)
from tests.simulation.invariants import fire_of
from tests.simulation.listening import Listener
from tests.simulation.machine import MOST_LEAD_MS, Machine
from tests.simulation.witness import ACTIVE, Asked, Row, Witness
from tests.support.stores import check_soundness

ALWAYS, END = "each recovery", "end"
TABLE = {
    1: (ALWAYS, "successes of each fire are counted, those that retention removed with them"),
    2: (ALWAYS, "rows are counted by fire and attempt"),
    3: (ALWAYS, "at the start of each command: a token starts once, a row has one token that did"),
    4: (ALWAYS, "commands are counted by fire and attempt; attempts follow causes (12)"),
    5: (ALWAYS, "each command that ran has its row"),
    6: (ALWAYS, "status, exit code, start and duration of a row are those of its command"),
    7: (ALWAYS, "no command began beside another one of its schedule and scope, but under allow"),
    8: (ALWAYS, "rows are compared with what they were at the check before"),
    9: (ALWAYS, "attempts of a fire are 1, 2, ... in the order of their rows"),
    10: (ALWAYS, "a row that has gone had ended, and retention was at work since"),
    11: (ALWAYS, "within a revision, while the clock is not set by far"),
    12: (ALWAYS, "as often as the schedule said when the fire began, and where it must"),
    13: (ALWAYS, "each row without a success, that is not active, has a reason"),
    14: (END, "nothing is queued or running when all schedules are removed and time has passed"),
    15: (ALWAYS, "up to `decided_until`, by plain arithmetic; at the end up to the removal"),
    16: (END, "a minute after the last fault nothing is undecided or an orphan; all gets its turn"),
    17: (ALWAYS, "no command began before its due time, by any time the clock had shown"),
    18: (END, "in the calm at the end each plan time is decided within two seconds"),
    19: (END, "modes of the database, its log, its state folder, and all in there"),
    20: (END, "engines that are told to wait or to stop leave no command behind"),
    21: (ALWAYS, "integrity_check and foreign_key_check; at the end with each index"),
    22: (END, "doctor finds no problem but that no engine lives"),
    23: (
        ALWAYS,
        "acknowledged runs by hand have rows, keys and groups are whole; added ones are there",
    ),
    25: (ALWAYS, "a program without an engine looks, and the events that it got are counted"),
}
_NEVER = 1 << 62


class Judge(Witness):
    """Holds what the witness sees against the invariants."""

    def __init__(self, machine: Machine, asked: Asked, *, is_exact: bool = True) -> None:
        """Not exact where the clock is set by far: times may then be decided anew."""
        super().__init__(machine, asked)
        self.is_exact = is_exact
        self._listener = Listener(machine)
        self.checks = 0
        self._next: dict[tuple[int, int], int] = {}
        self._fires: dict[Any, dict[int, int]] = defaultdict(dict)  # ids by attempt
        self._successes: dict[Any, int] = {}  # ids, by fire
        self._filled: dict[Any, int] = {}  # ids, by plan time: at it or by a backfill
        self._by_key: dict[str, Any] = {}  # fires, by the idempotency keys of their commands
        self._started: dict[int, str] = {}  # tokens, by id
        self._seen_bodies = 0

    def close(self) -> None:
        self._listener.close()
        super().close()

    def check(self) -> None:
        """Raise AssertionError, naming the invariant, where one does not hold now."""
        self.checks += 1
        with self.database:  # one state, whoever writes meanwhile
            has_pruned = self.machine.points_of_deletes > self._prunings
            self.read_rows(is_whole=has_pruned or self.checks % 8 == 1)
            self.read_lives()
            self._check_file()
            self._check_next_times()
        changed, self.changed = self.changed, set()
        for id_ in changed:
            self._check_row(self.rows[id_])
        self._check_bodies(changed)
        self._check_fires(changed)
        check_enqueued(
            self.asked.acknowledged, self.rows, gone=self.gone, sizes=self.asked.group_sizes
        )
        check_added(self.asked.added - self.asked.removed, self.lives.values())
        by_life: dict[int, list[Row]] = defaultdict(list)
        for row in self.rows.values():
            by_life[row["schedule_id"]].append(row)
        for life in self.lives.values():
            mine = by_life[life.schedule_id]
            if any(text.startswith("after ") for text in life.spec.triggers):
                check_after(self.asked.anchor_ms, life, mine, list(self.rows.values()))
            if self.is_exact:
                check_coverage(self.asked.anchor_ms, life, mine)
                check_intervals(life, mine)
        self._listener.look()
        self._listener.check({id_: self.rows[id_] for id_ in changed - self.gone})

    def check_quiet(self) -> Counter[str]:
        """At the end: all schedules are removed, and time has passed. How many ended how."""
        self.checks += 8 - self.checks % 8  # the next one looks at everything
        self.check()
        for row in self.rows.values():
            assert row["status"] not in ACTIVE, f"I14 {row}"
        self._listener.check({id_: self.rows[id_] for id_ in self.rows.keys() - self.gone})
        self._check_file(is_whole=True)
        self._check_modes()
        return Counter(row["status"] for row in self.rows.values())

    def check_covered(self) -> None:
        """I15 where the clock was set by far: no plan time up to the removal is without a row.

        One that was decided by a clock that was wrong may lie in a range as well.
        """
        by_scope: dict[Any, set[int]] = defaultdict(set)
        plans = {id_: life.plans(self.asked.anchor_ms) for id_, life in self.lives.items()}
        for row in self.rows.values():
            if row["fire_key"] not in ("", "missed"):
                continue
            key = (row["schedule_id"], row["scope_kind"], row["scope_id"])
            if row["missed_count"] is None:
                by_scope[key].add(row["plan_at"])
            else:
                first, last = row["missed_from_at"], row["missed_to_at"]
                by_scope[key] |= {at for at in plans[row["schedule_id"]] if first <= at <= last}
        for id_, life in self.lives.items():
            for scope in life.spec.scopes:
                lost = plans[id_] - by_scope[id_, *scope]
                assert not lost, f"I15 {life.spec.name} {scope} lost: {sorted(lost)[:5]}"

    def count_active(self) -> int:
        """How many runs wait or run now."""
        count: Any
        [(count,)] = self.database.execute(
            "SELECT count(*) FROM executions WHERE status IN ('queued', 'running')"
        ).fetchall()
        return int(count)

    def active(self) -> list[tuple[Any, ...]]:
        """What waits or runs now, and how far it has come."""
        return self.database.execute(
            """SELECT id, status, lease_token, schedule_id, cause, due_at, waiting_for
               FROM executions WHERE status IN ('queued', 'running')"""
        ).fetchall()

    def check_recovered(self) -> None:
        """A minute after the last fault: full service, and nobody's runs."""
        overdue = self.database.execute(
            """SELECT name, next_run_at FROM schedules WHERE next_run_at <= :late""",
            {"late": self.machine.clock.now_ms() - 2_000},
        ).fetchall()
        assert not overdue, f"I16 undecided: {overdue}"
        orphans = self.database.execute(
            """SELECT e.id, e.supervisor_id FROM executions AS e WHERE e.status = 'running'
               AND NOT EXISTS (SELECT 1 FROM engines AS n
                   WHERE n.id = e.engine_id AND n.stopped_at IS NULL)"""
        ).fetchall()
        assert not orphans, f"I16 orphans: {orphans}"
        for id_, supervisor in self.database.execute(
            "SELECT id, supervisor_id FROM executions WHERE status = 'running'"
        ).fetchall():
            assert supervisor in self.machine.supervisors, f"I16 {id_} runs under nobody"

    def check_punctual(self, *, since_ms: int) -> int:
        """I18: what came due in a calm was decided at once; how many fires those were."""
        self.check()
        calm = [
            row
            for row in self.rows.values()
            if row["cause"] == "schedule"
            and row["due_at"] >= since_ms
            and row["attempt"] == 1
            # A range says when it began; by jitter its first may come due with its last.
            and row["missed_count"] is None
        ]
        for row in calm:
            stamps = [row[name] for name in ("queued_at", "claimed_at", "finished_at")]
            decided_ms = min(ms for ms in stamps if ms is not None)
            # What replaces another one that waits has its place in the line, and its due time.
            told = self.lives[row["schedule_id"]].spec_at(row["revision"])
            due_ms = max(row["due_at"], row["plan_at"] + round(told.policies.jitter_s * 1000))
            assert decided_ms <= due_ms + 2_000, f"I18 {row}"
        return len(calm)

    # What must hold.

    def _check_file(self, *, is_whole: bool = False) -> None:
        if self.machine.server is not None:
            if is_whole or self.checks % 8 == 1:
                check_soundness(self.database)
            return
        if is_whole or self.checks % 8 == 1:
            pragma = "PRAGMA integrity_check" if is_whole else "PRAGMA quick_check"
            assert self.database.execute(pragma).fetchall() == [("ok",)], "I21"
        assert self.database.execute("PRAGMA foreign_key_check").fetchall() == [], "I21"

    def _check_next_times(self) -> None:
        if not self.is_exact:
            return
        for id_, revision, next_ms in self.database.execute(
            # What a clock that was set back repeats is a logged repair, and lies before the mark.
            """SELECT id, revision, next_plan_at FROM schedules
               WHERE next_plan_at IS NOT NULL
                   AND (repeats_since IS NULL OR next_plan_at > decided_until)"""
        ):
            if is_of_events(self.lives[id_]):
                continue
            before = self._next.get((id_, revision))
            assert before is None or next_ms >= before, f"I11 {self.lives[id_].spec.name}"
            self._next[id_, revision] = next_ms

    def _check_repeated(self, row: Row) -> None:
        """I15: what a clock that was set back repeats is a time that follows elapsed time."""
        since_ms = int(row["fire_key"].removeprefix("again:"))
        assert row["plan_at"] > since_ms, f"I15 repeated before the clock was set: {row}"
        triggers = self.lives[row["schedule_id"]].spec.triggers
        assert any(_follows_elapsed(text) for text in triggers), f"I15 repeated: {row}"

    def _check_row(self, row: Row) -> None:
        fire, id_ = fire_of(row), row["id"]
        row["name"] = self.lives[row["schedule_id"]].spec.name
        if row["fire_key"].startswith("again:"):
            self._check_repeated(row)
        self._forget_removed(fire, row["attempt"], id_)
        assert self._fires[fire].setdefault(row["attempt"], id_) == id_, f"I2 {row}"
        if row["status"] == "success":
            assert self._successes.setdefault(fire, id_) == id_, f"I1 {row}"
            assert row["lease_token"] in self.machine.bodies, f"I6 {row}"
            if row["fire_key"] == "" or row["fire_key"].startswith("backfill:"):
                # Of what retention has removed nobody knows that it had succeeded.
                is_one = self._filled.setdefault(fire[:4], id_) == id_
                assert is_one or self.gone, f"backfilled twice: {row}"
        if row["status"] == "failed" and row["reason"] != "spawn":
            assert row["lease_token"] in self.machine.bodies, f"I6 {row}"
        if row["status"] == "interrupted":
            is_alive = row["supervisor_id"] in self.machine.supervisors
            assert not is_alive, f"I6 its supervisor lives: {row}"
        assert row["attempt"] <= row["max_attempts"], f"I12 {row}"
        assert row["status"] in ("success", *ACTIVE) or row["reason"], f"I13 {row}"

    def _forget_removed(self, fire: Any, attempt: int, id_: int) -> None:
        """By a clock that is set by far, an interval comes by the same times again, and those are
        decided as long as there is a row: of what retention has removed nobody knows."""
        known = self._fires[fire]
        is_anew = known.get(attempt, id_) != id_
        if is_anew and not self.is_exact and self.gone >= {*known.values()}:
            known.clear()
            self._successes.pop(fire, None)

    def _check_fires(self, changed: set[int]) -> None:
        """Attempts, of the fires of which a row has changed."""
        by_life: dict[int, list[Row]] = defaultdict(list)
        for fire in {fire_of(self.rows[id_]) for id_ in changed}:
            by_life[fire[0]] += [self.rows[id_] for id_ in self._fires[fire].values()]
        for schedule_id, rows in by_life.items():
            life = self.lives[schedule_id]
            check_attempts(life, rows, settled_ms=_NEVER - 1 if life.is_there else 0)

    def _check_bodies(self, changed: set[int]) -> None:
        """Commands that are new, or whose row has changed."""
        bodies = list(self.machine.bodies.values())
        for body in bodies[self._seen_bodies :]:
            row = self.rows.get(body.execution_id)
            assert row is not None, f"I5 {body}"
            assert self._started.setdefault(row["id"], body.token) == body.token, f"I3 {row} {body}"
            fire = fire_of(row)
            assert self._by_key.setdefault(body.fire, fire) == fire, f"I4 {body}"
            lead_ms = MOST_LEAD_MS if self._was_set_back_while_claimed(row) else 0
            assert body.highest_ms >= row["due_at"] - lead_ms, f"I17 {row} {body}"
            if row["cause"] == "schedule" and not self._is_plan_only_a_name(row):
                assert body.highest_ms >= row["plan_at"] - lead_ms, f"I17 {row} {body}"
            if body.beside and self._is_lone(row):
                self._check_alone(row, body)
        ids = changed | {body.execution_id for body in bodies[self._seen_bodies :]}
        self._seen_bodies = len(bodies)
        for id_ in ids:
            row = self.rows[id_]
            token = self._started.get(id_)
            if token is not None:
                assert row["status"] not in ("queued", "skipped"), f"I5 {row} {token}"
                if row["status"] != "running":
                    self._check_end(row, self.machine.bodies[token])

    def _check_end(self, row: Row, body: Any) -> None:
        """I6: what the row says of its end is what the command itself knows."""
        assert row["lease_token"] == body.token, f"I6 {row} {body}"
        assert body.ends_at_ms <= self.machine.true_ms, f"I6 it still runs: {row} {body}"
        if row["status"] == "interrupted":
            assert not body.is_on_record, f"I6 its end was on record: {row} {body}"
            return
        assert not body.is_cut_short, f"I6 {row} {body}"
        # By a clock that was set back between the claim and the start, it started with its claim.
        started_ms = max(body.started_ms, row["claimed_at"])
        # By a server's clock that was set, the instant follows from elapsed time.
        is_exact = self.machine.server is None or not self.machine.set_count
        assert row["started_at"] == started_ms or not is_exact, f"I6 {row} {body}"
        assert row["duration_ms"] == body.ends_at_ms - body.began_at_ms, f"I6 {row} {body}"
        if row["status"] == "cancelled":
            expected = (EndCause.CANCELLED, EndCause.STOPPED)
            assert body.end_cause in expected, f"I6 {row} {body}"
        elif row["reason"] == "timeout":
            assert body.end_cause is EndCause.TIMEOUT, f"I6 {row} {body}"
        else:
            assert body.end_cause is None, f"I6 {row} {body}"
            assert row["exit_code"] == body.exit_code, f"I6 {row} {body}"
            assert (row["status"] == "success") == (body.exit_code == 0), f"I6 {row} {body}"

    def _was_set_back_while_claimed(self, row: Row) -> bool:
        """Whether the clock was set back right before a fire was due that an engine had claimed
        ahead: the engine then starts it immediately. See `engine.ahead`."""
        shown = self.machine.set_back_from_ms
        is_ahead = row["claimed_at"] == row["due_at"]
        return is_ahead and any(0 < row["due_at"] - at <= MOST_LEAD_MS for at in shown)

    def _is_plan_only_a_name(self, row: Row) -> bool:
        """Whether a fire may start before its plan time: a person has moved it, or it is of an
        interval after the end. That goes by what has passed, and after a clock that was set back
        its plan time lies just past those that are decided."""
        life = self.lives[row["schedule_id"]]
        triggers = life.spec_at(row["revision"]).triggers
        follows_end = any(text.endswith(" after end") for text in triggers)
        return row["name"] in self.asked.moved or follows_end

    def _is_lone(self, row: Row) -> bool:
        return self.lives[row["schedule_id"]].is_lone

    def _check_alone(self, row: Row, body: Any) -> None:
        """I7. A schedule that was removed and made anew is another one."""
        for token in body.beside:
            other = self.rows[self.machine.bodies[token].execution_id]
            assert other["schedule_id"] != row["schedule_id"], f"I7 {body} beside {other}"

    def _check_modes(self) -> None:
        path = self.machine.path
        files = [*path.parent.glob(f"{path.name}*"), *self.machine.state_dir.iterdir()]
        for one in files:
            mode = one.lstat().st_mode
            wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
            assert stat.S_IMODE(mode) == wanted, f"I19 {one} {mode:o}"
        folder = self.machine.state_dir.stat().st_mode
        assert stat.S_IMODE(folder) == 0o700, f"I19 {folder:o}"


def _follows_elapsed(text: str) -> bool:
    """Whether a trigger is an interval, or a cron text whose minute or hour begins with `*`."""
    fields = text.split()
    if fields[0] == "every":
        return True
    return len(fields) in (5, 6) and any(one.startswith("*") for one in fields[-5:-3])
