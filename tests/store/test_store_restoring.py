"""A backup in the place of the database: what is kept, what is believed, what is not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import Conflict, DatabaseUnusable, InvalidInput, NotFound, SchemaTooNew
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.client.restore import Restored
from edgecron.engine.state_folder import engine_lock_path, take_engine_lock
from edgecron.model.choices import OnInterrupt, Reason, Status
from edgecron.model.run import Execution
from edgecron.store.sqlite.migrate import SCHEMA_VERSION
from edgecron.supervisor.state_files import lock_path, prepare_state_dir, take_lock
from tests.support.clock import FakeClock
from tests.support.olddatabases import make_version_1, version_of
from tests.support.specs import make_spec
from tests.support.story import Story

MORNING = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(MORNING)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder / "edgecron.db"


@pytest.fixture
def client(path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(path, clock=clock) as client:
        client.add(make_spec("first", "0 * * * *"))
        yield client


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return tmp_path / "backup.db"


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A world with one engine and a clock of its own."""
    return Story(tmp_path / "story.db")


def restore(client: Client, backup: Path, *, skip_missed: bool = False) -> Restored:
    with client.restoring(backup) as restoration:
        return restoration.carry_out(skip_missed=skip_missed)


def names(client: Client) -> list[str]:
    return [schedule.name for schedule in client.schedules()]


def test_the_backup_takes_the_place_and_what_was_there_is_kept_aside(
    client: Client, backup: Path, path: Path, clock: FakeClock
) -> None:
    client.backup(backup)
    client.add(make_spec("later"))

    done = restore(client, backup)

    assert names(client) == ["first"]
    assert done.aside == path.with_name("edgecron-replaced-20261120T080000Z.db")
    client.close()
    assert sorted(path.parent.iterdir()) == [done.aside, path]
    assert path.stat().st_mode & 0o777 == done.aside.stat().st_mode & 0o777 == 0o600
    with Client(done.aside, clock=clock) as aside:
        assert names(aside) == ["first", "later"]


def test_what_was_kept_aside_can_be_brought_back(
    client: Client, backup: Path, clock: FakeClock
) -> None:
    client.backup(backup)
    client.add(make_spec("later"))
    prepare_state_dir(state_dir(client.path))
    aside = restore(client, backup).aside
    assert aside is not None
    assert state_dir(aside).is_dir()
    clock.advance_ms(1000)

    restore(client, aside)

    assert names(client) == ["first", "later"]


def test_a_restored_copy_is_a_database_of_its_own(
    client: Client, backup: Path, path: Path, clock: FakeClock
) -> None:
    uuid, seed = client.store.uuid, client.store.seed
    client.backup(backup)

    restore(client, backup)

    assert client.store.uuid != uuid
    assert client.store.seed != seed


def test_where_there_was_no_database_there_is_one_then(
    client: Client, backup: Path, tmp_path: Path, clock: FakeClock
) -> None:
    client.backup(backup)
    elsewhere = Client(tmp_path / "new" / "edgecron.db", clock=clock, must_exist=True)

    done = restore(elsewhere, backup)

    assert done.aside is None
    assert names(elsewhere) == ["first"]
    assert elsewhere.path.parent.stat().st_mode & 0o777 == 0o700
    elsewhere.close()


def test_times_since_the_backup_are_due_and_nothing_else_is_done_about_them(
    client: Client, backup: Path, clock: FakeClock
) -> None:
    client.add(make_spec("far", "0 0 1 1 *"))
    client.backup(backup)
    clock.advance_to(MORNING + timedelta(hours=5, minutes=30))

    done = restore(client, backup)

    assert (done.due, done.skipped) == (("first",), ())
    assert client.schedule("first").next_plan_at == MORNING + timedelta(hours=1)
    assert client.history("first") == []


def test_what_was_missed_since_can_be_left_out_on_record(
    client: Client, backup: Path, clock: FakeClock
) -> None:
    client.add(make_spec("still", "0 * * * *"))
    client.pause("still")
    client.backup(backup)
    clock.advance_to(MORNING + timedelta(hours=5, minutes=30))

    done = restore(client, backup, skip_missed=True)

    assert (done.due, done.skipped) == ((), ("first",))
    assert client.schedule("first").next_plan_at == MORNING + timedelta(hours=6)
    [row] = client.history("first")
    assert (row.status, row.reason, row.missed_count) == (Status.SKIPPED, Reason.MISFIRE, 5)
    assert not client.schedule("still").enabled


