"""doctor and status about this machine: limits, power, and what engines write to its disks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from edgecron.base.machine import read_written_bytes
from edgecron.client.doctor_machine import CheckStatus, check_writes
from edgecron.client.engine_health import EngineHealth, EngineState
from edgecron.model.engine import EngineInfo
from tests.support.cli import Edgecron
from tests.support.processes import Daemon
from tests.support.servers import wait_until

START = datetime(2026, 11, 20, 8, tzinfo=UTC)
MB = 1_000_000


def engine(written: int | None, *, after: timedelta) -> EngineState:
    info = EngineInfo(
        id=1,
        key="k",
        pid=7,
        boot_id="boot-1",
        queues=("command",),
        offers=None,
        version="0.1.0",
        supervisor_id=None,
        started_at=START,
        stopped_at=None,
        written_bytes=written,
        written_at=START + after,
    )
    return EngineState(info=info, health=EngineHealth.ALIVE)


def test_what_engines_write_in_a_day_is_compared_with_the_budget() -> None:
    states = [engine(6 * MB, after=timedelta(hours=12)), engine(MB, after=timedelta(hours=1))]

    [within] = check_writes(states, budget_bytes=40 * MB)
    [over] = check_writes(states, budget_bytes=30 * MB)

    assert (within.status, over.status) == (CheckStatus.OK, CheckStatus.WARNING)
    assert "over the budget" in over.message


@pytest.mark.parametrize(
    "state", [engine(None, after=timedelta(days=1)), engine(MB, after=timedelta(minutes=5))]
)
def test_nothing_is_said_of_writes_that_are_unknown_or_too_young(state: EngineState) -> None:
    assert check_writes([state], budget_bytes=1) == []


def test_the_kernel_s_count_of_written_bytes_is_read(tmp_path: Path) -> None:
    io = tmp_path / "io"
    io.write_text("rchar: 5\nwchar: 7\nread_bytes: 0\nwrite_bytes: 4096\n")

    assert read_written_bytes(io) == 4096
    assert read_written_bytes(tmp_path / "missing") is None


@pytest.fixture
def daemon(database: Path, edgecron: Edgecron) -> Iterator[Daemon]:
    edgecron("add", "job", "--every", "1h", "--", "true")
    running = Daemon(database)
    running.wait_for("engine_started")
    yield running
    running.close()


def test_status_shows_what_is_written_and_warns_of_the_budget(
    edgecron: Edgecron, daemon: Daemon, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edgecron("run", "job", "--wait")
    connection = apsw.Connection(str(database))
    connection.set_busy_timeout(10_000)

    def is_noted() -> bool:
        return connection.execute("SELECT written_at FROM engines").get is not None

    # The engine notes its own count after that run, and not again soon.
    wait_until(is_noted, lambda: "the engine noted nothing")
    connection.execute(
        """UPDATE engines SET written_bytes = 60000000, written_at = started_at + 43200000"""
    )
    connection.close()
    plain = edgecron("status")
    monkeypatch.setenv("EDGECRON_LIMITS_WRITE_BUDGET", "50MB")
    warned = edgecron("status")
    doctor = edgecron("doctor", "--json")
    [seen] = json.loads(edgecron("status", "--json").out)[0]["engines"]

    assert re.search(r"^written +engines write [\d.]+ MiB a day to disks$", plain.out, re.MULTILINE)
    assert "over the budget" not in plain.out
    assert "over the budget of" in warned.out
    [finding] = [one for one in doctor.json if one["check"] == "writes"]
    assert finding["status"] == "warning"
    assert (seen["written_bytes"], seen["written_per_day_bytes"]) == (60 * MB, 120 * MB)


def test_doctor_says_how_limits_work_here_and_what_can_t_be(
    edgecron: Edgecron, monkeypatch: pytest.MonkeyPatch
) -> None:
    edgecron("add", "job", "--every", "1h", "--memory-max", "1GB", "--cpu-max", "50%", "--", "true")
    edgecron("add", "film", "--every", "1h", "--keep-awake", "--", "true")
    monkeypatch.setenv("PATH", "/nowhere")

    doctor = edgecron("doctor", "--json").json
    shown = edgecron("show", "job").out
    limits = [one["message"] for one in doctor if one["check"] == "limits"]

    assert limits[0].startswith("memory by ")
    assert limits[1] == "film: this machine can't be kept awake"
    assert f"limits       {limits[0]}" in shown
    assert edgecron("edit", "film", "--no-keep-awake").code == 0
    assert "keep awake" not in edgecron("show", "film").out


def test_doctor_tells_a_machine_without_an_alarm_from_one_without_permission(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgecron.client.doctor_machine.WAKE_ALARM", tmp_path / "wakealarm")
    edgecron("add", "film", "--every", "1h", "--wake", "--", "true")

    [found] = [one for one in edgecron("doctor", "--json").json if one["check"] == "limits"]

    where = tmp_path / "wakealarm"
    assert found["message"] == f"film: this machine has no real-time clock ({where}) that wakes it"
    assert found["hint"].endswith("edit NAME --no-wake")
