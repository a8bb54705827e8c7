"""A damaged file: whatever is asked of it, one clear line and exit code 5, and never a traceback;
it is left as it is, and doctor says what is wrong with it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

from tests.support.cli import Edgecron, Said
from tests.support.damage import (
    copy_of,
    cut,
    make_past,
    overwrite,
    root_of,
    spoil_free_pages,
    spoil_page,
    spoil_pages,
)

pytestmark = pytest.mark.failure(52)

COMMANDS = [
    ("list",), ("show", "job-1"), ("next",), ("status",), ("history",), ("logs", "job-1"),
    ("why", "job-1"), ("stats",), ("export",), ("add", "new", "--every", "1h", "--", "true"),
    ("edit", "job-1", "--every", "2h"), ("run", "job-1"), ("cancel", "1"), ("pause", "job-1"),
    ("resume", "job-1"), ("reschedule", "job-1", "in 1h"), ("prune",), ("rm", "job-1"),
    ("backfill", "job-1", "1970-01-02", "1970-01-03", "--yes"), ("daemon",),
    ("doctor", "--trust-clock"), ("doctor", "--take-over", "4711", "--yes"),
]  # fmt: skip
FEW = [command for command in COMMANDS if command[0] in ("list", "run", "daemon")]
# What these do is asked for in words of which none is about the database.
OWN_ERRORS = {"cancel": (1, 3, 5), "doctor": (0, 3, 5)}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "sound.db"
    make_past(path)
    return path


@pytest.fixture
def damaged(sound: Path, database: Path) -> Path:
    return copy_of(sound, database)


def write_text(path: Path) -> None:
    path.write_text("dear diary\n" * 200, encoding="utf-8")


UNUSABLE = {
    "its first bytes": lambda path: overwrite(path, 0, b"XXXX"),
    "its page size": lambda path: overwrite(path, 16, b"\x00\x07"),
    "its header": lambda path: overwrite(path, 16, b"\xff" * 84),
    "its encoding": lambda path: overwrite(path, 56, b"\0\0\0\2"),
    "its format": lambda path: overwrite(path, 44, b"\0\0\0\x63"),
    "its size": lambda path: overwrite(path, 28, b"\0\0\0\5"),
    "its schema": lambda path: overwrite(path, 100, b"\xaa" * 900),
    "half of it": lambda path: cut(path, to_bytes=path.stat().st_size // 2),
    "half a page": lambda path: cut(path, to_bytes=path.stat().st_size // 2 + 77),
    "its last page": lambda path: cut(path, to_bytes=path.stat().st_size - 1024),
    "all but a hundred bytes": lambda path: cut(path, to_bytes=100),
    "text": write_text,
    "a line of text": lambda path: path.write_text("dear diary\n", encoding="utf-8"),
}


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("its first bytes", COMMANDS),
        *((name, FEW) for name in UNUSABLE),
        *(pytest.param(name, COMMANDS, marks=pytest.mark.slow) for name in UNUSABLE),
    ],
)
def test_what_can_not_be_opened_is_named_with_the_way_out_and_left_as_it_is(
    edgecron: Edgecron, damaged: Path, name: str, commands: list[tuple[str, ...]]
) -> None:
    UNUSABLE[name](damaged)
    content = damaged.read_bytes()

    said = {command[0]: edgecron(*command) for command in commands}
    doctors = [edgecron("doctor", "--json", *more) for more in ((), ("--deep",))]

    for command, one in said.items():
        assert (command, one.code, one.out) == (command, 5, "")
        assert_clear(one, damaged)
    for doctor in doctors:
        assert doctor.code == 5
        [finding] = [one for one in doctor.json if one["check"] == "database"]
        assert (finding["status"], bool(finding["hint"])) == ("problem", True)
    assert damaged.read_bytes() == content


PARTLY: dict[str, Callable[[Path], object]] = {
    "runs": lambda path: spoil_page(path, root_of(path, "executions")),
    "schedules": lambda path: spoil_page(path, root_of(path, "schedules")),
    "revisions": lambda path: spoil_page(path, root_of(path, "schedule_revisions")),
    "scopes": lambda path: spoil_page(path, root_of(path, "schedule_scopes")),
    "engines": lambda path: spoil_page(path, root_of(path, "engines")),
    "groups": lambda path: spoil_page(path, root_of(path, "groups")),
    "outputs": lambda path: spoil_page(path, root_of(path, "outputs")),
    "numbers": lambda path: spoil_page(path, root_of(path, "sqlite_sequence")),
    "the index of due times": lambda path: spoil_page(path, root_of(path, "schedules_due")),
    "the index of names": lambda path: spoil_page(path, root_of(path, "schedules_by_name")),
    "the index of active runs": lambda path: spoil_page(path, root_of(path, "executions_active")),
    "the index that makes fires unique": lambda path: spoil_page(
        path, root_of(path, "sqlite_autoindex_executions_1")
    ),
    "free pages": spoil_free_pages,
    **{f"noise {seed}": partial(spoil_pages, seed=seed, count=25) for seed in range(3)},
}


@pytest.mark.parametrize(
    ("name", "commands"),
    [
        ("noise 0", COMMANDS[:-3]),
        *((name, FEW[:-1]) for name in PARTLY),
        *(pytest.param(name, COMMANDS[:-3], marks=pytest.mark.slow) for name in PARTLY),
    ],
)
def test_what_is_damaged_in_part_is_never_a_traceback_and_doctor_finds_it(
    edgecron: Edgecron,
    damaged: Path,
    sound: Path,
    tmp_path: Path,
    name: str,
    commands: list[tuple[str, ...]],
) -> None:
    PARTLY[name](damaged)

    doctors = [edgecron("doctor", "--json", *more) for more in ((), ("--deep",))]
    backup = edgecron("backup", str(tmp_path / "backup.db"))
    for command in commands:
        PARTLY[name](copy_of(sound, damaged))
        one = edgecron(*command)
        assert one.code in OWN_ERRORS.get(command[0], (0, 5)), (command, one)
        if one.code == 5:
            assert_clear(one, damaged)

    for doctor in doctors:
        assert doctor.code in (1, 5)
        wrong = [one for one in doctor.json if one["status"] == "problem"]
        assert {one["check"] for one in wrong} & {"integrity", "database"}, wrong
        assert all(one["hint"] for one in wrong)
    assert (backup.code, backup.out) == (5, "")
    assert "damaged" in backup.err
    assert "partial" not in backup.err, "it names a file that is gone"
    assert not (tmp_path / "backup.db").exists()


def test_an_index_that_holds_something_else_is_found_by_a_deep_look(
    edgecron: Edgecron, damaged: Path
) -> None:
    connection = apsw.Connection(str(damaged))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.execute(
        """CREATE INDEX planted ON executions (plan_at);
           PRAGMA writable_schema = ON;
           UPDATE sqlite_schema SET sql = 'CREATE INDEX planted ON executions (schedule_id)'
               WHERE name = 'planted'"""
    )
    connection.close()

    quick, deep = edgecron("doctor", "--json"), edgecron("doctor", "--deep", "--json")

    found = [one for one in deep.json if one["check"] == "integrity"]
    assert (quick.code, deep.code) == (0, 1)
    assert len(found) == 5, "the first few are enough"
    assert {one["status"] for one in found} == {"problem"}
    assert "planted" in found[0]["message"]


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


IN_PLACE: dict[str, Callable[[Path], object]] = {
    "a symbolic link": lambda path: path.symlink_to("precious"),
    "a folder": lambda path: path.mkdir(),
    "a FIFO": lambda path: os.mkfifo(path),
    "a socket": a_socket,
    "a file with 2 hard links": lambda path: os.link(path.with_name("precious"), path),
}


@pytest.mark.failure(63)
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", IN_PLACE)
def test_what_lies_in_the_place_of_a_file_of_sqlite_is_named_and_not_written(
    edgecron: Edgecron, damaged: Path, suffix: str, kind: str
) -> None:
    precious = damaged.with_name("precious")
    precious.write_bytes(b"precious")
    beside = damaged.with_name(f"{damaged.name}{suffix}")
    IN_PLACE[kind](beside)
    content = damaged.read_bytes()

    said = [edgecron(*command) for command in (("list",), ("run", "job-1"), ("daemon",))]
    doctor = edgecron("doctor", "--json")

    for one in said:
        assert (one.code, one.out) == (5, "")
        assert f"{beside} is {kind}\n" in one.err
        assert one.is_plain_error
    assert doctor.code == 5
    assert precious.read_bytes() == b"precious"
    assert damaged.read_bytes() == content


def test_an_empty_file_beside_a_log_is_not_taken_for_a_new_database(
    edgecron: Edgecron, damaged: Path
) -> None:
    log = damaged.with_name(f"{damaged.name}-wal")
    log.write_bytes(b"what was written last")
    cut(damaged, to_bytes=0)

    for command in FEW:
        said = edgecron(*command)
        assert (said.code, said.out) == (5, "")
        assert_clear(said, damaged)

    assert edgecron("doctor").code == 5
    assert (damaged.stat().st_size, log.read_bytes()) == (0, b"what was written last")


@pytest.mark.failure(16)
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_noise_in_a_file_of_sqlite_that_nobody_uses_is_cleared_away(
    edgecron: Edgecron, damaged: Path, suffix: str
) -> None:
    damaged.with_name(f"{damaged.name}{suffix}").write_bytes(os.urandom(40_000))

    said = edgecron("run", "job-1")
    doctor = edgecron("doctor", "--deep", "--json")

    assert said.code == 0
    assert [one["message"] for one in doctor.json if one["check"] == "integrity"] == [
        "no damage found"
    ]


@pytest.mark.failure(63)
@pytest.mark.parametrize("place", ["/dev/null", "/dev/zero"])
def test_a_device_is_no_database(edgecron: Edgecron, place: str) -> None:
    for command in FEW:
        said = edgecron("--db", place, *command)
        assert (said.code, said.out) == (5, "")
        assert "is not a regular file, but a device\nhint: name another file" in said.err


def assert_clear(said: Said, path: Path) -> None:
    """One error in the end, of this database, with what to do next."""
    assert "Traceback" not in said.err
    lines = said.err.splitlines()
    [error] = [line for line in lines if line.startswith("error: ")]
    [hint] = [line for line in lines if line.startswith("hint: ")]
    assert str(path) in error
    assert "restore" in hint
