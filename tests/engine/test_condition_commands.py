"""Commands of conditions, as a real daemon and its supervisor run them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from tests.support.processes import Daemon
from tests.support.servers import wait_until

LONG_S = 3600.0


def add(client: Client, name: str, *needs: str, **job: object) -> None:
    spec = ScheduleSpec(
        name=name,
        triggers=("every 1s",),
        job=Job(kind=JobKind.COMMAND, argv=("true",), **job),  # type: ignore[arg-type]
        policies=Policies(needs=needs, needs_deadline_s=LONG_S),
    )
    client.add(spec)


def wait_for_run(client: Client, name: str, is_so: Callable[[Execution], bool]) -> Execution:
    found: list[Execution] = []

    def has_come() -> bool:
        found[:] = [run for run in client.history(name, limit=100) if is_so(run)]
        return bool(found)

    wait_until(has_come, lambda: f"such a run among {client.history(name, limit=5)}")
    return found[0]


def test_a_command_has_the_environment_and_folder_of_its_schedule(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    with Client(database) as client, closing(Daemon(database)):
        line = (
            f"test $PLACE/$EDGECRON_SCHEDULE-$EDGECRON_RUN_ID = home/up- && test $PWD = {tmp_path}"
        )
        add(client, "up", f'command:sh -c "{line}"', env={"PLACE": "home"}, cwd=str(tmp_path))

        run = wait_for_run(client, "up", lambda run: run.status == "success")

    assert run.error_msg is None


@pytest.mark.parametrize(
    ("condition", "note"),
    [
        ("command:sh -c 'echo first; echo no route; exit 3'", "exit code 3: no route"),
        ("command:sh -c 'kill -9 $$'", "exit code 137"),
        ("command[100ms]:sleep 100", "it took longer than 100ms"),
        ("command:/no/such/command", "command '/no/such/command' is missing"),
    ],
)
def test_a_run_that_waits_says_what_its_command_said(
    tmp_path: Path, condition: str, note: str
) -> None:
    database = tmp_path / "edge.db"
    with Client(database) as client, closing(Daemon(database)):
        add(client, "up", condition)

        run = wait_for_run(client, "up", lambda run: bool(run.waiting_for and run.error_msg))

    assert run.waiting_for == condition
    assert note in (run.error_msg or "")


def test_a_command_leaves_no_process_when_it_has_answered(tmp_path: Path) -> None:
    database, left = tmp_path / "edge.db", tmp_path / "left"
    with Client(database) as client, closing(Daemon(database)):
        add(client, "up", f"command:sh -c 'sleep 600 & echo $! > {left}; exit 3'")

        wait_for_run(client, "up", lambda run: bool(run.waiting_for and run.error_msg))
        pid = int(left.read_text())

        wait_until(lambda: not Path(f"/proc/{pid}").exists(), lambda: f"process {pid} lives")


def test_a_run_starts_soon_after_its_command_succeeds(tmp_path: Path) -> None:
    database, flag = tmp_path / "edge.db", tmp_path / "flag"
    with Client(database) as client, closing(Daemon(database)):
        add(client, "up", f"command:test -e {flag}")
        wait_for_run(client, "up", lambda run: run.error_msg == "exit code 1")

        flag.touch()
        run = wait_for_run(client, "up", lambda run: run.status == "success")

    assert run.attempt == 1
