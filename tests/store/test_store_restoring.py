"""A backup in the place of the database: what is kept, what is believed, what is not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from edgecron.api import Scheduler
from edgecron.copies import Restored
from edgecron.engine.liveness import engine_lock_path, take_engine_lock
from edgecron.errors import Conflict, DatabaseUnusable, InvalidInput, NotFound, SchemaTooNew
from edgecron.model import Execution, OnInterrupt, Reason, Status
from edgecron.paths import state_dir
from edgecron.store.migrate import SCHEMA_VERSION
from edgecron.supervisor.files import lock_path, prepare_state_dir, take_lock
from support.clock import FakeClock
from support.olddatabases import make_version_1, version_of
from support.specs import make_spec
from support.story import Story

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
def scheduler(path: Path, clock: FakeClock) -> Iterator[Scheduler]:
    with Scheduler(path, clock=clock) as scheduler:
        scheduler.add(make_spec("first", "0 * * * *"))
        yield scheduler


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    return tmp_path / "backup.db"


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A world with one engine and a clock of its own."""
    return Story(tmp_path / "story.db")


def restore(scheduler: Scheduler, backup: Path, *, skip_missed: bool = False) -> Restored:
    with scheduler.restoring(backup) as restoration:
        return restoration.carry_out(skip_missed=skip_missed)


def names(scheduler: Scheduler) -> list[str]:
    return [schedule.name for schedule in scheduler.schedules()]


def test_the_backup_takes_the_place_and_what_was_there_is_kept_aside(
    scheduler: Scheduler, backup: Path, path: Path, clock: FakeClock
) -> None:
    scheduler.backup(backup)
    scheduler.add(make_spec("later"))

    done = restore(scheduler, backup)

    assert names(scheduler) == ["first"]
    assert done.aside == path.with_name("edgecron-replaced-20261120T080000Z.db")
    scheduler.close()
    assert sorted(path.parent.iterdir()) == [done.aside, path]
    assert path.stat().st_mode & 0o777 == done.aside.stat().st_mode & 0o777 == 0o600
    with Scheduler(done.aside, clock=clock) as aside:
        assert names(aside) == ["first", "later"]


def test_what_was_kept_aside_can_be_brought_back(
    scheduler: Scheduler, backup: Path, clock: FakeClock
) -> None:
    scheduler.backup(backup)
    scheduler.add(make_spec("later"))
    prepare_state_dir(state_dir(scheduler.path))
    aside = restore(scheduler, backup).aside
    assert aside is not None
    assert state_dir(aside).is_dir()
    clock.advance_ms(1000)

    restore(scheduler, aside)

    assert names(scheduler) == ["first", "later"]


def test_a_restored_copy_is_a_database_of_its_own(
    scheduler: Scheduler, backup: Path, path: Path, clock: FakeClock
) -> None:
    uuid, seed = scheduler.store.uuid, scheduler.store.seed
    scheduler.backup(backup)

    restore(scheduler, backup)

    assert scheduler.store.uuid != uuid
    assert scheduler.store.seed != seed


def test_where_there_was_no_database_there_is_one_then(
    scheduler: Scheduler, backup: Path, tmp_path: Path, clock: FakeClock
) -> None:
    scheduler.backup(backup)
    elsewhere = Scheduler(tmp_path / "new" / "edgecron.db", clock=clock, must_exist=True)

    done = restore(elsewhere, backup)

    assert done.aside is None
    assert names(elsewhere) == ["first"]
    assert elsewhere.path.parent.stat().st_mode & 0o777 == 0o700
    elsewhere.close()


def test_times_since_the_backup_are_due_and_nothing_else_is_done_about_them(
    scheduler: Scheduler, backup: Path, clock: FakeClock
) -> None:
    scheduler.add(make_spec("far", "0 0 1 1 *"))
    scheduler.backup(backup)
    clock.advance_to(MORNING + timedelta(hours=5, minutes=30))

    done = restore(scheduler, backup)

    assert (done.due, done.skipped) == (("first",), ())
    assert scheduler.schedule("first").next_plan_at == MORNING + timedelta(hours=1)
    assert scheduler.history("first") == []


