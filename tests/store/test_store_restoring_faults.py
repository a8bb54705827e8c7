"""A restore where something is in its way: no room, a link, somebody who is quicker."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import (
    AlreadyExists,
    Conflict,
    DatabaseBusy,
    DatabaseFull,
    DatabaseGone,
    DatabaseUnusable,
    EdgecronError,
)
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.client import backup as backup_module
from edgecron.client import restore as restore_module
from edgecron.client.restore import Restored, prepare_restore
from edgecron.engine.state_folder import engine_lock_path, take_engine_lock
from edgecron.model.choices import OnInterrupt
from edgecron.store.sqlite import connection
from edgecron.store.sqlite.connection import BusyWait, Database
from edgecron.supervisor.state_files import prepare_state_dir
from tests.support.clock import FakeClock
from tests.support.places import small_disk
from tests.support.specs import make_spec

MORNING = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
KEY = "0123456789abcdef"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder / "edgecron.db"


@pytest.fixture
def client(path: Path) -> Iterator[Client]:
    with Client(path, clock=FakeClock(MORNING)) as client:
        client.add(make_spec("first", "0 * * * *"))
        yield client


@pytest.fixture
def backup(client: Client, tmp_path: Path) -> Path:
    client.backup(tmp_path / "backup.db")
    client.add(make_spec("later"))
    return tmp_path / "backup.db"


def restore(client: Client, backup: Path) -> Restored:
    with client.restoring(backup) as restoration:
        return restoration.carry_out(skip_missed=False)


def put_in_place(path: Path, backup: Path) -> Restored:
    """Restore where no client has looked before."""
    clock = FakeClock(MORNING)
    with prepare_restore(path, backup, clock=clock, on_progress=lambda *_: None) as restoration:
        return restoration.carry_out(skip_missed=False)


def names(client: Client) -> list[str]:
    return [schedule.name for schedule in client.schedules()]


def let_all_run(path: Path) -> None:
    """Say by hand that what is queued runs."""
    database = Database(path, must_exist=True)
    with database.transaction():
        database.change(
            """INSERT INTO engines (id, key, pid, boot_id, queues, version, started_at)
               VALUES (1, 'key', 1, 'boot', '["command"]', '0.1.0', 0)"""
        )
        database.change(
            """UPDATE executions SET status = 'running', claimed_at = queued_at,
                   lease_token = 'token-' || id, engine_id = 1, started_at = queued_at"""
        )
    database.close()


@pytest.mark.failure(51)
def test_a_disk_that_fills_up_on_the_way_leaves_a_whole_database_or_none(tmp_path: Path) -> None:
    clock, backup = FakeClock(MORNING), tmp_path / "backup.db"
    with Client(tmp_path / "many.db", clock=clock) as many:
        for number in range(150):
            spec = make_spec(f"job{number}", on_interrupt=OnInterrupt.RETRY, retries=3)
            many.add(spec)
            many.run_now(spec.name)
        let_all_run(many.path)
        size_kib = many.backup(backup).size_bytes // 1024

    done = 0
    for room_kib in range(size_kib, 3 * size_kib, 96):
        with small_disk(tmp_path / "disk", kib=room_kib) as disk:
            try:
                put_in_place(disk / "edgecron.db", backup)
            except EdgecronError:
                assert list(disk.iterdir()) == []
                continue
            assert [path.name for path in disk.iterdir()] == ["edgecron.db"]
            (tmp_path / "found.db").write_bytes((disk / "edgecron.db").read_bytes())
        found = apsw.Connection(str(tmp_path / "found.db"))
        assert found.pragma("integrity_check") == "ok"
        assert found.execute("SELECT count(*) FROM executions WHERE attempt = 2").get == 150
        found.close()
        done += 1
    assert done > 0


@pytest.mark.failure(51)
def test_without_room_the_disk_of_the_database_is_named(backup: Path, tmp_path: Path) -> None:
    room_kib = backup.stat().st_size // 1024 + 20

    with small_disk(tmp_path / "disk", kib=room_kib) as disk, pytest.raises(DatabaseFull) as caught:
        put_in_place(disk / "edgecron.db", backup)

    assert caught.value.message == f"no space left to write database {disk}/edgecron.db"


def test_a_database_that_another_program_has_locked_is_not_taken_for_a_damaged_one(
    client: Client, backup: Path, path: Path
) -> None:
    client.close()
    other = apsw.Connection(str(path))
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")

    # Not by way of a client, which waits for longer.
    with pytest.raises(DatabaseBusy, match="is locked by another process"):
        put_in_place(path, backup)

    other.close()
    assert names(client) == ["first", "later"]


def test_what_only_can_not_be_opened_is_not_replaced(
    client: Client, backup: Path, path: Path
) -> None:
    client.close()
    link = path.with_name("link.db")
    link.symlink_to(path)
    foreign = path.with_name("foreign.db")
    other = apsw.Connection(str(foreign))
    other.execute("PRAGMA user_version = 5")
    other.close()
    before = sorted(path.parent.iterdir())

    for place, words in ((link, "is a symbolic link"), (foreign, "belongs to another program")):
        with pytest.raises(DatabaseUnusable, match=words):
            restore(Client(place, clock=FakeClock(MORNING)), backup)

    assert sorted(path.parent.iterdir()) == before
    assert names(client) == ["first", "later"]


class Sudden(FakeClock):
    """A clock at whose reading an engine takes its place."""

    folder: Path | None = None
    held: int | None = None

    def now_ms(self) -> int:
        if self.folder is not None and self.held is None:
            self.held = take_engine_lock(self.folder, KEY)
        return super().now_ms()


def test_an_engine_that_starts_while_the_copy_is_made_ready_is_noticed(
    client: Client, backup: Path, path: Path
) -> None:
    client.close()
    clock = Sudden(MORNING)
    sudden = Client(path, clock=clock)
    folder = prepare_state_dir(state_dir(path))

    with sudden.restoring(backup) as restoration:
        clock.folder = folder
        with pytest.raises(Conflict, match=r"an engine.* is running"):
            restoration.carry_out(skip_missed=False)

    assert clock.held is not None
    os.close(clock.held)
    engine_lock_path(folder, KEY).unlink()
    assert names(client) == ["first", "later"]


class Late(BusyWait):
    """One that finds another file in the place of its own, once it gets the lock."""

    holder: apsw.Connection
    new: Path
    place: Path

    def nap(self, tries_before: int) -> bool:
        if self.new.exists():
            self.new.replace(self.place)
            self.holder.close()
        return super().nap(tries_before)


@pytest.mark.failure(31)
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_who_waited_for_a_file_that_was_replaced_meanwhile_does_not_write_to_it(
    client: Client, backup: Path, path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(connection, "BusyWait", Late)
    client.close()
    Late.holder, Late.new, Late.place = apsw.Connection(str(path)), backup, path
    Late.holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    Late.holder.pragma("journal_mode", mode)
    Late.holder.execute("BEGIN EXCLUSIVE")

    with pytest.raises(DatabaseGone, match="replaced while it was open"):
        Database(path, must_exist=True)

    assert names(client) == ["first"]


def test_a_database_that_comes_up_while_the_copy_is_made_ready_is_not_replaced(
    backup: Path, tmp_path: Path
) -> None:
    clock, place = FakeClock(MORNING), tmp_path / "new.db"
    with prepare_restore(place, backup, clock=clock, on_progress=lambda *_: None) as restoration:
        with Client(place, clock=clock) as other:
            other.add(make_spec("other"))

        with pytest.raises(AlreadyExists):
            restoration.carry_out(skip_missed=False)

    with Client(place, clock=clock) as other:
        assert names(other) == ["other"]


def test_a_database_never_has_a_second_name(
    client: Client, backup: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_killed(*_: Path) -> bool:
        raise OSError(errno.EIO, "killed here")

    monkeypatch.setattr(restore_module, "exchange", be_killed)

    with pytest.raises(OSError, match="killed here"):
        restore(client, backup)

    assert path.stat().st_nlink == 1
    assert names(client) == ["first", "later"]
    client.close()
    assert [found.name for found in path.parent.iterdir()] == ["edgecron.db"]


def test_where_names_can_not_be_exchanged_a_backup_takes_the_place_as_well(
    client: Client, backup: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore_module, "exchange", lambda *_: False)
    monkeypatch.setattr(backup_module, "rename_new", lambda *_: False)

    done = restore(client, backup)
    put_in_place(path.with_name("new.db"), backup)

    assert names(client) == ["first"]
    client.close()
    assert done.aside is not None
    assert sorted(path.parent.iterdir()) == sorted((path, done.aside, path.with_name("new.db")))
    with Client(done.aside, clock=FakeClock(MORNING)) as before:
        assert names(before) == ["first", "later"]


@pytest.mark.failure(5)
@pytest.mark.parametrize("year", [1970, 2099])
def test_a_clock_that_is_wrong_can_not_tell_what_was_missed(
    client: Client, backup: Path, path: Path, year: int
) -> None:
    client.close()
    clock = FakeClock(datetime(year, 1, 1, 0, 5, tzinfo=UTC))
    clock.synchronised = None
    with Client(path, clock=clock) as wrong:
        with (
            pytest.raises(Conflict, match=f"the clock says {year}-01-01T00:05:00Z and can't be"),
            wrong.restoring(backup) as restoration,
        ):
            restoration.carry_out(skip_missed=True)
        assert names(wrong) == ["first", "later"]

        restore(wrong, backup)

        assert names(wrong) == ["first"]


def test_where_there_was_no_database_none_is_made_to_be_set_aside(
    backup: Path, tmp_path: Path
) -> None:
    place = tmp_path / "other" / "new.db"
    with Client(place, clock=FakeClock(MORNING)) as client:
        done = restore(client, backup)

        assert done.aside is None
    assert list(place.parent.iterdir()) == [place]


@pytest.mark.failure(52)
def test_a_damaged_database_keeps_its_log_where_it_can_not_be_replaced(
    client: Client, backup: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Path) -> bool:
        raise OSError(errno.EIO, "failed here")

    client.close()
    path.write_bytes(b"")
    path.with_name("edgecron.db-wal").write_bytes(b"all that is left")
    before = {found.name: found.read_bytes() for found in path.parent.iterdir()}
    monkeypatch.setattr(restore_module, "exchange", fail)

    with pytest.raises(OSError, match="failed here"):
        put_in_place(path, backup)

    assert {found.name: found.read_bytes() for found in path.parent.iterdir()} == before


@pytest.mark.parametrize("has_links", [True, False])
def test_a_database_has_its_one_name_also_where_the_last_step_fails(
    client: Client,
    backup: Path,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_links: bool,
) -> None:
    def fail(*_: object, **__: object) -> Path:
        raise OSError(errno.EIO, "failed here")

    monkeypatch.setattr(restore_module, "exchange", lambda *_: False)
    monkeypatch.setattr(Path, "replace", fail)
    if not has_links:
        monkeypatch.setattr(os, "link", fail)

    with pytest.raises(OSError, match="failed here"):
        restore(client, backup)

    assert path.stat().st_nlink == 1
    assert names(client) == ["first", "later"]
    client.close()
    assert [found.name for found in path.parent.iterdir()] == ["edgecron.db"]
