"""Notices, told by hand: what a rule is told of, how often, and what happens if sending fails."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.paths import read_location
from edgecron.base.zones import load_zone
from edgecron.client.doctor_schedules import check_notices
from edgecron.client.notice_channels import Message
from edgecron.client.notice_contents import command_words
from edgecron.client.notice_rules import load_recorded, rehearse, sync_config
from edgecron.client.notice_sending import NoticeSender, send_heartbeats
from edgecron.client.resources import answer_object, read_answer, resource_types
from edgecron.engine.step import Hosting
from edgecron.formats.config import load
from edgecron.model.choices import CatchUp, JobKind, Reason, Status
from edgecron.model.job import Job
from edgecron.model.notices import NewNotice, Notice
from edgecron.model.options import Policies
from edgecron.model.run import Outcome, Stall
from edgecron.planning.notices import plan_messages, usual_limit_ms
from edgecron.store.sql.outbox import find_notices
from tests.support.mailbox import OPS, Mailbox
from tests.support.story import Story

MINUTE_S = 60
DAY_S = 86_400
ALIVE = '[notify.alive]\nping = "http://127.0.0.1:1/alive"\nheartbeat = "5m"\n'


@pytest.fixture
def mailbox(tmp_path: Path) -> Callable[..., Mailbox]:
    return lambda rules=OPS, **options: Mailbox(tmp_path, rules, **options)


Open = Callable[..., Mailbox]


def test_a_failure_is_told_once_then_each_day_then_that_it_is_over(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=3)

    first = box.pass_s(3600)
    same_day = box.pass_s(3600, steps=20)
    next_days = box.pass_s(3600, steps=48)
    good = Job(kind=JobKind.COMMAND, argv=("job", "0", "0"))
    box.story.client.edit("job", lambda spec: replace(spec, job=good))
    after = box.pass_s(3600, steps=3)

    assert first == ["job failed"]
    assert same_day == []
    assert next_days == ["job still fails", "job still fails"]
    assert after == ["job recovered"]


def test_a_message_says_what_happened(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=3)

    box.pass_s(3600)

    [letter] = box.letters
    told: Any = letter.body["notices"]
    [notice] = told
    run: Mapping[str, Any] = notice["run"]
    assert (run["status"], run["exit_code"], run["schedule"]) == ("failed", 3, "job")
    assert notice["sentence"].startswith("Run 1 started at ")
    assert "payload" not in run
    at = datetime.fromisoformat(notice["at"]).astimezone(load_zone("local"))
    assert letter.text.startswith(f"job failed ({at:%Y-%m-%d %H:%M:%S %Z})\nRun 1 started at ")
    path = box.story.client.path
    assert letter.text.endswith(f"\n\nMore: edgecron --db {path} show 1\n")
    assert letter.id == f"{box.story.client.store.uuid}.1"


@pytest.mark.parametrize(
    ("user_id", "name", "words"),
    [
        (1000, "usual one.db", "edgecron"),
        (1000, "other one.db", "edgecron --db '{folder}/other one.db'"),
        (0, "usual one.db", "edgecron --db '{folder}/usual one.db'"),
    ],
)
def test_a_notice_names_its_database_unless_it_is_the_default_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user_id: int, name: str, words: str
) -> None:
    """The engine's own variable is not that of a shell."""
    config = tmp_path / "edgecron/config.toml"
    config.parent.mkdir()
    config.write_text(f"database = '{tmp_path}/usual one.db'\n")
    config.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: user_id)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("EDGECRON_DB", str(tmp_path / "other one.db"))

    assert command_words(tmp_path / name) == words.format(folder=tmp_path)


def test_the_command_of_a_message_names_a_server_without_its_password() -> None:
    server = read_location("postgresql://me:secret@db/jobs")

    assert command_words(server) == "edgecron --db postgresql://me@db/jobs"


def test_an_attempt_that_is_tried_again_is_not_told(mailbox: Open) -> None:
    box = mailbox()
    policies = Policies(retries=1, retry_delay_s=300)
    box.story.add("job", "0 * * * *", code=3, policies=policies)

    before = box.pass_s(3600)
    retried = box.pass_s(400)

    assert before == []
    assert retried == ["job failed"]


