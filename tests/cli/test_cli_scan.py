"""`scan`: what runs when on a machine, its findings, and what edgecron can adopt."""

from __future__ import annotations

import json
import plistlib
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.paths import user_name
from tests.support.accounts import as_root
from tests.support.cli import Edgecron
from tests.support.machines import DAILY, SERVICE, Machine
from tests.support.program import PROGRAM
from tests.support.tools import need_tools, private_mounts


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


@pytest.fixture
def scan(edgecron: Edgecron, machine: Machine) -> Any:
    """Scan the machine; return its jobs by name."""

    def call(*words: str) -> dict[str, dict[str, Any]]:
        said = edgecron("scan", "--root", str(machine.root), "--json", *words)
        assert said.code == 0, said.err
        return {one["name"]: one for one in said.json}

    return call


def test_all_crontabs_are_read(machine: Machine, scan: Any) -> None:
    machine.write("etc/crontab", "17 * * * * root /opt/hour\n")
    machine.write("etc/cron.d/tools", f"CRON_TZ=Asia/Tokyo\n\n5 4 * * * {user_name()} /opt/tool\n")
    machine.write("etc/cron.d/tools.dpkg-old", "5 4 * * * root /opt/old\n")
    machine.write(f"var/spool/cron/crontabs/{user_name()}", "@reboot /opt/up\n1 1 1 1 1 x%y\n")
    machine.write("var/spool/cron/crontabs/.edgecron-0", "@reboot /opt/half-written\n")

    jobs = scan()

    assert set(jobs) == {"hour", "tool", "x", "up"}
    assert (jobs["hour"]["source"], jobs["hour"]["line"]) == ("/etc/crontab", 1)
    assert (jobs["tool"]["triggers"], jobs["tool"]["timezone"]) == (["5 4 * * *"], "Asia/Tokyo")
    assert jobs["tool"]["next_run_at"].endswith("T19:05:00Z")
    assert jobs["tool"]["can_adopt"]
    assert (jobs["up"]["next_run_at"], jobs["up"]["caught_up"]) == (None, None)
    assert jobs["hour"]["caught_up"] is False


def test_a_line_that_cannot_be_carried_over_has_a_reason(machine: Machine, scan: Any) -> None:
    machine.write(f"var/spool/cron/crontabs/{user_name()}", "0~30 4 * * * /opt/tool\n")

    [job] = scan().values()

    assert not job["can_adopt"]
    assert "minute is '0~30'" in job["reason"]


def test_a_setting_that_cannot_be_carried_over_is_a_note(machine: Machine, scan: Any) -> None:
    lines = "0 3 * * * /opt/first\nMAILTO=no:address\n0 4 * * * /opt/second\n0 5 * * * /opt/last"
    machine.write(f"var/spool/cron/crontabs/{user_name()}", lines)

    jobs = scan()

    assert jobs["first"]["notes"] == []
    [note] = jobs["second"]["notes"]
    assert "MAILTO is not imported" in note
    assert any("the last line has no newline" in one for one in jobs["last"]["notes"])


def test_folders_of_scripts_are_read_by_the_line_that_runs_them(
    machine: Machine, scan: Any
) -> None:
    machine.write("etc/crontab", "25 6 * * * root cd / && run-parts --report /etc/cron.daily\n")
    machine.write("etc/anacrontab", "1 5 cron.daily run-parts --report /etc/cron.daily\n")
    script = "#!/bin/sh\n[ -d /run/systemd/system ] && exit 0\n"
    machine.write("etc/cron.daily/rotate", script, mode=0o755)
    machine.write("etc/cron.daily/not-run", "#!/bin/sh\n", mode=0o644)
    machine.write("etc/cron.daily/rotate.dpkg-old", "#!/bin/sh\n", mode=0o755)

    without = scan()
    machine.write("usr/sbin/anacron", "", mode=0o755)
    with_anacron = scan()

    assert without["rotate"]["triggers"] == ["25 6 * * *"]
    assert without["rotate"]["origin"] == "run-parts"
    assert without["rotate"]["notes"] == ["the script checks whether systemd runs"]
    assert with_anacron["rotate"]["triggers"] == ["5 0 * * *"]
    assert with_anacron["rotate"]["caught_up"] is True
    assert "not-run" not in without


