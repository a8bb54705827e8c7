"""`check`: triggers read back in words, touching nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Edgecron


def test_a_cron_text_is_read_back_with_its_next_times(edgecron: Edgecron, database: Path) -> None:
    said = edgecron(
        "check", "0 2 * * MON-FRI", "--tz", "Europe/Berlin", "--from", "2026-11-20 12:00", "-n", "3"
    )

    lines = said.out.splitlines()
    assert said.code == 0
    assert lines[0] == "0 2 * * MON-FRI"
    assert lines[1] == "  at 02:00, Monday to Friday (Europe/Berlin)"
    assert "Mon 2026-11-23 02:00:00 +0100  2026-11-23 01:00:00Z" in lines[2]
    assert len(lines) >= 5
    assert not database.exists()
    assert list(database.parent.iterdir()) == []


def test_words_are_joined_as_an_unquoted_text_leaves_them(edgecron: Edgecron) -> None:
    said = edgecron("check", "0", "2", "*", "*", "*", "--json")

    assert said.json[0]["text"] == "0 2 * * *"


def test_as_json_it_is_an_array_of_one_object(edgecron: Edgecron) -> None:
    said = edgecron(
        "check", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2027-03-27T12:00:00Z", "-n", "2",
        "--json",
    )  # fmt: skip

    [found] = said.json
    assert list(found) == [
        "text", "description", "timezone", "next", "excluded", "warnings", "notes"
    ]  # fmt: skip
    assert found["timezone"] == "Europe/Berlin"
    assert found["next"] == ["2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]
    assert any("2027-03-28" in note and "forward" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("on boot", "boot of the machine"),
        ("every 1h after end", "has no times of its own"),
        ("after backup:any", "has no times of its own"),
        ("every 15m", "from its creation"),
        ("at 2001-01-01T00:00:00Z", "never fires"),
        ("H 3 * * *", "stand-in name"),
    ],
)
def test_what_a_trigger_does_beyond_its_times_is_noted(
    edgecron: Edgecron, text: str, note: str
) -> None:
    [found] = edgecron("check", text, "--json").json

    assert any(note in line for line in found["notes"])


def test_a_hash_follows_the_name(edgecron: Edgecron) -> None:
    times = {
        name: edgecron("check", "H H * * *", "--name", name, "--json").json[0]["next"]
        for name in ("a", "b", "a")
    }

    assert times["a"] != times["b"]
    assert "'b'" in edgecron("check", "H H * * *", "--name", "b").out


@pytest.mark.failure(11)
def test_a_step_beyond_its_field_is_taken_with_a_warning(edgecron: Edgecron) -> None:
    [found] = edgecron("check", "*/90 * * * *", "--json").json

    assert found["warnings"]


def test_what_is_invalid_is_refused_with_one_error(edgecron: Edgecron) -> None:
    for words in (("99 * * * *",), ("0 2 * * *", "--tz", "Nope"), ("at noonish",), (" ",)):
        said = edgecron("check", *words)
        assert said.code == 2
        assert said.is_plain_error


def test_a_time_is_told_from_a_cron_text(edgecron: Edgecron) -> None:
    said = edgecron("check", "tomorrow", "09:00")

    hint = "edgecron check 'at tomorrow 09:00'"
    assert said.err == f"error: 'tomorrow 09:00' is a time, not a trigger\nhint: {hint}\n"
    assert edgecron("check", "at tomorrow 09:00").code == 0
    assert "cron text 'soon'" in edgecron("check", "soon").err


@pytest.mark.parametrize("time", ["9999-12-30 00:00", "9999-12-31 23:59", "9999-01-01T00:00:00Z"])
def test_times_beyond_the_year_9998_are_refused_as_they_were_written(
    edgecron: Edgecron, time: str
) -> None:
    for words in (
        ("check", "0 2 * * *", "--from", time),
        ("check", f"at {time}"),
        ("add", "x", "--at", time, "--tz", "Europe/Berlin", "--", "true"),
    ):
        said = edgecron(*words)
        assert said.code == 2, words
        assert said.is_plain_error
        assert f"{time!r} lies outside the years 1 to 9998" in said.err


def test_the_last_times_that_can_be_written_can_be_looked_beyond(edgecron: Edgecron) -> None:
    said = edgecron("check", "0 2 * * *", "--tz", "Europe/Berlin", "--from", "9998-12-31 23:00")

    assert said.code == 0
    assert "9999-01-01 02:00:00" in said.out


def test_an_interval_is_anchored_at_the_time_to_look_from(edgecron: Edgecron) -> None:
    said = edgecron("check", "every", "15m", "--tz", "UTC", "--from", "2030-01-01 09:07", "--json")

    [found] = said.json
    assert found["next"][:2] == ["2030-01-01T09:07:00Z", "2030-01-01T09:22:00Z"]
    assert found["notes"] == []


def test_relative_times_are_read_as_add_reads_them(edgecron: Edgecron) -> None:
    [tomorrow] = edgecron("check", "at tomorrow 09:00", "--tz", "UTC", "--json").json
    [soon] = edgecron("check", "in 20m", "--json").json

    assert tomorrow["next"][0].endswith("T09:00:00Z")
    assert len(soon["next"]) == 1


def test_times_outside_windows_are_listed_as_excluded(edgecron: Edgecron) -> None:
    words = (
        "check", "0 */6 * * *", "--tz", "Europe/Berlin", "--from", "2026-11-20 12:00", "-n", "3",
        "--between", "21:00-07:00", "--except", "2026-11-21",
    )  # fmt: skip

    said = edgecron(*words)
    [found] = edgecron(*words, "--json").json

    lines = said.out.splitlines()
    assert lines[2] == "  excluded  2026-11-20 12:00:00, 6 times until 2026-11-21 18:00:00"
    assert "Sun 2026-11-22 00:00:00 +0100" in lines[3]
    assert lines[5] == "  excluded  2026-11-22 12:00:00, 2 times until 18:00:00"
    assert found["next"] == ["2026-11-21T23:00:00Z", "2026-11-22T05:00:00Z", "2026-11-22T23:00:00Z"]
    assert [one["count"] for one in found["excluded"]] == [6, 2]
    assert found["excluded"][1] == {
        "from_at": "2026-11-22T11:00:00Z", "to_at": "2026-11-22T17:00:00Z", "count": 2,
    }  # fmt: skip


def test_many_excluded_times_are_easy_to_read(edgecron: Edgecron) -> None:
    times = ("--from", "2026-11-20T00:00:30Z", "--tz", "UTC", "-n", "1")
    said = edgecron("check", "* * * * *", "--between", "23:30-24:00", *times)

    assert "1,409 times until 2" in said.out


def test_windows_that_exclude_every_time_are_noted(edgecron: Edgecron) -> None:
    said = edgecron("check", "0 9 * * *", "--not-between", "08:00-10:00", "-n", "2")
    assert said.code == 0
    assert "excluded  20" in said.out
    assert "a schedule would never run: its windows exclude all its times" in said.out
