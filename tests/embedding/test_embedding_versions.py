"""An old and a new version of a program at work on one database, as while one is rolled out."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.model.choices import JobKind, Status
from tests.support.servers import Plant, Server, wait_until

MANY = 4


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with ExitStack() as stack:
        yield Plant(tmp_path, stack, recipe="versions")


def vanished(plant: Plant) -> set[str]:
    with Client(plant.database) as client:
        return {one.name for one in client.schedules() if one.vanished_at is not None}


def wait_vanished(plant: Plant, *names: str) -> None:
    wait_until(lambda: vanished(plant) == set(names), lambda: f"{names}: {vanished(plant)}")


def check_both_at_work(plant: Plant, servers: dict[str, Server]) -> None:
    """From here on each version runs what it knows, and nothing has vanished."""
    plant.wait_engines(2)
    wait_vanished(plant)
    so_far = len(plant.fires.all())
    for name, server in servers.items():
        fired = plant.fires.wait_for(MANY, name, after=so_far)
        assert {one.pid for one in fired} == {server.process.pid}
    plant.fires.wait_for(MANY, "both", after=so_far)
    assert vanished(plant) == set()


@pytest.mark.failure(70)
def test_whichever_version_is_killed_and_starts_again_each_runs_what_it_knows(
    plant: Plant,
) -> None:
    servers = {"old": plant.start("program.py", "old")}
    plant.wait_engines(1)
    servers["new"] = plant.start("program.py", "new")
    check_both_at_work(plant, servers)

    for again in ("old", "new"):
        servers[again].send(signal.SIGKILL)
        servers[again].process.wait()
        plant.wait_engines(1)
        servers[again] = plant.start("program.py", again)
        check_both_at_work(plant, servers)
    for server in servers.values():
        server.stop()

    fired = [(one.name, one.plan) for one in plant.fires.all()]
    assert len(fired) == len(set(fired)), "a time was run twice"
    # A process lives on where its engine ends.
    apart = {(name, Status.RUNNING) for name in ("apart", "either")}
    ends = {run.status for run in plant.runs() if (run.schedule, run.status) not in apart}
    # A run of one that was killed is that; none failed for want of its function.
    assert ends <= {Status.SUCCESS, Status.SKIPPED, Status.INTERRUPTED, Status.QUEUED}


def test_a_process_is_started_as_the_version_has_it_that_is_at_work(plant: Plant) -> None:
    elsewhere = plant.folder / "elsewhere.py"
    elsewhere.write_text((plant.folder / "program.py").read_text("utf-8"), "utf-8")
    plant.start("program.py", "old")
    plant.fires.wait_for(1, "apart")
    new = plant.start("elsewhere.py", "new")
    plant.fires.wait_for(1, "new")  # The command of its own is what is on record by now.

    plant.fires.wait_for(2, "apart", after=len(plant.fires.all()))
    new.stop()
    elsewhere.unlink()
    plant.fires.wait_for(2, "apart", after=len(plant.fires.all()))

    with Client(plant.database) as client:
        assert str(elsewhere) in client.schedule("apart").spec.job.argv[-1]
    ends = {run.status for run in plant.runs("apart")}
    assert ends <= {Status.SUCCESS, Status.SKIPPED, Status.QUEUED, Status.RUNNING}


def test_what_only_the_old_version_knows_vanishes_with_it_and_comes_back(plant: Plant) -> None:
    old, new = plant.start("program.py", "old"), None
    plant.fires.wait_for(1, "old")
    new = plant.start("program.py", "new")
    plant.wait_engines(2)

    old.stop()
    wait_vanished(plant, "old")
    plant.start("program.py", "old")
    wait_vanished(plant)

    plant.fires.wait_for(MANY, "old", after=len(plant.fires.all()))
    assert new.process.poll() is None


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_version_that_ran_it_in_a_process_the_other_calls_its_function_once_it_starts(
    plant: Plant, way: signal.Signals
) -> None:
    old = plant.start("program.py", "old")
    plant.fires.wait_for(1, "either")
    new = plant.start("program.py", "new")
    servers = {old.process.pid, new.process.pid}

    def fired(by: set[int], *, so_far: int) -> int:
        later = plant.fires.all()[so_far:]
        return sum(one.name == "either" and one.pid in by for one in later)

    def pids() -> set[int]:
        return {one.pid for one in plant.fires.all() if one.name == "either"}

    wait_until(lambda: bool(pids() - servers), lambda: f"no process was started: {pids()}")

    new.send(way)
    new.process.wait()
    plant.wait_engines(1)
    again = plant.start("program.py", "old")
    so_far = len(plant.fires.all())
    wait_until(
        lambda: fired({old.process.pid, again.process.pid}, so_far=so_far) >= 2,
        lambda: "the function is not called again",
    )

    with Client(plant.database) as client:
        assert client.schedule("either").spec.job.kind is JobKind.CALLABLE
    assert new.process.pid not in pids()
    times = [one.plan for one in plant.fires.all() if one.name == "either"]
    assert len(times) == len(set(times)), "a time was run twice"
