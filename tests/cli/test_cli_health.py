"""status and doctor begin with the schedules that need a person, and say what to do about each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.support.cli import Edgecron
from tests.support.processes import Daemon
from tests.support.servers import wait_until

# Of a failing job: its options, its cause, and what the advice has.
CAUSES = {
    "gone": (
        ("--", "no-such-command"),
        "command_missing",
        ("command -v no-such-command", "edit gone -- /FULL/PATH/no-such-command", "PATH=$PATH"),
    ),
    "line": (("--shell", "no-such-command"), "shell_command_missing", ('--env "PATH=$PATH"',)),
    "mode": (("--", "/etc/passwd"), "not_executable", ("chmod +x /etc/passwd",)),
    "code126": (("--shell", "exit 126"), "not_executable", ("logs code126",)),
    "folder": (("--cwd", "/no/such", "--", "true"), "folder", ("mkdir -p /no/such",)),
    "file": (("--env-file", "/no/such", "--", "true"), "env_file", ("--env-file none",)),
    "slow": (("--timeout", "300ms", "--", "sleep", "9"), "timeout", ("--timeout 600ms",)),
    "killed": (("--shell", "kill -9 $$"), "killed", ("journalctl -k",)),
    "code3": (("--shell", "exit 3"), "failed", ("logs code3", "run code3 --wait")),
}


def timeless(text: str) -> str:
    """A text that is the same a few seconds later."""
    return re.sub(r"\b(just now|now|\d+s ago)\b", "lately", text)


@pytest.mark.parametrize("name", CAUSES)
def test_a_failing_schedule_comes_with_the_advice_for_its_cause(
    edgecron: Edgecron, name: str
) -> None:
    options, cause, hints = CAUSES[name]
    edgecron("add", name, "--every", "1h", *options)
    edgecron("run", name, "--wait")

    [status] = edgecron("status", "--json").json
    [found] = status["unhealthy"]
    lines = edgecron("status").out.splitlines()
    first = edgecron("doctor", "--json").json[0]

    assert (status["failing"], found["state"], found["cause"]) == (1, "failing", cause)
    assert found["count"] == 1
    assert timeless(lines[0]) == timeless(f"failing      {found['message']}")
    assert [line.strip() for line in lines[1 : 1 + len(found["advice"])]] == found["advice"]
    assert (first["check"], timeless(first["message"])) == ("health", timeless(found["message"]))
    assert first["hint"].splitlines() == found["advice"]
    for hint in hints:
        assert hint in first["hint"]


def test_a_later_success_makes_a_schedule_healthy(edgecron: Edgecron, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    edgecron("add", "copy", "--every", "1h", "--", "test", "-e", str(flag))
    edgecron("run", "copy", "--wait")
    flag.touch()
    edgecron("run", "copy", "--wait")

    [status] = edgecron("status", "--json").json

    assert (status["failing"], status["unhealthy"]) == (0, [])
    assert edgecron("doctor", "--json").json[0]["message"] == "no schedule is failing or overdue"


def wait_since_long(database: Path, schedule: str) -> None:
    """Let the queued run of a schedule wait since an hour."""
    connection = apsw.Connection(str(database))
    connection.set_busy_timeout(10_000)
    connection.execute(
        """UPDATE executions SET due_at = due_at - 3600000 WHERE status = 'queued'
           AND schedule_id = (SELECT id FROM schedules WHERE name = ?)""",
        (schedule,),
    )
    connection.close()


def of(edgecron: Edgecron, schedule: str) -> dict[str, Any]:
    [status] = edgecron("status", "--json").json
    [found] = [one for one in status["unhealthy"] if one["schedule"] == schedule]
    return dict(found)


def test_a_manual_run_behind_one_that_waits_says_how_to_start_it(
    edgecron: Edgecron, database: Path, tmp_path: Path
) -> None:
    edgecron("add", "backup", "--every", "1h", "--needs", f"exists:{tmp_path}/usb", "--", "true")
    edgecron("reschedule", "backup", "in 1s")
    daemon = Daemon(database)
    try:
        wait_until(lambda: bool(edgecron("history", "--json").json), lambda: "no run waits")
        skipped = edgecron("run", "backup")
        edgecron("cancel", "1")
        started = edgecron("run", "backup", "--wait")
    finally:
        daemon.kill()

    assert f"run 1 waits for {tmp_path}/usb to exist; to start the job now," in skipped.err
    assert "cancel that run first: edgecron cancel 1\n" in skipped.err
    assert started.code == 0, started.err


def test_a_run_that_waits_says_for_what(edgecron: Edgecron, database: Path) -> None:
    edgecron("add", "long", "--every", "1h", "--overlap", "queue", "--", "sleep", "60")
    edgecron("add", "first", "--every", "1h", "--group", "disk:1", "--", "sleep", "60")
    edgecron("add", "second", "--every", "1h", "--group", "disk:1", "--", "true")
    daemon = Daemon(database)
    try:
        daemon.wait_for("engine_started")
        edgecron("run", "long")
        edgecron("run", "first")
        daemon.wait_for("started", schedule="first")
        edgecron("run", "long")
        edgecron("run", "second")
        wait_since_long(database, "long")
        wait_since_long(database, "second")

        behind, grouped = of(edgecron, "long"), of(edgecron, "second")
    finally:
        daemon.kill()

    assert behind["message"] == ("long is overdue, due 1h ago: run 3 waits for the end of run 1")
    assert behind["advice"][1] == "or end it: edgecron cancel 1"
    assert grouped["message"] == (
        "second is overdue, due 1h ago: run 4 waits for a place in the group disk"
    )


def test_a_run_that_waits_for_a_condition_is_not_overdue(
    edgecron: Edgecron, database: Path, tmp_path: Path
) -> None:
    edgecron(
        "add", "offsite", "--every", "1s", "--needs", f"exists:{tmp_path / 'no'}", "--", "true"
    )
    daemon = Daemon(database)
    try:
        daemon.wait_for("queued", schedule="offsite")
        wait_since_long(database, "offsite")

        [status] = edgecron("status", "--json").json
    finally:
        daemon.kill()

    assert (status["overdue"], status["unhealthy"]) == (0, [])
