"""The jobs of packages of Debian are scanned, adopted and given back, with the times they have."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from croniter import croniter

from edgecron.base.units import from_ms, to_ms
from edgecron.triggers import parse_trigger
from edgecron.triggers.base import combine
from tests.support.accounts import NEEDS_ROOT
from tests.support.cli import Edgecron
from tests.support.debian import CRONTABS, PACKAGES, SCRIPTS, TIMERS, unit_texts
from tests.support.machines import Machine
from tests.support.systemd import times_of_systemd
from tests.support.tools import need_tools

pytestmark = [pytest.mark.root, NEEDS_ROOT]
START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 25
OWNER = (0, 5005)  # no group of this machine
OLD_NS = 1_700_000_000_123_456_789


def install(machine: Machine, package: str) -> None:
    """Put the files of a package, and of the packages that it needs, below the root."""
    wanted = [package, "cron", "anacron"] if package in SCRIPTS else [package]
    for one in wanted:
        for path, text in CRONTABS.get(one, {}).items():
            file = machine.write(path, text, mode=0o640)
            os.chown(file, *OWNER)
    for path in SCRIPTS.get(package, ()):
        file = machine.write(f"etc/cron.{path}", "#!/bin/sh\n", mode=0o755)
        os.chown(file, *OWNER)
        file.chmod(0o6755)  # chown takes both away.
        os.utime(file, ns=(OLD_NS, OLD_NS))
    for name, lines in TIMERS.get(package, {}).items():
        timer, service = unit_texts(lines)
        machine.add_timer(name, timer, service)


class Kept(NamedTuple):
    """What a file must have again. Scripts and links keep their times; a crontab gets a new one."""

    mode: int
    owner: tuple[int, int]
    content: bytes
    written_ns: int | None


def snapshot(root: Path) -> dict[str, Kept]:
    """Read all files, links and folders below a root."""
    return {str(path.relative_to(root)): look_at(path) for path in root.rglob("*")}


def look_at(path: Path) -> Kept:
    found = path.lstat()
    content = b""
    if path.is_symlink():
        content = os.fsencode(os.readlink(path))
    elif path.is_file():
        content = path.read_bytes()
    is_script = path.parent.name.startswith("cron.") and path.parent.name != "cron.d"
    keeps_time = path.is_symlink() or is_script
    return Kept(
        mode=found.st_mode,
        owner=(found.st_uid, found.st_gid),
        content=content,
        written_ns=found.st_mtime_ns if keeps_time else None,
    )


def times_of(job: dict[str, Any]) -> list[datetime]:
    """List the next times of a job's calendar triggers."""
    texts = [text for text in job["triggers"] if not text.startswith(("every", "on boot"))]
    triggers = combine([parse_trigger(text, "UTC") for text in texts])
    at_ms = to_ms(START)
    found: list[datetime] = []
    while len(found) < COUNT and (next_ms := triggers.next_after_ms(at_ms)) is not None:
        at_ms = next_ms
        found.append(from_ms(at_ms))
    return found


def times_of_unit(name: str) -> list[datetime]:
    """Ask systemd for the next times of a timer."""
    lines = next(units[name] for units in TIMERS.values() if name in units)
    texts = [line for line in unit_texts(lines)[0].splitlines() if line.startswith("OnCalendar=")]
    found = {at for text in texts for at in times_of_systemd(text.partition("=")[2], COUNT) or ()}
    return [from_ms(at_ms) for at_ms in sorted(found)[:COUNT]]


def times_of_line(machine: Machine, job: dict[str, Any]) -> list[datetime]:
    """Compute the next times of a crontab's line."""
    text = (machine.root / job["source"].lstrip("/")).read_text().splitlines()[job["line"] - 1]
    times = croniter(" ".join(text.split()[:5]), START)
    return [times.get_next(datetime) for _ in range(COUNT)]


def test_there_are_thirty_packages() -> None:
    assert len(PACKAGES) >= 30


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_scanned_adopted_and_given_back(
    edgecron: Edgecron, tmp_path: Path, package: str
) -> None:
    need_tools("systemd-analyze")
    machine = Machine(tmp_path / "root")
    install(machine, package)
    before = snapshot(machine.root)
    root = ("--root", str(machine.root))

    jobs = {one["name"]: one for one in edgecron("scan", *root, "--json").json}

    assert [job["reason"] for job in jobs.values() if job["reason"]] == []
    units = TIMERS.get(package, {})
    assert {job["source"] for job in jobs.values()} >= {f"{name}.timer" for name in units}
    assert bool(jobs) or package == "rsnapshot"  # Its lines are comments.
    for job in jobs.values():
        if job["origin"] == "systemd":
            assert times_of(job) == times_of_unit(job["source"].removesuffix(".timer"))
        elif job["origin"] == "cron":
            assert times_of(job) == times_of_line(machine, job)

    if not jobs:
        return
    said = edgecron("adopt", *root, *jobs)
    assert said.code == 0, said.err
    assert edgecron("scan", *root, "--json").json == []
    assert snapshot(machine.root) != before
    adopted = {one["name"]: one for one in edgecron("list", "--json").json}
    assert {name: one["triggers"] for name, one in adopted.items()} == {
        name: job["triggers"] for name, job in jobs.items()
    }

    said = edgecron("adopt", *root, "--undo", *jobs)
    assert said.code == 0, said.err
    assert snapshot(machine.root) == before
    assert edgecron("list", "--json").json == []
