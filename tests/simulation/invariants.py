"""The checker: what must hold of a database and of the effects, after everything is quiet."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from tests.simulation.counted import check_counts
from tests.simulation.world import ASKED_MS, ASKS_AGAIN, DECLINES, GIVES_UP, Body, World
from tests.support.stores import check_soundness

# From a schedule's name to the plan times it had in (after, until], by a plain model.
PlanModel = Mapping[str, Callable[[int, int], set[int]]]

_COLUMNS = (
    "id", "schedule_id", "revision", "name", "scope_kind", "scope_id",
    "plan_at", "fire_key", "attempt", "max_attempts",
    "status", "reason", "due_at", "started_at", "finished_at", "exit_code", "lease_token",
    "missed_from_at", "missed_to_at", "missed_count", "cancel_requested_at", "overlap",
)  # fmt: skip


def read_rows(world: World) -> list[dict[str, Any]]:
    columns = (f"e.{c}" if c not in ("name", "overlap") else f"s.{c}" for c in _COLUMNS)
    rows = world.look(
        f"""SELECT {", ".join(columns)}
            FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id ORDER BY e.id"""
    )
    check_soundness(world.reader)
    return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]


def read_all(world: World) -> list[dict[str, Any]]:
    """Every row that there is or was: what retention has removed is judged with the others."""
    rows = read_rows(world)
    assert not {row["id"] for row in rows} & set(world.archive), "I10 what was removed came back"
    return sorted([*rows, *world.archive.values()], key=lambda row: row["id"])


def check(world: World, model: PlanModel, *, made_ms: int, until_ms: int) -> Counter[str]:
    """Raise AssertionError, naming the invariant, where one does not hold; counts per status."""
    rows = read_all(world)
    check_rows(rows)
    check_bodies(rows, world.bodies)
    check_decisions(rows, world.bodies, until_ms=until_ms)
    check_counts(world, rows)
    check_state(world, rows)
    _check_no_overlap(rows, world.bodies)
    _check_coverage(rows, model, made_ms=made_ms, until_ms=until_ms)
    return Counter(row["status"] for row in rows)


def fire_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        row[name] for name in ("schedule_id", "scope_kind", "scope_id", "plan_at", "fire_key")
    )


def check_rows(rows: list[dict[str, Any]]) -> None:
    successes = Counter(fire_of(row) for row in rows if row["status"] == "success")
    assert all(count == 1 for count in successes.values()), f"I1 {successes.most_common(1)}"
    attempts = Counter((fire_of(row), row["attempt"]) for row in rows)
    assert all(count == 1 for count in attempts.values()), f"I2 {attempts.most_common(1)}"
    for row in rows:
        assert row["attempt"] <= row["max_attempts"], f"I12 {row}"
        assert row["status"] in ("success", "queued", "running") or row["reason"], f"I13 {row}"
        assert row["status"] not in ("running", "queued"), f"I14 {row}"
        assert row["started_at"] is None or row["started_at"] >= row["due_at"], f"I17 {row}"


def check_bodies(rows: list[dict[str, Any]], bodies: list[Body]) -> None:
    by_id = {row["id"]: row for row in rows}
    starts = Counter(body.execution_id for body in bodies)
    assert all(count == 1 for count in starts.values()), f"I3 {starts.most_common(1)}"
    plans = Counter((b.schedule, b.scope, b.plan_ms, b.fire_key, b.attempt) for b in bodies)
    assert all(count == 1 for count in plans.values()), f"I4 {plans.most_common(1)}"
    for body in bodies:
        row = by_id.get(body.execution_id)
        assert row is not None, f"I5 {body}"
        assert body.started_ms >= body.due_ms, f"I17 {body}"
        if row["status"] in ("success", "failed"):
            assert row["exit_code"] == body.exit_code, f"I6 {row} {body}"
            assert not body.is_cut_short, f"I6 {row} {body}"
        elif row["status"] == "cancelled":
            assert body.end_reason is not None, f"I6 {row} {body}"
        elif row["status"] == "skipped":
            assert body.exit_code == DECLINES, f"I6 {row} {body}"
            assert not body.is_cut_short, f"I6 {row} {body}"
        else:
            assert row["status"] == "interrupted", f"I6 {row} {body}"
    started = {body.execution_id for body in bodies}
    for row in rows:
        if row["status"] in ("success", "failed"):
            assert row["id"] in started, f"I6 {row}"


def check_decisions(rows: list[dict[str, Any]], bodies: list[Body], *, until_ms: int) -> None:
    """Each decision of a run about its fire is carried out; `until_ms`: schedules were removed."""
    by_id = {row["id"]: row for row in rows}
    by_attempt = {(*fire_of(row), row["attempt"]): row for row in rows}
    for body in bodies:
        row = by_id[body.execution_id]
        following = by_attempt.get((*fire_of(row), row["attempt"] + 1))
        has_ended = row["status"] in ("failed", "skipped")
        if not has_ended or body.exit_code not in (ASKS_AGAIN, GIVES_UP, DECLINES):
            continue
        if body.exit_code == DECLINES:
            assert row["status"] == "skipped", f"I24 {row}"
            assert row["reason"] == "declined", f"I24 {row}"
        if body.exit_code in (GIVES_UP, DECLINES) or row["attempt"] == row["max_attempts"]:
            assert following is None, f"I24 {row} is followed by {following}"
        elif row["finished_at"] < until_ms and row["cancel_requested_at"] is None:
            assert following is not None, f"I24 {row} asked for another attempt"
            due_ms = row["finished_at"] + ASKED_MS
            assert following["due_at"] == due_ms, f"I24 {row} asked for {due_ms}: {following}"


def check_state(world: World, rows: list[dict[str, Any]]) -> None:
    """Each run has had its schedule remember it: so it does of those that succeeded alone."""
    remembered = {int(row[0]) for row in world.look("SELECT key FROM state")}
    there = {row[0] for row in world.look("SELECT id FROM schedules")}
    successes = {row["id"] for row in rows if row["status"] == "success"}
    assert remembered <= successes, f"I6 {min(remembered - successes)} has left a state"
    forgotten = {row["id"] for row in rows if row["schedule_id"] in there} & successes - remembered
    assert not forgotten, f"I6 the state of {min(forgotten)} is lost"


def _check_no_overlap(rows: list[dict[str, Any]], bodies: list[Body]) -> None:
    lone = {row["name"] for row in rows if row["overlap"] != "allow"}
    by_scope: dict[Any, list[Body]] = defaultdict(list)
    for body in bodies:
        if body.schedule in lone:
            by_scope[body.schedule, body.scope].append(body)
    for mine in by_scope.values():
        mine.sort(key=lambda body: body.started_ms)
        for earlier, later in itertools.pairwise(mine):
            assert earlier.ends_ms <= later.started_ms, f"I7 {earlier} {later}"


def _check_coverage(
    rows: list[dict[str, Any]], model: PlanModel, *, made_ms: int, until_ms: int
) -> None:
    for name, plans_in in model.items():
        scopes = {(row["scope_kind"], row["scope_id"]) for row in rows if row["name"] == name}
        expected = plans_in(made_ms, until_ms)
        assert scopes or not expected, f"I15 {name} left no row"
        for scope in scopes:
            covered: Counter[int] = Counter()
            for row in rows:
                if row["name"] == name and (row["scope_kind"], row["scope_id"]) == scope:
                    covered.update(_covered(row, plans_in))
            twice = [ms for ms, count in covered.items() if count > 1]
            assert not twice, f"I15 {name} {scope} decided twice: {twice[:5]}"
            lost = expected - set(covered)
            assert not lost, f"I15 {name} {scope} lost: {sorted(lost)[:5]}"
            extra = set(covered) - expected
            assert not extra, f"I15 {name} {scope} was never due: {sorted(extra)[:5]}"


def _covered(row: dict[str, Any], plans_in: Callable[[int, int], set[int]]) -> set[int]:
    if row["attempt"] > 1:
        return set()
    if row["missed_count"] is not None:
        if row["fire_key"] not in ("", "missed"):
            return set()
        span = plans_in(row["missed_from_at"] - 1, row["missed_to_at"])
        assert len(span) == row["missed_count"], f"I15 count of {row}, expected {len(span)}"
        return span
    return {row["plan_at"]} if row["fire_key"] == "" else set()
