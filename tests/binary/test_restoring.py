"""The program of the single binary, when the files that it was unpacked to vanish under it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from binary.bundles import Binary, package_files

from support.processes import BOUND_S


@pytest.fixture
def program(tmp_path: Path, pack: ModuleType, launcher: bytes) -> Binary:
    """A single binary that is the real program, in all but its Python."""
    content = pack.packed(package_files(pack), launcher=launcher, version="1.0.0")
    return Binary(tmp_path / "edgecron", content=content, places=tmp_path / "places")


@contextmanager
def engine(program: Binary, database: Path) -> Iterator[subprocess.Popen[str]]:
    """An engine of it that has begun its work."""
    process = program.start("--db", str(database), "daemon", "--log-format", "json")
    try:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["event"] != "engine_started":
            pass
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=BOUND_S)


@pytest.mark.failure(71)
@pytest.mark.parametrize("file", ["there", "replaced"])
def test_an_engine_whose_files_vanish_goes_on_and_puts_them_back(
    program: Binary, tmp_path: Path, file: str
) -> None:
    database = tmp_path / "edgecron.db"
    program.run("--db", str(database), "add", "job", "--every", "1h", "--", "echo", "done")
    [folder] = program.versions()
    with engine(program, database):
        shutil.rmtree(program.places)
        if file == "replaced":
            # An upgrade: who starts it anew has another version, the engine its own.
            program.path.rename(tmp_path / "kept")
        other = program.path if file == "there" else tmp_path / "kept"

        # Its first command: the supervisor, and half of the engine, are not loaded before.
        asked = subprocess.run(
            [other, "--db", database, "run", "job", "--wait"],
            env=program.environment(EDGECRON_UNPACK_DIR=str(tmp_path / "others")),
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )

        assert (asked.returncode, asked.stdout) == (0, "done\n")
        assert program.versions() == [folder]
        fd = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(fd)


@pytest.mark.failure(38)
@pytest.mark.failure(64)
def test_a_job_has_no_descriptor_and_no_variable_of_the_bundle(
    program: Binary, tmp_path: Path
) -> None:
    database = tmp_path / "edgecron.db"
    line = "ls /proc/self/fd | wc -l; env"
    program.run("--db", str(database), "add", "job", "--every", "1h", "--shell", line)

    with engine(program, database):
        said = program.run("--db", str(database), "run", "job", "--wait", LD_LIBRARY_PATH="/x")

    count, *variables = said.stdout.splitlines()
    assert count == "4", "0, 1, 2, and that of ls itself"
    assert not any(
        line.startswith(("LD_", "_PYI", "_EDGECRON", "PYTHON", "EDGECRON_UNPACK"))
        for line in variables
    )


@pytest.mark.failure(18)
def test_a_supervisor_keeps_the_folder_in_use_when_its_engine_is_gone(
    program: Binary, tmp_path: Path
) -> None:
    database, way = tmp_path / "edgecron.db", tmp_path / "way"
    os.mkfifo(way)
    line = f"read go <{way}"
    program.run("--db", str(database), "add", "job", "--every", "1h", "--shell", line)
    with engine(program, database) as running:
        program.run("--db", str(database), "run", "job")
        way_fd = os.open(way, os.O_WRONLY)  # The job is there.
        running.kill()
        running.wait()

    said = program.run("self", "--json")

    os.close(way_fd)
    _, folder = json.loads(said.stdout)
    assert folder["is_current"]
    # This Python's own file is what runs, so no pid is found by it; the lock tells.
    fd = os.open(folder["path"], os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)
