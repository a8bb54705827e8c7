"""The log of a database deleted under whoever uses it: noticed, saved, and never two of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import DatabaseGone, LogLost
from edgecron.base.paths import state_dir
from edgecron.store.sqlite import database_file
from edgecron.store.sqlite.store import SqliteStore, open_store

pytestmark = pytest.mark.failure(53)

LOCKS = database_file.LOCKS
NOW_MS = 1_795_161_600_000
# Has a database open until its stdin ends; `foreign`: and writes to it, as other programs do.
HOLDER = """
import sys
import apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
if sys.argv[2] == "reader within":
    connection.execute("BEGIN; SELECT 1 FROM sqlite_schema").fetchall()
if sys.argv[2] == "foreign":
    connection.execute("UPDATE meta SET created_by = 'foreign'")
print("ready", flush=True)
sys.stdin.read()
"""
LOST = [("-wal",), ("-shm",), ("-wal", "-shm")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "edgecron.db"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def store(path: Path, stack: ExitStack) -> SqliteStore:
    """An engine's store, with something in its log."""
    store = open_store(path, now_ms=NOW_MS)
    stack.callback(store.close)
    store.tidy()
    register(store, "first")
    return store


def register(store: SqliteStore, key: str) -> int:
    return store.register_engine(key=key, pid=1, boot_id="b", queues=(), now_ms=NOW_MS)


def lose(path: Path, suffixes: tuple[str, ...]) -> None:
    for suffix in suffixes:
        path.with_name(f"{path.name}{suffix}").unlink()


def hold(path: Path, stack: ExitStack, *, kind: str = "reader") -> subprocess.Popen[bytes]:
    """Somebody who has the database open, beside an engine's files."""
    folder = state_dir(path)
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "engine-1.lock").touch(mode=0o600)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    stack.callback(holder.communicate)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    return holder


def keys_of(path: Path) -> list[str]:
    """The engines on record, as somebody sees them who opens the database next."""
    store = open_store(path, now_ms=NOW_MS)
    keys = [engine.key for engine in store.find_engines()]
    [(verdict,)] = store.rows("PRAGMA integrity_check")
    store.close()
    assert verdict == "ok"
    return keys


@pytest.mark.parametrize("suffixes", LOST)
def test_nothing_is_written_to_a_log_that_was_deleted(
    store: SqliteStore, path: Path, suffixes: tuple[str, ...]
) -> None:
    lose(path, suffixes)

    with pytest.raises(LogLost, match="was deleted while it was open"):
        register(store, "second")
    with pytest.raises(LogLost):
        _ = store.change_mark

    assert [engine.key for engine in store.find_engines()] == ["first"]


@pytest.mark.parametrize("suffixes", LOST)
def test_what_lay_in_it_is_saved_and_the_store_goes_on(
    store: SqliteStore, path: Path, suffixes: tuple[str, ...]
) -> None:
    lose(path, suffixes)

    is_mended = store.mend()
    is_mended_again = store.mend()
    store.tidy()
    register(store, "second")
    store.close()

    assert (is_mended, is_mended_again) == (True, False)
    assert keys_of(path) == ["first", "second"]


@pytest.mark.parametrize("suffixes", LOST)
def test_nobody_opens_a_database_whose_log_was_deleted_under_somebody_else(
    store: SqliteStore, path: Path, stack: ExitStack, suffixes: tuple[str, ...]
) -> None:
    hold(path, stack)
    store.close()
    lose(path, suffixes)

    with pytest.raises(LogLost, match="deleted while pid") as caught:
        open_store(path, now_ms=NOW_MS, busy_wait_s=0.02)

    assert "engine" in str(caught.value.hint)
    assert not path.with_name(f"{path.name}{suffixes[0]}").exists(), "it made another one"


