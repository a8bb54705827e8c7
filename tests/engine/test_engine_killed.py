"""kill -9 of an engine, or of its supervisor, at each statement and each file operation."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
from collections import Counter
from pathlib import Path

import pytest

from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.job import Job
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.sqlite.connection import Database
from tests.support.killing import OPERATIONS, STEPS, Kill, Victim, run_until_quiet
from tests.support.processes import BOUND_S
from tests.support.servers import wait_until

PRINTED = 40_000  # more than memory holds
NAMES = ("due", "by-hand")
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["tests.support.killing"])


def make_database(folder: Path) -> Path:
    """A database with a schedule that is due, and a run by hand that waits."""
    folder.mkdir()
    database = folder / "edge.db"
    with Client(database) as client:
        for name, trigger in zip(NAMES, ("every 1h", "@yearly"), strict=True):
            line = f"echo {name} >>{folder}/effects.log; head -c {PRINTED} /dev/zero"
            job = Job(kind=JobKind.SHELL, argv=(line,))
            client.add(ScheduleSpec(name=name, triggers=(trigger,), job=job))
        client.run_now("by-hand")
    connection = Database(database)
    with connection.transaction():
        connection.change(
            """UPDATE schedules SET next_plan_at = created_at, next_run_at = created_at,
                   decided_until = created_at - 1 WHERE name = 'due'"""
        )
    connection.close()
    return database


def live(database: Path, kill: Kill | None) -> int | None:
    """Run an engine in a process of its own until all is quiet; its exit code."""
    process = FORKED.Process(target=run_until_quiet, args=(database, kill))
    process.start()
    process.join(BOUND_S)
    code = process.exitcode
    process.kill()
    process.join()
    process.close()
    return code


def runs_of(database: Path) -> dict[str, Execution]:
    """The one run that each schedule has."""
    with Client(database) as client:
        found = client.history(limit=100)
        assert Counter(run.schedule for run in found) == Counter(NAMES)
        for run in found:
            output = client.output(run.id)
            if run.status is Status.SUCCESS:
                assert output is not None
                assert (output.stdout_bytes, output.dropped_bytes) == (PRINTED, 0)
    return {run.schedule: run for run in found}


def check(database: Path, victim: Victim) -> None:
    """Nothing was lost or run twice, and each row agrees with what was run."""
    log = database.with_name("effects.log")
    effects = Counter(log.read_text("ascii").split() if log.exists() else [])
    for name, run in runs_of(database).items():
        if victim is Victim.ENGINE or run.status is Status.SUCCESS:
            assert (run.status, effects[name]) == (Status.SUCCESS, 1)
        else:
            assert (run.status, run.reason) == (Status.INTERRUPTED, Reason.LOST)
            assert effects[name] <= 1


def check_files(database: Path) -> None:
    """Nothing is left of runs, nor of supervisors before the last, which may still be ending."""

    def left(pattern: str) -> list[str]:
        return [path.name for path in state_dir(database).glob(pattern)]

    # A supervisor removes the outputs, and then its journal, after its engine has ended.
    wait_until(lambda: not left("run-*"), lambda: f"removal of {left('run-*')}")
    wait_until(lambda: len(left("*.journal")) <= 1, lambda: f"removal of {left('*.journal')}")


@pytest.mark.failure(15)
@pytest.mark.failure(17)
@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(STEPS, id="steps"),
        pytest.param(OPERATIONS, id="all", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("victim", list(Victim))
def test_whoever_is_killed_at_any_place_nothing_is_lost_or_run_twice(
    tmp_path: Path, victim: Victim, operations: frozenset[str]
) -> None:
    tried = 0
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        database = make_database(folder)
        told = folder / "told"
        kill = Kill(victim=victim, number=number, operations=operations, told=told)

        code = live(database, kill)
        if not told.exists():
            break  # there are no more places
        print(told.read_text("utf-8"))  # where, for whoever reads of a failure
        assert code == (-signal.SIGKILL if victim is Victim.ENGINE else 0)
        assert live(database, None) == 0

        check(database, victim)
        check_files(database)
        tried += 1

    assert tried > 5
