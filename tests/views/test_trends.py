"""Trends of a schedule: what is compared, what is plotted, and what is not known."""

from __future__ import annotations

import io
import sys

import pytest

from edgecron.model.run import EndedRun
from edgecron.views.statistics import MONTH_MS, STEPS, find_trend, find_trends, plot

DAY_MS = 86_400_000
SINCE_MS = 1_795_200_000_000
NOW_MS = SINCE_MS + 7 * DAY_MS


def ended(days: float, *, status: str = "success", took_ms: int = 100, of: int = 1) -> EndedRun:
    """A run that was written so many days after the beginning of the window."""
    return EndedRun(
        schedule_id=of,
        status=status,
        reason=None if status == "success" else "exit",
        cause="schedule",
        attempt=1,
        missed_count=None,
        duration_ms=took_ms,
        late_ms=0,
        written_ms=round(SINCE_MS + days * DAY_MS),
    )


def test_only_the_month_before_the_window_is_compared() -> None:
    runs = [
        *(ended(-day, status="failed" if day == 3 else "success") for day in range(1, 5)),
        ended(1, took_ms=900),
        ended(-31, took_ms=5),
    ]

    found = find_trend(runs, since_ms=SINCE_MS, until_ms=NOW_MS, known_from_ms=0)

    assert (found.success_rate_before, found.duration_before_ms) == (0.75, 100)
    assert len(found.success_rates) == len(found.durations_ms) == STEPS
    assert found.durations_ms[-3:] == (100, 900, None)


def test_nothing_is_said_of_a_month_of_which_runs_were_removed() -> None:
    runs = [ended(day) for day in range(-29, 7)]
    pruned_ms = SINCE_MS - 10 * DAY_MS

    found = find_trends(
        runs,
        {1: "sync", 2: "other"},
        pruned={1: pruned_ms},
        since_ms=SINCE_MS,
        until_ms=NOW_MS,
        known_from_ms=0,
    )["sync"]

    assert (found.success_rate_before, found.duration_before_ms) == (None, None)
    step_ms = (NOW_MS - SINCE_MS + MONTH_MS) / STEPS
    known = [SINCE_MS - MONTH_MS + n * step_ms >= pruned_ms for n in range(STEPS)]
    assert [rate is not None for rate in found.success_rates] == known


def test_a_plot_has_a_bar_for_each_value_and_a_gap_for_none() -> None:
    assert plot((0.0, 0.5, 1.0, None), most=1.0) == "▁▅█ "
    assert plot((None, 10, 80)) == " ▂█"
    assert plot(()) == ""
    assert plot((0, 0)) == "▁▁"


def test_a_plot_without_utf_8_has_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))

    assert plot((0.0, 0.5, 1.0, None), most=1.0) == "158 "
