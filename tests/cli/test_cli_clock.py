"""A clock that can't be trusted, as people meet it: shown, vouched for, waited for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.base.units import to_ms
from edgecron.base.values import replace
from edgecron.cli.event_lines import logfmt, readable
from edgecron.client import Client
from edgecron.client.doctor import check_clock
from edgecron.client.doctor_machine import CheckStatus
from edgecron.engine.events import Event, EventKind
from edgecron.planning.corrections import BUILT_MS
from tests.support.cli import Edgecron
from tests.support.clock import FakeClock
from tests.support.processes import Daemon

AT = datetime(2026, 11, 20, 8, 4, 5, tzinfo=UTC)
LATER = datetime(2101, 1, 1, tzinfo=UTC)


@pytest.fixture
def untrusted(database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database that knows of a later time than the machine's clock, which nothing keeps right."""
    monkeypatch.setattr(SystemClock, "is_synchronised", lambda self: False)
    with Client(database) as client:
        assert client.store.note_trusted(to_ms(LATER), was_ms=None)
    return database


def test_status_says_that_the_clock_can_not_be_trusted(edgecron: Edgecron, untrusted: Path) -> None:
    said, as_json = edgecron("status"), edgecron("status", "--json")

    [line] = [line for line in said.out.splitlines() if line.startswith("clock")]
    assert "can't be trusted: the last known time is 2101-01-01 00:00" in line
    assert "edgecron doctor" in line
    assert as_json.json[0]["clock_trusted"] is False


def test_status_says_nothing_of_a_clock_that_is_well(edgecron: Edgecron, backup: str) -> None:
    said, as_json = edgecron("status"), edgecron("status", "--json")

    assert "clock" not in said.out
    assert as_json.json[0]["clock_trusted"] is True


def test_doctor_calls_an_untrusted_clock_a_problem_until_somebody_vouches_for_it(
    edgecron: Edgecron, untrusted: Path
) -> None:
    before = edgecron("doctor", "--json")
    vouched = edgecron("doctor", "--trust-clock")
    after = edgecron("doctor", "--json")

    [found] = [one for one in before.json if one["check"] == "clock"]
    assert before.code == 1
    assert found["status"] == "problem"
    assert "the last known time is 2101-01-01T00:00:00Z" in found["message"]
    assert found["hint"].endswith("if it is right: edgecron doctor --trust-clock")
    assert vouched.code == 0
    assert vouched.out.startswith("the clock is trusted from 20")
    assert vouched.out.endswith("it was 2101-01-01T00:00:00Z\n")
    [found] = [one for one in after.json if one["check"] == "clock"]
    assert (found["status"], found["message"]) == ("ok", "plausible; it is not synchronised")


def test_doctor_warns_before_a_clock_that_nothing_keeps_right_is_believed_no_more(
    database: Path,
) -> None:
    clock = FakeClock(BUILT_MS + 395 * 86_400_000)
    clock.synchronised = False
    with Client(database, clock=clock) as client:
        [finding] = check_clock(client, command=str)
        client.trust_clock()
        [after] = check_clock(client, command=str)

    assert finding.status is CheckStatus.WARNING
    assert finding.message == (
        "nothing synchronises it; after 5 more days without an engine, edgecron no longer trusts it"
    )
    assert after.status is CheckStatus.OK


def test_doctor_knows_a_clock_that_is_kept_right(
    edgecron: Edgecron, untrusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "is_synchronised", lambda self: True)

    said = edgecron("doctor", "--json")

    [found] = [one for one in said.json if one["check"] == "clock"]
    assert (found["status"], found["message"]) == ("ok", "synchronised, as the kernel reports")


def test_vouching_for_the_clock_is_said_as_json(edgecron: Edgecron, backup: str) -> None:
    first = edgecron("doctor", "--trust-clock", "--json")
    second = edgecron("doctor", "--trust-clock", "--json")

    assert first.json[0]["was"] is None
    assert second.json[0]["was"] == first.json[0]["trusted_from"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("doctor", "--trust-clock", "--yes"), "--yes only works with --take-over"),
        (("doctor", "--trust-clock", "--take-over", "1"), "give one"),
        (("daemon", "--clock-wait", "soon"), "duration 'soon' is not understood"),
        (("daemon", "--clock-wait", "0s"), "zero"),
    ],
)
def test_what_makes_no_sense_is_refused(
    edgecron: Edgecron, words: tuple[str, ...], message: str
) -> None:
    said = edgecron(*words)

    assert said.code == 2
    assert message in said.err


