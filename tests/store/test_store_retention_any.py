"""Retention of random pasts: what is left is within the limits, and nothing else went."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.planning.retention import Retention, limits_at
from edgecron.store.sql.retention import prune
from edgecron.store.sqlite.store import open_store
from tests.store.store_bench import Bench
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

HOUR_MS = 3_600_000
ENDED = ("success", "failed", "skipped", "cancelled", "interrupted")

PASTS = st.lists(
    st.tuples(
        st.integers(0, 40),  # hours since the row before
        st.integers(1, 3),  # schedule
        st.sampled_from(("a", "b")),  # scope, of schedules that have two
        st.sampled_from((*ENDED, *("success",) * 5, "queued")),
        st.sampled_from(("", "", "", "manual:", "backfill:", "after:")),
        st.one_of(st.none(), st.integers(0, 3000)),  # bytes of output
    ),
    max_size=60,
)
RETENTIONS = st.builds(
    Retention,
    output_age_s=st.one_of(st.none(), st.integers(1, 400_000)),
    output_bytes=st.one_of(st.none(), st.integers(0, 20_000)),
    history_age_s=st.one_of(st.none(), st.integers(1, 400_000)),
    history_count=st.one_of(st.none(), st.integers(1, 20)),
    database_bytes=st.none(),
)


def make_past(bench: Bench, past: list[tuple[Any, ...]]) -> None:
    """Rows as engines would have left them, and the schedules that count them."""
    database = bench.store
    with database.transaction():
        for number, (hours, schedule, scope, status, key, printed) in enumerate(past, 1):
            bench.clock.advance_ms(hours * HOUR_MS + 1)
            is_active, is_skipped = status == "queued", status == "skipped"
            now = bench.now
            database.change(
                """INSERT INTO executions (id, schedule_id, revision, scope_kind, scope_id,
                       plan_at, fire_key, cause, due_at, queue, status, reason, queued_at,
                       claimed_at, started_at, finished_at)
                   VALUES (:id, :schedule, 1, :kind, :scope, :now, :key, 'schedule', :now,
                       'command', :status, :reason, :now, :claimed, :claimed, :finished)""",
                {
                    "id": number,
                    "schedule": schedule,
                    "kind": "device" if schedule == 3 else "global",
                    "scope": scope if schedule == 3 else "",
                    "now": now,
                    "key": f"{key}{number}" if key else "",
                    "status": status,
                    "reason": None if status in ("success", "queued") else "exit",
                    "claimed": None if is_active or is_skipped else now,
                    "finished": None if is_active else now,
                },
            )
            if printed is not None and not is_active and not is_skipped:
                database.change(
                    """INSERT INTO outputs (execution_id, encoding, chunks, stdout_bytes,
                           stderr_bytes, dropped_bytes, dropped_after)
                       VALUES (:id, 'raw', zeroblob(:size), :size, 0, 0, 0)""",
                    {"id": number, "size": printed},
                )
            if not is_active:
                database.change(
                    f"""UPDATE schedules SET decided_until = :now, run_count = run_count + 1,
                            {status}_count = {status}_count + 1,
                            last_success_at = iif(:status = 'success', :now, last_success_at),
                            last_execution_id = iif(:status = 'skipped', last_execution_id, :id)
                        WHERE id = :schedule""",
                    {"now": now, "status": status, "id": number, "schedule": schedule},
                )


def rows_of(bench: Bench) -> dict[int, tuple[Any, ...]]:
    rows = bench.store.rows(
        """SELECT e.id, e.schedule_id, e.scope_id, e.status, e.fire_key, e.plan_at, e.finished_at,
               length(o.chunks), o.removed_at
           FROM executions AS e LEFT JOIN outputs AS o ON o.execution_id = e.id"""
    )
    return {row[0]: row for row in rows}


def kept_whatever(rows: dict[int, tuple[Any, ...]]) -> set[int]:
    """What never goes, by a plain account."""
    kept = {id_ for id_, row in rows.items() if row[3] == "queued"}
    for schedule in (1, 2, 3):
        mine = [row for row in rows.values() if row[1] == schedule]
        ran = [row for row in mine if row[3] not in ("queued", "skipped")]
        succeeded = [row for row in mine if row[3] == "success"]
        kept |= {found[-1][0] for found in (ran, succeeded) if found}
        kept |= {row[0] for row in {row[2]: row for row in mine}.values()}
        decided_ms = max((row[5] for row in mine if row[3] != "queued"), default=0)
        kept |= {row[0] for row in mine if row[4] == "" and row[5] >= decided_ms}
    return kept


@settings(max_examples=60, deadline=None)
@given(PASTS, RETENTIONS, st.integers(0, 200))
def test_what_is_left_is_within_the_limits_and_nothing_else_went(
    past: list[tuple[Any, ...]], retention: Retention, hours: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(lambda: open_store(Path(folder) / "any.db", now_ms=0), FakeClock())
        for name in ("one", "two"):
            bench.add(make_spec(name))
        bench.add(make_spec("three", scopes=(("device", "a"), ("device", "b"))))
        make_past(bench, past)
        bench.clock.advance_ms(hours * HOUR_MS)
        before = rows_of(bench)
        schedules = bench.store.find_schedules()
        limits = limits_at(retention, bench.now, is_trusted=True)

        trial = list(prune(bench.store, limits, schedule_id=None, is_trial=True))
        assert rows_of(bench) == before
        removed = list(prune(bench.store, limits, schedule_id=None, is_trial=False))
        after = rows_of(bench)

        assert sum_counts(trial) == sum_counts(removed)
        check_runs(before, after, limits)
        check_outputs(before, after, limits)
        check_schedules(bench, schedules, before, after)
        assert bench.store.rows("PRAGMA foreign_key_check") == []
        bench.store.close()


def sum_counts(removed: list[Any]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for one in removed:
        if one is not None:
            found[one.kind, one.reason] = found.get((one.kind, one.reason), 0) + one.count
    return found


def check_runs(
    before: dict[int, tuple[Any, ...]], after: dict[int, tuple[Any, ...]], limits: Any
) -> None:
    kept = kept_whatever(before)
    assert kept <= set(after)
    newest: set[int] = set()
    for schedule in (1, 2, 3):
        ended = sorted(i for i, row in before.items() if row[1] == schedule and row[3] != "queued")
        count = limits.history_count
        newest |= set(ended if count is None else ended[-count:])
    for id_, row in before.items():
        is_old = (
            limits.history_before_ms is not None
            and row[6] is not None
            and row[6] < limits.history_before_ms
        )
        must_stay = id_ in kept or (id_ in newest and not is_old)
        assert (id_ in after) == must_stay, row


def check_outputs(
    before: dict[int, tuple[Any, ...]], after: dict[int, tuple[Any, ...]], limits: Any
) -> None:
    lasts = {}
    for id_, row in sorted(before.items()):
        if row[3] not in ("queued", "skipped"):
            lasts[row[1]] = id_
    whole = [row for row in after.values() if row[7] is not None and row[8] is None]
    if limits.output_bytes is not None:
        assert sum(row[7] for row in whole) <= limits.output_bytes
    for row in whole:
        assert row[7:] == before[row[0]][7:]
        is_old = limits.output_before_ms is not None and row[6] < limits.output_before_ms
        assert not is_old or row[0] in lasts.values(), row
    for row in after.values():
        assert (row[7] is None) == (before[row[0]][7] is None), "a trace of it stays"
    # The oldest go first.
    gone = [row for row in after.values() if row[8] is not None and row[7] == 0]
    young = [row for row in gone if before[row[0]][7]]
    if young and limits.output_before_ms is None:
        assert all(row[0] > young[-1][0] or not row[7] for row in whole)


def check_schedules(
    bench: Bench,
    schedules: list[Any],
    before: dict[int, tuple[Any, ...]],
    after: dict[int, tuple[Any, ...]],
) -> None:
    from dataclasses import replace

    for old, new in zip(schedules, bench.store.find_schedules(), strict=True):
        assert replace(new, pruned_until=None) == old
        gone = [
            row[5]
            for id_, row in before.items()
            if id_ not in after and row[1] == old.id and row[4][:9] in ("", "backfill:")
        ]
        marked = None if new.pruned_until is None else round(new.pruned_until.timestamp() * 1000)
        assert marked == max(gone, default=None)