def test_what_was_missed_since_can_be_left_out_on_record(
    scheduler: Scheduler, backup: Path, clock: FakeClock
) -> None:
    scheduler.add(make_spec("still", "0 * * * *"))
    scheduler.pause("still")
    scheduler.backup(backup)
    clock.advance_to(MORNING + timedelta(hours=5, minutes=30))

    done = restore(scheduler, backup, skip_missed=True)

    assert (done.due, done.skipped) == ((), ("first",))
    assert scheduler.schedule("first").next_plan_at == MORNING + timedelta(hours=6)
    [row] = scheduler.history("first")
    assert (row.status, row.reason, row.missed_count) == (Status.SKIPPED, Reason.MISFIRE, 5)
    assert not scheduler.schedule("still").enabled


def run_of(story: Story, name: str) -> Execution:
    return story.runs(name)[0]


def test_what_was_running_is_interrupted_and_what_was_queued_is_cancelled(
    story: Story, backup: Path
) -> None:
    story.add("runs", "* * * * *", lasts_s=3600)
    story.scheduler.add(make_spec("waits", "* * * * *", needs=("success:runs:1h",)))
    story.after_s(60)
    assert (run_of(story, "runs").status, run_of(story, "waits").status) == ("running", "queued")
    story.scheduler.backup(backup)
    elsewhere = Scheduler(backup.with_name("new.db"), clock=story.world.clock, must_exist=True)

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
    story.scheduler.backup(backup)
    elsewhere = Scheduler(backup.with_name("new.db"), clock=story.world.clock, must_exist=True)

    restore(elsewhere, backup)

    retry, first = elsewhere.history("again")
    assert (first.status, first.attempt) == (Status.INTERRUPTED, 1)
    assert (retry.status, retry.attempt, retry.plan_at) == (Status.QUEUED, 2, first.plan_at)
    elsewhere.close()


def test_what_runs_on_boot_waits_for_the_next_one(
    scheduler: Scheduler, backup: Path, clock: FakeClock
) -> None:
    scheduler.add(make_spec("boots", "on boot"))
    scheduler.backup(backup)
    clock.reboot(down_ms=60_000)

    restore(scheduler, backup)

    assert scheduler.store.find_boot_due(("command",), boot_id=clock.boot_id()) == []
    clock.reboot(down_ms=60_000)
    assert len(scheduler.store.find_boot_due(("command",), boot_id=clock.boot_id())) == 1


@pytest.mark.parametrize("kind", ["engine", "supervisor"])
def test_while_an_engine_or_a_supervisor_lives_nothing_is_replaced(
    scheduler: Scheduler, backup: Path, kind: str
) -> None:
    scheduler.backup(backup)
    scheduler.add(make_spec("later"))
    folder = prepare_state_dir(state_dir(scheduler.path))
    key = "0123456789abcdef"
    held = take_engine_lock(folder, key) if kind == "engine" else take_lock(lock_path(folder, key))

    with pytest.raises(Conflict, match=f"{kind}, pid {os.getpid()}, of database .* is alive"):
        restore(scheduler, backup)

    os.close(held)
    engine_lock_path(folder, key).unlink(missing_ok=True)
    assert names(scheduler) == ["first", "later"]


@pytest.mark.failure(31)
@pytest.mark.parametrize("kind", ["engine", "supervisor"])
def test_who_lives_on_when_the_state_folder_is_deleted_is_noticed(
    scheduler: Scheduler, backup: Path, kind: str
) -> None:
    scheduler.backup(backup)
    scheduler.add(make_spec("later"))
    folder = prepare_state_dir(state_dir(scheduler.path))
    held = take_lock(folder / f"{kind}-0123456789abcdef.lock")
    shutil.rmtree(folder)

    with pytest.raises(Conflict, match=f"{kind}, pid {os.getpid()}, of database .* is alive"):
        restore(scheduler, backup)
    os.close(held)
    restored = restore(scheduler, backup)

    assert restored.aside is not None
    assert names(scheduler) == ["first"]


def test_an_engine_that_starts_while_a_person_thinks_is_noticed(
    scheduler: Scheduler, backup: Path
) -> None:
    scheduler.backup(backup)
    folder = prepare_state_dir(state_dir(scheduler.path))

    with scheduler.restoring(backup) as restoration:
        held = take_engine_lock(folder, "0123456789abcdef")
        with pytest.raises(Conflict, match="is alive"):
            restoration.carry_out(skip_missed=False)
        os.close(held)

    assert names(scheduler) == ["first"]


