"""What will happen next to a schedule, and why, as `show` tells it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from edgecron.base.units import MINUTE_MS, from_ms
from edgecron.cli.session import Session
from edgecron.client.why import prospect_lines
from edgecron.model.choices import Overlap, WaitsFor
from edgecron.model.listing import Idle
from edgecron.model.options import Policies
from edgecron.views.outlook import Outlook, judge_active
from tests.support.cli import Edgecron
from tests.support.story import START_MS, Story

HOUR_S = 3600
NOW = from_ms(START_MS)


@pytest.fixture
def lines(story: Story, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, str]]:
    """What `show` tells of what is to come, by label."""
    monkeypatch.setenv("TZ", "UTC")

    def tell(name: str) -> dict[str, str]:
        with closing(Session()) as cli:
            cli.database = str(story.client.path)
            found: dict[str, str] = {}
            outlook = story.client.outlook(name)
            now = story.client.now()
            for label, text in prospect_lines(cli, outlook, zone=cli.zone(), now=now):
                found.setdefault(label, text)
        return found

    return tell


Lines = Callable[[str], dict[str, str]]


def outlook_of(story: Story, name: str) -> Outlook:
    return story.client.outlook(name)


def test_the_next_time_is_told_with_its_trigger(story: Story, lines: Lines) -> None:
    story.add("job", "@daily", "30 * * * *")

    told = lines("job")

    assert told["next"] == "2026-03-08 20:30:00  in 30m  30 * * * *"
    assert told["if due now"] == "would wait for an engine"


def test_what_a_clock_change_does_to_the_times_shown_is_told(story: Story, lines: Lines) -> None:
    story.add("job", "30 2 * * 0", timezone="Europe/Berlin")

    told = lines("job")

    assert told["note"].startswith("2026-03-29: clocks go forward from 02:00 to 03:00")


def test_a_moved_time_is_told_with_what_it_was(story: Story, lines: Lines) -> None:
    story.add("job", "@hourly")
    story.client.reschedule("job", from_ms(START_MS + 600_000))

    assert lines("job")["next"].endswith("in 10m  @hourly  rescheduled from 21:00:00")


def test_each_reason_for_no_next_time_is_told(story: Story, lines: Lines) -> None:
    story.add("first", "@hourly")
    story.add("paused", "@hourly")
    story.client.pause("paused")
    story.add("counted", "* * * * *", max_runs=1)
    story.add("bounded", "* * * * *", until_at=from_ms(START_MS + 90_000))
    story.add("follows", "after first")
    story.add("poll", "every 1m after end", lasts_s=600)
    story.add("boot", "on boot")
    story.add("once", f"at {from_ms(START_MS + 60_000).isoformat()}")
    story.after_s(60)
    story.after_s(60)

    found = {
        name: (outlook_of(story, name).idle, lines(name)["next"])
        for name in ("paused", "counted", "bounded", "follows", "poll", "boot", "once")
    }

    assert found == {
        "paused": (Idle.PAUSED, "none: paused; resume it: " + _resume(story, "paused")),
        "counted": (
            Idle.MAX_RUNS, "none: --max-runs 1 is reached",
        ),
        "bounded": (
            Idle.ENDED, "none: it has no more times before --until 2026-03-08 20:01:30",
        ),
        "follows": (
            Idle.UPSTREAM,
            "after first (next 21:00:00, in 58m)",
        ),
        "poll": (Idle.OWN_END, "none yet: every 1m after end of the active run"),
        "boot": (Idle.BOOT, "when the machine boots"),
        "once": (Idle.DONE, "none: its triggers have no more times"),
    }  # fmt: skip


def _resume(story: Story, name: str) -> str:
    return f"edgecron --db {story.client.path} resume {name}"


def test_a_pause_with_an_end_is_told_with_what_it_leaves_out(story: Story, lines: Lines) -> None:
    story.add("job", "@hourly")
    story.client.pause("job", until=from_ms(START_MS + 3 * HOUR_S * 1000 + 1000))

    told = lines("job")

    assert told["paused"] == "until 2026-03-08 23:00:01; it skips 3 times"
    assert told["next"].startswith("2026-03-09 00:00:00")


def test_a_running_run_and_what_a_fire_would_do_are_told(story: Story, lines: Lines) -> None:
    story.add("skip", "@hourly", lasts_s=90, policies=Policies(retries=3))
    story.add("queue", "@hourly", lasts_s=90, policies=Policies(overlap=Overlap.QUEUE))
    story.add("replace", "@hourly", lasts_s=90, policies=Policies(overlap=Overlap.REPLACE))
    story.after_s(HOUR_S)
    ids = {name: story.runs(name)[-1].id for name in ("skip", "queue", "replace")}

    assert lines("skip")["active"] == f"run {ids['skip']}, running since 21:00:00, attempt 1 of 4"
    assert lines("skip")["if due now"] == (
        f"would be skipped: run {ids['skip']} is active (overlap skip)"
    )
    assert lines("queue")["if due now"] == f"would wait for run {ids['queue']} (overlap queue)"
    assert lines("replace")["if due now"] == (
        f"would replace run {ids['replace']} (overlap replace)"
    )


def test_a_retry_is_told_with_its_time(story: Story, lines: Lines) -> None:
    policies = Policies(retries=1, retry_delay_s=600)
    story.add("job", "@hourly", code=1, policies=policies)
    story.after_s(HOUR_S)

    told = lines("job")["active"]

    assert told.startswith("run 2 is queued, attempt 2 of 2: due at 21:1")
    [retry] = outlook_of(story, "job").active
    assert retry.waits_for is WaitsFor.TIME


def test_the_last_fire_that_was_left_out_is_told_with_its_reason(
    story: Story, lines: Lines
) -> None:
    story.add("slow", "* * * * *", lasts_s=600)
    story.after_s(60)
    story.after_s(60)
    story.after_s(60)

    assert lines("slow")["not run"] == (
        "run 2, 20:02:00, skipped: an earlier run was still active;"
        " missed 2 from 20:02:00 to 20:03:00"
    )


def test_what_a_schedule_needs_is_told(story: Story, lines: Lines) -> None:
    story.add("first", "@yearly")
    story.add("job", "* * * * *", policies=Policies(needs=("success:first:1h",)))

    before = lines("job")["if due now"]
    story.after_s(60)

    assert before == "would wait for a success of first within 1h"
    assert lines("job")["active"] == (
        "run 1 is queued: waits for a success of first within 1h, until Mar 09 20:01"
        " (since 20:01:00)"
    )
    [run] = outlook_of(story, "job").active
    assert run.waits_for is WaitsFor.CONDITION


def test_a_clock_that_can_not_be_trusted_is_told(story: Story, lines: Lines) -> None:
    story.add("job", "@hourly")

    trusted = lines("job")
    story.world.clock.synchronised = False
    story.world.clock.set_ms(0)

    assert "held" not in trusted
    assert lines("job")["held"].startswith("this machine's clock can't be trusted; see: edgecron")


def test_a_full_group_is_told(story: Story, lines: Lines) -> None:
    story.add("one", "@hourly", lasts_s=600, group="disk")
    story.add("two", "@yearly", group="disk")
    story.client.store.set_group_limit("disk", 1)
    story.after_s(HOUR_S)

    assert lines("two")["if due now"] == "would wait for a place in its group"


def test_scopes_that_differ_are_told_apart(story: Story, lines: Lines) -> None:
    scopes = (("device", "a"), ("device", "b"))
    story.add("job", "@yearly", lasts_s=600, scopes=scopes)
    [first, _] = story.client.run_now("job")
    story.client.cancel(first.id)

    assert lines("job")["if due now"] == (
        "would wait for an engine (device:a);"
        " would be skipped: run 2 is active (overlap skip) (device:b)"
    )


def test_a_run_with_a_payload_of_its_own_shows_how_that_begins(story: Story, lines: Lines) -> None:
    story.add("short", "@yearly", lasts_s=600)
    story.add("long", "@yearly", lasts_s=600)
    story.client.run_now("short", payload='{"host":\n "plc2"}')
    story.client.run_now("long", payload=f'"{"x" * 100}"')
    story.after_s(1)

    assert lines("short")["active"].endswith(', manual, with payload {"host": "plc2"}')
    assert lines("long")["active"].endswith(f', with payload "{"x" * 59}...')


@pytest.mark.parametrize(
    ("pause", "has_engine", "is_full", "is_looked_for", "wanted"),
    [
        (True, True, False, True, WaitsFor.RESUME),
        (False, False, False, False, WaitsFor.ENGINE),
        (False, True, True, True, WaitsFor.GROUP),
        (False, True, False, False, WaitsFor.PLACE),
        (False, True, False, True, WaitsFor.PLACE),  # of few places for late runs
    ],
)
def test_what_a_queued_run_waits_for(
    story: Story,
    pause: bool,
    has_engine: bool,
    is_full: bool,
    is_looked_for: bool,
    wanted: WaitsFor,
) -> None:
    story.add("job", "@hourly")
    story.client.backfill("job", NOW, NOW)
    if pause:
        story.client.pause("job")
    schedule = story.client.schedule("job")
    stored = story.client.store.find_prospects(schedule, most_active=9, now_ms=START_MS)

    [judged] = judge_active(
        stored.active,
        schedule,
        now=NOW,
        has_engine=has_engine,
        is_group_full=is_full,
        is_looked_for=is_looked_for,
    )

    assert judged.waits_for is wanted


def test_many_that_wait_are_counted(story: Story, lines: Lines) -> None:
    story.add("job", "* * * * *")
    story.client.backfill("job", from_ms(START_MS - 20 * MINUTE_MS), NOW)

    outlook = outlook_of(story, "job")

    assert outlook.active_count == 21
    assert lines("job")["active"] == ("run 1 is queued, backfill: no engine is running")
    assert lines("job")[""].startswith("2026-03-08 20:02:00")
    behind = [run.behind_id for run in outlook.active]
    assert behind[:3] == [None, 1, 1]


def test_show_as_json_has_the_same_as_fields(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)
    edgecron("run", backup)

    [shown] = edgecron("show", backup, "--json").json

    outlook = shown["outlook"]
    assert list(outlook) == [
        "next", "idle", "idle_reason", "clock_changes", "held_count", "held_from_at",
        "held_to_at", "excluded", "active_count", "active", "fire_now", "unmet_need",
        "clock_trusted", "has_engine", "late_places", "behind", "last_not_run",
    ]  # fmt: skip
    assert outlook["next"] == shown["upcoming"][0]
    assert (outlook["idle"], outlook["active_count"]) == (None, 1)
    assert (outlook["active"][0]["id"], outlook["active"][0]["waits_for"]) == (1, "engine")
    assert outlook["fire_now"] == [
        {"scope_kind": "global", "scope_id": "", "becomes": "skip", "because_of_run": 1}
    ]
    assert outlook["last_not_run"]["reason"] == "overlap"


def test_values_of_environment_payload_and_stdin_are_shown_only_on_request(
    edgecron: Edgecron,
) -> None:
    given = ("--env", "URL=s3cret", "--payload", '"s3cret"', "--stdin", "s3cret")
    edgecron("add", "sync", "--every", "1h", *given, "--", "true")
    edgecron("run", "sync", "--payload", '"s3cret"')

    hidden = edgecron("show", "sync")
    [as_json] = edgecron("show", "sync", "--json").json
    revealed = edgecron("show", "sync", "--reveal")
    [all_of_it] = edgecron("show", "sync", "--reveal", "--json").json

    assert "s3cret" not in hidden.out + json.dumps(as_json)
    assert "URL=***" in hidden.out
    assert "manual, with payload ***" in hidden.out
    assert hidden.err.endswith("values are hidden; to see them: edgecron show sync --reveal\n")
    assert (as_json["env"], as_json["payload"], as_json["stdin"]) == ({"URL": "***"}, "***", "***")
    assert revealed.out.count("s3cret") == 4
    assert "hidden" not in revealed.err
    assert (all_of_it["env"], all_of_it["payload"]) == ({"URL": "s3cret"}, '"s3cret"')
    assert all_of_it["outlook"]["active"][0]["payload"] == '"s3cret"'


def test_the_payload_of_a_run_is_shown_only_on_request(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup, "--payload", '"s3cret"')

    hidden = edgecron("show", "1")
    revealed = edgecron("show", "1", "--reveal")

    assert "s3cret" not in hidden.out
    assert "payload      ***" in hidden.out
    assert "edgecron show 1 --reveal" in hidden.err
    assert 'payload      "s3cret"' in revealed.out
    assert "hidden" not in revealed.err


def test_a_schedule_without_values_has_nothing_to_hide(edgecron: Edgecron, backup: str) -> None:
    shown = edgecron("show", backup)
    [as_json] = edgecron("show", backup, "--json").json

    assert "hidden" not in shown.err
    assert (as_json["env"], as_json["payload"], as_json["stdin"]) == ({}, None, None)


def test_show_of_what_runs_after_another_says_when_that_comes(
    edgecron: Edgecron, backup: str
) -> None:
    edgecron("add", "report", "--after", backup, "--", "true")

    shown = edgecron("show", "report").out
    upcoming = edgecron("next", "report")

    assert "next         after backup (next " in shown
    assert (upcoming.code, upcoming.out) == (0, "")
    assert "report: next: after backup" in upcoming.err


def test_a_fire_that_can_not_start_is_not_said_to_start(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "report", "--after", backup, "--", "true")

    edgecron("pause", backup)
    paused = edgecron("show", backup).out
    edgecron("rm", backup)
    alone = edgecron("show", "report").out

    assert "if due now   would be skipped: the schedule is paused\n" in paused
    assert "next         none: backup, which it follows, was removed\n" in alone
    assert "if due now   is never due: only 'edgecron run' starts it\n" in alone
    assert edgecron("edit", "report", "--timeout", "none").out.startswith("report is unchanged;")


def test_a_time_that_has_passed_is_overdue_and_not_next(
    story: Story, edgecron: Edgecron, tmp_path: Path
) -> None:
    story.add("job", "every 1m")

    said = edgecron("--db", str(tmp_path / "story.db"), "why", "job").out

    assert "Overdue since: " in said
    assert "Next: " not in said


@pytest.mark.parametrize("words", [(), ("--until", "in 1h")])
def test_a_paused_schedule_would_skip_a_fire(
    edgecron: Edgecron, backup: str, words: tuple[str, ...]
) -> None:
    edgecron("run", backup)
    edgecron("pause", backup, *words)

    [shown] = edgecron("show", backup, "--json").json
    [why] = edgecron("why", backup, "--json").json

    assert shown["outlook"]["fire_now"] == why["outlook"]["fire_now"]
    assert shown["outlook"]["fire_now"] == [
        {"scope_kind": "global", "scope_id": "", "becomes": "skip", "because_of_run": None}
    ]