def test_timers_are_read_with_their_drop_ins_and_links(machine: Machine, scan: Any) -> None:
    machine.add_timer("copy")
    machine.write("etc/systemd/system/copy.timer.d/b.conf", "[Timer]\nPersistent=true\n")
    machine.write("usr/lib/systemd/system/copy.timer.d/b.conf", "[Timer]\nOnCalendar=hourly\n")
    machine.write("run/systemd/system/copy.timer.d/c.conf", "[Timer]\nOnCalendar=*:30\n")
    machine.add_timer("off", is_enabled=False)
    machine.add_timer("masked")
    (machine.root / "etc/systemd/system/masked.timer").symlink_to("/dev/null")
    machine.add_timer("fixed", "[Timer]\nOnCalendar=hourly\n", is_enabled=False)
    machine.link_timer("fixed", "usr/lib/systemd/system")
    machine.write("usr/lib/systemd/system/each@.timer", DAILY)
    machine.write("usr/lib/systemd/system/each@.service", SERVICE.format("each %i"))
    wants = machine.root / "etc/systemd/system/timers.target.wants"
    (wants / "each@disk.timer").symlink_to("/usr/lib/systemd/system/each@.timer")

    jobs, everything = scan(), scan("--all")

    assert set(jobs) == {"copy", "fixed", "each-disk"}
    assert jobs["copy"]["triggers"] == ["0 0 * * *", "30 * * * *"]
    assert jobs["copy"]["caught_up"] is True
    assert jobs["each-disk"]["caught_up"] is False
    assert jobs["fixed"]["reason"] == "it is a fixed part of its package"
    assert set(everything) == {"copy", "fixed", "each-disk", "off", "masked"}
    assert everything["off"]["next_run_at"] is None
    assert everything["masked"]["reason"] == "it is masked"


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        ("run/systemd/generator", "a generator makes it at each boot"),
        ("run/systemd/transient", "it lasts only until the next boot"),
        ("run/systemd/system", "it lasts only until the next boot"),
        (
            "etc/systemd/user",
            "it runs for every user: add the job, then use systemctl --user mask copy.timer",
        ),
    ],
)
def test_a_timer_that_cannot_be_disabled_for_good_has_a_reason(
    machine: Machine, scan: Any, folder: str, reason: str
) -> None:
    machine.write(f"{folder}/copy.timer", DAILY)
    machine.write(f"{folder}/copy.service", SERVICE.format("copy"))
    machine.link_timer("copy", folder)

    [job] = scan().values()

    assert job["reason"] == reason
    assert job["next_run_at"] is not None


def test_a_timer_whose_service_is_masked_has_a_reason(machine: Machine, scan: Any) -> None:
    machine.add_timer("copy")
    (machine.root / "etc/systemd/system/copy.service").symlink_to("/dev/null")

    assert scan()["copy"]["reason"] == "its service copy.service is masked"


@as_root
def test_timers_of_a_machine_without_systemd_are_off() -> None:
    need_tools("systemctl")
    script = f"mount -t tmpfs tmpfs /run; {shlex.join(PROGRAM)} scan --all --json"

    said = subprocess.run(
        [*private_mounts(), "sh", "-c", script], capture_output=True, text=True, check=True
    )

    timers = [one for one in json.loads(said.stdout) if one["origin"] == "systemd"]
    assert timers
    assert not any(one["enabled"] or one["can_adopt"] for one in timers)
    assert any(one["reason"] == "systemd does not run here" for one in timers)


