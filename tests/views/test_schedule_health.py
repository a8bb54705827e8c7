"""Which schedules are not healthy, in which order, and what is said about them. No database."""

from __future__ import annotations

from datetime import UTC, datetime

from edgecron.model.choices import HealthCause, HealthState
from edgecron.model.listing import Streak, Suspect
from edgecron.views.schedule_health import (
    ScheduleHealth,
    advise,
    choose,
    count_states,
    health_words,
    judge_failing,
    judge_overdue,
    left_out_words,
    rank,
)

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
NOW_MS = round(NOW.timestamp() * 1000)
HOUR_MS = 3_600_000


def suspect(name: str, **given: object) -> Suspect:
    well = Suspect(
        id=sum(map(ord, name)),
        name=name,
        queue="command",
        last_status="success",
        last_success_ms=NOW_MS - HOUR_MS,
        has_succeeded=True,
        skipped_count=0,
        is_active=False,
        due_ms=None,
        waiting_id=None,
    )
    return well._replace(**given)  # type: ignore[arg-type]


def command(words: str) -> str:
    return f"edgecron {words}"


def test_failing_schedules_come_first_and_those_without_a_success_last() -> None:
    ranked = rank(
        [
            suspect("never", has_succeeded=False, last_success_ms=None, skipped_count=2),
            suspect("late", due_ms=NOW_MS - HOUR_MS),
            suspect("later", due_ms=NOW_MS - 2 * HOUR_MS),
            suspect("failed", last_status="failed"),
            suspect("lost", last_status="interrupted", last_success_ms=None),
            suspect("well", skipped_count=3),
            suspect("first-run", has_succeeded=False, skipped_count=2, is_active=True),
        ]
    )

    assert [one.suspect.name for one in ranked] == ["lost", "failed", "later", "late", "never"]
    assert count_states(ranked) == {
        HealthState.FAILING: 2,
        HealthState.OVERDUE: 2,
        HealthState.NEVER_SUCCEEDED: 1,
    }


def test_one_overdue_schedule_stands_for_all_that_wait_for_the_same_engine() -> None:
    ranked = rank(suspect(f"s{n}", id=n, due_ms=NOW_MS - n * HOUR_MS) for n in range(1, 10))

    [first] = choose(ranked, {"command": HealthCause.NO_ENGINE}, limit=5)
    found = judge_overdue(first, None, None)

    assert health_words(found, now=NOW) == (
        "s9 and 8 other schedules are overdue, due 9h ago: no engine is running"
    )
    assert advise(found, command=command) == ("start one: edgecron daemon",)


def test_what_is_not_shown_is_counted() -> None:
    ranked = rank(suspect(f"s{n}", id=n, last_status="failed") for n in range(7))

    chosen = choose(ranked, {}, limit=5)
    worst = tuple(
        judge_failing(one.suspect, Streak(1, NOW_MS, False), None, None) for one in chosen
    )
    health = ScheduleHealth(counts=count_states(ranked), worst=worst)

    assert len(worst) == 5
    assert left_out_words(health, command=command) == [
        "2 more schedules are failing; see: edgecron list --failed"
    ]


def test_a_count_whose_beginning_was_pruned_claims_no_first_failure() -> None:
    one = suspect("sync", last_status="failed", last_success_ms=None)

    found = judge_failing(one, Streak(40, NOW_MS - HOUR_MS, True), None, None)

    assert health_words(found, now=NOW) == (
        "sync failed at least 40 times in a row (never succeeded)"
    )
