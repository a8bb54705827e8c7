"""What a schedule said before: kept as long as a run needs it, then gone from the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgecron.base.units import from_ms
from edgecron.base.values import replace
from edgecron.model.choices import Status
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.retention import Kind, Reason, Removed, Retention, limits_at, sum_of
from edgecron.planning.times import compile_spec
from edgecron.store.sql import retention
from edgecron.store.sql.explanations import find_revision
from edgecron.store.sql.old_rows import forget
from tests.store.store_bench import Bench, outcome_of
from tests.support.specs import make_spec

MINUTE_MS = 60_000
MONTH_MS = 31 * 24 * 60 * MINUTE_MS
KEEP = Retention()


def edit(bench: Bench, name: str, change: Callable[[ScheduleSpec], ScheduleSpec]) -> None:
    schedule = bench.store.get_schedule(name)
    compiled = compile_spec(
        change(schedule.spec), seed=bench.store.seed, made_at=from_ms(bench.now)
    )
    assert bench.store.update_schedule(
        schedule, compiled, retiming=None, boot_id="boot-1", origin="test", now_ms=bench.now
    )


def describe(bench: Bench, name: str, words: str) -> None:
    edit(bench, name, lambda spec: replace(spec, description=words))


def pause(bench: Bench, name: str) -> None:
    schedule = bench.store.get_schedule(name)
    assert bench.store.pause_schedule(schedule, until_ms=None, following=None, now_ms=bench.now)


def run_once(bench: Bench) -> int:
    bench.clock.advance_ms(MINUTE_MS)
    [granted] = bench.fire().granted
    bench.store.finish([outcome_of(granted, bench.now)], now_ms=bench.now)
    return granted.execution_id


def prune(bench: Bench, *, is_trial: bool = False, later_ms: int = MONTH_MS) -> list[Removed]:
    """Prune when former definitions are too old for an undo."""
    limits = limits_at(KEEP, bench.now + later_ms, is_trusted=True)
    done: list[Removed] = []
    for removed in retention.prune(bench.store, limits, schedule_id=None, is_trial=is_trial):
        done = done if removed is None else sum_of(done, removed)
    return done


def described(bench: Bench, schedule_id: int, *revisions: int) -> list[str | None]:
    wanted = [(schedule_id, revision) for revision in revisions]
    return [one.spec.description for one in bench.store.load_schedules(wanted)]


def size_of(bench: Bench) -> int:
    used_bytes, _ = bench.store.find_size()
    return used_bytes


def test_a_pause_stores_nothing_of_what_the_schedule_says(bench: Bench) -> None:
    spec = replace(make_spec(), job=replace(make_spec().job, payload='"' + "x" * 200_000 + '"'))
    schedule = bench.add(spec)
    before = size_of(bench)

    for _ in range(20):
        pause(bench, "backup")

    assert bench.store.get_schedule("backup").revision == 21
    assert size_of(bench) < before + 20_000
    [stored] = bench.store.load_schedules([(schedule.id, 21)])
    assert (stored.revision, stored.spec.job.payload) == (21, spec.job.payload)


def test_retention_removes_what_a_schedule_said_when_nothing_ran(bench: Bench) -> None:
    schedule = bench.add()
    run_once(bench)
    for words in ("a", "b", "c"):
        describe(bench, "backup", words)
    pause(bench, "backup")

    trial = prune(bench, is_trial=True)
    removed = prune(bench)

    assert [(one.kind, one.reason, one.count) for one in removed] == [
        (Kind.REVISION, Reason.UNUSED, 2)
    ]
    assert [(one.kind, one.count) for one in trial] == [(Kind.REVISION, 2)]
    [run] = bench.rows()
    assert described(bench, schedule.id, run.revision) == [None]
    assert described(bench, schedule.id, 5) == ["c"]
    assert prune(bench) == []


def test_what_a_waiting_retry_began_with_stays(bench: Bench) -> None:
    schedule = bench.add(make_spec(retries=3, retry_delay_s=60))
    bench.clock.advance_ms(MINUTE_MS)
    [granted] = bench.fire().granted
    bench.store.finish([outcome_of(granted, bench.now, Status.FAILED)], now_ms=bench.now)
    describe(bench, "backup", "later")

    prune(bench)
    found = forget(bench.store, schedule.id, is_trial=False)

    assert (found.removed, found.kept) == (0, 1)
    [retry] = [run for run in bench.rows() if run.status is Status.QUEUED]
    assert described(bench, schedule.id, retry.revision, 2) == [None, "later"]


@pytest.mark.parametrize("is_noted", [False, True])
def test_what_an_imported_line_said_stays_until_its_import_is_noted(
    bench: Bench, is_noted: bool
) -> None:
    schedule_id = bench.add(origin="crontab").id
    describe(bench, "backup", "edited")
    if is_noted:
        bench.store.note_imported([(schedule_id, "file", "{}")])

    prune(bench)

    found = [one for one, _ in bench.store.find_imported_before()]
    assert found == ([] if is_noted else [schedule_id])
    kept = bench.store.load_schedules([(schedule_id, 1)])
    assert len(kept) == (0 if is_noted else 1)


def test_of_a_time_whose_words_went_nothing_else_is_said(bench: Bench) -> None:
    schedule = bench.add()
    run_once(bench)
    bench.clock.advance_ms(MINUTE_MS)
    describe(bench, "backup", "short-lived")
    between_ms = bench.now
    bench.clock.advance_ms(MINUTE_MS)
    describe(bench, "backup", "now")
    prune(bench)

    database = bench.store
    before = find_revision(database, schedule.id, at_ms=between_ms - 1)
    between = find_revision(database, schedule.id, at_ms=between_ms)
    now = find_revision(database, schedule.id, at_ms=bench.now)

    assert before is not None
    assert between is not None
    assert now is not None
    assert (before.revision, before.is_removed) == (1, False)
    assert between.is_removed
    assert (now.revision, now.is_newest) == (3, True)


@pytest.mark.of_file
@pytest.mark.parametrize("is_removed", [False, True])
def test_what_is_forgotten_is_nowhere_in_the_files(
    bench: Bench, tmp_path: Path, is_removed: bool
) -> None:
    secret = "hunter2-" * 400
    spec = make_spec()
    with_secret = replace(spec, job=replace(spec.job, env={"TOKEN": secret}, stdin=secret))
    schedule = bench.add(with_secret)
    run_once(bench)
    if is_removed:
        bench.store.remove_schedule(bench.store.get_schedule("backup"), missed=(), now_ms=bench.now)
    else:
        edit(bench, "backup", lambda _: spec)
    assert b"hunter2" in everything_in(tmp_path)

    found = forget(bench.store, schedule.id, is_trial=False)

    assert (found.removed, found.kept, found.is_log_empty) == (1, 0, True)
    assert b"hunter2" not in everything_in(tmp_path)
    assert bench.store.rows("PRAGMA integrity_check") == [("ok",)]


def everything_in(folder: Path) -> bytes:
    # Other databases than the one that is open: a copy is read, so that no lock of it is dropped.
    return b"".join(read_aside(path) for path in folder.rglob("*.db*") if path.is_file())


def read_aside(path: Path) -> bytes:
    import subprocess

    return subprocess.run(["cat", str(path)], capture_output=True, check=True).stdout


def test_retention_keeps_what_an_undo_can_need(bench: Bench) -> None:
    schedule = bench.add()
    for number in range(30):
        describe(bench, "backup", f"number {number}")

    removed = prune(bench, later_ms=0)

    assert [(one.kind, one.count) for one in removed] == [(Kind.REVISION, 10)]
    assert described(bench, schedule.id, 12, 31) == ["number 10", "number 29"]
