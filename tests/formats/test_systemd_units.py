"""Unit files and drop-ins as values, and a timer with its service as a schedule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgecron.formats.systemd_units import (
    TimerReading,
    read_command_line,
    read_timer,
    read_unit,
    read_unit_name,
    resolve_specifiers,
)
from edgecron.model.choices import CatchUp


def timer(
    text: str, service: str | None, *, name: str = "a.timer", is_user: bool = False
) -> TimerReading:
    """Read a timer and its service as root, or as the user of both."""
    return read_timer(
        read_unit_name(name),
        read_unit([f"[Timer]\n{text}\n"]),
        None if service is None else read_unit([service]),
        is_user=is_user,
        importer="root",
    )


PLAIN = "[Service]\nExecStart=/opt/a --all\n"


def test_lines_are_joined_and_comments_are_skipped() -> None:
    unit = read_unit(
        ["# 1\n; 2\n[Service]\nExecStart=/a \\\n# within\n  --b \\\n  c\nUser = me\nnonsense\n"]
    )

    assert unit.all("Service", "ExecStart") == ("/a --b c",)
    assert unit.last("Service", "User") == "me"
    assert unit.keys("Service") == {"ExecStart", "User"}


def test_an_empty_value_resets_and_a_drop_in_adds() -> None:
    unit = read_unit(
        [
            "[Timer]\nOnCalendar=daily\nPersistent=true\n",
            "[Timer]\nOnCalendar=\nOnCalendar=hourly\n",
            "[Timer]\nOnCalendar=*:30\nPersistent=no\n",
        ]
    )

    assert unit.all("Timer", "OnCalendar") == ("hourly", "*:30")
    assert not unit.is_on("Timer", "Persistent")


@pytest.mark.parametrize(
    ("value", "prefixes", "text"),
    [("/a b", "", "/a b"), ("-/a", "-", "/a"), ("+-@/a x", "+-@", "/a x"), ("!!:/a", "!!:", "/a")],
)
def test_prefixes_are_split_from_a_command(value: str, prefixes: str, text: str) -> None:
    line = read_command_line(value)

    assert (line.prefixes, line.text) == (prefixes, text)


def test_specifiers_of_the_name_are_resolved() -> None:
    name = read_unit_name("copy@srv-a\\x2db.service")

    assert resolve_specifiers("%n %N %p %i %I %%", name) == (
        "copy@srv-a\\x2db.service copy@srv-a\\x2db copy srv-a\\x2db srv/a-b %"
    )
    assert (name.template, name.is_template) == ("copy@.service", False)
    assert read_unit_name("copy@.timer").is_template


@pytest.mark.parametrize(
    ("command", "shown"), [("/opt/%p --to %i", "/opt/copy --to disk"), ("/opt/a %h", "/opt/a %h")]
)
def test_a_command_is_shown_with_the_name_of_its_instance(command: str, shown: str) -> None:
    reading = timer(
        "OnCalendar=daily", f"[Service]\nExecStart=-{command}\n", name="copy@disk.timer"
    )

    assert reading.command == shown


def test_a_plain_service_becomes_the_command() -> None:
    reading = timer(
        "OnCalendar=Mon 03:10\nRandomizedDelaySec=1min 30s\nPersistent=yes",
        "[Unit]\nDescription=Copies\n[Service]\nType=oneshot\nExecStart=/opt/a --to 'b c' %p\n"
        'User=alice\nWorkingDirectory=/srv\nEnvironment=A=1 "B=two words"\nEnvironment=C=3\n'
        "EnvironmentFile=/etc/a.env\nNice=5\n",
    )

    assert reading.reason is None
    assert reading.spec is not None
    spec, job = reading.spec, reading.spec.job
    assert (spec.name, spec.triggers, spec.description) == ("a", ("10 3 * * 1",), "Copies")
    assert (spec.policies.jitter_s, spec.policies.catch_up) == (90, CatchUp.ONCE)
    assert job.argv == ("/opt/a", "--to", "b c", "a")
    assert (job.user, job.cwd, job.env_file, job.nice) == ("alice", "/srv", "/etc/a.env", 5)
    assert job.env == {"A": "1", "B": "two words", "C": "3"}


def test_a_service_of_the_system_runs_as_root_in_the_root_folder() -> None:
    job = timer("OnCalendar=daily", PLAIN).spec

    assert job is not None
    assert (job.job.user, job.job.cwd, job.policies.catch_up) == (None, "/", CatchUp.SKIP)


@pytest.mark.parametrize(
    "more",
    [
        "PrivateTmp=true", "Restart=on-failure", "ExecStartPre=/b", "ExecStart=/b", "Type=notify",
        "EnvironmentFile=-/etc/b", "Environment=A=$B", "Nice=low", "WorkingDirectory=~",
        "[Unit]\nConditionACPower=true", "ExecStart=\nExecStart=-/a", "ExecStart=\nExecStart=/a $B",
        "ExecStart=\nExecStart=/a %h", "ExecStart=\nExecStart=/a ; /b", "ExecStart=\nExecStart='/a",
    ],
)  # fmt: skip
def test_any_other_service_is_started_as_it_is(more: str) -> None:
    here = timer("OnCalendar=daily", PLAIN + more + "\n").spec
    of_user = timer("OnCalendar=daily", PLAIN + more + "\n", is_user=True).spec

    assert here is not None
    assert of_user is not None
    assert here.job.argv == ("systemctl", "start", "--wait", "a.service")
    assert of_user.job.argv == ("systemctl", "--user", "start", "--wait", "a.service")


@pytest.mark.parametrize(
    ("text", "triggers"),
    [
        ("OnCalendar=daily\nOnCalendar=*:30\nOnCalendar=daily", ("0 0 * * *", "30 * * * *")),
        ("OnBootSec=15min\nOnUnitActiveSec=1d", ("on boot", "every 1d")),
        ("OnActiveSec=0\nOnUnitInactiveSec=90", ("on boot", "every 1m30s after end")),
        ("OnUnitActiveSec=1w", ("every 7d",)),
        ("OnStartupSec=1min", ("on boot",)),
    ],
)
def test_times_of_a_timer_become_triggers(text: str, triggers: tuple[str, ...]) -> None:
    reading = timer(text, PLAIN)

    assert reading.triggers == triggers
    assert reading.spec is not None


def test_a_timer_that_wakes_the_machine_becomes_a_schedule_that_does() -> None:
    waking = timer("OnCalendar=daily\nWakeSystem=true", PLAIN).spec
    other = timer("OnCalendar=daily", PLAIN).spec

    assert waking is not None
    assert other is not None
    assert (waking.policies.wake, other.policies.wake) == (True, False)


def test_a_delay_after_boot_is_named() -> None:
    assert timer("OnBootSec=15min", PLAIN).notes == ("edgecron runs it at boot, not 15min later",)
    assert timer("OnBootSec=0\nOnUnitActiveSec=1h", PLAIN).notes == ()


@pytest.mark.parametrize(
    ("text", "service", "reason"),
    [
        ("", PLAIN, "it has no times"),
        ("OnActiveSec=5", PLAIN, "once after it is started"),
        ("OnCalendar=daily\nOnClockChange=true", PLAIN, "when the clock is set"),
        ("OnTimezoneChange=true", PLAIN, "when the time zone changes"),
        ("OnCalendar=daily UTC\nOnCalendar=daily", PLAIN, "different time zones"),
        ("OnCalendar=Fri *-*-13", PLAIN, "weekday and day of month both"),
        ("OnUnitActiveSec=0", PLAIN, "is not from 1 ms"),
        ("OnUnitActiveSec=soon", PLAIN, "is not a time span"),
        ("OnCalendar=daily\nRandomizedDelaySec=x", PLAIN, "is not a time span"),
        ("OnCalendar=daily", None, "its service a.service was not found"),
        ("OnCalendar=daily\nUnit=b.service", None, "its service b.service was not found"),
        ("OnCalendar=daily", "[Service]\nType=oneshot\n", "has no command"),
    ],
)
def test_what_cannot_be_carried_over_has_a_reason(
    text: str, service: str | None, reason: str
) -> None:
    reading = timer(text, service)

    assert reading.spec is None
    assert reading.reason is not None
    assert reason in reading.reason


def test_a_time_that_counts_from_the_login_has_a_reason() -> None:
    reading = timer("OnStartupSec=5min\nOnUnitActiveSec=1d", PLAIN, is_user=True)

    assert reading.reason == "it counts from the login of its user (OnStartupSec=)"


@given(text=st.text(st.sampled_from("[]TimerServce=OnCaldx/ \\\n#;%$'\"-1:*,")) | st.text())
def test_any_text_is_read_as_a_unit(text: str) -> None:
    unit = read_unit(["[Timer]\nOnCalendar=daily\n", text])
    reading = read_timer(
        read_unit_name("a@b.timer"), unit, read_unit([PLAIN, text]), is_user=False, importer="root"
    )

    assert (reading.spec is None) == (reading.reason is not None)