def test_timers_of_other_users_are_listed_with_their_owner(machine: Machine, scan: Any) -> None:
    machine.write("etc/passwd", "anna:x:5001:5001::/home/anna:/bin/sh\n")
    machine.write("home/anna/.config/systemd/user/copy.timer", DAILY)
    machine.write("home/anna/.config/systemd/user/copy.service", SERVICE.format("copy"))
    machine.link_timer("copy", "home/anna/.config/systemd/user")

    [job] = scan().values()
    machine.write("var/lib/systemd/linger/anna", "")
    [lingering] = scan().values()

    assert (job["source"], job["origin"]) == ("copy.timer of anna", "systemd --user")
    assert job["reason"] == "it is a timer of anna: adopt it as anna"
    assert job["notes"] == ["it runs only while anna is logged in"]
    assert lingering["notes"] == []


def test_jobs_of_launchd_are_read(machine: Machine, scan: Any) -> None:
    file = machine.write("Library/LaunchDaemons/org.example.copy.plist", "")
    file.write_bytes(
        plistlib.dumps(
            {
                "Label": "org.example.copy",
                "ProgramArguments": ["/opt/copy"],
                "StartCalendarInterval": {"Hour": 3, "Minute": 0},
            }
        )
    )

    [job] = scan().values()

    assert (job["name"], job["triggers"], job["can_adopt"]) == (
        "org.example.copy",
        ["0 3 * * *"],
        False,
    )


def test_a_job_that_launchd_starts_otherwise_too_says_so(machine: Machine, scan: Any) -> None:
    for place, more in (
        ("Library/LaunchAgents", {"WatchPaths": ["/etc/hosts"]}),
        ("Users/anna/Library/LaunchAgents", {}),
        ("Library/LaunchDaemons", {"Disabled": True}),
    ):
        file = machine.write(f"{place}/copy.plist", "")
        file.write_bytes(
            plistlib.dumps({"Label": "copy", "Program": "/opt/copy", "StartInterval": 300, **more})
        )

    jobs = scan("--all")
    disabled, watching, own = (jobs[name] for name in ("copy", "copy-2", "copy-3"))

    assert (watching["triggers"], watching["caught_up"]) == (["every 300s"], None)
    assert watching["reason"] == "launchd starts it when a file changes (WatchPaths)"
    assert own["source"] == "/Users/anna/Library/LaunchAgents/copy.plist"
    assert "edgecron can't disable jobs of launchd" in own["reason"]
    assert not disabled["enabled"]


def test_the_findings_are_shown_in_words(edgecron: Edgecron, machine: Machine) -> None:
    machine.write(
        f"var/spool/cron/crontabs/{user_name()}",
        "0 3 * * * /opt/one\n0 3 * * * /opt/two\n0 3 * * * /opt/three\n0~9 3 * * * /opt/random\n",
    )
    machine.add_timer("off", is_enabled=False)
    machine.write("Library/LaunchAgents/broken.plist", "no list\n")

    said = edgecron("scan", "--root", str(machine.root))

    assert said.code == 0
    assert "03:00: one, two, three (7 times in 7 days)" in said.out
    assert "not run later if the machine sleeps or is off at their time:\n  one, two" in said.out
    assert "edgecron can't adopt:\n  random: minute is '0~9'" in said.out
    assert "not read: /Library/LaunchAgents/broken.plist: it is not a property list" in said.err
    here = f"--root {machine.root}"
    assert f"1 timer is off; to list: edgecron scan --all {here}" in said.err
    assert f"edgecron adopt one {here}" in said.err


def test_a_scan_changes_nothing(edgecron: Edgecron, machine: Machine, database: Path) -> None:
    machine.write("etc/crontab", "17 * * * * root /opt/hour\n")
    machine.add_timer("copy")
    before = {path: path.lstat().st_mtime_ns for path in machine.root.rglob("*")}

    assert edgecron("scan", "--root", str(machine.root)).code == 0

    assert {path: path.lstat().st_mtime_ns for path in machine.root.rglob("*")} == before
    assert not database.exists()


def test_an_empty_machine_and_a_missing_root_are_told(edgecron: Edgecron, machine: Machine) -> None:
    assert (
        "no jobs of cron, systemd or launchd were found"
        in edgecron("scan", "--root", str(machine.root)).err
    )
    assert edgecron("scan", "--root", str(machine.root / "none")).code == 3
    assert "is a file, expected a folder" in edgecron("scan", "--root", __file__).err
