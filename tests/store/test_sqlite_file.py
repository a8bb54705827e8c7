"""The database file: how it is made, what is refused, and that what is refused is left alone."""

from __future__ import annotations

import gc
import multiprocessing
import os
import select
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import (
    DatabaseBusy,
    DatabaseUnusable,
    EdgecronError,
    NotFound,
    SchemaTooNew,
)
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.database_file import APPLICATION_ID
from edgecron.store.sqlite.store import open_store
from tests.support.places import unwritable_folder

NOW_MS = 1_795_161_600_000
BOUND_S = 60.0
migrate = import_module("edgecron.store.sqlite.migrate")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "edgecron.db"


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def pragma(path: Path, name: str) -> object:
    database = Database(path)
    [(value,)] = database.rows(f"PRAGMA {name}")
    database.close()
    return value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),  # FULL
        ("page_size", 1024),
        ("foreign_keys", 1),
        ("trusted_schema", 0),
        ("temp_store", 2),
        ("application_id", APPLICATION_ID),
        ("user_version", migrate.SCHEMA_VERSION),
        ("integrity_check", "ok"),
    ],
)
def test_a_connection_is_set_up(path: Path, name: str, value: object) -> None:
    open_store(path, now_ms=NOW_MS).close()

    assert pragma(path, name) == value


def test_the_schema_can_not_be_written_by_hand(path: Path) -> None:
    open_store(path, now_ms=NOW_MS).close()
    database = Database(path)

    with database.transaction():
        database.change("PRAGMA writable_schema = ON")

    with pytest.raises(DatabaseUnusable), database.transaction():
        database.change("UPDATE sqlite_schema SET sql = 'x'")
    database.close()


def test_every_table_is_strict(path: Path) -> None:
    open_store(path, now_ms=NOW_MS).close()
    database = Database(path)

    loose = database.rows(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
        " AND NOT strict AND name NOT LIKE 'sqlite_%'"
    )

    assert loose == []
    database.close()


