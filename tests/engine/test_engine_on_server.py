"""Real engines on a PostgreSQL server: they are woken by its notices, and recover as on a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgecron.base.paths import read_location
from edgecron.client import Client
from edgecron.model.choices import Status
from tests.support.engines import Place
from tests.support.processes import ends
from tests.support.stores import ServerClock, ServerStores
from tests.support.story import START_MS, Story
from tests.support.tools import need_packages

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

need_packages("psycopg")

import psycopg  # noqa: E402

from edgecron.engine.sleep import watch_writes  # noqa: E402
from edgecron.store.postgres.store import Listening, PostgresStore, open_store  # noqa: E402


@pytest.fixture
def place(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with ExitStack() as stack:
        yield Place(tmp_path, stack, url=postgres.create_database())


@pytest.fixture
def stores(postgres: PostgresServer) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    url = postgres.create_database()
    first, second = open_store(url, now_ms=0), open_store(url, now_ms=0)
    yield first, second
    first.close()
    second.close()


def write(store: PostgresStore) -> None:
    with store.transaction():
        store.change("UPDATE meta SET trusted_high_at = coalesce(trusted_high_at, 0) + 1")


def test_a_run_survives_a_killed_engine_and_happens_once(place: Place) -> None:
    place.add("long", "@yearly", f"echo began >>$LOG; {place.gate.line}; exit 7")
    first = place.daemon()
    [run] = place.client.run_now("long")
    first.wait_for("started", schedule="long")
    place.gate.wait_arrival()

    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    second = place.daemon()
    second.wait_for("adopted", schedule="long")
    place.gate.open()
    ended = second.wait_for("ended", schedule="long")

    assert (ended["run"], ended["status"], ended["exit_code"]) == (run.id, "failed", 7)
    assert place.effects() == ["began"]
    assert second.stop() == 0
    assert place.client.engines() == []


@pytest.mark.parametrize("on_lost", ["end", "leave"])
def test_commands_that_others_took_over_while_no_engine_was_here_follow_on_lost(
    place: Place, on_lost: str
) -> None:
    place.add("long", "@yearly", place.gate.line)
    first = place.daemon("--on-lost", on_lost)
    [run] = place.client.run_now("long")
    watch = os.pidfd_open(place.gate.wait_arrival())
    first.wait_for("started", schedule="long")
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    with place.client.store.transaction():  # as another machine does after 60 s
        place.client.store.change(
            """UPDATE executions SET status = 'interrupted', reason = 'lost',
                   finished_at = claimed_at WHERE id = :id""",
            {"id": run.id},
        )

    second = place.daemon("--on-lost", on_lost)
    if on_lost == "end":
        told = second.wait_for("taken_over")
        assert (told["runs"], ends(watch)) == (1, True)
    else:
        second.wait_for("engine_started")
        assert not ends(watch, bound_s=0.5)
        place.gate.open()
        assert ends(watch)
    os.close(watch)

    assert second.stop() == 0
    assert "taken_over" not in [line["event"] for line in second.lines] or on_lost == "end"
    [row] = place.runs("long")
    assert (row.status, row.reason) == (Status.INTERRUPTED, "lost")


def test_a_write_on_another_machine_wakes_an_engine(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add("job", "@yearly", "true")
    daemon = place.daemon()
    daemon.wait_for("engine_started")

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    with Client(place.database) as other:  # It sees no doorbell.
        assert not list(other.state_dir.glob("*.fifo"))
        other.run_now("job")
        daemon.wait_for("ended", schedule="job", bound_s=10)
        [run] = other.history("job")

    assert run.status is Status.SUCCESS
    assert "polling" not in [line["event"] for line in daemon.lines]


def test_another_machine_follows_the_output_of_a_run(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add("long", "@yearly", f"echo hello; {place.gate.line}; echo good bye")
    daemon = place.daemon()
    [run] = place.client.run_now("long")
    place.gate.wait_arrival()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))

    with Client(place.database) as other, other.follower(run.id) as follower:
        printed = [*follower.read_kept(other.execution(run.id))]
        while not printed:
            follower.wait()
            printed += follower.read(other.execution(run.id))
        is_running = other.execution(run.id).status is Status.RUNNING
        place.gate.open()
        while other.execution(run.id).status is Status.RUNNING:
            follower.wait()
        rest = list(follower.read_stored())

    assert b"".join(chunk.content for _, chunk in printed) == b"hello\n"
    assert is_running
    assert b"".join(chunk.content for _, chunk in rest) == b"good bye\n"
    assert daemon.stop() == 0


@pytest.mark.failure(88)
def test_a_daemon_behind_a_pooler_carries_out_what_another_machine_asks(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    name = postgres.create_database().partition("@/")[2].partition("?")[0]
    with postgres.pooler() as folder, ExitStack() as stack:
        place = Place(tmp_path, stack, url=postgres.url(name, folder=folder))
        place.add("long", "@yearly", f"echo hello; {place.gate.line}")
        daemon = place.daemon()
        polling = daemon.wait_for("polling")
        [run] = place.client.run_now("long")
        place.gate.wait_arrival()
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        with Client(place.database) as other:  # It sees no doorbell.
            other.cancel(run.id)
            ended = daemon.wait_for("ended", schedule="long")
            with other.follower(run.id) as follower:
                printed = list(follower.read_stored())

        assert polling["every_s"] == 5
        assert (ended["status"], ended["reason"]) == ("cancelled", "request")
        assert b"".join(chunk.content for _, chunk in printed) == b"hello\n"
        assert daemon.stop() == 0


def test_notices_show_what_others_write_and_not_what_we_write(
    stores: tuple[PostgresStore, PostgresStore],
) -> None:
    ours, others = stores
    watch = Listening(ours, hears_all=True)

    first = (watch.arm(), watch.take_news())  # What came before is unknown.
    write(ours)
    own = watch.take_news()
    write(others)
    ours.row("SELECT 1")  # The notice can come with an answer.
    watch.clear()

    assert len(first[0]) == 1
    assert (first[1], own, watch.take_news(), watch.take_news()) == (True, False, True, False)
    assert watch.poll_ms is None


def test_after_a_lost_connection_it_listens_on_the_new_one(
    postgres: PostgresServer, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    ours, others = stores
    watch = Listening(ours, hears_all=True)
    watch.arm()
    watch.take_news()

    postgres.end_connections()
    for _ in range(10):  # First come the server's last words.
        watch.clear()
    lost = watch.take_news()
    again = watch.arm()
    watch.take_news()
    write(others)
    ours.row("SELECT 1")
    watch.clear()

    assert (lost, len(again), watch.take_news()) == (True, 1, True)


def test_without_notices_the_engine_looks_every_few_seconds(postgres: PostgresServer) -> None:
    """The test of notices needs a second connection, which this role can't make."""
    url = postgres.create_database()
    role = f"single_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA edgecron TO {role}".encode())
        connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA edgecron TO {role}".encode())
    store = open_store(url.replace("postgres@", f"{role}@"), now_ms=0)

    watch = watch_writes(read_location(url), store)
    found = watch.arm()
    store.close()

    assert (found, watch.poll_ms) == ([], 5_000)