def test_while_anybody_has_the_database_open_nothing_is_replaced(
    scheduler: Scheduler, backup: Path, path: Path, clock: FakeClock
) -> None:
    scheduler.backup(backup)
    with Scheduler(path, clock=clock) as other:
        other.add(make_spec("later"))

        with pytest.raises(Conflict, match="another program has database"):
            restore(scheduler, backup)

        other.add(make_spec("after"))
    assert names(scheduler) == ["after", "first", "later"]
    scheduler.close()
    assert [each.name for each in path.parent.iterdir()] == ["edgecron.db"]


@pytest.mark.failure(52)
def test_a_damaged_database_is_replaced_and_kept(
    scheduler: Scheduler, backup: Path, path: Path
) -> None:
    scheduler.backup(backup)
    scheduler.close()
    path.write_bytes(b"nothing that SQLite knows" * 100)

    with scheduler.restoring(backup) as restoration:
        assert restoration.present is None
        assert "not a database" in str(restoration.present_error)
        done = restoration.carry_out(skip_missed=False)

    assert names(scheduler) == ["first"]
    assert done.aside is not None
    assert done.aside.read_bytes().startswith(b"nothing that SQLite knows")


def test_what_is_no_whole_backup_is_refused(
    scheduler: Scheduler, backup: Path, path: Path, tmp_path: Path
) -> None:
    scheduler.backup(backup)
    torn = tmp_path / "torn.db"
    torn.write_bytes(backup.read_bytes()[: backup.stat().st_size // 2])
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("hello")

    for name, words in (
        ("torn.db", "damaged"),
        ("empty.db", "is not a database of edgecron"),
        ("text.db", "is damaged or not a database"),
    ):
        with pytest.raises(DatabaseUnusable, match=words):
            restore(scheduler, tmp_path / name)
    with pytest.raises(NotFound):
        restore(scheduler, tmp_path / "none.db")
    with pytest.raises(InvalidInput, match="is the database itself"):
        restore(scheduler, path)
    assert names(scheduler) == ["first"]


def test_a_backup_of_a_newer_edgecron_is_refused_by_its_name(
    scheduler: Scheduler, backup: Path
) -> None:
    scheduler.backup(backup)
    connection = apsw.Connection(str(backup))
    connection.execute("PRAGMA user_version = 999")
    connection.close()

    with pytest.raises(SchemaTooNew, match=r"backup\.db is version 999"):
        restore(scheduler, backup)


@pytest.mark.failure(68)
def test_an_older_backup_is_brought_up_to_date_and_stays_as_it_is(
    tmp_path: Path, clock: FakeClock, backup: Path
) -> None:
    make_version_1(backup)
    before = backup.read_bytes()
    elsewhere = Scheduler(tmp_path / "new" / "edgecron.db", clock=clock, must_exist=True)

    done = restore(elsewhere, backup)

    assert elsewhere.schedules()
    elsewhere.close()
    assert (done.contents.version, version_of(elsewhere.path)) == (1, SCHEMA_VERSION)
    assert (backup.read_bytes(), version_of(backup)) == (before, 1)
    assert list(elsewhere.path.parent.iterdir()) == [elsewhere.path]


@pytest.mark.failure(66)
def test_a_backup_with_a_planted_trigger_is_refused_by_its_name(
    scheduler: Scheduler, backup: Path
) -> None:
    scheduler.backup(backup)
    connection = apsw.Connection(str(backup))
    connection.execute("CREATE TRIGGER evil AFTER INSERT ON schedules BEGIN SELECT 1; END")
    connection.close()

    with pytest.raises(DatabaseUnusable, match=r"backup\.db holds the trigger 'evil'"):
        restore(scheduler, backup)

    assert names(scheduler) == ["first"]


@pytest.mark.failure(55)
def test_a_copy_that_lies_beside_its_log_is_refused(scheduler: Scheduler, tmp_path: Path) -> None:
    with Scheduler(tmp_path / "live.db") as live:
        live.add(make_spec("theirs"))

        with pytest.raises(InvalidInput, match="lies beside it"):
            restore(scheduler, tmp_path / "live.db")
