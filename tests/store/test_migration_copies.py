"""The copy of an old database: there before anything changes, and never in another's place."""

from __future__ import annotations

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import DatabaseBusy, DatabaseUnusable
from edgecron.store.sqlite.store import open_store
from tests.support.olddatabases import everything, make_version_1, version_of
from tests.support.places import fill, small_disk

NOW_MS = 1_795_200_000_000
migrate = import_module("edgecron.store.sqlite.migrate")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "edgecron.db"


@pytest.fixture
def old(path: Path) -> Path:
    make_version_1(path)
    return path


def migrated(path: Path) -> None:
    open_store(path, now_ms=NOW_MS).close()


def names(path: Path) -> set[str]:
    return {file.name for file in path.parent.iterdir()}


@pytest.mark.failure(68)
@pytest.mark.failure(62)
def test_a_copy_of_before_lies_beside_a_migrated_database(old: Path) -> None:
    before = everything(old)
    mask = os.umask(0o022)

    migrated(old)

    os.umask(mask)
    copy = old.with_name("edgecron.db.v1-backup")
    assert names(old) == {"edgecron.db", copy.name}
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert (version_of(copy), everything(copy)) == (1, before)


@pytest.mark.failure(68)
def test_the_copy_is_a_database_that_can_be_put_back(old: Path) -> None:
    migrated(old)
    store = open_store(old, now_ms=NOW_MS)
    store.register_engine(key="a", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
    store.close()

    old.with_name("edgecron.db.v1-backup").rename(old)
    migrated(old)

    assert len(everything(old)["engines"]) == 1
    assert names(old) == {"edgecron.db", "edgecron.db.v1-backup"}


def test_what_lies_in_the_log_is_in_the_copy(old: Path) -> None:
    other = apsw.Connection(str(old))
    other.wal_autocheckpoint(0)
    other.execute("UPDATE schedules SET description = 'in the log' WHERE id = 1")

    migrated(old)

    other.close()
    [first, *_] = everything(old.with_name("edgecron.db.v1-backup"))["schedules"]
    assert first["description"] == "in the log"


def test_a_new_database_has_no_copy(path: Path) -> None:
    migrated(path)

    assert names(path) == {"edgecron.db"}


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_has_the_name_of_the_copy_stays(old: Path, kind: str) -> None:
    taken = old.with_name("edgecron.db.v1-backup")
    elsewhere = old.with_name("elsewhere")
    if kind == "file":
        taken.write_text("of somebody")
    elif kind == "link":
        taken.symlink_to(elsewhere)
    else:
        taken.mkdir()
    old.with_name("edgecron.db.v1-backup-2").write_text("of another")

    migrated(old)

    third = old.with_name("edgecron.db.v1-backup-3")
    assert version_of(third) == 1
    assert not elsewhere.exists()
    assert kind != "file" or taken.read_text() == "of somebody"
    assert old.with_name("edgecron.db.v1-backup-2").read_text() == "of another"


@pytest.mark.failure(68)
def test_a_copy_that_is_there_from_a_try_before_is_not_made_twice(old: Path) -> None:
    broken = apsw.Connection(str(old))
    broken.execute("UPDATE executions SET schedule_id = 99 WHERE status = 'running'")
    broken.close()

    for _ in range(2):
        with pytest.raises(DatabaseUnusable):
            migrated(old)

    assert names(old) == {"edgecron.db", "edgecron.db.v1-backup"}


def test_what_a_killed_process_left_of_its_copy_is_cleared_away(old: Path) -> None:
    old.with_name("edgecron.db.v1-backup.new").write_text("half of it")

    migrated(old)

    assert names(old) == {"edgecron.db", "edgecron.db.v1-backup"}


def leave_room(disk: Path, size: int) -> Path:
    filler = fill(disk)
    os.truncate(filler, filler.stat().st_size - size)
    return filler


@pytest.mark.failure(51)
@pytest.mark.failure(68)
def test_without_room_for_a_copy_nothing_is_changed(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", kib=256) as disk:
        path = disk / "edgecron.db"
        make_version_1(path)
        before = everything(path)
        leave_room(disk, 60_000)

        with pytest.raises(DatabaseUnusable, match="no space left to copy") as caught:
            migrated(path)
        hint = str(caught.value.hint)
        left = names(path)
        (disk / "filler").unlink()

        assert f"free some space on the disk of {disk}" in hint
        assert left == {"edgecron.db", "filler"}
        assert (version_of(path), everything(path)) == (1, before)


@pytest.mark.failure(51)
@pytest.mark.failure(68)
@pytest.mark.parametrize(
    ("room", "while_"), [(60_000, "copying"), (110_000, "migrating")], ids=lambda value: str(value)
)
def test_room_that_runs_out_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, while_: str
) -> None:
    with small_disk(tmp_path / "disk", kib=512) as disk:
        path = disk / "edgecron.db"
        make_version_1(path)
        before = everything(path)
        filler = disk / "filler"
        look = os.statvfs

        def take_room_after_look(place: Path) -> os.statvfs_result:
            seen = look(place)
            if place == disk:
                monkeypatch.undo()
                leave_room(disk, room)
            return seen

        monkeypatch.setattr(os, "statvfs", take_room_after_look)

        with pytest.raises(DatabaseUnusable, match="no space left"):
            migrated(path)
        left = names(path) - {"edgecron.db", "filler"}
        filler.unlink()

        assert left == ({"edgecron.db.v1-backup"} if while_ == "migrating" else set())
        assert (version_of(path), everything(path)) == (1, before)
        migrated(path)
        assert version_of(path) == migrate.SCHEMA_VERSION


def test_a_copy_belongs_to_whom_the_database_belongs(old: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root upgrades what belongs to others")
    os.chown(old, 4711, 4712)

    migrated(old)

    found = old.with_name("edgecron.db.v1-backup").stat()
    assert (found.st_uid, found.st_gid) == (4711, 4712)


def _open(path: Path, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    migrated(path)


@pytest.mark.failure(68)
def test_of_several_processes_one_migrates_and_the_others_go_on(old: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    processes = [context.Process(target=_open, args=(old, barrier)) for _ in range(4)]

    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert [process.exitcode for process in processes] == [0] * 4
    # SQLite leaves its log if the last two connections close at the same moment.
    assert names(old) - {"edgecron.db-wal", "edgecron.db-shm"} == {
        "edgecron.db",
        "edgecron.db.v1-backup",
    }
    assert version_of(old) == migrate.SCHEMA_VERSION


@pytest.mark.failure(24)
def test_a_lock_that_lasts_is_named_and_nothing_is_copied(old: Path) -> None:
    foreign = apsw.Connection(str(old))
    foreign.execute("BEGIN IMMEDIATE")

    with pytest.raises(DatabaseBusy):
        open_store(old, now_ms=NOW_MS, busy_wait_s=0.05)

    foreign.execute("ROLLBACK")
    foreign.close()
    assert names(old) == {"edgecron.db"}


KILLED = """
    import os
    import signal
    import sys
    from pathlib import Path
    from importlib import import_module
    from edgecron.store.sqlite.connection import Database

    def trace(_cursor, sql, _bindings):
        if sys.argv[2] in sql:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    database = Database(Path(sys.argv[1]))
    database.connection.exec_trace = trace
    import_module("edgecron.store.sqlite.migrate").migrate(database, now_ms=0)
"""


@pytest.mark.failure(68)
@pytest.mark.failure(15)
@pytest.mark.parametrize(
    "statement", ["DROP VIEW", "DROP TABLE schedules", "RENAME TO executions", "COMMIT"]
)
def test_kill_9_half_way_leaves_all_as_it_was(old: Path, statement: str) -> None:
    before = everything(old)

    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(old), statement], check=False
    )

    assert killed.returncode == -signal.SIGKILL
    assert (version_of(old), everything(old)) == (1, before)
    migrated(old)
    assert version_of(old) == migrate.SCHEMA_VERSION
    assert names(old) == {"edgecron.db", "edgecron.db.v1-backup"}


LOADED = """
    import sys
    from pathlib import Path
    from edgecron.store.sqlite.store import open_store

    open_store(Path(sys.argv[1]), now_ms=0)
    heavy = {"importlib.resources", "filecmp", "pkgutil"}
    print(*heavy.intersection(sys.modules))
"""


def test_a_database_that_is_up_to_date_is_opened_without_any_of_this(path: Path) -> None:
    migrated(path)

    loaded = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LOADED), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert loaded.stdout.split() == []
