"""Backups: whole, of one moment, made while others write; and nothing else gets the name."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import (
    AlreadyExists,
    DatabaseUnusable,
    EdgecronError,
    InvalidInput,
    NotFound,
)
from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.sqlite.copies import read_copy
from tests.support.clock import FakeClock
from tests.support.places import fill, small_disk
from tests.support.specs import make_spec


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 11, 20, 8, 0, tzinfo=UTC))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder / "edgecron.db"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backup.db"


@pytest.fixture
def client(path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(path, clock=clock) as client:
        client.add(make_spec("first"))
        yield client


def grow(client: Client) -> None:
    """Make the database some megabytes large: more than one step copies."""
    job = Job(kind=JobKind.COMMAND, argv=("/bin/true",), payload="x" * 20_000)
    client.add_all(
        [ScheduleSpec(name=f"big{n}", triggers=("0 0 * * *",), job=job) for n in range(200)]
    )


def names(path: Path) -> list[str]:
    """The schedules in a file that nobody uses."""
    connection = apsw.Connection(str(path))
    found = [str(row[0]) for row in connection.execute("SELECT name FROM schedules ORDER BY id")]
    connection.close()
    return found


def test_a_backup_is_one_plain_private_file(client: Client, target: Path, tmp_path: Path) -> None:
    before = os.umask(0o000)
    try:
        done = client.backup(target)
    finally:
        os.umask(before)

    assert sorted(tmp_path.iterdir()) == [target, tmp_path / "home"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert done.path == target
    assert done.size_bytes == target.stat().st_size
    assert (done.contents.schedules, done.contents.runs) == (1, 0)
    assert target.read_bytes()[18:20] == b"\x01\x01"  # no write-ahead log is needed to read it
    assert names(target) == ["first"]


@pytest.mark.failure(55)
def test_a_copy_of_the_file_alone_lacks_what_the_backup_has(
    client: Client, path: Path, target: Path, tmp_path: Path
) -> None:
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM meta").fetchall()
    client.add(make_spec("second"))
    # By another process: to open and close the file here would drop SQLite's locks.
    subprocess.run(["cp", str(path), str(tmp_path / "copy.db")], check=True)

    client.backup(target)

    reader.close()
    assert names(target) == ["first", "second"]
    with pytest.raises((AssertionError, apsw.Error)):
        assert names(tmp_path / "copy.db") == ["first", "second"]


def test_who_writes_meanwhile_is_not_held_up_and_not_in_it(
    client: Client, path: Path, target: Path, clock: FakeClock
) -> None:
    grow(client)
    steps: list[tuple[int, int]] = []

    def write(done: int, count: int) -> None:
        steps.append((done, count))
        with Client(path, clock=clock) as other:
            other.add(make_spec(f"meanwhile{len(steps)}"))

    done = client.backup(target, on_progress=write)

    assert len(steps) > 3
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert steps[-1][0] == steps[-1][1]
    assert done.contents.schedules == 201
    assert not [name for name in names(target) if name.startswith("meanwhile")]
    assert len(client.schedules()) == 201 + len(steps)


def test_a_folder_gets_a_dated_name_and_a_name_the_date(client: Client, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()

    in_folder = client.backup(tmp_path / "kept")
    again = client.backup(tmp_path / "kept", replace=True)
    dated = client.backup(tmp_path / "kept" / "b-{date}.sqlite")

    assert in_folder.path == tmp_path / "kept" / "edgecron-20261120T080000Z.db"
    # Another one of that second takes nothing from it.
    assert again.path == tmp_path / "kept" / "edgecron-20261120T080000Z-2.db"
    assert in_folder.path.exists()
    assert dated.path == tmp_path / "kept" / "b-20261120T080000Z.sqlite"


@pytest.mark.parametrize("replace", [False, True])
def test_two_backups_of_one_second_at_once_into_a_folder_are_two_files(
    client: Client, clock: FakeClock, tmp_path: Path, replace: bool
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "other").mkdir()
    made: list[Path | None] = []

    def make_another(_: int, __: int) -> None:
        if not made:
            with Client(tmp_path / "other" / "edgecron.db", clock=clock) as other:
                other.add(make_spec("other"))
                made.append(other.backup(tmp_path / "kept", replace=replace).path)

    done = client.backup(tmp_path / "kept", replace=replace, on_progress=make_another)

    assert made == [tmp_path / "kept" / "edgecron-20261120T080000Z.db"]
    assert done.path == tmp_path / "kept" / "edgecron-20261120T080000Z-2.db"
    for path, name in ((made[0], "other"), (done.path, "first")):
        assert path is not None
        with Client(path) as copy:
            assert [one.spec.name for one in copy.schedules()] == [name]


def test_a_file_that_is_there_is_replaced_only_where_that_is_said(
    client: Client, target: Path
) -> None:
    target.write_text("precious")

    with pytest.raises(AlreadyExists):
        client.backup(target)
    assert target.read_text() == "precious"

    client.backup(target, replace=True)
    assert names(target) == ["first"]


@pytest.mark.parametrize("name", ["edgecron.db", "edgecron.db-wal", "edgecron.db-shm"])
def test_the_database_is_never_its_own_backup(
    client: Client, path: Path, name: str, tmp_path: Path
) -> None:
    around = tmp_path / "around"
    around.symlink_to(path.parent)

    for target in (path.with_name(name), around / name):
        with pytest.raises(InvalidInput, match="is the database itself"):
            client.backup(target, replace=True)

    assert [schedule.name for schedule in client.schedules()] == ["first"]


@pytest.mark.failure(63)
def test_links_to_the_database_and_elsewhere_are_refused(
    client: Client, path: Path, tmp_path: Path
) -> None:
    client.close()  # A second name would be refused when it is opened.
    link, symlink, other = tmp_path / "hard.db", tmp_path / "soft.db", tmp_path / "other.db"
    symlink.symlink_to(path)
    other.symlink_to(tmp_path / "elsewhere")
    os.link(path, link)

    for target, words in (
        (link, "is the database itself"),
        (symlink, "is the database itself"),
        (other, "is a symbolic link"),
    ):
        with pytest.raises(InvalidInput, match=words):
            client.backup(target, replace=True)


def test_what_looks_like_a_database_in_use_is_not_replaced(client: Client, target: Path) -> None:
    with Client(target) as other:
        other.add(make_spec("theirs"))

        with pytest.raises(InvalidInput, match=" exists"):
            client.backup(target, replace=True)

    target.with_name(f"{target.name}.state").mkdir()
    with pytest.raises(InvalidInput, match="is the database of an engine"):
        client.backup(target, replace=True)
    assert names(target) == ["theirs"]


def test_a_folder_that_is_not_there_is_said(client: Client, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        client.backup(tmp_path / "nowhere" / "b.db")


@pytest.mark.failure(52)
def test_of_a_damaged_database_no_backup_is_made_and_the_earlier_one_stays(
    client: Client, path: Path, target: Path, tmp_path: Path
) -> None:
    grow(client)
    client.backup(target)
    client.close()
    with path.open("r+b") as file:  # Nobody has it open.
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 4096)

    with pytest.raises(DatabaseUnusable, match="damaged"):
        client.backup(target, replace=True)

    assert names(target)[0] == "first"
    assert sorted(tmp_path.iterdir()) == [target, tmp_path / "home"]


@pytest.mark.failure(51)
def test_a_full_disk_keeps_the_earlier_backup(client: Client, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", kib=2048) as disk:
        client.backup(disk / "b.db")
        grow(client)
        fill(disk)

        with pytest.raises(EdgecronError, match="can't be written"):
            client.backup(disk / "b.db", replace=True)

        assert sorted(path.name for path in disk.iterdir()) == ["b.db", "filler"]
        assert names(disk / "b.db") == ["first"]


def test_an_interrupted_backup_leaves_nothing(client: Client, target: Path, tmp_path: Path) -> None:
    def interrupt(done: int, count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.backup(target, on_progress=interrupt)

    assert list(tmp_path.iterdir()) == [tmp_path / "home"]


def test_what_a_killed_backup_left_is_cleared_away_and_one_at_work_is_not(
    client: Client, target: Path, tmp_path: Path
) -> None:
    dead, alive = tmp_path / ".edgecron-1.partial", tmp_path / ".edgecron-2.partial"
    dead.write_text("half")
    with alive.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        client.backup(target)

        assert not dead.exists()
        assert alive.exists()


@pytest.mark.failure(63)
def test_what_others_have_put_where_backups_go_neither_holds_us_up_nor_leads_us_on(
    client: Client, target: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / ".edgecron-0.partial")
    alive, planted = tmp_path / ".edgecron-2.partial", tmp_path / ".edgecron-*.partial"
    planted.touch()
    with alive.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        client.backup(target)

        assert alive.exists()
    assert names(target) == ["first"]


def test_a_backup_can_be_sent_elsewhere(client: Client, path: Path, target: Path) -> None:
    with target.open("wb") as file:
        done = client.write_backup(file.write)

    assert done.path is None
    assert read_copy(target, shown=target) == done.contents
    assert [path.name for path in path.parent.iterdir() if path.suffix == ".partial"] == []


def test_a_backup_of_a_newer_schema_is_made_as_it_is(
    client: Client, path: Path, target: Path
) -> None:
    client.close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 999")
    connection.close()

    done = client.backup(target)

    assert done.contents.version == 999


def test_a_database_of_another_program_is_not_backed_up(target: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE t (a)")
    connection.close()

    with pytest.raises(DatabaseUnusable, match="belongs to another program"):
        Client(other, must_exist=True).backup(target)


def test_a_missing_database_is_not_made_by_its_backup(tmp_path: Path, target: Path) -> None:
    with pytest.raises(NotFound):
        Client(tmp_path / "none.db", must_exist=True).backup(target)

    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_links_does_as_well(
    client: Client, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)

    client.backup(target)

    assert names(target) == ["first"]