def run_of(story: Story, name: str) -> Execution:
    return story.runs(name)[0]


def test_what_was_running_is_interrupted_and_what_was_queued_is_cancelled(
    story: Story, backup: Path
) -> None:
    story.add("runs", "* * * * *", lasts_s=3600)
    story.client.add(make_spec("waits", "* * * * *", needs=("success:runs:1h",)))
    story.after_s(60)
    assert (run_of(story, "runs").status, run_of(story, "waits").status) == ("running", "queued")
    story.client.backup(backup)
    elsewhere = Client(backup.with_name("new.db"), clock=story.world.clock, must_exist=True)

    done = restore(elsewhere, backup)

    assert (done.interrupted, done.cancelled) == (1, 1)
    [ran], [waited] = elsewhere.history("runs"), elsewhere.history("waits")
    assert (ran.status, ran.reason) == (Status.INTERRUPTED, Reason.RESTORED)
    assert (waited.status, waited.reason) == (Status.CANCELLED, Reason.RESTORED)
    assert elsewhere.active_counts() == {}
    assert elsewhere.engines() == []
    assert elsewhere.schedule("runs").counts[Status.INTERRUPTED] == 1
    elsewhere.close()


def test_only_who_asks_for_it_is_run_again_after_the_interruption(
    story: Story, backup: Path
) -> None:
    policies = make_spec(on_interrupt=OnInterrupt.RETRY).policies
    story.add("again", "* * * * *", lasts_s=3600, policies=policies)
    story.after_s(60)
    story.client.backup(backup)
    elsewhere = Client(backup.with_name("new.db"), clock=story.world.clock, must_exist=True)

    restore(elsewhere, backup)

    retry, first = elsewhere.history("again")
    assert (first.status, first.attempt) == (Status.INTERRUPTED, 1)
    assert (retry.status, retry.attempt, retry.plan_at) == (Status.QUEUED, 2, first.plan_at)
    elsewhere.close()


def test_what_runs_on_boot_waits_for_the_next_one(
    client: Client, backup: Path, clock: FakeClock
) -> None:
    client.add(make_spec("boots", "on boot"))
    client.backup(backup)
    clock.reboot(down_ms=60_000)

    restore(client, backup)

    assert client.store.find_boot_due(("command",), boot_id=clock.boot_id()) == []
    clock.reboot(down_ms=60_000)
    assert len(client.store.find_boot_due(("command",), boot_id=clock.boot_id())) == 1


@pytest.mark.parametrize("kind", ["engine", "supervisor"])
def test_while_an_engine_or_a_supervisor_lives_nothing_is_replaced(
    client: Client, backup: Path, kind: str
) -> None:
    client.backup(backup)
    client.add(make_spec("later"))
    folder = prepare_state_dir(state_dir(client.path))
    key = "0123456789abcdef"
    held = take_engine_lock(folder, key) if kind == "engine" else take_lock(lock_path(folder, key))

    with pytest.raises(Conflict, match=rf"{kind} of database .* is running \(pid {os.getpid()}\)"):
        restore(client, backup)

    os.close(held)
    engine_lock_path(folder, key).unlink(missing_ok=True)
    assert names(client) == ["first", "later"]


@pytest.mark.failure(31)
@pytest.mark.parametrize("kind", ["engine", "supervisor"])
def test_who_lives_on_when_the_state_folder_is_deleted_is_noticed(
    client: Client, backup: Path, kind: str
) -> None:
    client.backup(backup)
    client.add(make_spec("later"))
    folder = prepare_state_dir(state_dir(client.path))
    held = take_lock(folder / f"{kind}-0123456789abcdef.lock")
    shutil.rmtree(folder)

    with pytest.raises(Conflict, match=rf"{kind} of database .* is running \(pid {os.getpid()}\)"):
        restore(client, backup)
    os.close(held)
    restored = restore(client, backup)

    assert restored.aside is not None
    assert names(client) == ["first"]


