"""notify and notices: rules, a test of a channel, and what became of each notice."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.client import Client, notice_sending
from edgecron.client.notice_rules import load_recorded
from edgecron.client.notice_sending import NoticeSender, sending_lock
from tests.support.cli import Edgecron


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where the rule `ops` writes its messages."""
    return tmp_path / "out"


@pytest.fixture
def config(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(f'[notify.ops]\ncommand = ["/bin/sh", "-c", "cat >> {out}"]\n')
    path.chmod(0o600)
    monkeypatch.setenv("EDGECRON_CONFIG", str(path))
    return path


def deliver(database: Path) -> None:
    """As the process does that an engine starts, without its pauses."""
    with Client(database) as client, ExitStack() as stack:
        # `run --wait` started such a process, which has the lock for some seconds.
        while not stack.enter_context(sending_lock(client)):
            continue
        sender = NoticeSender(client, load_recorded(client))
        sender.apply_rules()
        with client.store.transaction():
            client.store.change("UPDATE notices SET due_at = 0 WHERE due_at IS NOT NULL")
        sender.send_due()


def test_a_failed_run_becomes_a_notice_that_is_sent(
    edgecron: Edgecron, database: Path, config: Path, out: Path
) -> None:
    edgecron("add", "x", "--every", "1h", "--shell", "echo oh no; exit 3")
    listed = edgecron("notify", "list")
    edgecron("run", "x", "--wait")
    deliver(database)

    shown = edgecron("notices")
    [notice] = edgecron("notices", "--json").json

    assert listed.out.splitlines()[1].split()[:4] == ["ops", "command", "failed,", "recovered,"]
    assert shown.out.splitlines()[1].split()[2:7] == ["ops", "failed", "x", "1", "sent"]
    assert (notice["rule"], notice["event"], notice["status"]) == ("ops", "failed", "sent")
    assert notice["output_tail"] == ["oh no"]
    message = json.loads(out.read_text())
    assert message["subject"].endswith("] x failed")
    assert [one["id"] for one in message["notices"]] == [notice["id"]]


def test_a_silent_run_is_told_and_ended(
    edgecron: Edgecron, database: Path, config: Path, out: Path
) -> None:
    silent = ("--stall-timeout", "100ms", "--stall-action", "end")
    edgecron("add", "x", "--every", "1h", *silent, "--shell", "echo begun; exec sleep 60")
    edgecron("notify", "list")
    said = edgecron("run", "x", "--wait")
    deliver(database)

    failed, stalled = edgecron("notices", "--json").json
    why = edgecron("why", "x").out
    [run] = edgecron("history", "x", "--json").json

    assert "failed: stalled (printed nothing for 100ms, and was ended)" in said.err
    assert (stalled["event"], failed["event"]) == ("stalled", "failed")
    assert stalled["output_tail"] == ["begun"]
    assert "it printed nothing for 100ms, and was ended" in " ".join(why.split())
    assert (run["reason"], run["error_code"], run["flags"]) == ("stalled", "stalled", ["stalled"])


def test_a_test_message_goes_out_immediately(edgecron: Edgecron, config: Path, out: Path) -> None:
    said = edgecron("notify", "test", "ops")

    assert (said.code, said.err) == (0, "sent a test message with rule ops over command\n")
    assert json.loads(out.read_text())["rule"] == "ops"


def test_a_test_of_a_broken_channel_fails_with_its_reason(edgecron: Edgecron, config: Path) -> None:
    config.write_text('[notify.ops]\ncommand = ["/bin/sh", "-c", "echo no bus >&2; exit 1"]\n')

    said = edgecron("notify", "test", "ops")

    assert said.code == 1
    words = "rule 'ops' could not send over command: command '/bin/sh' ended with code 1: no bus"
    assert f"error: {words}\n" in said.err
    assert "hint: check its keys in the configuration: edgecron help channels" in said.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("notify", "test"), 2, "missing NAME"),
        (("notify", "test", "opps"), 3, "the configuration has no rule 'opps'"),
        (("notify", "list", "ops"), 2, "list takes no name"),
        (("notify", "test", "ops", "--dry-run"), 2, "test takes no --dry-run"),
        (("notify", "tst"), 2, "'tst' is unknown, expected list or test"),
        (("notices", "-n", "0"), 2, "-n is '0'"),
    ],
)
def test_a_mistake_is_told(
    edgecron: Edgecron, config: Path, backup: str, words: tuple[str, ...], code: int, said: str
) -> None:
    answer = edgecron(*words)

    assert answer.code == code
    assert said in answer.err


def test_without_rules_the_topic_is_named(edgecron: Edgecron, backup: str) -> None:
    listed = edgecron("notify")
    shown = edgecron("notices")

    assert "the configuration has no rules; see: edgecron help alerts" in listed.err
    assert shown.err == "no notices yet\n"


def test_older_notices_are_on_the_next_page(
    edgecron: Edgecron, database: Path, config: Path
) -> None:
    # Notices of one rule would wait for each other for a minute.
    config.write_text(
        "".join(f'[notify.{name}]\ncommand = ["/bin/true"]\n' for name in ("a", "b", "c"))
    )
    edgecron("add", "x", "--every", "1h", "--", "false")
    edgecron("notify", "list")
    edgecron("run", "x", "--wait")
    deliver(database)

    first = edgecron("notices", "-n", "2")
    second = edgecron("notices", "-n", "2", "--before", "2")

    assert first.err == "older notices: --before 2\n"
    assert [line.split()[0] for line in first.out.splitlines()[1:]] == ["3", "2"]
    assert [line.split()[0] for line in second.out.splitlines()[1:]] == ["1"]