def test_a_rule_can_wait_for_several_failures_in_a_row(mailbox: Open) -> None:
    box = mailbox(f"{OPS}failures = 3\n")
    box.story.add("job", "0 * * * *", code=3)

    told = [box.pass_s(3600) for _ in range(4)]

    assert told == [[], [], ["job failed"], []]
    assert "3 fires failed in a row since" in box.letters[0].text


def test_missed_times_are_told_and_skips_on_purpose_are_not(mailbox: Open) -> None:
    box = mailbox()
    policies = Policies(catch_up=CatchUp.SKIP)
    box.story.add("missed", "0 * * * *", policies=policies)
    box.story.add("long", "* * * * *", lasts_s=600)
    box.story.add("paused", "0 * * * *")
    box.story.client.pause("paused")

    told = box.pass_s(3 * 3600)

    assert [one for one in told if "missed" in one] == ["missed was missed"]
    assert not any(name in one for one in told for name in ("long", "paused"))


def test_a_silent_run_is_told_once_and_again_after_a_lively_one(mailbox: Open) -> None:
    box = mailbox()
    policies = Policies(stall_timeout_s=60)
    box.story.add("job", "0 * * * *", lasts_s=600, policies=policies)
    store, clock = box.story.client.store, box.story.world.clock
    told = []

    for _ in range(2):
        box.story.after_s(3600)
        run_id = box.story.runs("job")[-1].id
        for _ in range(2):  # An engine that adopts the run reports it again.
            store.note_stalls([Stall(run_id, clock.now_ms())])
            told.append(box.deliver())
        box.pass_s(900)

    assert told == [["job prints nothing"], [], ["job prints nothing"], []]
    assert "it is still running. It printed nothing for 1m." in box.letters[0].text


