"""What must hold of the rows alone, and of what became of them while it was looked."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.chaos.history import History, Life, Promise, Row, Trouble

ACTIVE = ("queued", "running")


def fire_of(row: Row) -> tuple[Any, ...]:
    return tuple(
        row[name] for name in ("schedule_id", "scope_kind", "scope_id", "plan_at", "fire_key")
    )


def short(row: Row) -> str:
    """A row as far as anybody wants to read it."""
    names = ("id", "name", "plan_at", "fire_key", "attempt", "status", "reason", "exit_code")
    times = ("due_at", "claimed_at", "started_at", "finished_at", "engine_id", "missed_count")
    return " ".join(f"{name}={row[name]}" for name in (*names, *times) if row.get(name) is not None)


def one_success(history: History) -> Iterator[str]:
    """I1: at most one success of a fire."""
    counts = Counter(fire_of(row) for row in history.rows if row["status"] == "success")
    yield from (f"{count} successes of {fire}" for fire, count in counts.items() if count > 1)


def unique_attempts(history: History) -> Iterator[str]:
    """I2: at most one row of an attempt."""
    counts = Counter((*fire_of(row), row["attempt"]) for row in history.rows)
    yield from (f"{count} rows of {attempt}" for attempt, count in counts.items() if count > 1)


def final_rows_stay(history: History) -> Iterator[str]:
    """I8: what has ended does not change; but a skip may grow."""
    for change in history.changes:
        before, after = change.before, change.after
        if after is None or before["status"] in ACTIVE:
            continue
        grown = {**before, **{name: after[name] for name in ("missed_to_at", "missed_count")}}
        may_grow = before["status"] == "skipped" and before["missed_count"] is not None
        if not (may_grow and grown == after and after["missed_count"] > before["missed_count"]):
            yield f"was {short(before)}, is {short(after)}"


def attempts_rise(history: History) -> Iterator[str]:
    """I9: the attempts of a fire are 1, 2, 3, in the order of their rows."""
    fires: dict[Any, list[Row]] = defaultdict(list)
    for row in history.rows:
        fires[fire_of(row)].append(row)
    lives = {life.schedule_id: life for life in history.lives}
    for rows in fires.values():
        numbers = [row["attempt"] for row in sorted(rows, key=lambda row: row["id"])]
        if numbers != list(range(1, len(rows) + 1)) and not _may_be_gone(
            rows[0], lives.get(rows[0]["schedule_id"])
        ):
            yield f"attempts {numbers} of {short(rows[0])}"
    for change in history.changes:
        if change.after is not None and change.after["attempt"] != change.before["attempt"]:
            yield f"was {short(change.before)}, is {short(change.after)}"


def rows_stay(history: History) -> Iterator[str]:
    """I10: nothing is lost that was on record, or that a command line said was done."""
    lives = {life.schedule_id: life for life in history.lives}
    for change in history.changes:
        if change.after is None:
            life = lives.get(change.before["schedule_id"])
            if not _may_be_gone(change.before, life):
                yield f"vanished: {short(change.before)}"
    ids = {row["id"] for row in history.rows}
    names = {life.name for life in history.lives}
    present = {life.name for life in history.lives if life.removed_ms is None}
    for promise in history.promises:
        if is_in_doubt(promise, history.troubles):
            continue
        lost = [run for run in promise.runs if run not in ids]
        if lost:
            yield f"run {lost} of {promise.name}, promised at {promise.at_ms}, is not on record"
        if promise.kind == "add" and promise.name not in names:
            yield f"schedule {promise.name}, added at {promise.at_ms}, is not there"
        if promise.kind == "rm" and promise.name in present:
            yield f"schedule {promise.name}, removed at {promise.at_ms}, is still there"
    yield from _counts_that_differ(history)


def _counts_that_differ(history: History) -> Iterator[str]:
    seen: dict[int, Counter[str]] = defaultdict(Counter)
    for row in history.rows:
        seen[row["schedule_id"]][row["status"]] += row["missed_count"] or 1
    for life in history.lives:
        if life.pruned_until_ms is None:
            for status, count in life.counts.items():
                if count != seen[life.schedule_id][status]:
                    yield (
                        f"{life.name} counts {count} {status},"
                        f" {seen[life.schedule_id][status]} are on record"
                    )


def _may_be_gone(row: Row, life: Life | None) -> bool:
    """Whether retention may have removed a row, as somebody told it to.

    A range of times that did not run can't have succeeded, and does not move the mark.
    """
    return (
        life is not None
        and life.pruned_until_ms is not None
        and (row["plan_at"] <= life.pruned_until_ms or row["fire_key"] == "missed")
    )


def is_in_doubt(promise: Promise, troubles: Iterable[Trouble]) -> bool:
    """Whether the database was not in its place, so that another one may have been meant."""
    return any(
        trouble.kind in ("away", "replaced", "replaced_unseen")
        and trouble.began_ms <= promise.at_ms
        and promise.began_ms <= trouble.healed_ms
        for trouble in troubles
    )


def attempts_within_bound(history: History) -> Iterator[str]:
    """I12: attempt <= max_attempts, and no more retries than were asked for."""
    lives = {life.schedule_id: life for life in history.lives}
    for row in history.rows:
        era = lives[row["schedule_id"]].era_at(row["revision"])
        most = 1 + era.retries + (era.on_interrupt == "retry")
        if row["attempt"] > row["max_attempts"] or row["attempt"] > most:
            yield f"at most {most}: {short(row)} max_attempts={row['max_attempts']}"


def reasons_given(history: History) -> Iterator[str]:
    """I13: what did not succeed says why."""
    for row in history.rows:
        if row["status"] not in ("success", *ACTIVE) and not row["reason"]:
            yield short(row)


def nothing_active(history: History) -> Iterator[str]:
    """I14: when all is quiet nothing is queued or running, and no process is left."""
    for row in history.rows:
        if row["status"] in ACTIVE:
            yield short(row)
    yield from (f"still alive: {words}" for words in history.alive)
