"""Schedules to a crontab: what cron can do, and comments that say why it can't."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings

from edgecron.client import Client
from edgecron.formats.crontab import read_crontab
from edgecron.formats.crontab_lines import Crontab
from edgecron.formats.crontab_writing import write_crontab
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import Definition, ScheduleSpec
from tests.support.clock import FakeClock
from tests.support.documents import SPECS
from tests.support.forms import tried
from tests.support.specs import make_spec

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)


def read(text: str) -> Crontab:
    return read_crontab(
        text, system=False, importer="me", is_root=False, user_exists=lambda _: False
    )


def written(*specs: ScheduleSpec, paused: tuple[str, ...] = ()) -> str:
    """The crontab of schedules, beside two that others may name; without its head."""
    others = [make_spec("other", "every 1d"), make_spec("third", "every 1d")]
    with (
        TemporaryDirectory() as folder,
        Client(Path(folder) / "a.db", clock=FakeClock(NOW)) as client,
    ):
        client.add_all([*others, *specs])
        for name in paused:
            client.pause(name)
        made = [client.schedule(spec.name) for spec in specs]
        return write_crontab(made, owner="me").partition("\n\n")[2]


def shell(line: str, *triggers: str, **job: Any) -> ScheduleSpec:
    spec = make_spec("x", *triggers, timezone="local")
    return replace(spec, job=Job(kind=JobKind.SHELL, argv=(line,), **job))


def test_a_schedule_is_a_line_below_its_name() -> None:
    spec = replace(shell("date | logger", "30 2 * * 1-5"), description="nightly\nbackup")

    assert written(spec) == ("# edgecron: x\n# nightly\n# backup\n30 2 * * 1-5 date | logger\n")


@pytest.mark.parametrize(
    ("trigger", "timing"),
    [
        ("*/5 0-6,22 * * *", "*/5 0-6,22 * * *"),
        ("0 9 * JAN,feb MON", "0 9 * JAN,feb MON"),
        ("0 30 2 * * *", "30 2 * * *"),
        ("@daily", "@daily"),
        ("on boot", "@reboot"),
    ],
)
def test_times_that_cron_knows_are_written(trigger: str, timing: str) -> None:
    assert written(shell("date", trigger)) == f"# edgecron: x\n{timing} date\n"


@pytest.mark.parametrize(
    ("trigger", "why"),
    [
        ("every 15m", "'every 15m' is not a time that cron knows"),
        ("at 2030-01-01T00:00:00Z", "'at 2030-01-01T00:00:00Z' is not a time that cron knows"),
        ("after other", "'after other' is not a time that cron knows"),
        ("30 0 2 * * *", "not every cron understands '30 0 2 * * *'"),
        ("0 2 L * *", "not every cron understands '0 2 L * *'"),
        ("0 2 * * 5#2", "not every cron understands '0 2 * * 5#2'"),
        ("H 2 * * *", "not every cron understands 'H 2 * * *'"),
        ("5/15 * * * *", "not every cron understands '5/15 * * * *'"),
        ("0 2 * * FRI-SUN", "not every cron understands '0 2 * * FRI-SUN'"),
    ],
)
def test_other_times_are_left_out_and_told(trigger: str, why: str) -> None:
    text = written(shell("date", trigger))

    assert text == f"# edgecron: x\n# edgecron: not exported: {why}\n"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"timezone": "Europe/Berlin"}, "its time zone is Europe/Berlin"),
        ({"timezone": None}, "its time zone is UTC"),
        (
            {"until_at": datetime(2030, 1, 1, tzinfo=UTC)},
            "does not support from, until and max_runs",
        ),
        ({"scopes": (("device", "a"),)}, "cron does not support scopes"),
        ({"job": Job(kind=JobKind.SHELL, argv=("a\nb",))}, "cron allows one"),
        ({"job": Job(kind=JobKind.SHELL, argv=("a",), env_file="/x")}, "not support env_file"),
        ({"job": Job(kind=JobKind.SHELL, argv=("a",), nice=5)}, "not support nice"),
        ({"job": Job(kind=JobKind.SHELL, argv=("a",), user="root")}, "as user root"),
        ({"job": Job(kind=JobKind.SHELL, argv=("a",), env={"a-b": "c"})}, "can't set a-b"),
        ({"job": Job(kind=JobKind.SHELL, argv=("a",), stdin="no newline")}, "differently"),
        ({"job": Job(kind=JobKind.SHELL, argv=("a" * 1000,))}, "too many for cron"),
        ({"job": Job(kind=JobKind.CALLABLE, argv=("a",))}, "can't run a function"),
    ],
)
def test_what_cron_can_t_do_is_left_out_and_told(changes: dict[str, Any], why: str) -> None:
    text = written(replace(shell("date", "0 2 * * *"), **changes))

    assert why in text
    assert all(line.startswith("#") for line in text.splitlines())


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (shell("= x", "on boot"), "cron would set a variable by its line"),
        (shell("* x", "@daily"), "but cron expects a command"),
        (shell("a\\%b", "@daily"), "its command or its stdin differently"),
        (shell("cat", "@daily", stdin="a\r"), "its command or its stdin differently"),
        (shell("cat", "@daily", stdin="a\0b\n"), "holds a NUL character"),
        (shell("date", "99 2 * * *"), "minute is '99', expected 0-59"),
        (shell("date", "0 2 * FOO *"), "month is 'FOO', expected 1-12 or JAN-DEC"),
        (shell("date", "0 2 * *"), "not every cron understands"),
    ],
)
def test_a_line_that_cron_reads_otherwise_is_left_out_and_told(
    spec: ScheduleSpec, why: str
) -> None:
    text = write_crontab([Definition(spec, True, None)], owner="me")

    assert why in text
    assert all(line.startswith("#") for line in text.split("\n") if line)


def test_a_paused_schedule_is_left_out() -> None:
    assert (
        written(shell("date"), paused=("x",))
        == "# edgecron: x\n# edgecron: not exported: it is paused\n"
    )


def test_what_cron_does_without_is_named() -> None:
    spec = make_spec("x", "0 2 * * *", timezone="local", timeout_s=60, retries=2, group="disk")

    assert written(spec) == (
        "# edgecron: x\n# edgecron: cron ignores its timeout, retries, group\n0 2 * * * /bin/true\n"
    )


def test_folder_variables_and_input_become_the_shell_s() -> None:
    spec = shell("cat > 'a b'", "@daily", cwd="/srv/a b", env={"A": "it's"}, stdin="50%\nx\n")

    text = written(spec)

    assert text.splitlines()[1] == (
        "@daily export A='it'\"'\"'s'; cd '/srv/a b' || exit; cat > 'a b'%50\\%%x"
    )
    [entry] = read(text).entries
    assert entry.spec.job.stdin == "50%\nx\n"


def test_an_imported_crontab_comes_back() -> None:
    crontab = "0 2 * * * /usr/bin/backup --all \\%H\n@reboot echo up\n*/5 * * * * cat%one%two\n"
    specs = [
        replace(entry.spec, name=f"n{number}") for number, entry in enumerate(read(crontab).entries)
    ]

    text = written(*specs)

    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert lines == crontab.splitlines()


@pytest.mark.parametrize("description", [None, "nightly", "nightly:\n\n  backup\n---\nof x"])
def test_a_description_is_the_same_after_a_way_there_and_back(description: str | None) -> None:
    spec = replace(shell("date", "@daily", "0 2 * * 1"), description=description)
    spec = replace(spec, policies=Policies(timeout_s=60))

    text = written(spec)

    found = [entry.spec.description for entry in read(text).entries]
    lines = [line.strip() for line in (description or "").split("\n")]
    assert found == ["\n".join(line for line in lines if line.strip("-")) or None, None]


@settings(derandomize=True, database=None, deadline=None, max_examples=tried(20, 60))
@given(spec=SPECS)
def test_a_crontab_of_an_imported_crontab_is_the_same(spec: ScheduleSpec) -> None:
    def again(text: str) -> str:
        definitions = [Definition(entry.spec, True, None) for entry in read(text).entries]
        return write_crontab(definitions, owner="me")

    once = again(written(replace(spec, timezone="local")))

    assert again(once) == once


@settings(derandomize=True, database=None, deadline=None, max_examples=tried(20, 60))
@given(spec=SPECS)
def test_what_is_written_is_always_a_crontab(spec: ScheduleSpec) -> None:
    text = written(replace(spec, timezone="local"))

    found = read(text)
    assert found.problems == ()
    triggers = [trigger for entry in found.entries for trigger in entry.spec.triggers]
    assert set(triggers) <= set(spec.triggers)
