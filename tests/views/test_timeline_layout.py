"""How a span of time is laid out: axis, lanes, signs and words."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from edgecron.base.units import to_ms
from edgecron.model.listing import FireCell, Lane, RunCell
from edgecron.planning.forecast import UpcomingFire
from edgecron.views import timeline
from edgecron.views.timeline import (
    HOUR_S,
    SPANS_S,
    WEEK_S,
    Axis,
    cell_words,
    draw_lane,
    excluded_signs,
    expected_end,
    find_run,
    make_axis,
    next_cell,
    pile_ups,
    scale_of,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY_S = 86_400
AT_58 = "12:58:00 to 12:59:00: run 7 has been running for 3m"
# Twenty cells of one minute; now is the first instant of cell 10.
AXIS = Axis(since_ms=to_ms(NOW - 10 * MINUTE), cell_ms=60_000, cells=20)


def ran(
    minute: float,
    *,
    took: float = 0.0,
    runs: int = 1,
    failed: int = 0,
    skipped: int = 0,
    active: int = 0,
    running: bool = False,
) -> RunCell:
    begin = NOW + minute * MINUTE
    return RunCell(
        cell=max(-1, AXIS.cell_of(to_ms(begin))),
        runs=runs,
        failed=failed,
        skipped=skipped,
        active=active,
        first_at=begin,
        last_at=begin + took * MINUTE,
        running_since=begin if running else None,
        run_id=7,
    )


def lane(
    *runs: RunCell,
    fires: tuple[FireCell, ...] = (),
    read_from: int = 0,
    usual_ms: int | None = None,
) -> Lane:
    return Lane(1, runs, fires, read_from, usual_ms)


def letters(found: Lane | None, *, days: frozenset[int] = frozenset()) -> str:
    drawn = draw_lane(found, AXIS, now_ms=to_ms(NOW), days=days)
    return "".join(letter for letter, _ in drawn)


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        (lane(), "          │         "),
        (lane(ran(-8)), "  ▖       │         "),
        (lane(ran(-8, took=3)), "  ▄▄▄▄    │         "),
        (lane(ran(-8, runs=5, took=0.5)), "  ▂       │         "),
        (lane(ran(-8, failed=1)), "  ✗       │         "),
        (lane(ran(-8, took=3, failed=1)), "  ▄▄▄✗    │         "),
        (lane(ran(-8, runs=5, failed=2)), "  ✗       │         "),
        (lane(ran(-8, skipped=1)), "  –       │         "),
        (lane(ran(-1, active=1)), "         ○│         "),
        (lane(ran(-3, took=3, active=1, running=True)), "       ▆▆▆▆         "),
        # It began before the span, and another one is beyond its end.
        (lane(ran(-14, took=6)), "▄▄▄       │         "),
        (lane(ran(-14, took=2), ran(30)), "          │         "),
        # A failure is drawn over the successes beside it.
        (lane(ran(-8, failed=1), ran(-9, took=3)), " ▄✗▄▄     │         "),
        (lane(ran(-1), read_from=4), "····     ▖│         "),
        (
            lane(fires=(FireCell(12, 1), FireCell(14, 3))),
            "          │ ╷ ┈     ",
        ),
    ],
)
def test_a_lane_shows_each_outcome_by_its_own_letter(drawn: Lane, expected: str) -> None:
    assert letters(drawn) == expected


def test_a_lane_that_has_not_been_read_shows_the_rules_only() -> None:
    assert letters(None, days=frozenset({5})) == "     ┊    │         "


def test_a_running_bar_shows_where_it_usually_ends() -> None:
    running = ran(-3, took=3, active=1, running=True)
    usual = lane(running, usual_ms=6 * 60_000)

    assert letters(usual) == "       ▆▆▆▆░░▒      "
    assert expected_end(usual) == NOW + 3 * MINUTE
    assert letters(lane(running, usual_ms=60_000)) == "       ▆▆▆▆         "
    assert expected_end(lane(running)) is None


@pytest.mark.parametrize("span_s", SPANS_S)
@pytest.mark.parametrize("cells", [1, 7, 48, 131])
def test_an_axis_holds_its_span_with_now_at_five_eighths(span_s: int, cells: int) -> None:
    axis = make_axis(span_s, cells, around_ms=to_ms(NOW))

    assert axis.cells == cells
    assert 0 <= axis.cells * axis.cell_ms - span_s * 1000 < cells * 1000
    assert axis.cell_of(to_ms(NOW)) == cells * 5 // 8
    assert axis.since_ms % axis.cell_ms == 0


def test_cells_keep_their_places_while_time_passes_within_one() -> None:
    one = make_axis(DAY_S, 48, around_ms=to_ms(NOW))
    later = make_axis(DAY_S, 48, around_ms=to_ms(NOW + 29 * MINUTE))

    assert one == later


def test_labels_stand_at_round_local_times_and_days_have_a_rule() -> None:
    axis = make_axis(DAY_S, 48, around_ms=to_ms(NOW))  # 13:00 there, so from 22:00 to 22:00

    scale = scale_of(axis, "Europe/Berlin")

    assert [label.text for label in scale.labels] == ["Fri 20", "06:00", "12:00", "18:00"]
    assert scale.days == {4}
    assert scale.changes == ()


def test_a_week_has_a_rule_for_each_midnight_and_names_its_days() -> None:
    axis = make_axis(WEEK_S, 84, around_ms=to_ms(NOW))

    scale = scale_of(axis, "Europe/Berlin")

    assert len(scale.days) == 7
    assert [label.text for label in scale.labels][:2] == ["Tue 17", "Wed 18"]


@pytest.mark.parametrize("cells", [12, 36, 144])
def test_an_hour_that_the_clock_skips_has_no_label(cells: int) -> None:
    change = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)  # in Berlin from 02:00 to 03:00
    axis = make_axis(6 * HOUR_S, cells, around_ms=to_ms(change))

    labels = scale_of(axis, "Europe/Berlin").labels

    assert labels
    assert not [label.text for label in labels if label.text.startswith("02:")]


def test_a_day_that_begins_with_a_skipped_hour_has_its_label() -> None:
    change = datetime(2026, 3, 29, 0, 0, tzinfo=UTC) - timedelta(hours=2)  # midnight in Beirut
    axis = make_axis(DAY_S, 48, around_ms=to_ms(change))

    assert "Sun 29" in [label.text for label in scale_of(axis, "Asia/Beirut").labels]


def test_a_clock_change_has_a_sign() -> None:
    change = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)
    axis = make_axis(DAY_S, 48, around_ms=to_ms(change))

    [sign] = scale_of(axis, "Europe/Berlin").changes

    assert sign == (30, change, "◆", "clocks go back from 03:00 to 02:00")


def test_starts_of_five_schedules_in_one_minute_have_a_sign() -> None:
    fires = [
        UpcomingFire(schedule=f"job-{n}", plan_at=at, due_at=at, source=None)
        for n in range(5)
        for at in [NOW + 3 * MINUTE]
    ]

    assert list(pile_ups(fires[:4], AXIS)) == []
    [sign] = pile_ups(fires, AXIS)
    assert sign[:3] == (13, NOW + 3 * MINUTE, "▲")
    assert sign.text == "5 runs start within a minute (job-0, job-1, job-2, ...)"
    assert list(pile_ups(fires, AXIS.__class__(since_ms=0, cell_ms=60_000, cells=20))) == []


def test_an_excluded_day_has_one_sign_with_the_names() -> None:
    axis = make_axis(WEEK_S, 84, around_ms=to_ms(NOW))
    days = [date(2026, 11, 22)]

    signs = list(
        excluded_signs([("backup", days), ("report", [*days, date(2027, 1, 1)])], axis, zone=BERLIN)
    )

    [(cell, at, letter, text)] = signs
    assert at == datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
    assert cell == axis.cell_of(to_ms(at))
    assert (letter, text) == ("×", "excluded day of backup, report")


def test_the_cursor_goes_from_run_to_run_and_on_to_the_fires() -> None:
    found = lane(ran(-14, took=6), ran(-5, took=2), fires=(FireCell(12, 1),))

    assert next_cell(found, 10, AXIS, step=-1) == 5
    assert next_cell(found, 5, AXIS, step=-1) == 0
    assert next_cell(found, 0, AXIS, step=-1) is None
    assert next_cell(found, 5, AXIS, step=1) == 12
    assert next_cell(found, 12, AXIS, step=1) is None


def test_the_run_of_a_cell_is_the_one_that_is_drawn_there() -> None:
    failed, long = ran(-8, failed=1), ran(-9, took=3)

    assert find_run(lane(failed, long), 2, AXIS) is failed
    assert find_run(lane(failed, long), 3, AXIS) is long
    assert find_run(lane(failed, long), 8, AXIS) is None


@pytest.mark.parametrize(
    ("found", "cell", "expected"),
    [
        (lane(), 4, "12:54:00 to 12:55:00: no run"),
        (
            lane(read_from=5),
            4,
            "12:54:00 to 12:55:00: not read: too many runs; zoom in to see them",
        ),
        (
            lane(ran(-8, took=3)),
            3,
            "12:53:00 to 12:54:00: run 7 at 12:52:00: success after 3m",
        ),
        (
            lane(ran(-8, runs=5, failed=2, skipped=1)),
            2,
            "12:52:00 to 12:53:00: 5 runs, 2 failed, 1 skipped or cancelled",
        ),
        (lane(ran(-8, runs=5)), 2, "12:52:00 to 12:53:00: 5 runs, all successful"),
        (lane(fires=(FireCell(12, 2),)), 12, "13:02:00 to 13:03:00: 2 runs to come"),
        (
            lane(ran(-3, took=3, active=1, running=True), usual_ms=6 * 60_000),
            8,
            f"{AT_58}, usually 6m: ends about 13:03:00",
        ),
        (
            lane(ran(-3, took=3, active=1, running=True), usual_ms=60_000),
            8,
            f"{AT_58}, longer than usual (1m)",
        ),
    ],
)
def test_the_cell_under_the_cursor_in_words(found: Lane, cell: int, expected: str) -> None:
    assert cell_words(found, cell, AXIS, zone=BERLIN, now=NOW) == expected


def test_all_letters_are_one_column_wide_and_tell_the_outcomes_apart() -> None:
    apart = [
        *(timeline.DONE, timeline.FAILED, timeline.SKIPPED, timeline.QUEUED),
        *(timeline.EXPECTED, timeline.COMING, timeline.UNREAD, timeline.NOW_LINE),
    ]

    assert len({letter for letter, _ in apart}) == len(apart)
    assert HOUR_S in SPANS_S
