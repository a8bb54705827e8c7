"""backup and restore, as a person calls them."""

from __future__ import annotations

import fcntl
import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cli import Edgecron
from tests.support.places import small_disk
from tests.support.processes import BOUND_S, Daemon
from tests.support.program import PROGRAM
from tests.support.terminal import on_terminal, read_until

FIELDS = [
    *("file", "database", "taken_at", "size_bytes", "version", "schedules", "runs"),
    *("running", "queued"),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


def test_a_backup_says_what_it_holds_and_where(
    edgecron: Edgecron, backup: str, database: Path, copy: Path
) -> None:
    said = edgecron("backup", str(copy))
    as_json = edgecron("backup", str(copy), "--force", "--json")

    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"backed up 1 schedule and 0 runs to {copy}, ")
    assert said.out.endswith("; nothing is damaged\n")
    [found] = as_json.json
    assert list(found) == FIELDS
    assert (found["file"], found["database"]) == (str(copy), str(database))
    assert found["size_bytes"] == copy.stat().st_size


def test_a_file_that_is_there_has_a_code_of_its_own(
    edgecron: Edgecron, backup: str, copy: Path
) -> None:
    copy.touch()

    said = edgecron("backup", str(copy), "--json")

    assert (said.code, said.error["code"]) == (4, "already_exists")
    assert copy.read_bytes() == b""


def test_without_a_database_there_is_nothing_to_back_up(
    edgecron: Edgecron, database: Path, copy: Path
) -> None:
    said = edgecron("backup", str(copy))

    assert said.code == 3
    assert not copy.exists()
    assert not database.exists()


def test_a_backup_goes_through_a_pipe(backup: str, database: Path, copy: Path) -> None:
    with copy.open("wb") as file:
        done = subprocess.run(
            [*PROGRAM, "--db", str(database), "backup", "-"],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("backed up 1 schedule and 0 runs to stdout, ")
    assert copy.read_bytes().startswith(b"SQLite format 3\0")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_backup_that_nobody_reads_to_its_end_has_failed(
    backup: str, database: Path, unbuffered: str
) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen(
        [*PROGRAM, "--db", str(database), "backup", "-"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writing)

    os.read(reading, 1)
    os.close(reading)
    said = process.communicate(timeout=BOUND_S)[1]

    assert process.returncode == 1
    assert said == "error: the backup is incomplete: its reader closed the pipe\n"
    assert [path.name for path in database.parent.glob(".edgecron-*")] == []


def test_a_backup_without_room_says_so(edgecron: Edgecron, backup: str, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", kib=16) as folder:
        said = edgecron("backup", str(folder / "copy.db"))

        assert said.code == 1
        assert said.err == (
            f"error: the backup can't be written in {folder} (no space left)\n"
            "hint: free some space there, or name another place\n"
        )
        assert list(folder.iterdir()) == []


def test_a_backup_on_stdout_takes_no_json_beside_it(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("backup", "-", "--json")

    assert (said.code, said.error["code"]) == (2, "usage")


@pytest.mark.failure(55)
def test_a_backup_is_made_and_restored_around_a_live_engine(
    edgecron: Edgecron, backup: str, database: Path, copy: Path
) -> None:
    with ExitStack() as stack:
        daemon = Daemon(database)
        stack.callback(daemon.close)
        daemon.wait_for("engine_started")
        edgecron("run", backup)
        daemon.wait_for("ended", schedule=backup)

        done = edgecron("backup", str(copy), "--json")
        refused = edgecron("restore", str(copy), "--yes", "--json")

        assert done.json[0]["runs"] == 1
        assert (refused.code, refused.error["code"]) == (1, "conflict")
        assert f"(pid {daemon.process.pid})" in refused.error["message"]
        assert daemon.stop() == 0
    edgecron("rm", backup)

    restored = edgecron("restore", str(copy), "--yes", "--json")

    assert restored.code == 0, restored.err
    assert restored.json[0]["due"] == []
    assert [row["status"] for row in edgecron("history", backup, "--json").json] == ["success"]
    assert [row["name"] for row in edgecron("list", "--json").json] == [backup]
    with ExitStack() as stack:
        daemon = Daemon(database)
        stack.callback(daemon.close)
        daemon.wait_for("engine_started")
        edgecron("run", backup)
        assert daemon.wait_for("ended", schedule=backup)["status"] == "success"


def test_a_restore_says_what_it_did(edgecron: Edgecron, backup: str, copy: Path) -> None:
    edgecron("backup", str(copy))
    edgecron("pause", backup)

    said = edgecron("restore", str(copy), "--yes")

    assert said.code == 0, said.err
    first, second = said.out.splitlines()
    assert first.startswith("restored 1 schedule and 0 runs to ")
    assert second.startswith("the former database is kept: ")
    assert Path(second.partition(": ")[2]).is_file()
    assert said.err == "start an engine: edgecron daemon\n"
    assert edgecron("list", "--json").json[0]["enabled"]


def test_a_lost_database_is_restored_to_its_path_without_a_question(
    edgecron: Edgecron, backup: str, copy: Path, tmp_path: Path
) -> None:
    edgecron("backup", str(copy))
    lost = tmp_path / "new" / "lost.db"
    lost.parent.mkdir()

    said = edgecron("--db", str(lost), "restore", str(copy))

    assert said.code == 0, said.err
    assert said.out == f"restored 1 schedule and 0 runs to {lost}\n"
    assert [one["name"] for one in edgecron("--db", str(lost), "list", "--json").json] == [backup]


def test_a_backup_that_is_not_there_makes_no_database(
    edgecron: Edgecron, database: Path, copy: Path
) -> None:
    said = edgecron("restore", str(copy))

    assert said.code == 3
    assert f"file '{copy}' does not exist" in said.err
    assert not database.exists()


def test_without_a_terminal_only_yes_replaces_a_database(
    edgecron: Edgecron, backup: str, copy: Path, database: Path
) -> None:
    edgecron("backup", str(copy))
    edgecron("pause", backup)

    said = edgecron("restore", str(copy), "--json")

    assert (said.code, said.error["code"]) == (2, "usage")
    assert not edgecron("list", "--json").json[0]["enabled"]
    assert sorted(database.parent.glob("*.partial")) == []


@pytest.mark.parametrize(("answer", "stays"), [("n", True), ("y", False)])
def test_on_a_terminal_it_says_what_replaces_what_and_asks(
    edgecron: Edgecron, backup: str, copy: Path, database: Path, answer: str, stays: bool
) -> None:
    edgecron("backup", str(copy))
    edgecron("add", "more", "--every", "1h", "--", "true")

    with on_terminal({**os.environ, "COLUMNS": "200"}, "restore", str(copy)) as outer:
        asked = read_until(outer, "[y/N] ")
        os.write(outer, f"{answer}\n".encode())
        read_until(outer, None)

    assert "the backup has 1 schedule and 0 runs" in asked
    assert "the database has 2 schedules and 0 runs" in asked
    names = [row["name"] for row in edgecron("list", "--json").json]
    assert names == ([backup, "more"] if stays else [backup])


@pytest.mark.failure(72)
def test_a_hostile_file_name_reaches_no_terminal(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    hostile = tmp_path / "a\x1b]0;evil\x07\u202eb.db"

    said = edgecron("backup", str(hostile))
    again = edgecron("backup", str(hostile))

    assert hostile.is_file()
    assert not set("\x1b\x07\u202e") & set(said.out + again.err)
