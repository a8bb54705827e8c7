"""Timers of Debian's packages on a machine where systemd runs: their times, and their moves."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from edgecron.base.units import to_ms
from edgecron.formats.systemd_calendar import read_span_ms
from edgecron.formats.systemd_units import read_unit
from tests.support.accounts import as_root
from tests.support.booted import BootedMachine
from tests.support.debian import TIMERS, unit_texts
from tests.support.machines import DAILY, SERVICE, Machine
from tests.support.program import PROGRAM

UNITS = {f"{name}.timer": lines for units in TIMERS.values() for name, lines in units.items()}
# A command that is carried over, a unit that is started, and an interval.
MOVED = ("dpkg-db-backup", "logrotate", "etckeeper")
SNAPSHOT = (
    "find /etc/systemd/system /usr/lib/systemd/system ! -type d"
    " -printf '%p %m %U %G %s %l %T@\\n' | sort"
)


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BootedMachine]:
    folder = tmp_path_factory.mktemp("machine")
    machine = Machine(folder / "files")
    for unit, lines in UNITS.items():
        machine.add_timer(unit.removesuffix(".timer"), *unit_texts(lines))
    machine.write("root/.config/systemd/user/own.timer", DAILY)
    machine.write("root/.config/systemd/user/own.service", SERVICE.format("own"))
    machine.link_timer("own", "root/.config/systemd/user")
    with BootedMachine(folder, machine.root) as booted:
        yield booted


def scan(booted: BootedMachine) -> dict[str, dict[str, Any]]:
    """Scan the machine; return the timers of the system by their units."""
    jobs = json.loads(booted.run(*PROGRAM, "scan", "--json"))
    return {job["source"]: job for job in jobs if job["origin"] == "systemd"}


def next_of_systemd(booted: BootedMachine) -> dict[str, int]:
    """Ask systemd for the next times of timers, in milliseconds."""
    rows = json.loads(booted.run("systemctl", "list-timers", "--all", "--output=json"))
    return {row["unit"]: row["next"] // 1000 for row in rows if row["next"]}


def is_active(booted: BootedMachine, name: str) -> bool:
    said = booted.run("systemctl", "is-active", f"{name}.timer", is_checked=False)
    return said.strip() == "active"


def is_scheduled(booted: BootedMachine, name: str) -> bool:
    schedules = json.loads(booted.run(*PROGRAM, "list", "--json"))
    return any(one["name"] == name and one["enabled"] for one in schedules)


def delay_of(unit: str) -> int:
    """Read the longest random delay of a timer, in milliseconds."""
    text = read_unit([unit_texts(UNITS[unit])[0]]).last("Timer", "RandomizedDelaySec")
    return 0 if text is None else read_span_ms(text)


@as_root
def test_scan_has_the_next_times_that_systemd_has(booted: BootedMachine) -> None:
    before = scan(booted)
    theirs = next_of_systemd(booted)
    after = scan(booted)

    assert set(UNITS) <= set(after)
    compared = 0
    for unit in UNITS:
        at, triggers = after[unit]["next_run_at"], after[unit]["triggers"]
        if any(text.startswith(("every", "on boot")) for text in triggers):
            continue  # It also counts from an event.
        if before[unit]["next_run_at"] != at:
            continue  # Its time has just passed.
        late_ms = theirs[unit] - to_ms(datetime.fromisoformat(at))
        if late_ms < 0 < delay_of(unit):
            continue  # The delay of the time before is not over.
        assert 0 <= late_ms <= delay_of(unit) + 1000, (unit, at)
        compared += 1
    assert compared > 20


@as_root
@pytest.mark.parametrize("name", MOVED)
def test_a_timer_of_a_running_systemd_moves_and_comes_back(
    booted: BootedMachine, name: str
) -> None:
    before = booted.run("sh", "-c", SNAPSHOT)
    [job] = [job["name"] for unit, job in scan(booted).items() if unit == f"{name}.timer"]

    booted.run(*PROGRAM, "adopt", job)

    assert not is_active(booted, name)
    assert f"{name}.timer" not in next_of_systemd(booted)
    assert is_scheduled(booted, job)

    booted.run(*PROGRAM, "adopt", "--undo", job)

    assert is_active(booted, name)
    assert f"{name}.timer" in next_of_systemd(booted)
    assert booted.run("sh", "-c", SNAPSHOT) == before
    assert not is_scheduled(booted, job)


@as_root
def test_a_timer_stays_as_it_is_if_its_service_manager_does_not_answer(
    booted: BootedMachine,
) -> None:
    link = "/root/.config/systemd/user/timers.target.wants/own.timer"

    program = shlex.join(PROGRAM)

    said = booted.run("sh", "-c", f"({program} adopt own; {program} adopt; readlink {link}) 2>&1")

    assert "own.timer can't be moved: systemd does not answer" in said
    assert "systemctl --user show" in said
    assert said.endswith("/root/.config/systemd/user/own.timer\n")
    assert "nothing was adopted" in said


@as_root
@pytest.mark.parametrize("words", [(), ("--undo",)], ids=["adopt", "undo"])
def test_after_kill_the_command_completes_the_move_of_a_running_timer(
    booted: BootedMachine, words: tuple[str, ...]
) -> None:
    name = "fwupd-refresh"
    [job] = [job["name"] for unit, job in scan(booted).items() if unit == f"{name}.timer"]
    if words:
        booted.run(*PROGRAM, "adopt", job)

    for bound_s in ("0.3", "0.45", "0.6", "0.75", "1"):
        booted.run(
            *("timeout", "-s", "KILL", bound_s, *PROGRAM, "adopt", *words, job), is_checked=False
        )
        assert not (is_active(booted, name) and is_scheduled(booted, job)), bound_s

    booted.run(*PROGRAM, "adopt", *words, job, is_checked=False)
    assert is_active(booted, name) == bool(words)
    assert is_scheduled(booted, job) != bool(words)
    if not words:
        booted.run(*PROGRAM, "adopt", "--undo", job)