@pytest.mark.failure(62)
@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_files_are_for_their_owner_alone_under_any_umask(tmp_path: Path, mask: int) -> None:
    folder = tmp_path / "made"
    os.umask(mask)

    store = open_store(folder / "edgecron.db", now_ms=NOW_MS)

    store.register_engine(key="k", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
    names = {file.name: mode_of(file) for file in folder.iterdir()}
    assert names == dict.fromkeys(("edgecron.db", "edgecron.db-wal", "edgecron.db-shm"), 0o600)
    assert mode_of(folder) == 0o700
    store.close()


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch(mode=0o600)

    open_store(path, now_ms=NOW_MS).close()

    assert pragma(path, "application_id") == APPLICATION_ID


def test_a_database_in_a_folder_that_is_a_link_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")

    open_store(tmp_path / "link" / "edgecron.db", now_ms=NOW_MS).close()

    assert (tmp_path / "real" / "edgecron.db").stat().st_size > 0


def test_a_link_is_refused_with_the_name_of_its_file(path: Path) -> None:
    path.symlink_to("other.db")

    with pytest.raises(DatabaseUnusable, match="symbolic link") as caught:
        open_store(path, now_ms=NOW_MS)

    assert caught.value.hint == f"name the file it points to: {path.with_name('other.db')}"


def test_a_missing_database_that_must_exist_is_not_made(path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        open_store(path, now_ms=NOW_MS, must_exist=True)

    assert not path.exists()


class Refused:
    """Files that are not to be opened; each returns a word of the message."""

    @staticmethod
    def symbolic_link(path: Path) -> str:
        open_store(path.with_name("other.db"), now_ms=NOW_MS).close()
        path.symlink_to("other.db")
        return "symbolic link"

    @staticmethod
    def dangling_link(path: Path) -> str:
        path.symlink_to("nowhere.db")
        return "symbolic link"

    @staticmethod
    def hard_link(path: Path) -> str:
        open_store(path, now_ms=NOW_MS).close()
        os.link(path, path.with_name("second.db"))
        return "2 hard links"

    @staticmethod
    def folder(path: Path) -> str:
        path.mkdir()
        return "not a regular file"

    @staticmethod
    def fifo(path: Path) -> str:
        os.mkfifo(path)
        return "not a regular file"

    @staticmethod
    def no_database(path: Path) -> str:
        path.write_bytes(b"dear diary\n" * 200)
        return "not a database"

    @staticmethod
    def database_of_another_program(path: Path) -> str:
        other = apsw.Connection(str(path))
        other.execute("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        other.close()
        return "belongs to another program"

    @staticmethod
    def database_with_another_application_id(path: Path) -> str:
        other = apsw.Connection(str(path))
        other.execute("PRAGMA application_id = 7; CREATE TABLE t (x)")
        other.close()
        return "belongs to another program"

    @staticmethod
    def newer_schema(path: Path) -> str:
        open_store(path, now_ms=NOW_MS).close()
        newer = apsw.Connection(str(path))
        newer.execute(f"PRAGMA user_version = {migrate.SCHEMA_VERSION + 1}")
        newer.close()
        return f"is version {migrate.SCHEMA_VERSION + 1}, this edgecron knows up to"

    @staticmethod
    def planted_trigger(path: Path) -> str:
        open_store(path, now_ms=NOW_MS).close()
        hostile = apsw.Connection(str(path))
        hostile.execute(
            """CREATE TRIGGER evil AFTER UPDATE ON schedules BEGIN
                   UPDATE schedules SET job = '["/bin/evil"]' WHERE id = NEW.id; END"""
        )
        hostile.close()
        return "holds the trigger 'evil'"

    @staticmethod
    def trigger_planted_under_the_name_of_ours(path: Path) -> str:
        open_store(path, now_ms=NOW_MS).close()
        hostile = apsw.Connection(str(path))
        hostile.execute(
            """DROP TRIGGER executions_final;
               CREATE TRIGGER executions_final AFTER INSERT ON executions BEGIN
                   UPDATE schedules SET job = '["/bin/evil"]' WHERE id = NEW.schedule_id; END"""
        )
        hostile.close()
        return "holds the trigger 'executions_final', which is not edgecron's"

    @staticmethod
    def corrupt(path: Path) -> str:
        open_store(path, now_ms=NOW_MS).close()
        content = bytearray(path.read_bytes())
        content[100:] = b"\xaa" * (len(content) - 100)
        path.write_bytes(content)
        return "damaged or not a database"


REFUSED = [
    pytest.param(Refused.symbolic_link, marks=pytest.mark.failure(63)),
    pytest.param(Refused.dangling_link, marks=pytest.mark.failure(63)),
    pytest.param(Refused.hard_link, marks=pytest.mark.failure(63)),
    Refused.folder,
    Refused.fifo,
    Refused.no_database,
    Refused.database_of_another_program,
    Refused.database_with_another_application_id,
    pytest.param(Refused.newer_schema, marks=pytest.mark.failure(69)),
    pytest.param(Refused.planted_trigger, marks=pytest.mark.failure(66)),
    pytest.param(Refused.trigger_planted_under_the_name_of_ours, marks=pytest.mark.failure(66)),
    pytest.param(Refused.corrupt, marks=pytest.mark.failure(52)),
]


@pytest.mark.parametrize("make", REFUSED)
def test_what_can_not_be_trusted_is_refused_and_left_as_it_is(path: Path, make: object) -> None:
    assert callable(make)
    message = make(path)
    before = contents(path.parent)

    with pytest.raises(DatabaseUnusable, match=message) as caught:
        open_store(path, now_ms=NOW_MS)

    assert str(path) in caught.value.message
    assert contents(path.parent) == before


def test_a_newer_schema_has_an_error_of_its_own(path: Path) -> None:
    Refused.newer_schema(path)

    with pytest.raises(SchemaTooNew) as caught:
        open_store(path, now_ms=NOW_MS)

    assert caught.value.hint == "upgrade edgecron"


def test_nothing_is_written_once_the_schema_is_newer_than_its_program(path: Path) -> None:
    store = open_store(path, now_ms=NOW_MS)
    Refused.newer_schema(path)

    with pytest.raises(SchemaTooNew):
        store.register_engine(key="late", pid=1, boot_id="boot", queues=("command",), now_ms=NOW_MS)

    assert store.find_engines() == []
    store.close()


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        file.name: file.read_bytes() if file.is_file() else None
        for file in folder.iterdir()
        if not file.name.endswith(("-wal", "-shm"))
    }


@pytest.mark.failure(54)
@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p", "vboxsf", "beegfs"])
def test_a_network_file_system_is_refused_and_nothing_is_made_there(
    tmp_path: Path, kind: str
) -> None:
    share = tmp_path / "my share"
    share.mkdir()
    mounts = tmp_path / "mountinfo"
    escaped = str(share).replace(" ", "\\040")
    mounts.write_text(
        "22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
        f"99 22 0:50 / {escaped} rw,relatime shared:9 - {kind} server:/x rw\n",
        encoding="utf-8",
    )

    with pytest.raises(DatabaseUnusable, match=rf"network file system \({kind}\)"):
        Database(share / "sub" / "edgecron.db", mounts=mounts)
    beside = Database(tmp_path / "edgecron.db", mounts=mounts)

    beside.close()
    assert list(share.iterdir()) == []


def test_a_system_without_a_table_of_mounts_is_believed(tmp_path: Path) -> None:
    Database(tmp_path / "edgecron.db", mounts=tmp_path / "missing").close()

    assert (tmp_path / "edgecron.db").exists()


def test_a_place_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DatabaseUnusable, match="can't be reached"):
        open_store(tmp_path / "file" / "edgecron.db", now_ms=NOW_MS)


def test_a_folder_that_is_not_ours_to_write_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnusable, match="can't be made"):
        open_store(unwritable_folder(tmp_path) / "edgecron.db", now_ms=NOW_MS)


