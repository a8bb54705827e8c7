"""What the laboratory takes for possible after a power cut, and what not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import apsw
import pytest

from tests.powerloss.disk import PAGE_BYTES, SECTOR_BYTES, Disk, Image, Loss
from tests.powerloss.recorder import (
    ROOT,
    Create,
    Delete,
    Entry,
    Found,
    MakeFolder,
    Recorder,
    Rename,
    Sync,
    SyncFailed,
    SyncFolder,
    Truncate,
    Write,
    recording,
)
from tests.support.clock import FakeClock

OLD = b"o" * 3 * SECTOR_BYTES
NEW = b"n" * 3 * SECTOR_BYTES
THERE = Found(files={"db": (1, OLD)})
OVERWRITE = Write(file=1, offset=0, content=NEW)


def images(loss: Loss, *entries: Entry) -> list[Image]:
    """What a hundred cuts leave."""
    disk = Disk()
    for entry in entries:
        disk.apply(entry)
    return [disk.image(loss, Random(seed)) for seed in range(100)]


def contents(loss: Loss, *entries: Entry) -> set[bytes]:
    return {image["db"] for image in images(loss, *entries)}


@pytest.mark.parametrize("loss", Loss)
def test_what_was_synced_is_there(loss: Loss) -> None:
    made = Create(name="new", file=2)
    entries: list[Entry] = [THERE, OVERWRITE, Sync(file=1), made, SyncFolder()]

    assert images(loss, *entries) == [{"db": NEW, "new": b""}] * 100


def test_what_was_not_synced_may_be_gone_or_there() -> None:
    longer = Write(file=1, offset=len(OLD), content=b"more")
    entries: list[Entry] = [THERE, longer, Create(name="new", file=2), Truncate(file=1, size=5)]

    assert images(Loss.DROPPED, *entries)[0] == {"db": OLD}
    assert images(Loss.KEPT, *entries)[0] == {"db": OLD[:5], "new": b""}


def test_the_last_write_may_be_torn_anywhere_and_the_one_before_it_is_whole() -> None:
    torn = contents(Loss.TORN, THERE, Write(file=1, offset=0, content=b"first"), OVERWRITE)

    before = b"first" + OLD[5:]
    sizes = {content.count(b"n") for content in torn}
    assert torn == {NEW[:size] + before[size:] for size in sizes}
    assert {SECTOR_BYTES, 2 * SECTOR_BYTES} < sizes
    assert any(size % SECTOR_BYTES for size in sizes)
    assert not sizes & {0, len(NEW)}


def test_sectors_reach_the_disk_each_for_itself() -> None:
    mixed = contents(Loss.REORDERED, THERE, OVERWRITE)

    sectors = {
        tuple(content[at : at + SECTOR_BYTES] for at in range(0, len(OLD), SECTOR_BYTES))
        for content in mixed
    }
    assert len(sectors) == 8
    assert {sector for content in sectors for sector in content} == {
        b"o" * SECTOR_BYTES,
        b"n" * SECTOR_BYTES,
    }


def test_a_file_may_have_grown_without_what_was_written_there() -> None:
    longer = Write(file=1, offset=len(OLD), content=NEW)
    grown = contents(Loss.REORDERED, THERE, longer)

    tails = {content[len(OLD) :] for content in grown}
    holes = {tail for tail in tails if len(tail) == len(NEW) and tail != NEW}
    assert b"" in tails
    assert any(bytes(SECTOR_BYTES) in tail for tail in holes)  # zeros
    assert any(set(tail) - set(b"\0n") for tail in holes)  # what was on the disk before
    assert all(content.startswith(OLD) for content in grown)


def test_a_later_write_may_come_before_an_earlier_one() -> None:
    later = Write(file=1, offset=0, content=b"L" * SECTOR_BYTES)
    found = contents(Loss.REORDERED, THERE, OVERWRITE, later)

    firsts = {content[:1] for content in found}
    assert firsts == {b"o", b"n", b"L"}


def test_names_are_lost_each_for_itself_until_the_folder_is_synced() -> None:
    changes: list[Entry] = [
        *(THERE, Create(name="new", file=2), Delete(name="db"), Create(name="db", file=3)),
    ]
    left = {
        (image.get("db", b"gone") == OLD, "db" in image, "new" in image)
        for image in images(Loss.REORDERED, *changes)
    }

    # The old one, none, or the new one, whose content is not there; with or without the other.
    assert len(left) == 6


def test_a_deleted_file_may_be_there_again() -> None:
    assert images(Loss.DROPPED, THERE, Delete(name="db"))[0] == {"db": OLD}
    assert images(Loss.DROPPED, THERE, Delete(name="db"), SyncFolder())[0] == {}


def test_names_that_change_in_one_step_are_found_all_changed_or_none() -> None:
    exchanged = Rename(changes=(((ROOT, "db"), 2), ((ROOT, "new"), 1)))
    entries: list[Entry] = [THERE, Create(name="new", file=2), SyncFolder(), exchanged]

    left = {(image["db"], image["new"]) for image in images(Loss.REORDERED, *entries)}

    assert left == {(OLD, b""), (b"", OLD)}


def test_a_file_is_found_only_where_its_folder_is() -> None:
    entries: list[Entry] = [
        MakeFolder(name="state", number=5),
        Create(name="journal", file=6, folder=5),
        SyncFolder(folder=5),
    ]

    assert images(Loss.DROPPED, *entries)[0] == {}
    assert images(Loss.DROPPED, *entries, SyncFolder())[0] == {"state/journal": b""}
    assert images(Loss.DROPPED, *entries[:2], SyncFolder())[0] == {}


def test_a_file_of_two_names_has_one_content() -> None:
    linked = Rename(changes=(((ROOT, "other"), 1),))

    for image in images(Loss.REORDERED, THERE, linked, SyncFolder(), OVERWRITE):
        assert image["db"] == image["other"]
        assert image.links == {"other": "db"}


def test_what_a_sync_refused_is_not_brought_by_the_next_one() -> None:
    elsewhere = Write(file=1, offset=4 * PAGE_BYTES, content=b"later")
    refused: list[Entry] = [THERE, OVERWRITE, SyncFailed(file=1), elsewhere, Sync(file=1)]

    assert images(Loss.DROPPED, *refused)[0]["db"].startswith(OLD)
    assert images(Loss.KEPT, *refused)[0]["db"].startswith(NEW)
    # What is written again is, and with it all that lies in its page.
    again = Write(file=1, offset=0, content=b"again")
    left = images(Loss.DROPPED, *refused, again, Sync(file=1))[0]["db"]
    assert left.startswith(b"again" + NEW[5:])


def kinds(entries: Sequence[Entry]) -> list[str]:
    return [type(entry).__name__ for entry in entries]


def test_the_log_holds_what_sqlite_does_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    with recording(FakeClock(), tmp_path) as recorder:
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA synchronous = FULL; CREATE TABLE t (x); INSERT INTO t VALUES(1)")
        connection.close()

    entries = [logged.entry for logged in recorder.log]
    assert entries[:2] == [Create(name="a.db", file=1), Create(name="a.db-journal", file=2)]
    # A journal and its name reach the disk before the database is written.
    written = entries.index(next(e for e in entries if isinstance(e, Write) and e.file == 1))
    assert kinds(entries[written - 4 : written]).count("SyncFolder") == 1
    assert entries[-2:] == [Sync(file=1), Delete(name="a.db-journal")]
    assert_is_whole(recorder, path)


def assert_is_whole(recorder: Recorder, path: Path) -> None:
    """Where nothing is lost, the disk holds what the file holds."""
    disk = Disk()
    for logged in recorder.log:
        disk.apply(logged.entry)
    assert disk.image(Loss.KEPT, Random(0)) == {path.name: path.read_bytes()}


def test_a_file_that_was_there_is_taken_into_the_log(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    before = path.read_bytes()

    with recording(FakeClock(), tmp_path) as recorder:
        connection = apsw.Connection(str(path))
        connection.execute("INSERT INTO t VALUES (1)")
        connection.close()

    assert recorder.log[0].entry == Found(files={"a.db": (1, before)})
    assert_is_whole(recorder, path)


def test_what_python_does_to_files_is_logged_with_it(tmp_path: Path) -> None:
    with recording(FakeClock(), tmp_path) as recorder:
        folder = tmp_path / "state"
        folder.mkdir()
        fd = os.open(folder / "journal", os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.write(fd, b"first ")
        os.write(fd, b"second")
        os.fsync(fd)
        os.ftruncate(fd, 6)
        os.close(fd)
        fd = os.open(folder / "journal", os.O_RDWR)
        os.pwrite(fd, b"FIR", 0)
        os.close(fd)
        with (folder / "journal").open("r+b") as file:
            file.write(b"f")
        (folder / "journal").rename(folder / "renamed")
        os.link(folder / "renamed", tmp_path / "linked")
        (folder / "renamed").unlink()

    entries = [logged.entry for logged in recorder.log]
    [made, created] = entries[:2]
    assert isinstance(made, MakeFolder)
    assert isinstance(created, Create)
    file_number = created.file
    assert created == Create(name="journal", file=file_number, folder=made.number)
    assert entries[2:8] == [
        Write(file=file_number, offset=0, content=b"first "),
        Write(file=file_number, offset=6, content=b"second"),
        Sync(file=file_number),
        Truncate(file=file_number, size=6),
        Write(file=file_number, offset=0, content=b"FIR"),
        Write(file=file_number, offset=0, content=b"f"),
    ]
    assert_is_whole(recorder, tmp_path / "linked")


def test_after_the_recording_databases_are_opened_as_ever(tmp_path: Path) -> None:
    with recording(FakeClock(), tmp_path) as recorder:
        pass

    connection = apsw.Connection(str(tmp_path / "a.db"))
    vfs = connection.open_vfs
    connection.close()

    assert vfs != "powerloss"
    assert recorder.log == []