def test_a_rule_that_a_schedule_names_in_vain_is_told(
    edgecron: Edgecron, tmp_path: Path, config: Path
) -> None:
    added = edgecron("add", "x", "--every", "1h", "--notify", "ops,opps", "--", "true")
    edited = edgecron("edit", "x", "--notify", "pager")
    document = tmp_path / "document.toml"
    document.write_text('[schedules.y]\nevery = "1h"\ncommand = ["true"]\nnotify = ["a.b"]\n')
    applied = edgecron("apply", str(document))
    found = edgecron("doctor", "--json").json

    assert "the configuration has no rule opps for notices" in added.err
    assert "rule ops" not in added.err
    assert "the configuration has no rule pager for notices" in edited.err
    assert "the configuration has no rule a.b for notices" in applied.err
    said = [one["message"] for one in found if "names the rule" in one["message"]]
    assert [one.partition(" names ")[2] for one in sorted(said)] == [
        "the rule pager for notices, which is unknown",
        "the rule a.b for notices, which is unknown",
    ]
    [hint] = [one["hint"] for one in found if "the rule a.b" in one["message"]]
    assert hint.startswith('add [notify."a.b"] to the configuration')


def test_a_rule_mails_what_runs_printed_as_cron_does(
    edgecron: Edgecron, database: Path, config: Path
) -> None:
    config.write_text(f'{config.read_text()}events = ["ended"]\nneeds_output = true\n')
    edgecron("add", "silent", "--every", "1h", "--shell", "exit 3")
    edgecron("add", "loud", "--every", "1h", "--notify", "ops", "--shell", "echo hello")
    edgecron("run", "silent", "--wait")
    edgecron("run", "loud", "--wait")
    deliver(database)

    [notice] = edgecron("notices", "--json").json

    assert (notice["schedule"], notice["event"], notice["status"]) == ("loud", "ended", "sent")
    assert notice["output_tail"] == ["hello"]


def test_a_dry_run_shows_what_the_history_would_have_sent(
    edgecron: Edgecron, config: Path, out: Path
) -> None:
    config.write_text("")
    edgecron("add", "bad", "--every", "1h", "--shell", "exit 3")
    edgecron("add", "good", "--every", "1h", "--", "true")
    for name in ("bad", "bad", "good"):
        edgecron("run", name, "--wait")
    config.write_text(f'[notify.ops]\ncommand = ["/bin/sh", "-c", "cat >> {out}"]\n')

    shown = edgecron("notify", "list", "--dry-run")
    [first, *more] = edgecron("notify", "list", "--dry-run", "--json").json

    assert (first["rule"], first["event"], first["schedule"]) == ("ops", "failed", "bad")
    assert (first["run_id"], more) == (1, [])
    assert shown.out.splitlines()[1].split()[-4:] == ["ops", "failed", "bad", "1"]
    assert shown.err == "rule ops: 1 notice in 1 message in 7 days\nnothing was sent\n"
    assert not out.exists()


def test_a_dry_run_names_a_removed_schedule(edgecron: Edgecron, config: Path) -> None:
    edgecron("add", "bad", "--every", "1h", "--shell", "exit 3")
    edgecron("run", "bad", "--wait")
    edgecron("rm", "bad")
    config.write_text('[notify.ops]\ncommand = ["true"]\n')

    [told] = edgecron("notify", "list", "--dry-run", "--json").json

    assert (told["event"], told["schedule"]) == ("failed", "bad")


def test_a_dry_run_only_counts_pings(edgecron: Edgecron, config: Path) -> None:
    edgecron("add", "good", "--every", "1h", "--", "true")
    edgecron("run", "good", "--wait")
    config.write_text(
        '[notify.mon]\nping = "http://127.0.0.1:1/{schedule}"\n'
        '[notify.alive]\nping = "http://127.0.0.1:1/alive"\nheartbeat = "5m"\n'
    )

    shown = edgecron("notify", "list", "--dry-run")

    assert shown.out == ""
    assert shown.err.splitlines() == [
        "rule mon: 2 pings in 7 days",
        "rule alive: a ping every 5m while an engine is running",
        "nothing was sent",
    ]


def test_a_named_rule_is_known_from_then_on(
    edgecron: Edgecron, database: Path, config: Path
) -> None:
    edgecron("add", "x", "--every", "1h", "--notify", "ops", "--shell", "exit 3")
    edgecron("run", "x", "--wait")
    deliver(database)

    [notice] = edgecron("notices", "--json").json

    assert (notice["rule"], notice["event"], notice["status"]) == ("ops", "failed", "sent")


def test_doctor_names_an_error_of_the_process_that_sends(
    edgecron: Edgecron, database: Path, backup: str, config: Path
) -> None:
    edgecron("notify", "list")
    with Client(database) as client, client.store.transaction():
        client.store.change(
            """INSERT INTO incidents (schedule_id, rule, event, since_at, count, remind_at)
               VALUES (1, 'ops', 'of a later version', 0, 1, 0)"""
        )

    with pytest.raises(ValueError, match="of a later version"):
        notice_sending.deliver(database)
    [found] = [one for one in edgecron("doctor", "--json").json if one["check"] == "notices"]

    assert "ended with an error: ValueError" in found["message"]


def test_doctor_names_a_rule_that_can_not_send(
    edgecron: Edgecron, database: Path, config: Path
) -> None:
    config.write_text('[notify.ops]\ncommand = ["/no/such/program"]\n')
    edgecron("add", "x", "--every", "1h", "--", "false")
    edgecron("notify", "list")
    edgecron("run", "x", "--wait")
    deliver(database)

    [found] = [one for one in edgecron("doctor", "--json").json if one["check"] == "notices"]

    assert "rule ops could not send its last notice: no such file" in found["message"]
    assert "notify test ops" in found["hint"]