@pytest.mark.failure(24)
def test_a_lock_that_another_program_holds_is_waited_for_and_then_named(path: Path) -> None:
    open_store(path, now_ms=NOW_MS).close()
    foreign = apsw.Connection(str(path))
    foreign.execute("BEGIN IMMEDIATE")
    store = open_store(path, now_ms=NOW_MS, busy_wait_s=0.05)

    with pytest.raises(DatabaseBusy, match="locked by another process"):
        store.register_engine(key="k", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)

    foreign.execute("ROLLBACK")
    store.register_engine(key="k", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
    assert len(store.find_engines()) == 1
    store.close()
    foreign.close()


@pytest.mark.failure(68)
def test_a_migration_that_fails_half_way_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = migrate.read_sql

    def broken(*name: str) -> str:
        return whole(*name) + "\nINSERT INTO nowhere VALUES (1);"

    monkeypatch.setattr(migrate, "read_sql", broken)
    with pytest.raises(DatabaseUnusable):
        open_store(path, now_ms=NOW_MS)

    database = Database(path)
    assert database.rows("SELECT name FROM sqlite_schema") == []
    assert database.rows("PRAGMA user_version") == [(0,)]
    database.close()
    monkeypatch.undo()
    open_store(path, now_ms=NOW_MS).close()


def _open_and_register(path: Path, number: int, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    store = open_store(path, now_ms=NOW_MS)
    store.register_engine(key=f"k{number}", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
    store.close()


def test_eight_processes_can_make_the_same_database_at_once(path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(8)
    processes = [
        context.Process(target=_open_and_register, args=(path, number, barrier))
        for number in range(8)
    ]

    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert [process.exitcode for process in processes] == [0] * 8
    store = open_store(path, now_ms=NOW_MS)
    assert len(store.find_engines()) == 8
    store.close()


@pytest.mark.failure(56)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_database_that_was_opened_before_a_fork_is_refused_in_the_child(path: Path) -> None:
    store = open_store(path, now_ms=NOW_MS)
    reader, writer = os.pipe()

    child = os.fork()
    if child == 0:
        told = b"nothing"
        try:
            store.find_schedules()
        except DatabaseUnusable as error:
            told = error.message.encode()
        finally:
            store.close()
            os.write(writer, told)
            os._exit(0)
    os.waitpid(child, 0)

    assert b"was opened before a fork" in os.read(reader, 4096)
    store.register_engine(key="k", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
    assert (path.parent / "edgecron.db-wal").exists()
    store.close()
    os.close(reader)
    os.close(writer)


def in_child(work: Callable[[], object]) -> object:
    """What something comes to in a child that is forked, as text; an error by its words."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        told = "nothing"
        try:
            told = str(work())
        except EdgecronError as error:
            told = error.message
        finally:
            os.write(writer, told.encode())
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        if not select.select([pipe], [], [], BOUND_S)[0]:
            os.kill(child, signal.SIGKILL)
        told = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == 0, "it hung"
    return told


@pytest.fixture
def without_garbage() -> Iterator[None]:
    """Nothing is collected meanwhile: a thread that frees connections which other tests have left
    is in SQLite with what a fork can't know of, and a child would wait for its lock for ever."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def holders(path: Path) -> set[int]:
    """The processes that have a lock of the log's index, as the kernel knows them."""
    inode = os.stat(f"{path}-shm").st_ino
    lines = Path("/proc/locks").read_text().splitlines()
    return {int(line.split()[4]) for line in lines if f":{inode} " in line and "POSIX" in line}


@pytest.mark.failure(56)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_a_child_opens_beside_its_parent_s_has_locks_of_its_own(path: Path) -> None:
    """SQLite would share with it what it takes for its own: the locks of the parent."""
    store = open_store(path, now_ms=NOW_MS)

    def open_own() -> bool:
        own = open_store(path, now_ms=NOW_MS)
        own.register_engine(key="child", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
        return os.getpid() in holders(path)

    assert in_child(open_own) == "True"
    assert [one.key for one in store.find_engines()] == ["child"]
    assert holders(path) == {os.getpid()}
    store.close()


@pytest.mark.failure(56)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.usefixtures("without_garbage")
def test_a_fork_while_a_thread_writes_leaves_the_child_no_lock_that_nobody_lets_go_of(
    path: Path,
) -> None:
    ended = threading.Event()

    def write() -> None:
        store = open_store(path, now_ms=NOW_MS)
        while not ended.is_set():
            store.register_engine(key="parent", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
        store.close()

    def write_too() -> str:
        own = open_store(path, now_ms=NOW_MS, busy_wait_s=10)
        own.register_engine(key="child", pid=1, boot_id="b", queues=(), now_ms=NOW_MS)
        return "written"

    writer = threading.Thread(target=write)
    writer.start()
    try:
        told = [in_child(write_too) for _ in range(10)]
    finally:
        ended.set()
        writer.join()

    assert told == ["written"] * 10


@pytest.mark.failure(56)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.usefixtures("without_garbage")
def test_a_file_that_another_thread_is_in_unseen_at_a_fork_is_refused_in_the_child(
    path: Path,
) -> None:
    """As where the garbage collector frees a cursor."""
    store = open_store(path, now_ms=NOW_MS)
    connection = store.connection
    inside, ended = threading.Event(), threading.Event()

    def hold() -> bool:
        inside.set()
        ended.wait(BOUND_S)
        return False

    def read() -> None:
        connection.set_progress_handler(hold, 1)
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        connection.set_progress_handler(None)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert inside.wait(BOUND_S)
        told = in_child(lambda: open_store(path, now_ms=NOW_MS))
    finally:
        ended.set()
        reader.join()

    assert told == f"database {path} was in use when this process was forked"
    assert store.find_engines() == []
    store.close()


@pytest.mark.failure(56)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_file_that_is_in_a_transaction_at_a_fork_is_refused_in_the_child(path: Path) -> None:
    database = Database(path)

    with database.transaction():
        told = in_child(lambda: Database(path))
    again = in_child(lambda: Database(path).row("SELECT 1"))

    assert told == f"database {path} was in use when this process was forked"
    assert again == "(1,)"
    database.close()


def test_an_sqlite_that_is_too_old_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")

    with pytest.raises(DatabaseUnusable, match=r"SQLite is 3\.51\.2, expected 3\.51\.3 or later"):
        Database(path)

    assert not path.exists()


def test_a_database_that_lost_its_seed_is_refused(path: Path) -> None:
    open_store(path, now_ms=NOW_MS).close()
    damaged = apsw.Connection(str(path))
    damaged.execute("DELETE FROM meta")
    damaged.close()

    with pytest.raises(DatabaseUnusable, match="has no seed"):
        open_store(path, now_ms=NOW_MS)


def test_two_databases_have_two_seeds(tmp_path: Path) -> None:
    one = open_store(tmp_path / "one.db", now_ms=NOW_MS)
    two = open_store(tmp_path / "two.db", now_ms=NOW_MS)

    assert one.seed != two.seed
    assert one.uuid != two.uuid
    assert len(one.seed) == 16
    one.close()
    two.close()