def test_only_a_running_run_stalls(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *")
    box.story.after_s(3600)
    store = box.story.client.store

    store.note_stalls([Stall(box.story.runs("job")[0].id, 0), Stall(999, 0)])

    assert box.deliver() == []


def test_failures_of_a_moment_go_in_one_message(mailbox: Open) -> None:
    box = mailbox(max_running=50)
    box.story.add_many(30, "job", "0 * * * *", code=1)

    told = box.pass_s(3600)

    assert told == ["30 notices: job0 failed, job1 failed, job2 failed, ..."]
    more = f"And 10 more notices: edgecron --db {box.story.client.path} notices -n 30"
    assert more in box.letters[0].text


def test_notices_that_come_before_the_first_message_has_left_keep_the_pause(
    mailbox: Open,
) -> None:
    box = mailbox()
    for second in range(3):
        box.story.add(f"job{second}", f"{second} 0 21 * * *", code=1)
    box.story.after_s(3600)
    for _ in range(2):  # While the process is about to send the first.
        box.apply()
        box.story.after_s(1)

    told = box.deliver()
    sent_ms = sorted({one.sent_ms or 0 for one in box.notices()})

    assert told[0] == "job0 failed"
    assert len(told) == 2
    assert sent_ms[1] - sent_ms[0] >= 60_000


def test_a_condition_that_is_not_met_before_its_deadline_is_told(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("other", "0 0 1 1 *")
    policies = Policies(needs=("success:other",), needs_deadline_s=600)
    box.story.add("job", "0 21 * * *", policies=policies)

    waiting = box.pass_s(3600)
    told = box.pass_s(601)

    assert (waiting, told) == ([], ["job was missed"])
    assert "a condition was not met in time" in box.letters[0].text


def test_a_flood_is_held_back_and_counted(mailbox: Open) -> None:
    box = mailbox(f"{OPS}most_per_hour = 2\n")
    for number in range(6):
        box.story.add(f"job{number}", f"{5 + number * 5} 20 * * *", code=1)

    told = box.pass_s(300, steps=6)
    later = box.pass_s(600, steps=6)

    assert told == ["job0 failed", "job1 failed"]
    assert later == ["4 notices: job2 failed, job3 failed, job4 failed, ..."]
    assert "4 notices were held back" in box.letters[-1].text


def test_what_could_not_be_sent_is_tried_again_with_the_same_id(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.failure = "no network"

    box.pass_s(3600)
    [waiting] = box.notices()
    box.failure = None
    told = box.pass_s(900)

    assert (waiting.status, waiting.error) == ("waiting", "no network")
    assert told == ["job failed"]
    [sent] = box.notices()
    assert (sent.status, sent.message) == ("sent", waiting.message)
    assert box.letters[0].id == waiting.message


def test_a_channel_that_stays_broken_is_given_up_after_three_days(mailbox: Open) -> None:
    box = mailbox(f"{OPS}remind = 'none'\n")
    box.story.add("job", "0 * * * *", code=1)
    box.failure = "refused"

    box.pass_s(4 * 3600, steps=20)

    [one] = box.notices()
    assert (one.status, one.error) == ("given_up", "refused")
    assert 10 < one.tries < 30


def test_rules_choose_schedules_groups_and_events(mailbox: Open) -> None:
    box = mailbox(
        '[notify.disk]\ncommand = ["a"]\ngroups = ["disk"]\nevents = ["failed"]\n'
        '[notify.backups]\ncommand = ["b"]\nschedules = ["backup-*"]\n'
    )
    box.story.add("backup-home", "0 * * * *", code=1)
    box.story.add("scrub", "0 * * * *", code=1, group="disk")
    box.story.add("other", "0 * * * *", code=1)

    box.pass_s(3600)

    rules = {letter.body["rule"]: letter.subject.partition("] ")[2] for letter in box.letters}
    assert rules == {"backups": "backup-home failed", "disk": "scrub failed"}


def test_what_the_history_would_have_sent_is_what_was_sent(mailbox: Open) -> None:
    rules = f'{OPS}slow_after = "10m"\nlate_after = "5m"\n'
    box = mailbox(rules + '[notify.each]\ncommand = ["true"]\nevents = ["ended"]\n', max_running=1)
    since_ms = box.story.world.clock.now_ms()
    box.story.add("bad", "0 */6 * * *", code=1)
    box.story.add("slow", "0 3 * * *", lasts_s=1200)
    box.story.add("waits", "1 3 * * *")
    box.story.add("again", "30 */6 * * *", code=2, policies=Policies(retries=1, retry_delay_s=60))
    box.pass_s(600, steps=32 * 6)

    read = load_recorded(box.story.client)
    told = rehearse(box.story.client, list(read.rules.values()), since_ms=since_ms)

    def key(one: Notice | NewNotice) -> tuple[object, ...]:
        run_id = None if one.is_reminder else one.execution_id  # the newest at the look
        return (one.rule, one.event, run_id, one.is_reminder)

    assert {key(one) for one in box.notices()} == {key(one) for one in told}
    assert len(box.notices()) == len(told)
    assert any(one.is_reminder for one in told)
    assert {one.event for one in told} == {"failed", "slow", "late", "ended"}


@pytest.mark.parametrize(
    ("at_s", "sent_s"),
    [
        ((), ()),
        ((0, 1, 2), (2,)),
        ((0, 10, 61, 200), (2, 62, 202)),
        ((0, 100, 200, 300, 400), (2, 102, 202, 3602)),
    ],
)
def test_messages_are_planned_as_they_are_sent(
    at_s: tuple[int, ...], sent_s: tuple[int, ...]
) -> None:
    times_ms = plan_messages([1000 * one for one in at_s], most_per_hour=3)

    assert tuple(one // 1000 for one in times_ms) == sent_s


def test_a_rule_can_hear_of_each_end_of_a_run(mailbox: Open) -> None:
    box = mailbox(f'{OPS}events = ["ended"]\n')
    box.story.add("good", "0 * * * *")
    box.story.add("bad", "30 * * * *", code=1)

    subjects = box.pass_s(1800, steps=2)

    assert subjects == ["bad failed", "good succeeded"]


def test_a_schedule_names_its_own_rules(mailbox: Open) -> None:
    rules = OPS.replace("ops", "named") + "schedules = []\n" + OPS
    box = mailbox(rules)
    box.story.add("plain", "0 * * * *", code=1)
    box.story.add("naming", "0 * * * *", code=1, policies=Policies(notify=("named",)))
    box.story.add("silent", "0 * * * *", code=1, policies=Policies(notify=("off", "named")))

    box.pass_s(3600)

    told = {(one.rule, one.schedule) for one in box.notices()}
    assert told == {("ops", "plain"), ("ops", "naming"), ("named", "naming")}


def test_a_slow_run_is_told_to_the_rules_that_its_schedule_names(mailbox: Open) -> None:
    rules = '[notify.named]\ncommand = ["true"]\nschedules = []\nslow_after = "10m"\n'
    box = mailbox(rules)
    box.story.add("naming", "0 21 * * *", lasts_s=1800, policies=Policies(notify=("named",)))
    box.story.add("plain", "0 21 * * *", lasts_s=1800)

    box.pass_s(600, steps=10)

    assert [(one.event, one.schedule) for one in box.notices()] == [("slow", "naming")]


def test_a_rule_can_ask_for_output(mailbox: Open) -> None:
    box = mailbox(f"{OPS}needs_output = true\n")
    box.story.add("silent", "0 * * * *", code=1)

    assert box.pass_s(3600) == []


def test_a_run_that_takes_long_is_told_while_it_runs(mailbox: Open) -> None:
    box = mailbox(f'{OPS}slow_after = "10m"\n')
    box.story.add("long", "0 21 * * *", lasts_s=3600)
    box.story.add("short", "0 21 * * *", lasts_s=300)

    started = box.pass_s(3600)
    while_it_runs = box.pass_s(601)
    later = box.pass_s(600, steps=10)

    assert (started, while_it_runs, later) == ([], ["long takes long"], [])
    assert box.story.runs("long")[0].status == "success"


def test_a_run_that_takes_longer_than_usual_is_told_while_it_runs(mailbox: Open) -> None:
    box = mailbox(f'{OPS}slow_after = "usual"\n')
    box.story.add("job", "0 * * * *", lasts_s=300)
    box.story.add("new", "30 * * * *", lasts_s=2400)
    usual = box.pass_s(600, steps=9 * 6) + box.pass_s(600, steps=6 * 3)
    long = Job(kind=JobKind.COMMAND, argv=("job", "1800", "0"))
    box.story.client.edit("job", lambda spec: replace(spec, job=long))

    slow = box.pass_s(300, steps=12)

    assert (usual, slow) == ([], ["job takes long"])
    assert [one.event for one in box.notices()] == ["slow"]


@pytest.mark.parametrize(
    ("durations_s", "limit_s"),
    [((100,) * 9, None), ((100,) * 10, 300), ((1,) * 10, 60), ((*(10,) * 6, *(9000,) * 5), 60)],
)
def test_what_is_usual_is_the_median_of_enough_runs(
    durations_s: tuple[int, ...], limit_s: int | None
) -> None:
    found = usual_limit_ms([1000 * one for one in durations_s])

    assert found == (None if limit_s is None else 1000 * limit_s)


def test_rules_with_other_limits_hear_at_their_own_time(mailbox: Open) -> None:
    rule = '[notify.{0}]\ncommand = ["a"]\nslow_after = "{1}"\n'
    box = mailbox(rule.format("first", "10m") + rule.format("second", "30m"))
    box.story.add("long", "0 21 * * *", lasts_s=7200)

    box.pass_s(3600)
    box.pass_s(300, steps=8)

    sent = [(letter.body["rule"], letter.subject.partition("] ")[2]) for letter in box.letters]
    assert sent == [("first", "long takes long"), ("second", "long takes long")]


def test_a_fire_that_waits_for_a_place_is_late_before_it_starts(mailbox: Open) -> None:
    box = mailbox(f'{OPS}late_after = "5m"\n', max_running=1)
    box.story.add("long", "0 21 * * *", lasts_s=3600)
    box.story.add("waits", "1 21 * * *")

    box.pass_s(3600)
    box.pass_s(61)
    late = box.pass_s(301)
    later = box.pass_s(600, steps=8)

    assert late == ["waits is late"]
    assert later == []
    assert box.story.runs("waits")[0].status == "success"


def test_a_fire_that_starts_on_time_is_not_late(mailbox: Open) -> None:
    box = mailbox(f'{OPS}late_after = "5m"\nslow_after = "5m"\n')
    box.story.add("job", "*/10 * * * *", lasts_s=60)

    assert box.pass_s(300, steps=13) == []
    store, clock = box.story.client.store, box.story.world.clock
    assert store.next_notice_ms(now_ms=clock.now_ms()) is None


def test_a_schedule_that_is_always_slow_is_told_once(mailbox: Open) -> None:
    box = mailbox(f'{OPS}slow_after = "5m"\n')
    box.story.add("job", "0 * * * *", lasts_s=600)

    told = box.pass_s(300, steps=12 * 12)

    assert told == ["job takes long"]


def test_a_late_schedule_that_is_on_time_again_is_not_reminded_of(mailbox: Open) -> None:
    box = mailbox(f'{OPS}events = ["missed"]\nlate_after = "5m"\n', max_running=1)
    box.story.add("long", "0 21 8 3 *", lasts_s=3600)
    box.story.add("waits", "1 21 * * *", code=1)

    told = [*box.pass_s(600, steps=24), *box.pass_s(3600, steps=3 * 24 - 4)]

    assert told == ["waits is late"]


def test_a_schedule_that_runs_again_after_a_missed_time_is_not_reminded_of(mailbox: Open) -> None:
    box = mailbox(f'{OPS}events = ["missed"]\n')
    box.story.add("job", "0 * * * *", code=1, policies=Policies(catch_up=CatchUp.SKIP))

    missed = box.pass_s(3 * 3600)
    later = box.pass_s(3600, steps=49)

    assert (missed, later) == (["job was missed"], [])


def test_a_schedule_that_has_not_run_since_a_missed_time_is_reminded_of(mailbox: Open) -> None:
    box = mailbox()
    policies = Policies(catch_up=CatchUp.SKIP)
    box.story.add("job", "0 21 * * 0", lasts_s=3 * DAY_S, policies=policies)

    told = [box.pass_s(2 * 3600), box.pass_s(3600, steps=6 * 24), box.pass_s(3600, steps=4 * 24)]

    # A week later, it runs for three days: then it is no longer missed.
    assert told == [["job was missed"], ["job is still missed"] * 6, []]


def test_a_slow_run_is_reminded_of_only_while_it_runs(mailbox: Open) -> None:
    box = mailbox(f'{OPS}slow_after = "10m"\n')
    box.story.add("hours", "0 21 8 3 *", lasts_s=7200)
    box.story.add("days", "0 22 8 3 *", lasts_s=int(2.5 * DAY_S))

    told = [*box.pass_s(600, steps=24), *box.pass_s(3600, steps=5 * 24 - 4)]

    assert told == ["hours takes long", "days takes long", *["days still takes long"] * 2]


def test_a_schedule_that_is_slow_each_time_is_reminded_of_while_it_is_slow(mailbox: Open) -> None:
    box = mailbox(f'{OPS}slow_after = "5m"\n')
    box.story.add("job", "0 */5 * * *", lasts_s=600)

    told = box.pass_s(300, steps=12 * 50)

    assert told == ["job takes long", "job still takes long"]
    assert [one.at_ms // 60_000 % 60 for one in box.notices()] == [5, 5]  # while it ran


def test_a_rule_without_reminders_sends_none(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.pass_s(3600)
    box.write(f'{OPS}remind = "none"\n')

    assert box.pass_s(3600, steps=49) == []


def test_a_run_that_prints_nothing_is_reminded_of_only_while_it_runs(mailbox: Open) -> None:
    box = mailbox()
    policies = Policies(stall_timeout_s=60)
    box.story.add("job", "0 21 8 3 *", lasts_s=int(1.5 * DAY_S), policies=policies)
    store, clock = box.story.client.store, box.story.world.clock
    box.story.after_s(3600)
    store.note_stalls([Stall(box.story.runs("job")[-1].id, clock.now_ms())])

    told = [box.deliver(), box.pass_s(3600, steps=26), box.pass_s(3600, steps=48)]

    assert told == [["job prints nothing"], ["job still prints nothing for long"], []]


def test_pings_go_out_at_each_start_and_end(mailbox: Open) -> None:
    box = mailbox('[notify.mon]\nping = "http://127.0.0.1:1/{schedule}"\n')
    box.story.add("good", "0 * * * *")
    box.story.add("bad", "30 * * * *", code=7)

    box.pass_s(1800, steps=2)

    sent = [(letter.schedule, letter.path) for letter in box.letters]
    assert sorted(sent) == [("bad", "/7"), ("bad", "/start"), ("good", ""), ("good", "/start")]
    runs = {letter.schedule: letter.run for letter in box.letters}
    assert len({letter.run for letter in box.letters}) == len(runs) == 2


def test_a_run_that_its_function_skips_sends_no_notice_and_pings_its_end(mailbox: Open) -> None:
    monitor = '[notify.mon]\nping = "http://127.0.0.1:1/{schedule}"\n'
    box = mailbox(f"{OPS}{monitor}")
    box.story.add("job", "0 * * * *", lasts_s=600)
    box.pass_s(3600)
    [run] = box.story.client.store.find_running()
    skipped = Outcome(
        execution_id=run.execution_id,
        lease_token=run.lease_token,
        status=Status.SKIPPED,
        reason=Reason.DECLINED,
        error_msg="no new files",
        finished_ms=box.story.world.clock.now_ms(),
    )

    box.story.client.store.finish([skipped], now_ms=skipped.finished_ms)
    told = box.deliver()

    assert [letter.path for letter in box.letters] == ["/start", ""]
    assert told == [""]
    assert [one.event for one in box.notices()] == ["started", "ended"]


def test_a_removed_rule_sends_nothing_more(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.failure = "refused"
    box.pass_s(3600)
    box.failure = None
    box.write("")

    told = box.pass_s(900)
    box.pass_s(3600)

    assert told == []
    assert [(one.status, one.error) for one in box.notices()] == [
        ("given_up", "its rule was removed")
    ]


def test_a_removed_schedule_is_not_reminded_of(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.story.add("other", "0 * * * *")
    box.pass_s(3600)
    box.story.client.remove("job")
    box.story.add("third", "0 * * * *", code=1)

    told = box.pass_s(3600, steps=50)

    assert "job still fails" not in told
    assert told.count("third still fails") == 2


def test_without_rules_nothing_is_recorded(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db")
    story.add("job", "0 * * * *", code=1)
    story.after_s(3600)

    assert story.client.store.next_notice_ms(now_ms=story.world.clock.now_ms()) is None
    assert find_notices(story.client.store, before_id=None, limit=5, rule=None) == []


def test_a_notice_survives_a_sender_that_dies_between_sending_and_recording(
    mailbox: Open,
) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.story.after_s(3600)
    client = box.story.client

    class Killed(BaseException):
        pass

    def send_and_die(channel: object, message: Message) -> None:
        box.letters.append(message)
        raise Killed

    sender = NoticeSender(client, load_recorded(client), send=send_and_die, pause=box.pause)
    with pytest.raises(Killed):
        sender.run()
    box.deliver()

    assert len(box.letters) == 2
    assert len({letter.id for letter in box.letters}) == 1
    assert [one.status for one in box.notices()] == ["sent"]


def test_an_engine_gives_signs_of_life_as_often_as_a_rule_wants(tmp_path: Path) -> None:
    started: list[bool] = []

    def start(has_beat: bool) -> int:
        started.append(has_beat)
        return os.getpid()  # No child: it has ended.

    story = Story(tmp_path / "story.db", hosting=Hosting(start_sender=start))
    story.after_s(1)
    file = tmp_path / "config.toml"
    file.write_text(ALIVE)
    file.chmod(0o600)
    sync_config(story.client, load(str(file)))

    counts = []
    for seconds in (1, 298, 3, 300):
        story.after_s(seconds)
        counts.append(len(started))
    wakes_ms = story.engine.step().wake_ms

    assert counts == [1, 1, 2, 3]
    assert all(started)
    assert wakes_ms is not None
    assert wakes_ms - story.world.clock.now_ms() <= 300_000


def test_a_heartbeat_that_fails_is_a_finding_until_the_next_one(mailbox: Open) -> None:
    box = mailbox(ALIVE + OPS)
    box.story.add("job", "0 * * * *")
    rules = load_recorded(box.story.client)
    found = []

    for box.failure in ("no network", None):
        send_heartbeats(box.story.client, rules, send=box.send)
        found += [check_notices(box.story.client, command=str)]
    told = box.pass_s(3600)

    [[failed], fine] = found
    assert "rule alive could not send its last heartbeat: no network" in failed.message
    assert fine == []
    assert [letter.path for letter in box.letters] == [""]
    assert told == []  # It hears of no run.


def test_notices_from_afar_are_those_of_here(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.pass_s(3600, steps=26)
    here = box.story.client.notices()

    resource = resource_types("notices")
    shown = answer_object(resource, here)
    read = read_answer(resource, json.dumps(shown).encode())

    assert read == here
    assert len(here) == 2
    assert [one["id"] for one in shown["notices"]] == [2, 1]
    assert box.story.client.notices(rule="ops", before=2, limit=1) == here[1:]
    assert box.story.client.notices(rule="other") == []
