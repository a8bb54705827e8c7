"""Backfill from the command line: shown, asked about, done."""

from __future__ import annotations

import os

import pytest

from edgecron.base.units import parse_instant
from tests.support.cli import Edgecron
from tests.support.terminal import on_terminal, read_until


@pytest.fixture
def report(edgecron: Edgecron) -> str:
    """The name of a schedule that runs every hour, in UTC."""
    said = edgecron("add", "report", "--cron", "0 * * * *", "--tz", "UTC", "--", "true")
    assert said.code == 0, said.err
    return "report"


def test_a_dry_run_shows_the_first_and_the_last_and_writes_nothing(
    edgecron: Edgecron, report: str
) -> None:
    said = edgecron("backfill", report, "2020-01-01", "2020-01-02", "--dry-run")

    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "25 runs of report, one after the other:"
    assert lines[1] == "  2020-01-01 00:00:00  0 * * * *"
    assert lines[11] == "  ... 5 more ..."
    assert lines[21] == "  2020-01-02 00:00:00  0 * * * *"
    assert lines[22:] == []
    assert said.err == "nothing is written: this was a dry run\n"
    assert edgecron("history", "--json").json == []


def test_a_backfill_queues_each_and_says_so(edgecron: Edgecron, report: str) -> None:
    said = edgecron("backfill", report, "2020-01-01 00:00", "2020-01-01 03:00")
    again = edgecron("backfill", report, "2020-01-01 00:00", "2020-01-01 04:00")

    assert said.code == 0
    assert said.out == "queued 4 runs of report: runs 1 to 4\n"
    assert "no engine is running" in said.err
    assert again.out.splitlines() == [
        "queued 1 run of report: run 5",
        "  skipped: 4 already queued or running",
    ]
    runs = edgecron("history", "--json").json
    assert {run["cause"] for run in runs} == {"backfill"}
    assert {run["fire_key"] for run in runs} == {"backfill:1"}


def test_backfill_as_json_gives_the_runs_that_it_queued(edgecron: Edgecron, report: str) -> None:
    dry = edgecron("backfill", report, "2020-01-01", "2020-01-01", "--dry-run", "--json").json
    runs = edgecron("backfill", report, "2020-01-01", "2020-01-01", "--json").json
    left = edgecron("backfill", report, "2020-01-01", "2020-01-01", "--dry-run", "--json").json
    none = edgecron("backfill", report, "2020-01-01", "2020-01-01", "--json")

    assert dry == [
        {
            "schedule": report,
            "scope_kind": "global",
            "scope_id": "",
            "plan_at": "2020-01-01T00:00:00Z",
            "trigger_text": "0 * * * *",
            "action": "run",
            "reason": None,
        }
    ]
    assert [(run["plan_at"], run["status"]) for run in runs] == [("2020-01-01T00:00:00Z", "queued")]
    assert [(one["action"], one["reason"]) for one in left] == [("leave", "active")]
    assert (none.code, none.json) == (0, [])


def test_many_are_not_queued_without_being_asked_about(edgecron: Edgecron, report: str) -> None:
    asked = edgecron("backfill", report, "2020-01-01", "2020-01-08")
    done = edgecron("backfill", report, "2020-01-01", "2020-01-08", "--yes")

    assert asked.code == 2
    assert "169 runs of report, and there is no terminal to ask on" in asked.err
    assert "--yes" in asked.err
    assert done.out.startswith("queued 169 runs of report: runs 1 to 169")


def test_a_person_sees_how_far_a_backfill_of_many_is(report: str) -> None:
    words = ("backfill", report, "2020-01-01", "2020-03-01", "--yes")
    with on_terminal({**os.environ, "TERM": "dumb"}, *words) as outer:
        shown = read_until(outer, None)

    assert "\rqueued: 86%" in shown
    assert "queued 1,441 runs" in shown


def test_what_can_not_be_backfilled_is_refused(edgecron: Edgecron, report: str) -> None:
    edgecron("add", "boot", "--on-boot", "--", "true")

    many = edgecron("backfill", report, "2000-01-01", "2020-01-01", "--yes", "--json")
    event = edgecron("backfill", "boot", "2020-01-01", "2020-01-02")
    time = edgecron("backfill", report, "never", "2020-01-02")
    nobody = edgecron("backfill", "reprot", "2020-01-01", "2020-01-02")

    assert many.code == 2
    assert "expected at most 10,000" in many.error["message"]
    assert "in parts; first up to 2001-02-20T15:00:00Z" in many.error["hint"]
    assert event.code == 2
    assert "no times of its own: it fires on boot" in event.err
    assert time.code == 2
    assert nobody.code == 3


def test_times_that_are_not_decided_yet_are_named(edgecron: Edgecron, report: str) -> None:
    said = edgecron("backfill", report, "2020-01-01", "2020-01-01")
    edgecron("pause", report)
    [schedule] = edgecron("list", "--json").json
    decided = parse_instant(schedule["created_at"])
    later = decided.replace(year=decided.year + 1).isoformat()

    ahead = edgecron("backfill", report, decided.isoformat(), later, "--dry-run")

    assert said.code == 0
    assert "nothing to backfill for report" in ahead.out
    assert "not decided yet: the schedule is paused; first: edgecron resume report" in ahead.out