def test_an_engine_looks_less_and_less_often_while_another_one_claims_what_is_due(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url = postgres.create_database()
    with closing(ServerClock(START_MS)) as clock, closing(ServerStores(url, clock=clock)) as made:
        story = Story(tmp_path / "story.db", clock=clock, stores=made)
        other = open_store(url, now_ms=0)
        story.add("sync", "every 1m")
        story.engine.step()
        clock.advance_ms(60_000)

        with other.taking_turns("command"), other.transaction():
            wakes_ms = [story.engine.step().wake_ms for _ in range(5)]
        won = story.engine.step()
        story.client.close()
        story.world.close()
        other.close()

    assert [None if at is None else at - clock.now_ms() for at in wakes_ms] == [
        *(50, 100, 200, 400, 400)
    ]
    assert won.claimed == 1


@pytest.mark.failure(92)
def test_an_end_that_a_failover_forgets_is_recorded_again(
    place: Place, postgres: PostgresServer
) -> None:
    url = str(place.database)
    place.add("long", "@yearly", f"echo ran >>$LOG; {place.gate.line}; exit 7")
    daemon = place.daemon()
    [run] = place.client.run_now("long")
    place.gate.wait_arrival()
    daemon.wait_for("started", schedule="long")
    standby = postgres.copy_database(url)
    place.gate.open()
    daemon.wait_for("ended", schedule="long")
    postgres.fail_over(url, standby)
    again = daemon.wait_for("ended", schedule="long")

    assert (again["run"], again["status"], again["exit_code"]) == (run.id, "failed", 7)
    assert [(one.status, one.exit_code) for one in place.runs("long")] == [("failed", 7)]
    assert place.effects() == ["ran"]
    assert daemon.stop() == 0