def test_the_kernel_is_not_asked_about_a_database_that_was_closed_in_good_order(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(path, now_ms=NOW_MS).close()
    os.mkfifo(tmp_path / "locks")  # who reads it waits for ever
    monkeypatch.setattr(database_file, "LOCKS", tmp_path / "locks")

    assert keys_of(path) == []


@pytest.mark.parametrize("others", range(3))
def test_what_others_committed_before_it_was_lost_is_a_change_after_it(
    store: SqliteStore, path: Path, stack: ExitStack, others: int
) -> None:
    before = store.change_mark
    for number in range(others):
        other = open_store(path, now_ms=NOW_MS)
        register(other, f"other{number}")
        other.close()
    lose(path, ("-wal", "-shm"))

    store.mend()

    assert store.change_mark != before


def test_it_is_noticed_where_the_kernel_calls_the_device_by_another_number(
    store: SqliteStore,
    path: Path,
    stack: ExitStack,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holder = hold(path, stack)
    store.close()
    lose(path, ("-wal", "-shm"))
    # As on btrfs, where each subvolume has a number of its own for everybody but the kernel.
    locks = Path("/proc/locks").read_text(encoding="ascii")
    other, count = re.subn(rf"(READ +{holder.pid}) [0-9a-f]+:[0-9a-f]+:", r"\1 fffe:ff:", locks)
    assert count
    monkeypatch.setattr(database_file, "LOCKS", tmp_path / "locks")
    (tmp_path / "locks").write_text(other, encoding="ascii")

    with pytest.raises(LogLost, match=f"deleted while pid {holder.pid} has it open"):
        open_store(path, now_ms=NOW_MS, busy_wait_s=0.02)

    # Of another file system, a file that has the same number there.
    (tmp_path / "locks").write_text(other.replace(str(holder.pid), str(os.getpid())), "ascii")
    holder.communicate()
    assert keys_of(path) == ["first"]


class TornTable:
    """The kernel's table of locks, with a line missing in the first four reads."""

    def __init__(self, pid: int) -> None:
        self.reads = 0
        self._pid = pid

    def read_text(self, encoding: str, errors: str) -> str:
        self.reads += 1
        lines = LOCKS.read_text(encoding, errors).splitlines(keepends=True)
        others = "9: POSIX  ADVISORY  WRITE 1 00:01:1 0 EOF\n" * 100
        return others + "".join(
            line for line in lines if self.reads > 4 or f" {self._pid} " not in line
        )


def test_a_lock_is_noticed_that_the_kernel_leaves_out_of_a_long_table(
    store: SqliteStore, path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = hold(path, stack)
    store.close()
    lose(path, ("-wal",))
    table = TornTable(holder.pid)
    monkeypatch.setattr(database_file, "LOCKS", table)

    with pytest.raises(LogLost, match=f"deleted while pid {holder.pid} has it open"):
        open_store(path, now_ms=NOW_MS, busy_wait_s=0)
    assert table.reads == 5

    holder.communicate()
    assert keys_of(path) == ["first"]


@pytest.mark.parametrize("suffixes", LOST)
def test_it_goes_on_once_the_others_have_let_go_too(
    store: SqliteStore, path: Path, stack: ExitStack, suffixes: tuple[str, ...]
) -> None:
    holder = hold(path, stack)
    lose(path, suffixes)

    for _ in range(2):
        with pytest.raises(LogLost):
            store.mend()
        with pytest.raises(LogLost):
            store.find_engines()
    holder.communicate()
    store.mend()
    register(store, "second")

    assert [engine.key for engine in store.find_engines()] == ["first", "second"]


def test_where_another_program_has_begun_another_log_ours_is_not_written_over_it(
    store: SqliteStore, path: Path, stack: ExitStack
) -> None:
    store.move_log()
    register(store, "only in the log")
    lose(path, ("-wal", "-shm"))
    foreign = hold(path, stack, kind="foreign")

    with pytest.raises(LogLost):
        register(store, "second")
    with pytest.raises(DatabaseGone, match="was replaced while it was open"):
        store.mend()
    store.close()
    foreign.communicate()

    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT created_by FROM meta").fetchall()
    rows += connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    assert rows == [("foreign",), ("ok",)]


def test_what_others_have_gone_on_from_by_another_index_is_not_written_over(
    store: SqliteStore, path: Path, stack: ExitStack
) -> None:
    lose(path, ("-shm",))
    foreign = hold(path, stack, kind="foreign")
    lose(path, ("-wal",))

    with pytest.raises(DatabaseGone, match="was replaced while it was open"):
        store.mend()
    store.close()
    foreign.communicate()

    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT created_by FROM meta").fetchall()
    rows += connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    assert rows == [("foreign",), ("ok",)]


@pytest.mark.failure(31)
def test_a_database_that_takes_its_place_while_it_is_saved_is_not_taken_for_it(
    store: SqliteStore, path: Path, stack: ExitStack
) -> None:
    other = path.with_name("other.db")
    open_store(other, now_ms=NOW_MS).close()
    reader = hold(path, stack, kind="reader within")
    register(store, "second")  # To save this, the reader is waited for.

    def replace_meanwhile(tries_before: int) -> bool:
        if other.exists():
            other.replace(path)
            reader.communicate()
        return True

    store.connection.set_busy_handler(replace_meanwhile)
    lose(path, ("-wal", "-shm"))

    with pytest.raises(DatabaseGone):
        store.mend()
    assert not other.exists()


@pytest.mark.failure(31)
def test_who_finds_another_database_in_its_place_is_told_of_the_log_beside_it(
    store: SqliteStore, path: Path
) -> None:
    other = path.with_name("other.db")
    open_store(other, now_ms=NOW_MS).close()
    other.replace(path)

    with pytest.raises(DatabaseGone) as replaced:
        register(store, "second")
    path.unlink()
    with pytest.raises(DatabaseGone) as deleted:
        register(store, "second")

    # SQLite would take the log for that of the new one, and write over it.
    assert "move away the -wal and -shm" in (replaced.value.hint or "")
    assert deleted.value.hint == "put it back, or start again"


def test_it_is_closed_again_harmlessly_where_another_log_is_there_by_then(
    store: SqliteStore, path: Path, stack: ExitStack
) -> None:
    store.close()
    for number in range(4):  # Which take the numbers of the files that have gone.
        path.with_name(f"file{number}").touch()
    other = open_store(path, now_ms=NOW_MS)
    stack.callback(other.close)
    register(other, "second")

    store.close()

    assert [engine.key for engine in other.find_engines()] == ["first", "second"]


def test_a_process_that_ends_saves_the_log_that_was_deleted_under_it(
    store: SqliteStore, path: Path
) -> None:
    lose(path, ("-wal", "-shm"))

    store.close()

    assert keys_of(path) == ["first"]


def test_a_log_that_a_power_cut_took_is_nobody_s_and_holds_nobody_up(path: Path) -> None:
    open_store(path, now_ms=NOW_MS).close()
    path.with_name(f"{path.name}-shm").write_bytes(os.urandom(32_768))
    path.with_name(f"{path.name}-shm").chmod(0o600)

    assert keys_of(path) == []
