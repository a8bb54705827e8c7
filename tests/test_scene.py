"""The scene that the dashboard's pictures show is what they say of it, and the same each time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.client.engine_health import EngineHealth
from edgecron.model.choices import Cause, Reason, Status, WaitsFor
from edgecron.model.listing import Idle, RunChoice, find_idle
from edgecron.model.run import Execution
from tests.support.clock import FakeClock
from tests.support.olddatabases import everything
from tests.support.scene import NOW, ZONE, Scene, local_zone, make_scene
from tests.support.telling import Teller


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with make_scene(tmp_path / "edgecron.db") as scene:
        yield scene


def all_runs(scene: Scene) -> list[Execution]:
    with scene.client() as client:
        return client.history(limit=100_000)


def test_the_past_holds_every_kind_of_end(scene: Scene) -> None:
    runs = all_runs(scene)

    ends = {(run.status, run.reason) for run in runs}
    assert ends >= {
        (Status.SUCCESS, None),
        (Status.FAILED, Reason.EXIT),
        (Status.FAILED, Reason.TIMEOUT),
        (Status.SKIPPED, Reason.OVERLAP),
        (Status.SKIPPED, Reason.MISFIRE),
        (Status.SKIPPED, Reason.CONDITION),
        (Status.CANCELLED, Reason.REQUEST),
        (Status.INTERRUPTED, Reason.REBOOT),
    }
    assert {run.cause for run in runs} == set(Cause) - {Cause.BACKFILL}
    assert sum(run.status is Status.SUCCESS for run in runs) > 0.95 * len(runs)
    assert max(run.attempt for run in runs) == 3


def test_now_one_runs_one_is_queued_behind_it_and_one_is_owed(scene: Scene) -> None:
    with scene.client() as client:
        [running] = client.history(choice=RunChoice(statuses=(Status.RUNNING,)))
        [owed] = client.waiting_runs()
        outlook = client.outlook("prune-snapshots")
        printed = client.output_so_far(running)

    assert (running.schedule, running.cause) == ("backup-photos", Cause.MANUAL)
    assert (NOW - running.due_at).total_seconds() == 240
    assert b"open repository" in printed[0].content
    assert (owed.schedule, owed.waiting_for) == ("copy-offsite", "success:backup-photos:1d")
    assert [active.waits_for for active in outlook.active] == [WaitsFor.GROUP]


def test_schedules_stand_in_every_way(scene: Scene) -> None:
    with scene.client() as client:
        standings = client.standings()

    idle = {one.name: find_idle(one, now=NOW) for one in standings}
    assert len(standings) >= 16
    assert set(idle.values()) >= {None, Idle.PAUSED, Idle.BROKEN}
    assert idle["picture-of-day"] is Idle.BROKEN
    assert idle["transcode-videos"] is Idle.PAUSED


def test_the_engine_is_alive_and_hears_its_doorbell(scene: Scene) -> None:
    with scene.client() as client:
        client.run_now("weather")
        [engine] = client.engines()
        [running] = client.history(choice=RunChoice(statuses=(Status.RUNNING,)))

        assert engine.health is EngineHealth.ALIVE
        assert client.is_supervised(running)


def test_a_scene_without_engine_has_none_and_what_runs_goes_on(tmp_path: Path) -> None:
    alone = make_scene(tmp_path / "edgecron.db", has_engine=False)

    with alone as scene, scene.client() as client:
        client.take_over()

        assert client.engines() == []
        assert len(client.history(choice=RunChoice(statuses=(Status.RUNNING,)))) == 1


def test_it_is_the_same_each_time(tmp_path: Path) -> None:
    make_scene(tmp_path / "once.db")
    with local_zone(ZONE):
        Teller(tmp_path / "again.db", end=NOW, is_harmless=False).tell()

    once, again = everything(tmp_path / "once.db"), everything(tmp_path / "again.db")

    for row in [*once["executions"], *again["executions"]]:
        del row["lease_token"]  # which is chance, and nowhere shown
    for row in [*once["engines"], *again["engines"]]:
        del row["written_bytes"]  # of the process in which the test runs
    assert once == again


def test_a_trial_of_another_hour_and_zone_stands_likewise(tmp_path: Path) -> None:
    path, end = tmp_path / "edgecron.db", datetime(2027, 3, 28, 12, 5, 59, tzinfo=UTC)

    with local_zone("Pacific/Auckland"):
        Teller(path, end=end, is_harmless=True).tell()

    with Client(path, clock=FakeClock(end)) as client:
        active = client.history(choice=RunChoice(statuses=(Status.RUNNING, Status.QUEUED)))
        jobs = [schedule.spec.job for schedule in client.schedules()]
    assert {"backup-photos", "prune-snapshots", "copy-offsite"} <= {run.schedule for run in active}
    assert all(re.match(r"sleep [0-9.]+; echo ", job.argv[0]) for job in jobs)
