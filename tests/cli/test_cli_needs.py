"""Needs, groups and the bound on starts, as the command line takes and tells them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from edgecron.base.bundle import hint_for_extra
from edgecron.base.clock import SystemClock
from edgecron.base.system_bus import has_library
from edgecron.base.units import parse_instant
from edgecron.model.choices import Cause
from edgecron.planning.next_fire import Fire
from edgecron.store.sqlite.store import open_store
from tests.support.cli import Edgecron
from tests.support.specs import enqueue


@pytest.fixture
def report(edgecron: Edgecron, backup: str) -> str:
    """A schedule that needs a success of `backup`, within an hour, for two hours."""
    said = edgecron(
        "add", "report", "--cron", "0 6 * * *", "--needs", f"success:{backup}:60m",
        "--needs-deadline", "2h", "--", "true",
    )  # fmt: skip
    assert said.code == 0, said.err
    return "report"


def owe(database: Path, name: str) -> int:
    """Let a fire of a schedule come due now; its run."""
    now_ms = SystemClock().now_ms()
    store = open_store(database, now_ms=now_ms)
    fire = Fire(plan_ms=now_ms, due_ms=now_ms, cause=Cause.BACKFILL, fire_key="backfill:1")
    [run_id] = enqueue(store, store.get_schedule(name), fire, now_ms=now_ms)
    store.close()
    return run_id


# Needs.


def test_needs_are_kept_and_told(edgecron: Edgecron, report: str) -> None:
    [schedule] = [one for one in edgecron("list", "--json").json if one["name"] == report]
    shown = edgecron("show", report).out

    assert schedule["needs"] == ["success:backup:1h"]
    assert schedule["needs_deadline_s"] == 7200
    assert "needs        a success of backup within 1h; a run waits up to 2h" in shown


def test_needs_can_be_several_and_be_cleared(edgecron: Edgecron, report: str) -> None:
    edgecron("add", "other", "--every", "1h", "--", "true")

    both = edgecron(
        "edit", report, "--needs", "success:other", "--needs", "success:backup", "--json"
    )
    none = edgecron("edit", report, "--needs", "none", "--needs-deadline", "none", "--json")

    assert both.json[0]["needs"] == ["success:other", "success:backup"]
    assert (none.json[0]["needs"], none.json[0]["needs_deadline_s"]) == ([], 86400)


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ("success:bakup", "there is no schedule 'bakup'\n  did you mean 'backup'?"),
        ("success:report", "a run of its own"),
        ("moon", "condition 'moon' is unknown, expected one of success, online"),
        ("success:backup:soon", "duration 'soon' is not understood"),
    ],
)
def test_needs_that_can_not_be_are_refused(
    edgecron: Edgecron, report: str, needs: str, said: str
) -> None:
    edited = edgecron("edit", report, "--needs", needs)
    added = edgecron("add", "new", "--every", "1h", "--needs", needs.replace("report", "new"),
                     "--", "true")  # fmt: skip

    for refused in (edited, added):
        assert refused.code == 2
        first, *rest = said.split("\n  ")
        assert first.replace("report", "") in refused.err.replace("report", "")
        assert all(part in refused.err for part in rest)


def test_every_verb_that_shows_a_run_says_what_it_waits_for(
    edgecron: Edgecron, report: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    run = owe(database, report)

    [row] = edgecron("history", report, "--json").json
    words = "waits for a success of backup within 1h, until "

    assert row["waiting_for"] == "success:backup:1h"
    waits = parse_instant(row["wait_until"]) - parse_instant(row["due_at"])
    assert waits == timedelta(hours=2)
    assert words in edgecron("history", report).out
    assert f"run {run} is queued, backfill: {words}" in edgecron("show", report).out
    assert f"has not started yet: it {words}" in edgecron("logs", str(run)).err
    assert f"report, run {run}, backfill, {words}" in edgecron("status").out
    assert [one["id"] for one in edgecron("status", "--json").json[0]["waiting"]] == [run]


def test_a_run_by_hand_does_not_wait(edgecron: Edgecron, report: str) -> None:
    assert edgecron("run", report, "--wait").code == 0


# Groups.


def test_a_group_has_the_limit_that_was_given_last(edgecron: Edgecron) -> None:
    def limit() -> list[int | None]:
        return [one["group_max_running"] for one in edgecron("list", "--json").json]

    first = edgecron("add", "a", "--every", "1h", "--group", "disk", "--json", "--", "true").json
    second = edgecron("add", "b", "--every", "1h", "--group", "disk:2", "--json", "--", "true").json
    both = limit()
    edgecron("edit", "a", "--group", "disk")
    kept = limit()
    edgecron("edit", "a", "--group", "disk:none")
    lifted = limit()

    assert [one["group_max_running"] for one in (*first, *second)] == [None, 2]
    assert (both, kept, lifted) == ([2, 2], [2, 2], [None, None])


def test_show_tells_the_limit_of_a_group(edgecron: Edgecron) -> None:
    edgecron("add", "a", "--every", "1h", "--group", "disk:2", "--", "true")
    edgecron("add", "b", "--every", "1h", "--group", "net", "--", "true")
    edgecron("add", "c", "--every", "1h", "--", "true")

    shown = [edgecron("show", name).out for name in "abc"]

    assert "group        disk  (at most 2 runs at the same time)" in shown[0]
    assert "group        net  (no limit)" in shown[1]
    assert "group" not in shown[2]


@pytest.mark.parametrize("group", ["disk:", "disk:0", "disk:many", "disk:-1", ":2", "disk:2:3"])
def test_a_group_that_can_not_be_is_refused_and_changes_nothing(
    edgecron: Edgecron, database: Path, group: str
) -> None:
    refused = edgecron("add", "a", "--every", "1h", "--group", group, "--", "true")

    assert refused.code == 2
    assert not database.exists()


# The daemon.


@pytest.mark.parametrize("burst", ["0", "many", "-1"])
def test_a_bound_on_starts_is_a_number(edgecron: Edgecron, burst: str) -> None:
    refused = edgecron("daemon", "--burst", burst)

    assert refused.code == 2
    assert "--burst" in refused.err


# What is left behind.


def test_rm_names_what_waits_in_vain_from_then_on(edgecron: Edgecron, report: str) -> None:
    edgecron("add", "tell", "--after", "backup", "--", "true")

    both = edgecron("rm", "backup")
    none = edgecron("rm", report, "tell")

    assert both.code == none.code == 0
    assert "these schedules follow or need backup, and no longer run: report, tell" in both.err
    assert "in vain" not in none.err


def test_one_that_is_made_again_is_what_was_needed(edgecron: Edgecron, report: str) -> None:
    edgecron("rm", "backup")
    edgecron("add", "backup", "--every", "1h", "--", "true")

    shown = edgecron("show", report)

    assert "a success of backup within 1h" in shown.out


def test_conditions_of_the_machine_are_kept_and_told(edgecron: Edgecron, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    edgecron(
        "add", "upload", "--every", "1h", "--needs", f"exists:{flag}", "--needs", "not:load:0.0001",
        "--", "true",
    )  # fmt: skip

    before = edgecron("show", "upload").out
    flag.touch()
    after = edgecron("show", "upload").out

    assert f"needs        {flag} to exist and a load of 0.0001 or more; a run waits" in before
    assert f"if due now   would wait for {flag} to exist" in before
    assert f"would wait for {flag} to exist" not in after


def test_doctor_names_conditions_that_this_machine_can_not_tell(edgecron: Edgecron) -> None:
    edgecron("add", "upload", "--every", "1h", "--needs", "disk:/no/such/place:1GB", "--", "true")

    found = edgecron("doctor").out

    assert "upload needs 'disk:/no/such/place:1GB', which is unknown here" in found
    assert "edgecron" in found
    assert "edit upload --needs none; see: edgecron help conditions" in found


@pytest.fixture
def without_dbus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run without the packages of extras."""
    has_library.cache_clear()
    monkeypatch.setattr(sys, "path", [one for one in sys.path if "site-packages" not in one])
    monkeypatch.delitem(sys.modules, "jeepney", raising=False)  # Another test has used it.
    yield
    has_library.cache_clear()


@pytest.mark.usefixtures("without_dbus")
def test_add_edit_and_why_say_that_a_condition_needs_an_extra(edgecron: Edgecron) -> None:
    added = edgecron("add", "sync", "--every", "1h", "--needs", "unmetered", "--", "true")
    edited = edgecron("edit", "sync", "--needs", "unmetered")
    other = edgecron("edit", "sync", "--timeout", "5m")
    doctor = edgecron("doctor")
    show = edgecron("show", "sync")

    missing = f"the extra dbus is missing: {hint_for_extra('dbus')}"
    for said in (added, edited):
        assert f"it is unknown whether the network is metered: {missing}" in said.err
    assert "metered" not in other.err
    assert missing in " ".join(doctor.out.split())
    assert f"would wait for a network that is not metered ({missing})" in " ".join(show.out.split())
