"""simulate: what schedules would do over days, from a database or a file that is not applied."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.cli import Edgecron

FILE = """
[schedules.nightly]
cron = "30 2 * * *"
timezone = "Europe/Berlin"
command = ["tar", "c"]
group = "disk:1"

[schedules.second]
cron = "30 2 * * *"
timezone = "Europe/Berlin"
command = ["true"]
group = "disk"

[schedules.third]
cron = "30 2 * * *"
timezone = "Europe/Berlin"
command = ["true"]

[schedules.off]
every = "1h"
command = ["true"]
enabled = false

[schedules.boot]
on_boot = true
command = ["true"]

[schedules.report]
after = ["nightly:failure"]
command = ["true"]
"""
SPAN = ("--from", "2027-03-27", "--to", "2027-03-30")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "schedules.toml"
    path.write_text(FILE)
    return str(path)


def test_a_file_is_simulated_without_a_database(
    edgecron: Edgecron, file: str, database: Path
) -> None:
    said = edgecron("simulate", "--file", file, *SPAN)

    assert said.code == 0, said.err
    first, most, bars, *rest = said.out.splitlines()
    assert first == "2027-03-27 00:00:00 to 2027-03-30 00:00:00: 9 runs of 5 schedules"
    assert most == "busiest minute: 3 active runs, Sat 2027-03-27 01:30"
    assert bars.startswith("runs over time: ")
    text = "\n".join(rest)
    assert "Sat 2027-03-27 01:30: nightly, second, third" in text
    assert "disk: 2 active runs for a limit of 1, on Sat 2027-03-27 01:30" in text
    assert "2027-03-28: clocks go forward from 02:00 to 03:00" in text
    assert "off: it is paused" in text
    assert "boot: its runs at boot have no known time" in text
    assert "report: it follows failures of nightly" in text
    assert not database.exists()


def test_json_is_one_object_with_the_fields_of_the_api(edgecron: Edgecron, file: str) -> None:
    (found,) = edgecron("--json", "simulate", "--file", file, *SPAN).json

    assert (found["runs"], found["most_active"], len(found["days"])) == (9, 3, 3)
    assert found["most_active_at"] == "2027-03-27T01:30:00Z"
    assert [one["name"] for one in found["schedules"] if one["runs"]] == [
        "nightly", "second", "third",
    ]  # fmt: skip
    assert found["schedules"][1] == {
        "name": "nightly", "runs": 3, "skipped": 0, "delayed": 0, "replaced": 0,
        "excluded": 0,
        "first_at": "2027-03-27T01:30:00Z", "last_at": "2027-03-29T00:30:00Z",
        "duration_ms": None, "busy_ms": None,
    }  # fmt: skip
    assert found["pile_ups"][0]["names"] == ["nightly", "second", "third"]
    assert {one["name"] for one in found["left_out"]} == {"off", "boot", "report"}


def test_the_database_is_simulated_from_now_on_with_past_durations(edgecron: Edgecron) -> None:
    edgecron("add", "slow", "--every", "1s", "--overlap", "skip", "--shell", "sleep 0.01")
    edgecron("add", "paused", "--every", "1h", "--", "true")
    edgecron("pause", "paused")
    assert edgecron("run", "slow", "--wait").code == 0

    said = edgecron("--json", "simulate", "--to", "in 1h")

    (found,) = said.json
    (slow,) = found["schedules"]
    assert 3480 <= slow["runs"] <= 3661
    assert slow["duration_ms"] > 0
    assert slow["busy_ms"] == slow["runs"] * slow["duration_ms"]
    assert found["left_out"] == [{"name": "paused", "why": "it is paused"}]


def test_excluded_times_before_the_next_run_are_counted(edgecron: Edgecron) -> None:
    now = datetime.now(UTC)
    off = f"{now.date()}..{now.date() + timedelta(days=2)}"
    # Half an hour away, so that no run is due between the two commands.
    times = ("--cron", f"{(now.minute + 30) % 60} * * * *", "--except", off, "--tz", "UTC")
    assert edgecron("add", "closed", *times, "--", "true").code == 0

    (found,) = edgecron("--json", "simulate", "--to", "in 1d").json

    (closed,) = found["schedules"]
    assert (closed["runs"], closed["excluded"]) == (0, 24)


def test_an_empty_database_and_a_wrong_span_say_so(edgecron: Edgecron) -> None:
    assert edgecron("add", "a", "--every", "1h", "--", "true").code == 0

    empty = edgecron("simulate", "--from", "2027-01-02", "--to", "2027-01-01")
    long = edgecron("simulate", "--to", "2060-01-01")

    assert (empty.code, long.code) == (2, 2)
    assert empty.err.splitlines() == [
        "error: the simulation does not end after its beginning",
        "hint: give a later --to",
    ]
    assert long.err.splitlines() == [
        "error: the simulation is longer than 3660 days",
        "hint: give an earlier --to",
    ]


def test_a_span_that_is_over_is_said_to_be(edgecron: Edgecron) -> None:
    edgecron("add", "a", "--every", "1h", "--", "true")

    over = edgecron("simulate", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-05T00:00:00Z")

    assert over.code == 0
    assert ": 0 runs of 1 schedule" in over.out
    assert "the span is over" in over.err
    assert "history --since 2026-01-01T00:00:00Z" in over.err


def test_a_file_with_mistakes_is_refused_with_all_of_them(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text('[schedules.a]\ncron = "61 * * * *"\ncommand = ["true"]\ncolour = 1\n')

    said = edgecron("simulate", "--file", str(path))

    assert said.code == 2
    assert "line 2" in said.err
    assert "line 4" in said.err
