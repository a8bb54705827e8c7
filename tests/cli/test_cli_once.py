"""`--once` as a user meets it: written, shown, exported, changed, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Edgecron

TEXT = "once in 21:00-05:00 MON-FRI when ac-power and idle:10m"


def test_a_window_is_written_in_several_ways_and_stored_in_one(edgecron: Edgecron) -> None:
    for number, text in enumerate(
        (TEXT.removeprefix("once "), "21:00-05:00 mon-fri WHEN ac-power AND idle:600s")
    ):
        added = edgecron("add", f"s{number}", "--once", text, "--", "true")
        assert added.code == 0, added.err
        assert edgecron("show", f"s{number}", "--json").json[0]["triggers"] == [TEXT]


def test_the_document_has_a_key_that_is_read_back(edgecron: Edgecron, tmp_path: Path) -> None:
    edgecron("add", "offsite", "--once", "in 21:00-05:00 when ac-power", "--", "true")

    document = edgecron("export").out
    (tmp_path / "s.toml").write_text(document)
    again = edgecron("apply", str(tmp_path / "s.toml"))

    assert 'once = "in 21:00-05:00 when ac-power"' in document
    assert "1 unchanged" in again.err


def test_an_edit_replaces_or_clears_the_window(edgecron: Edgecron) -> None:
    edgecron("add", "offsite", "--once", "in 21:00-05:00 when ac-power", "--", "true")

    edgecron("edit", "offsite", "--once", "in 22:00-04:00")
    replaced = edgecron("show", "offsite", "--json").json[0]["triggers"]
    edgecron("edit", "offsite", "--once", "none", "--every", "1h")

    assert replaced == ["once in 22:00-04:00"]
    assert edgecron("show", "offsite", "--json").json[0]["triggers"] == ["every 1h"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("in 21:00-05:00 when ac-pwer", "did you mean 'ac-power'?"),
        ("in 21:00-05:00 when ac-power and ac-power", "the same condition is needed twice"),
        ("in 21:00-05:00 when success:other", "there is no schedule 'other'"),
        ("in 21:00-05:00 when success:offsite", "a run of its own"),
        ("in 9-17", "did you mean '09:00-17:00'?"),
        ("in 21:00-05:00 when command:echo a and b", "put it in quotes"),
        ("in 21:00-05:00 when command:echo 'a and b", "a quote has no end"),
    ],
)
def test_a_wrong_window_or_condition_is_refused(edgecron: Edgecron, text: str, words: str) -> None:
    refused = edgecron("add", "offsite", "--once", text, "--", "true")

    assert refused.code == 2
    assert words in refused.err


def test_a_schedule_that_a_window_needs_can_not_be_renamed(edgecron: Edgecron) -> None:
    edgecron("add", "backup", "--every", "1h", "--", "true")
    edgecron("add", "offsite", "--once", "in 21:00-05:00 when success:backup", "--", "true")

    refused = edgecron("edit", "backup", "--name", "copy")

    assert refused.code == 1
    assert "other schedules follow or need 'backup': offsite" in refused.err


def test_times_within_and_outside_of_a_window_are_explained(edgecron: Edgecron) -> None:
    edgecron(
        "add", "offsite", "--tz", "UTC", "--once", "in 21:00-05:00 when ac-power", "--", "true"
    )

    within = edgecron("why", "offsite", "2099-03-04T02:00:00Z").out
    outside = edgecron("why", "offsite", "2099-03-04T12:00:00Z").out
    coming = edgecron("next", "-n", "1").out

    assert "2099-03-03 21:00:00" in within
    assert "is the opening of one of its windows" in " ".join(within.split())
    assert "is not one of its times" in outside
    assert "at the earliest" in coming


def test_a_run_moves_only_within_its_window(edgecron: Edgecron) -> None:
    edgecron("add", "offsite", "--tz", "UTC", "--once", "in 21:00-05:00", "--", "true")

    refused = edgecron("reschedule", "offsite", "2099-03-04T02:00:00Z")

    assert refused.code == 2
    assert "the new time is outside of the window, which is open from" in refused.err
