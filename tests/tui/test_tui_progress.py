"""How far a run is, as a bar and in words: while it runs, and what of it is left to see after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgecron.model.choices import Reason, Status
from edgecron.model.run import Execution, Progress
from edgecron.tui.run_facts import progress_line, progress_rows
from edgecron.tui.text_line import Cells, Fact, Span
from tests.support.story import Story


@pytest.fixture
def run(tmp_path: Path) -> Execution:
    story = Story(tmp_path / "story.db")
    story.add("copy", "@yearly", lasts_s=600)
    [run] = story.client.run_now("copy")
    story.after_s(1)
    return story.client.execution(run.id)


def told(run: Execution, fraction: float | None, text: str = "") -> Execution:
    return replace(run, progress=Progress(fraction=fraction, text=text))


def words(spans: list[Span]) -> str:
    return "".join(text for text, _ in spans)


@pytest.mark.parametrize(
    ("fraction", "wanted"),
    [
        (0, " ────────────────────   0%"),
        (0.049, " ────────────────────   4%"),
        (0.29, " ━━━━━───────────────  29%"),
        (0.9999, " ━━━━━━━━━━━━━━━━━━━─  99%"),
        (1, " ━━━━━━━━━━━━━━━━━━━━ 100%"),
    ],
)
def test_a_bar_is_full_when_all_is_done_and_no_sooner(
    run: Execution, fraction: float, wanted: str
) -> None:
    assert words(progress_line(told(run, fraction), width=60)).rstrip() == wanted


def test_what_can_not_tell_how_far_it_is_says_what_it_does(run: Execution) -> None:
    reading = told(run, None, "reading the catalogue")

    assert words(progress_line(reading, width=60)) == " progress  reading the catalogue"
    assert progress_rows(reading) == [Fact("progress", "reading the catalogue")]


def test_a_run_that_told_nothing_shows_nothing(run: Execution) -> None:
    assert (progress_line(run, width=60), progress_rows(run)) == ([], [])


def test_a_run_that_failed_shows_how_far_it_came_and_one_that_did_not_has_done_all(
    run: Execution,
) -> None:
    failed = replace(told(run, 0.5, "12 of 24"), status=Status.FAILED, reason=Reason.EXIT)
    succeeded = replace(told(run, 0.5), status=Status.SUCCESS)

    assert words(progress_line(failed, width=60)) == " ━━━━━━━━━━──────────  50%  12 of 24"
    assert progress_line(succeeded, width=60) == []
    [bar, _] = progress_rows(succeeded)
    assert isinstance(bar, Cells)
    assert bar.spans[0] == ("━━━━━━━━━━", "good")
