"""Two versions of edgecron at once: the older engine steps back, and what it ran goes on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import apsw
import pytest

from edgecron.base.errors import SchemaTooNew
from edgecron.client import Client
from edgecron.engine.step import Engine
from edgecron.model.choices import Cause, OnShutdown, Status
from edgecron.store.sqlite.migrate import SCHEMA_VERSION
from tests.simulation.world import World
from tests.support.engines import Place
from tests.support.olddatabases import make_version_1
from tests.support.processes import ends
from tests.support.story import Story


def set_version(path: Path, version: int) -> None:
    """As a newer edgecron does at the end of its migration."""
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(30_000)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def rows_of(path: Path) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute("SELECT id, status, finished_at FROM executions").fetchall()
    rows += connection.execute("SELECT id, next_run_at, decided_until FROM schedules").fetchall()
    connection.close()
    return rows


def seen(story: Story) -> list[tuple[object, ...]]:
    rows = story.world.look("SELECT id, status, finished_at FROM executions")
    return rows + story.world.look("SELECT id, next_run_at, decided_until FROM schedules")


def step(engine: Engine) -> None:
    with pytest.raises(SchemaTooNew, match="is version 99, this edgecron knows up to"):
        engine.step()


@pytest.mark.failure(70)
def test_an_older_engine_fires_nothing_more(story: Story) -> None:
    story.add("soon", "every 1m")
    story.after_s(60)
    before = seen(story)
    story.world.stores.set_version(99)

    story.world.clock.advance_ms(600_000)
    step(story.engine)
    step(story.engine)

    assert seen(story) == before
    assert story.bodies("soon") == 1


@pytest.mark.failure(70)
def test_an_older_engine_keeps_an_end_to_itself(story: Story) -> None:
    story.add("slow", "every 1h", lasts_s=30)
    story.after_s(3600)
    before = seen(story)
    story.world.stores.set_version(99)

    story.world.clock.advance_ms(60_000)
    step(story.engine)

    assert seen(story) == before
    assert [row[1] for row in before][:1] == ["running"]


@pytest.mark.failure(70)
def test_an_idle_engine_notices_at_its_next_look_for_changes(story: Story) -> None:
    story.add("later", "@yearly")
    story.after_s(1)
    story.world.stores.set_version(99)

    with pytest.raises(SchemaTooNew):
        story.engine.has_changed()


@pytest.mark.of_file
def test_an_idle_engine_asks_nothing_but_whether_anything_has_changed(story: Story) -> None:
    story.add("later", "@yearly")
    story.after_s(1)
    asked: list[str] = []

    def trace(_cursor: object, sql: str, _bindings: object) -> bool:
        asked.append(sql)
        return True

    _, store = story.world.engines[story.key]
    store.connection.exec_trace = trace
    changed = [story.engine.has_changed() for _ in range(3)]

    assert changed == [False] * 3
    assert asked == ["PRAGMA data_version"] * 3


@pytest.mark.of_file
@pytest.mark.failure(70)
def test_a_table_that_a_newer_edgecron_took_away_is_put_down_to_the_version(story: Story) -> None:
    story.add("later", "@yearly")
    story.after_s(1)
    connection = apsw.Connection(str(story.world.path))
    connection.execute("DROP TABLE schedule_upstreams; PRAGMA user_version = 99")
    connection.execute("DROP VIEW executions_view; DROP VIEW schedules_view")
    connection.execute("PRAGMA foreign_keys = OFF; DROP TABLE executions; DROP TABLE engines")
    connection.close()

    step(story.engine)


@pytest.mark.failure(70)
def test_an_engine_steps_back_before_a_newer_version_and_says_so(place: Place) -> None:
    place.add("soon", "every 1s", 'echo ran >>"$LOG"')
    daemon = place.daemon()
    daemon.wait_for("ended", schedule="soon")

    set_version(place.database, 99)
    trouble = daemon.wait_for("database_trouble")
    code = daemon.wait_end()
    effects = place.effects()

    assert f"is version 99, this edgecron knows up to {SCHEMA_VERSION}" in trouble["error_msg"]
    assert code == 5
    assert rows_of(place.database)
    assert place.effects() == effects


@pytest.mark.failure(70)
@pytest.mark.parametrize("policy", [OnShutdown.LEAVE, OnShutdown.WAIT])
def test_what_an_engine_ran_that_stepped_back_is_taken_over(
    place: Place, policy: OnShutdown
) -> None:
    place.add("long", "@yearly", f'echo ran >>"$LOG"; {place.gate.line}; exit 7')
    place.add("soon", "every 1s", "true")
    older = place.daemon("--on-shutdown", policy)
    [run] = place.client.run_now("long")
    older.wait_for("started", schedule="long")
    job = os.pidfd_open(place.gate.wait_arrival())

    set_version(place.database, 99)
    older.wait_for("database_trouble")
    if policy is OnShutdown.LEAVE:
        older.wait_end()
    else:
        place.gate.open()
        assert ends(job)
        older.wait_end()
    # The engine of the newer version knows it.
    set_version(place.database, SCHEMA_VERSION)
    newer = place.daemon()
    newer.wait_for("engine_started")
    if policy is OnShutdown.LEAVE:
        place.gate.open()
    ended = newer.wait_for("ended", schedule="long")

    assert (ended["run"], ended["status"], ended["exit_code"]) == (run.id, "failed", 7)
    assert place.effects() == ["ran"]


def run_bodies(path: Path) -> None:
    """Give the schedules of an old database a job that the simulated world can run."""
    job = """'["job","0","0"]'"""
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE schedules SET kind = 'command', job = {job}")
    connection.execute(
        f"""UPDATE schedule_revisions
            SET snapshot = json_set(snapshot, '$.kind', 'command', '$.job', {job})"""
    )
    connection.close()


@pytest.mark.failure(68)
def test_an_engine_goes_on_with_what_an_old_database_holds(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    make_version_1(path)
    run_bodies(path)
    start_ms = 1_795_205_100_000  # 2026-11-20T20:05:00Z, hours after its last engine was killed
    world = World(path, random=Random(0), start_ms=start_ms)
    engine, _ = world.engines[world.start_engine()]
    client = Client(path, clock=world.clock)

    for _ in range(10 * 60 // 5):
        engine.step()
        world.clock.advance_ms(5 * 60_000)
    client.edit("first", lambda spec: replace(spec, description="changed"))
    client.resume("second")
    engine.step()

    last = {name: client.history(name, limit=1) for name in ("first", "follows")}
    assert client.execution(2).status is Status.INTERRUPTED
    assert [run.status for run in last["first"]] == [Status.SUCCESS]
    assert [run.cause for run in last["follows"]] == [Cause.AFTER]
    assert [one.trigger_error for one in client.schedules()] == [None] * 10
    client.close()