def test_a_broken_schedule_is_shown_everywhere_and_how_to_mend_it(
    edgecron: Edgecron, database: Path, backup: str
) -> None:
    with Client(database) as client:
        schedule = client.schedule(backup)
        client.store.mark_broken(schedule.id, revision=1, error="its zone is gone", now_ms=1)

    status, listed, shown = edgecron("status"), edgecron("list"), edgecron("show", backup)

    assert "1 schedule, 1 broken: see edgecron doctor" in status.out
    assert edgecron("status", "--json").json[0]["broken"] == 1
    assert "broken: its zone is gone" in listed.out
    assert listed.err.endswith("see: edgecron doctor\n")
    assert "broken: its zone is gone" in shown.out
    assert shown.err == "fix it: edgecron edit backup --cron ... --tz ...\n"
    edgecron("edit", backup, "--every", "2h")
    assert edgecron("status", "--json").json[0]["broken"] == 0
    assert edgecron("list").err == ""


@pytest.mark.skipif(
    SystemClock().is_synchronised() is True, reason="this machine's clock is kept right"
)
def test_a_daemon_holds_what_is_planned_until_somebody_vouches_for_the_clock(
    edgecron: Edgecron, untrusted: Path
) -> None:
    edgecron("add", "steady", "--every", "1s", "--", "true")
    edgecron("add", "seconds", "--cron", "* * * * * *", "--", "true")
    daemon = Daemon(untrusted, "--clock-wait", "none")
    try:
        daemon.wait_for("clock_untrusted")
        daemon.wait_for("started", schedule="steady")
        before = edgecron("history", "seconds", "--json").json

        edgecron("doctor", "--trust-clock")
        daemon.wait_for("clock_trusted")
        daemon.wait_for("started", schedule="seconds")
    finally:
        daemon.kill()

    assert before == []


@pytest.mark.parametrize(
    ("kind", "details", "words"),
    [
        (EventKind.RESUMED, {"asleep_s": 7500.0}, "the machine was asleep for 2h 5m"),
        (EventKind.CLOCK_SET, {"by_s": -90.0}, "back by 1m 30s"),
        (EventKind.CLOCK_SET, {"by_s": 90.0}, "forward by 1m 30s"),
        (
            EventKind.CLOCK_UNTRUSTED,
            {"known_ms": to_ms(AT)},
            "it is too far from 2026-11-20 08:04:05, the last known time; scheduled runs are held",
        ),
        (
            EventKind.LOCAL_ZONE_CHANGED,
            {"was": "Europe/Berlin", "now": "Asia/Tokyo"},
            "Europe/Berlin, now Asia/Tokyo",
        ),
        (
            EventKind.RETIMED,
            {"reason": "clock", "next_ms": to_ms(AT), "next_was_ms": to_ms(LATER)},
            "the clock was wrong  next 2026-11-20 08:04:05, was 2101-01-01 00:00:00",
        ),
        (
            EventKind.RETIMED,
            {"reason": "tzdata", "next_ms": to_ms(AT)},
            "the time zone data changed  next 2026-11-20 08:04:05, was none",
        ),
    ],
)
def test_what_clocks_and_zones_do_is_said_in_words(
    kind: EventKind, details: dict[str, object], words: str
) -> None:
    line = readable(zone=UTC, is_colored=False)

    said = line(Event(at_ms=to_ms(AT), kind=kind, details=details))

    assert said.endswith(words)


def test_a_next_time_that_moved_is_one_line_of_a_log() -> None:
    event = Event(
        at_ms=to_ms(AT),
        kind=EventKind.RETIMED,
        schedule="backup",
        details={
            "reason": "timezone",
            "next_was_ms": to_ms(AT),
            "next_ms": to_ms(AT + timedelta(hours=1)),
        },
    )

    assert logfmt(event) == (
        "ts=2026-11-20T08:04:05Z event=retimed schedule=backup reason=timezone"
        " next_run_was_at=2026-11-20T08:04:05Z next_run_at=2026-11-20T09:04:05Z"
    )


