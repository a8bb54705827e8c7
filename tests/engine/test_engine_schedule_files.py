"""`daemon --schedules`: documents applied at the start, and again on HUP."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.accounts import as_root
from tests.support.engines import Place
from tests.support.program import PROGRAM

HOURLY = '[schedules.hourly]\nevery = "1h"\ncommand = ["true"]\n'
FOLLOWER = '[schedules.follower]\nafter = "hourly"\ncommand = ["true"]\n'


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "schedules.toml"
    file.write_text(HOURLY)
    return file


def names(place: Place) -> list[str]:
    return [schedule.name for schedule in place.client.schedules()]


def test_the_files_are_applied_before_the_engine_starts(
    place: Place, file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.toml"
    other.write_text(FOLLOWER)

    daemon = place.daemon("--schedules", str(file), "--schedules", str(other))
    daemon.wait_for("engine_started")

    events = [(line["event"], line.get("schedule")) for line in daemon.lines]
    assert events[:6] == [
        ("schedule_created", "hourly"),
        ("schedules_applied", None),
        ("schedule_created", "follower"),
        ("schedules_applied", None),
        ("starting", None),
        ("engine_started", None),
    ]
    assert daemon.lines[1]["file"] == str(file)
    assert daemon.lines[1]["created"] == 1
    assert names(place) == ["follower", "hourly"]


def test_hup_applies_the_files_again_and_logs_the_plan(place: Place, file: Path) -> None:
    daemon = place.daemon("--schedules", str(file))
    daemon.wait_for("engine_started")

    file.write_text(HOURLY.replace("1h", "2h") + FOLLOWER)
    daemon.process.send_signal(signal.SIGHUP)

    assert daemon.wait_for("schedule_changed")["changes"] == "every: 1h -> 2h"
    assert daemon.wait_for("schedule_created")["schedule"] == "follower"
    applied = daemon.wait_for("schedules_applied")
    assert (applied["created"], applied["changed"], applied["unchanged"]) == (1, 1, 0)

    file.write_text(HOURLY.replace("1h", "2h"))
    daemon.process.send_signal(signal.SIGHUP)

    applied = daemon.wait_for("schedules_applied")
    assert applied["no_longer_in_file"] == "follower"
    assert names(place) == ["follower", "hourly"]
    assert daemon.stop() == 0


def test_a_file_with_errors_at_hup_changes_nothing_and_every_error_is_logged(
    place: Place, file: Path
) -> None:
    daemon = place.daemon("--schedules", str(file))
    daemon.wait_for("engine_started")

    file.write_text(HOURLY.replace("1h", "1M").replace("command", "comand") + FOLLOWER)
    daemon.process.send_signal(signal.SIGHUP)

    refused = [daemon.wait_for("schedules_refused") for _ in range(3)]
    assert [one["line"] for one in refused] == [1, 2, 3]
    assert "1mo or 1m?" in refused[1]["error_msg"]
    assert "key 'comand' is unknown" in refused[2]["error_msg"]
    assert names(place) == ["hourly"]
    [schedule] = place.client.schedules()
    assert schedule.spec.triggers == ("every 1h",)

    file.write_text(HOURLY + FOLLOWER)
    daemon.process.send_signal(signal.SIGHUP)

    daemon.wait_for("schedules_applied")
    assert names(place) == ["follower", "hourly"]


def test_the_log_hides_values_of_environment_payload_and_stdin(place: Place, file: Path) -> None:
    secrets = 'env.PLAIN = "old-a"\npayload = \'"old-b"\'\nstdin = "old-c"\n'
    file.write_text(HOURLY + secrets)
    daemon = place.daemon("--schedules", str(file))
    daemon.wait_for("engine_started")

    file.write_text(HOURLY.replace("1h", "2h") + secrets.replace("old", "new"))
    daemon.process.send_signal(signal.SIGHUP)

    changes = daemon.wait_for("schedule_changed")["changes"]
    assert "every: 1h -> 2h" in changes
    for key in ("env.PLAIN", "payload", "stdin"):
        assert f"{key}: changed (hidden)" in changes
    assert "old-" not in changes
    assert "new-" not in changes


def test_a_file_that_became_a_fifo_is_refused_and_the_daemon_still_ends(
    place: Place, file: Path
) -> None:
    daemon = place.daemon("--schedules", str(file))
    daemon.wait_for("engine_started")
    file.unlink()
    os.mkfifo(file)

    daemon.process.send_signal(signal.SIGHUP)

    assert "is not a regular file" in daemon.wait_for("schedules_refused")["error_msg"]
    assert daemon.stop() == 0


@as_root
def test_root_applies_no_file_that_another_user_can_change(place: Place, file: Path) -> None:
    daemon = place.daemon("--schedules", str(file))
    daemon.wait_for("engine_started")
    file.write_text(FOLLOWER.replace('after = "hourly"', 'every = "1h"'))
    os.chown(file, 12345, 12345)

    daemon.process.send_signal(signal.SIGHUP)

    error = daemon.wait_for("schedules_refused")["error_msg"]
    assert (
        f"'{file}' can be changed by other users: {file} belongs to user 12345, expected root"
        in error
    )
    assert names(place) == ["hourly"]


def test_a_file_with_errors_keeps_the_daemon_from_starting(tmp_path: Path, file: Path) -> None:
    bad, twin = tmp_path / "bad.toml", tmp_path / "twin.toml"
    bad.write_text('[schedules.x]\ncron = "99 * * * *"\nat = "in 20m"\ncommand = ["true"]\n')
    twin.write_text(HOURLY)
    database = tmp_path / "new.db"
    words = [
        word for path in (file, bad, twin, tmp_path / "no.toml") for word in ("--schedules", path)
    ]

    done = subprocess.run(
        [*PROGRAM, "--db", database, "daemon", *words], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert f"{bad}, line 2: schedule 'x': cron: minute is '99'" in done.stderr
    assert f"{bad}, line 3: schedule 'x': at: time 'in 20m' is not understood" in done.stderr
    assert f"{twin}: schedule 'hourly': file '{file}' has a schedule of this name" in done.stderr
    assert f"file '{tmp_path / 'no.toml'}' does not exist" in done.stderr
    assert "4 errors in the schedule files: no file is applied" in done.stderr
    assert not database.exists()


def test_what_only_the_database_refuses_keeps_the_daemon_from_starting_too(
    place: Place, file: Path
) -> None:
    file.write_text(FOLLOWER.replace('"hourly"', '"follower"'))

    done = subprocess.run(
        [*PROGRAM, "--db", place.database, "daemon", "--schedules", file],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "line 1: schedule 'follower' runs after itself" in done.stderr
    assert "engine_started" not in done.stdout
    assert names(place) == []


def test_the_configuration_names_the_files(
    place: Place, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text(f'[daemon]\nschedules = ["{file}"]\n')
    settings.chmod(0o600)
    monkeypatch.setenv("EDGECRON_CONFIG", str(settings))

    daemon = place.daemon()
    daemon.wait_for("schedules_applied")

    assert names(place) == ["hourly"]
