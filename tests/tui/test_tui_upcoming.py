"""Upcoming runs: the bar of the next 24 hours, and repeats in one line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from edgecron.planning.forecast import UpcomingFire
from edgecron.tui.upcoming_list import bar_lines, fold_repeats

NOW = datetime(2026, 11, 20, 8, 12, 34, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def fire(due_at: datetime, schedule: str = "job") -> UpcomingFire:
    return UpcomingFire(schedule=schedule, plan_at=due_at, due_at=due_at, source="every 1m")


def bar(*hours: float, known_until: datetime | None = None) -> list[str]:
    fires = [fire(NOW + hour * HOUR, f"job-{n}") for n, hour in enumerate(hours)]
    lines = bar_lines(fires, 48, now=NOW, zone=ZONE, known_until=known_until)
    return ["".join(text for text, _ in line) for line in lines]


def test_the_bar_shows_24_hours_however_far_the_fires_are() -> None:
    near, far = bar(1, 25, 49), bar(1, 20_000)

    assert near == far
    assert near[0].count("·") == 47


def test_overdue_fires_count_in_the_first_cell() -> None:
    assert bar(-5)[0][1] != "·"


def test_without_fires_the_bar_is_empty() -> None:
    assert bar()[0] == " " + "·" * 48


def test_an_ellipsis_stands_for_times_that_were_not_read() -> None:
    assert bar(1, known_until=NOW + 2 * HOUR)[0].rstrip().endswith("·…")
    assert bar(1, known_until=NOW + 2 * HOUR)[0].count("·") < 6


def test_a_pile_up_has_its_sign_below_the_bar_and_a_note() -> None:
    shown = bar(*[3.25] * 5)

    assert "▲" in shown[1]
    assert "5 runs start within a minute (job-0, job-1, job-2, ...)" in shown[2]


def test_fires_within_five_minutes_are_one_line_for_each_hour() -> None:
    often = [fire(NOW + n * MINUTE, "poll") for n in range(90)]
    hourly = [fire(NOW + n * HOUR, "hourly") for n in range(3)]
    fires = sorted([*often, *hourly], key=lambda one: one.due_at)

    folded = fold_repeats(fires)

    assert [(line.fire.schedule, line.runs) for line in folded] == [
        *(("poll", 60), ("hourly", 1), ("poll", 30), ("hourly", 1), ("hourly", 1)),
    ]
    assert folded[0].last_at == NOW + 59 * MINUTE


def test_every_five_minutes_is_not_folded_and_a_moved_fire_stands_apart() -> None:
    apart = [fire(NOW + 5 * n * MINUTE) for n in range(3)]
    moved = UpcomingFire(
        schedule="job", plan_at=NOW, due_at=NOW + MINUTE, source=None, is_moved=True
    )

    assert [line.runs for line in fold_repeats(apart)] == [1, 1, 1]
    assert [line.runs for line in fold_repeats([fire(NOW), moved])] == [1, 1]