def test_that_the_clock_was_set_back_and_the_effect_are_told_for_a_day(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    with Client(database) as client:
        now_ms = to_ms(client.now())
        client.store.note_clock_set(at_ms=now_ms - 60_000, by_ms=-7_200_000)
    status, doctor, why = edgecron("status"), edgecron("doctor"), edgecron("why", backup)
    [as_json] = edgecron("status", "--json").json
    with Client(database) as client:
        client.store.note_clock_set(at_ms=now_ms - 90_000_000, by_ms=-7_200_000)
    later = edgecron("status")

    effect = "intervals and wildcard cron times follow elapsed time"
    for said in (status, doctor, why):
        words = " ".join(said.out.split())
        assert "was set back by 2h at " in words
        assert effect in words
    assert as_json["clock_set_by_s"] == -7200
    assert "set back" not in later.out


def test_nothing_is_promised_by_a_clock_that_can_not_be_trusted(
    edgecron: Edgecron, untrusted: Path
) -> None:
    added = edgecron("add", "tick", "--cron", "* * * * *", "--", "true")
    edited = edgecron("edit", "tick", "--every", "1m")
    others = [edgecron(*words) for words in (("list",), ("next",), ("status",), ("why", "tick"))]
    controlled = [
        edgecron("reschedule", "tick", "2101-01-02T00:00:00Z"),
        edgecron("pause", "tick", "--until", "2101-01-03T00:00:00Z"),
        edgecron("resume", "tick"),
        edgecron("resume", "tick"),
        edgecron("rm", "tick") and edgecron("undo", "tick"),
    ]

    for said in (added, edited, *others, *controlled):
        assert "held" in said.out
        assert "(in " not in said.out
        assert ", in " not in said.out
        assert " in 1m " not in said.out


def test_an_import_promises_no_time_by_a_clock_that_can_not_be_trusted(
    edgecron: Edgecron, untrusted: Path, tmp_path: Path
) -> None:
    (tmp_path / "crontab").write_text("*/5 * * * * true\n")

    said = edgecron("import", "crontab", str(tmp_path / "crontab"))

    assert "held: the clock can't be trusted" in said.out
    assert ", in " not in said.out


@pytest.fixture
def engine_in_tokyo(database: Path, edgecron: Edgecron, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of whose engine `local` is Tokyo, and a shell in Berlin."""
    with Client(database) as client:
        marks = replace(client.store.find_clock_marks(), local_timezone="Asia/Tokyo")
        client.store.retime((), marks=marks)
    monkeypatch.setenv("TZ", "Europe/Berlin")


def test_a_shell_in_another_zone_computes_the_times_of_the_engine(
    edgecron: Edgecron, engine_in_tokyo: None
) -> None:
    added = edgecron("add", "daily", "--cron", "30 2 * * *", "--", "true")
    [shown] = edgecron("show", "daily", "--json").json
    fires = edgecron("next", "daily", "-n", "3", "--json").json
    asked = edgecron("why", "daily", "2027-06-01T17:30:00Z")

    assert "at 02:30 every day (local time, Asia/Tokyo)" in added.out
    assert "that of Asia/Tokyo for the engine" in added.err
    assert shown["next_run_at"].endswith("T17:30:00Z")
    assert {fire["plan_at"][10:] for fire in fires} == {"T17:30:00Z"}
    assert "is one of its times" in asked.out


def test_times_that_a_person_writes_are_in_the_zone_of_their_shell(
    edgecron: Edgecron, engine_in_tokyo: None
) -> None:
    edgecron("add", "once", "--at", "2030-01-01 09:00", "--", "true")

    [shown] = edgecron("list", "--json").json

    assert shown["next_run_at"] == "2030-01-01T08:00:00Z"
    assert "2030-01-01 09:00" in edgecron("list").out.replace("Jan 01 2030", "2030-01-01")
