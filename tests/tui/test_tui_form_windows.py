"""The form checks windows: which times they leave, and whether a usual run fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.formats.document_tables import schedule_table
from edgecron.tui.form_check import Draft, FormCheck, check_draft
from edgecron.tui.form_fields import texts_of
from tests.support.story import Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A schedule whose runs take two hours."""
    story = Story(tmp_path / "story.db")
    story.add("backup", "0 21 * * *", lasts_s=7200)
    story.after_s(3600)
    story.after_s(7201)
    return story


def check(story: Story, **texts: str) -> FormCheck:
    """Check the form with other texts in some fields."""
    schedule = story.client.schedule("backup")
    table = schedule_table(schedule)
    before = texts_of("backup", table)
    return check_draft(story.client, Draft({**before, **texts}, schedule, table, before))


def test_a_window_that_is_too_short_for_a_usual_run_is_named(story: Story) -> None:
    short = check(story, between="21:00-22:00")
    long = check(story, between="21:00-23:30")

    assert short.problems == {}
    assert short.cautions["between"].startswith("its runs usually take 2h, but a window closes 1h")
    assert "between" not in long.cautions


def test_a_short_window_of_a_trigger_is_named_beside_the_times(story: Story) -> None:
    found = check(story, when="once in 21:00-22:00 when ac-power")

    assert found.problems == {}
    assert "is open for 1h" in found.cautions["when"]


def test_the_preview_has_only_times_within_the_windows(story: Story) -> None:
    found = check(story, when="0 * * * *", not_between="00:00-21:00", **{"except": "2026-03-09"})

    shown = [at.strftime("%d %H") for at, _ in found.times.fires]
    assert shown[:4] == ["10 21", "10 22", "10 23", "11 21"]


def test_a_wrong_window_or_day_is_shown_at_its_field(story: Story) -> None:
    found = check(story, between="9-17", **{"except": "24.12.2026"})

    assert "did you mean '09:00-17:00'?" in found.problems["between"]
    assert "did you mean 2026-12-24?" in found.problems["except"]


def test_a_wrong_condition_of_a_window_is_shown_beside_its_line(story: Story) -> None:
    found = check(story, when="once in 21:00-05:00 when ac-pwer")

    [line] = found.times.lines
    assert line.is_wrong
    assert "did you mean 'ac-power'?" in line.words