def test_an_engine_that_starts_while_a_person_thinks_is_noticed(
    client: Client, backup: Path
) -> None:
    client.backup(backup)
    folder = prepare_state_dir(state_dir(client.path))

    with client.restoring(backup) as restoration:
        held = take_engine_lock(folder, "0123456789abcdef")
        with pytest.raises(Conflict, match="is running"):
            restoration.carry_out(skip_missed=False)
        os.close(held)

    assert names(client) == ["first"]


def test_while_anybody_has_the_database_open_nothing_is_replaced(
    client: Client, backup: Path, path: Path, clock: FakeClock
) -> None:
    client.backup(backup)
    with Client(path, clock=clock) as other:
        other.add(make_spec("later"))

        with pytest.raises(Conflict, match="another program has database"):
            restore(client, backup)

        other.add(make_spec("after"))
    assert names(client) == ["after", "first", "later"]
    client.close()
    assert [each.name for each in path.parent.iterdir()] == ["edgecron.db"]


@pytest.mark.failure(52)
def test_a_damaged_database_is_replaced_and_kept(client: Client, backup: Path, path: Path) -> None:
    client.backup(backup)
    client.close()
    path.write_bytes(b"nothing that SQLite knows" * 100)

    with client.restoring(backup) as restoration:
        assert restoration.present is None
        assert "not a database" in str(restoration.present_error)
        done = restoration.carry_out(skip_missed=False)

    assert names(client) == ["first"]
    assert done.aside is not None
    assert done.aside.read_bytes().startswith(b"nothing that SQLite knows")


def test_what_is_no_whole_backup_is_refused(
    client: Client, backup: Path, path: Path, tmp_path: Path
) -> None:
    client.backup(backup)
    torn = tmp_path / "torn.db"
    torn.write_bytes(backup.read_bytes()[: backup.stat().st_size // 2])
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("hello")

    for name, words in (
        ("torn.db", "damaged"),
        ("empty.db", "is not an edgecron database"),
        ("text.db", "is damaged or not a database"),
    ):
        with pytest.raises(DatabaseUnusable, match=words):
            restore(client, tmp_path / name)
    with pytest.raises(NotFound):
        restore(client, tmp_path / "none.db")
    with pytest.raises(InvalidInput, match="is the database itself"):
        restore(client, path)
    assert names(client) == ["first"]


def test_a_backup_of_a_newer_edgecron_is_refused_by_its_name(client: Client, backup: Path) -> None:
    client.backup(backup)
    connection = apsw.Connection(str(backup))
    connection.execute("PRAGMA user_version = 999")
    connection.close()

    with pytest.raises(SchemaTooNew, match=r"backup\.db is version 999"):
        restore(client, backup)


@pytest.mark.failure(68)
def test_an_older_backup_is_brought_up_to_date_and_stays_as_it_is(
    tmp_path: Path, clock: FakeClock, backup: Path
) -> None:
    make_version_1(backup)
    before = backup.read_bytes()
    elsewhere = Client(tmp_path / "new" / "edgecron.db", clock=clock, must_exist=True)

    done = restore(elsewhere, backup)

    assert elsewhere.schedules()
    elsewhere.close()
    assert (done.contents.version, version_of(elsewhere.path)) == (1, SCHEMA_VERSION)
    assert (backup.read_bytes(), version_of(backup)) == (before, 1)
    assert list(elsewhere.path.parent.iterdir()) == [elsewhere.path]


@pytest.mark.failure(66)
def test_a_backup_with_a_planted_trigger_is_refused_by_its_name(
    client: Client, backup: Path
) -> None:
    client.backup(backup)
    connection = apsw.Connection(str(backup))
    connection.execute("CREATE TRIGGER evil AFTER INSERT ON schedules BEGIN SELECT 1; END")
    connection.close()

    with pytest.raises(DatabaseUnusable, match=r"backup\.db holds the trigger 'evil'"):
        restore(client, backup)

    assert names(client) == ["first"]


@pytest.mark.failure(55)
def test_a_copy_that_lies_beside_its_log_is_refused(client: Client, tmp_path: Path) -> None:
    with Client(tmp_path / "live.db") as live:
        live.add(make_spec("theirs"))

        with pytest.raises(InvalidInput, match=" exists"):
            restore(client, tmp_path / "live.db")
