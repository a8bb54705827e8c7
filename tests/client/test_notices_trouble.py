"""Notices in trouble: a broken channel, a clock that was set, a restored database, lost rules."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.client.doctor_schedules import check_notices
from edgecron.client.notice_channels import ChannelFailed, Message
from edgecron.client.notice_rules import load_recorded, sync_config
from edgecron.client.notice_sending import NoticeSender
from edgecron.engine.step import Hosting
from edgecron.formats.config import load
from edgecron.store.sqlite.copies import renew_identity
from tests.support.mailbox import OPS, Mailbox
from tests.support.servers import wait_until
from tests.support.story import Story, a_spec

PINGS = '[notify.mon]\nping = "http://127.0.0.1:1/{schedule}"\n'
ALIVE = '[notify.alive]\nping = "http://127.0.0.1:1/alive"\nheartbeat = "5m"\n'
DAY_S = 86_400
HOUR_S = 3_600


@pytest.fixture
def mailbox(tmp_path: Path) -> Callable[..., Mailbox]:
    return lambda rules=OPS, **options: Mailbox(tmp_path, rules, **options)


Open = Callable[..., Mailbox]


def statuses(box: Mailbox) -> Counter[str]:
    return Counter(one.status.value for one in box.notices())


def test_many_schedules_that_fail_each_minute_are_one_message(mailbox: Open) -> None:
    box = mailbox(max_running=200)
    box.story.add_many(100, "job", "* * * * *", code=1)

    box.pass_s(60, steps=3)

    assert len(box.letters) == 1
    assert statuses(box) == {"sent": 100}


def test_a_channel_that_is_broken_for_hours_gets_few_messages_when_it_works_again(
    mailbox: Open,
) -> None:
    box = mailbox(f'{OPS}remind = "none"\n')
    for number in range(12):  # Each begins to fail at another time, from 21:00 on.
        box.story.add(f"job{number}", f"{number % 4 * 15} {21 + number // 4} * * *", code=1)
    box.failure = "no network"
    box.pass_s(900, steps=4 * 4)
    tried = max(one.tries for one in box.notices())
    box.failure = None

    box.pass_s(900, steps=6)

    assert tried > 5
    assert statuses(box) == {"sent": 12}
    assert len(box.letters) <= 4
    assert len({letter.id for letter in box.letters}) == len(box.letters)


def test_a_message_that_a_channel_never_takes_holds_up_others_for_an_hour_at_most(
    mailbox: Open,
) -> None:
    box = mailbox()
    box.story.add("bad", "0 21 * * *", code=1)
    box.story.add("other", "0 0 * * *", code=1)

    def refuse_one(channel: object, message: Message) -> None:
        if "bad" in message.subject:
            raise ChannelFailed("the server answered 400")
        box.letters.append(message)

    for _ in range(6 * 12):
        box.story.after_s(300)
        client = box.story.client
        NoticeSender(client, load_recorded(client), send=refuse_one, pause=box.pause).run()

    assert [letter.subject.partition("] ")[2] for letter in box.letters] == ["other failed"]
    assert statuses(box) == {"sent": 1, "waiting": 1}


def test_a_broken_monitor_of_one_schedule_does_not_hold_up_pings_of_another(
    mailbox: Open,
) -> None:
    box = mailbox(PINGS)
    box.story.add("gone", "*/10 * * * *")
    box.story.add("there", "*/10 * * * *")
    tries = Counter[str]()

    def refuse_one(channel: object, message: Message) -> None:
        tries[message.schedule] += 1
        if message.schedule == "gone":
            raise ChannelFailed("the server answered 404")

    for _ in range(12):
        box.story.after_s(600)
        client = box.story.client
        NoticeSender(client, load_recorded(client), send=refuse_one, pause=box.pause).run()

    assert tries["there"] == 2 * 12
    assert 0 < tries["gone"] < tries["there"]


def test_pings_of_a_schedule_go_out_in_order(mailbox: Open) -> None:
    box = mailbox(PINGS)
    box.story.add("job", "0 * * * *", lasts_s=0)
    for _ in range(3):
        box.story.after_s(HOUR_S)

    box.deliver()

    assert [one.path for one in box.letters] == ["/start", ""] * 3
    assert len({one.run for one in box.letters}) == 3


def test_a_late_ping_of_a_success_does_not_hide_a_newer_failure(mailbox: Open) -> None:
    box = mailbox(PINGS)
    box.story.add("job", "*/10 * * * *")
    box.failure = "no network"
    box.pass_s(600, steps=3)
    box.story.client.edit("job", lambda one: a_spec("job", "*/10 * * * *", code=5))
    box.pass_s(600, steps=9)
    box.failure = None

    box.pass_s(600, steps=6)

    first, *later = [one.path for one in box.letters]
    assert first == "/5"
    assert set(later) == {"/start", "/5"}
    given_up = [one for one in box.notices() if one.status == "given_up"]
    assert {one.error for one in given_up} == {"a newer ping of its schedule took its place"}
    assert statuses(box) == {"sent": len(box.letters), "given_up": len(given_up)}
    sent = [one.id for one in sorted(box.notices(), key=lambda one: one.sent_ms or 0)]
    assert sent == sorted(sent)
    assert check_notices(box.story.client, command=str) == []


def test_while_a_monitor_is_dead_the_pauses_grow_and_few_pings_wait(mailbox: Open) -> None:
    box = mailbox(PINGS)
    box.story.add("job", "* * * * *")
    box.failure = "no network"
    tries = 0

    def refuse(channel: object, message: Message) -> None:
        nonlocal tries
        tries += 1
        raise ChannelFailed("no network")

    for _ in range(2 * 60):
        box.story.after_s(60)
        client = box.story.client
        NoticeSender(client, load_recorded(client), send=refuse, pause=box.pause).run()

    [broken] = check_notices(client, command=str)
    waiting = [one for one in box.notices() if one.due_ms is not None]
    assert broken.message == "rule mon could not send its last notice: no network"
    assert 2 * 12 < tries < 60
    assert len(waiting) < 2 * 8  # The newest of a few minutes.


def test_a_start_after_an_unsent_end_follows_it(mailbox: Open) -> None:
    box = mailbox(PINGS)
    box.story.add("job", "0 * * * *", lasts_s=1800)
    box.failure = "no network"
    box.pass_s(HOUR_S)  # the start
    box.pass_s(1805)  # the end
    box.pass_s(1800)  # another start
    box.failure = None

    box.pass_s(900)

    assert [one.path for one in box.letters] == ["", "/start"]


def test_a_message_is_on_record_as_sent_although_another_one_fails_badly(mailbox: Open) -> None:
    box = mailbox(f'[notify.first]\ncommand = ["a"]\n{OPS}')
    box.story.add("job", "0 * * * *", code=1)
    box.story.after_s(HOUR_S)
    client = box.story.client
    sender = NoticeSender(client, load_recorded(client), pause=box.pause)
    sender.apply_rules()
    box.pause(3)

    def is_noted() -> bool:
        with Client(client.path) as other:
            return any(one.status == "sent" for one in other.notices())

    def send(channel: object, message: Message) -> None:
        if message.body["rule"] == "first":
            wait_until(is_noted, lambda: "the other message is noted as sent")
            raise ChannelFailed("no network")

    NoticeSender(client, load_recorded(client), send=send).send_due()

    assert {one.rule: one.status.value for one in box.notices()} == {
        "first": "waiting",
        "ops": "sent",
    }


def test_if_the_clock_is_set_back_waiting_notices_are_sent_and_new_ones_too(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.story.add("other", "0 * * * *")
    box.pass_s(HOUR_S)
    box.story.add("third", "0 * * * *", code=1)
    box.failure = "no network"
    box.pass_s(HOUR_S)
    box.failure = None
    clock = box.story.world.clock
    box.story.world.step_clock(-100 * DAY_S * 1000)
    due_ms = box.story.client.store.next_notice_ms(now_ms=clock.now_ms())

    told = box.deliver()

    assert due_ms == 0
    assert told == ["third failed"]
    box.story.add("fourth", "0 * * * *", code=1)
    assert box.pass_s(HOUR_S) != []
    assert box.notices()[-1].status == "sent"


def test_after_a_restore_notices_of_the_backup_are_not_sent_again(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.failure = "no network"
    box.pass_s(HOUR_S)
    box.story.add("other", "0 * * * *", code=1)
    box.story.after_s(HOUR_S)
    client, clock = box.story.client, box.story.world.clock

    renew_identity(client.file_store("restore", instead=""), boot_id="boot", now_ms=clock.now_ms())
    box.failure = None

    assert box.deliver() == []
    assert [(one.status.value, one.error) for one in box.notices()] == [
        ("given_up", "the database was restored from a backup")
    ]


def test_the_notices_of_a_removed_rule_are_given_up_with_it(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.failure = "no network"
    box.pass_s(HOUR_S)
    box.write("")

    sync_config(box.story.client, load(str(box.file)))

    assert [(one.status.value, one.error) for one in box.notices()] == [
        ("given_up", "its rule was removed")
    ]


def test_while_a_configuration_can_not_be_read_nothing_is_lost(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.failure = "no network"
    box.pass_s(HOUR_S)
    box.story.add("later", "0 * * * *", code=1)
    box.failure = None
    box.write("[notify.ops\n")

    told = box.pass_s(HOUR_S)
    found = check_notices(box.story.client, command=str)
    box.write(OPS)
    after = box.pass_s(120, steps=2)

    assert told == []
    [unread] = found
    assert f"notices wait, because their rules can't be read: {box.file}:1: " in unread.message
    assert unread.hint == f"edgecron config check {box.file}"
    assert sorted(after) == ["job failed", "later failed"]


RICH = """[notify.rich]
email = "a@example.org"
schedules = ["job", "backup-*"]
groups = ["disk"]
events = ["failed", "recovered", "ended"]
failures = 2
remind = "none"
most_per_hour = 5
needs_output = true
late_after = "10m"
slow_after = "usual"
"""


def test_a_rule_applies_as_it_was_recorded_while_its_file_can_not_be_read(mailbox: Open) -> None:
    box = mailbox(f"{RICH}{ALIVE}{OPS}")
    before = load_recorded(box.story.client)
    box.write("[notify.ops\n")

    after = load_recorded(box.story.client)

    assert len(before.channels) == 3
    assert after.rules == before.rules
    assert after.channels == {}


def test_a_file_of_rules_that_vanishes_for_a_day_loses_no_notice(mailbox: Open) -> None:
    box = mailbox(f'{OPS}remind = "none"\n')
    box.story.add("job", "0 * * * *", code=1)
    box.failure = "no network"
    box.pass_s(HOUR_S)
    box.failure = None
    box.story.add("later", "0 * * * *", code=1)
    rules = box.file.read_text()
    box.file.unlink()

    told = box.pass_s(HOUR_S, steps=24)
    found = check_notices(box.story.client, command=str)
    box.write(rules)
    after = box.pass_s(700, steps=2)

    assert told == []
    assert found[0].message == (
        "notices wait, because their rules can't be read:"
        f" configuration file {box.file} does not exist"
    )
    assert found[0].hint == f"put it back; to remove its rules instead: touch {box.file}"
    assert after == ["job failed", "later failed"]
    assert statuses(box) == {"sent": 2}
    assert check_notices(box.story.client, command=str) == []


def test_the_rules_of_a_file_that_is_gone_for_three_days_are_forgotten(mailbox: Open) -> None:
    box = mailbox()
    box.story.add("job", "0 * * * *", code=1)
    box.file.unlink()
    box.pass_s(HOUR_S, steps=71)
    known = load_recorded(box.story.client).rules

    box.pass_s(HOUR_S, steps=3)

    assert set(known) == {"ops"}
    assert load_recorded(box.story.client).rules == {}
    assert {one.error for one in box.notices()} == {
        f"the configuration file {box.file} was gone for three days"
    }
    assert not box.story.client.store.has_notify_rules()


def test_a_secret_that_is_missing_is_a_finding_until_it_is_there(
    mailbox: Open, tmp_path: Path
) -> None:
    secret = tmp_path / "url"
    box = mailbox(f'[notify.chat]\nwebhook_file = "{secret}"\n')
    box.story.add("job", "0 * * * *", code=1)
    box.story.after_s(HOUR_S)
    client = box.story.client

    NoticeSender(client, load_recorded(client), pause=box.pause).run()

    [found] = check_notices(client, command=str)
    assert found.message == (
        f"rule chat could not send its last notice: file {secret} can't be read:"
        " no such file or directory"
    )
    assert [one.status.value for one in box.notices()] == ["waiting"]


def test_an_engine_starts_a_process_that_failed_after_a_minute(tmp_path: Path) -> None:
    started: list[int] = []

    def start(has_beat: bool) -> int:
        pid = os.posix_spawn("/bin/false", ["false"], {})
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        started.append(pid)
        return pid

    story = Story(tmp_path / "story.db", hosting=Hosting(start_sender=start))
    file = tmp_path / "config.toml"
    file.write_text(OPS)
    file.chmod(0o600)
    sync_config(story.client, load(str(file)))
    story.add("job", "0 * * * *", code=1)
    story.after_s(HOUR_S)

    counts = []
    for seconds in (3, 3, 30, 30):
        story.after_s(seconds)
        counts.append(len(started))

    assert counts == [1, 1, 1, 2]
