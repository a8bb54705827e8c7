"""The program of the single binary, when the files that it was unpacked to vanish under it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

import pytest

from tests.binary.bundles import Binary, package_files
from tests.support.processes import BOUND_S

# It has loaded little when it is told to go on.
LATE = """
import fcntl, os
from edgecron.base.bundle import settle, watch
bundle = settle(os.environ, folder=os.path.dirname(sys.executable))
watch(bundle)
if sys.argv[1] == ":try":
    sys.exit()
print("ready", flush=True)
sys.stdin.readline()
open(bundle.folder + "/_internal/edgecron/tui/dashboard.tcss").close()
import edgecron.formats.crontab
print("read, imported")
fd = os.open(bundle.folder, os.O_RDONLY)
try:
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("locked")
"""

# It starts another one of itself when it is told to.
AGAIN = """
import os, subprocess
from edgecron.base.bundle import settle
bundle = settle(os.environ, folder=os.path.dirname(sys.executable))
if sys.argv[1] == "again":
    print("the same", bundle.has_file)
elif sys.argv[1] != ":try":
    start = bundle.start("again")
    print("ready", flush=True)
    sys.stdin.readline()
    subprocess.run(
        start.argv, executable=start.executable, pass_fds=start.pass_fds, check=True
    )
"""


@pytest.fixture
def program(tmp_path: Path, pack: ModuleType, launcher: bytes) -> Binary:
    """A single binary that is the real program, in all but its Python."""
    content = pack.packed(package_files(pack), launcher=launcher, version="1.0.0", level=1)
    return Binary(tmp_path / "edgecron", content=content, places=tmp_path / "places")


def _vanish(folder: Path) -> None:
    """At once: else what is being removed is put back meanwhile."""
    shutil.rmtree(folder.rename(folder.parent / "gone"))


def _ask(program: Binary, database: Path, *, places: Path) -> subprocess.CompletedProcess[str]:
    words = ("--db", str(database), "run", "job", "--wait")
    return program.run(*words, EDGECRON_UNPACK_DIR=str(places))


def _end_supervisor(program: Binary, database: Path) -> None:
    """As the kernel does where memory is short."""
    for journal in Path(f"{database}.state").glob("supervisor-*.lock"):
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                opened = {os.readlink(fd) for fd in (process / "fd").iterdir()}
                if any(str(journal) in path for path in opened):
                    os.kill(int(process.name), signal.SIGKILL)


def _is_used(folder: Path) -> bool:
    fd = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@contextmanager
def engine(program: Binary, database: Path) -> Iterator[subprocess.Popen[str]]:
    """An engine of it that has begun its work."""
    process = program.start("--db", str(database), "daemon", "--log-format", "json")
    try:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=BOUND_S)


@pytest.mark.failure(71)
def test_an_engine_whose_files_vanish_goes_on_and_its_next_supervisor_puts_them_back(
    program: Binary, tmp_path: Path
) -> None:
    database = tmp_path / "edgecron.db"
    program.run("--db", str(database), "add", "job", "--every", "1h", "--", "echo", "done")
    [folder] = program.versions()
    with engine(program, database):
        _vanish(program.places)

        # From a place of its own, so that what comes back is the engine's doing.
        asked = _ask(program, database, places=tmp_path / "others")
        _end_supervisor(program, database)
        again = _ask(program, database, places=tmp_path / "others")

        assert (asked.returncode, asked.stdout) == (0, "done\n")
        assert (again.returncode, again.stdout) == (0, "done\n")
        assert program.versions() == [folder]
        assert _is_used(folder)


@pytest.mark.failure(71)
@pytest.mark.parametrize("file", ["there", "replaced", "removed"])
@pytest.mark.parametrize("gone", ["all", "some"])
def test_what_is_first_needed_after_the_files_vanished_is_put_back(
    tmp_path: Path, pack: ModuleType, launcher: bytes, file: str, gone: str
) -> None:
    content = pack.packed(
        package_files(pack, entry=LATE), launcher=launcher, version="1.0.0", level=1
    )
    program = Binary(tmp_path / "edgecron", content=content, places=tmp_path / "places")
    running = program.start("late")
    assert running.stdout is not None
    running.stdout.readline()
    [folder] = program.versions()
    if gone == "all":
        _vanish(program.places)
    else:
        _vanish(folder / "_internal" / "edgecron" / "formats")
        (folder / "_internal" / "edgecron" / "tui" / "dashboard.tcss").unlink()
    if file != "there":
        program.path.unlink()
    if file == "replaced":
        program.path.write_text("another version")

    said, error = running.communicate("go\n", timeout=BOUND_S)

    assert (said, error) == ("read, imported\nlocked\n", "")
    assert program.versions() == [folder]


@pytest.mark.parametrize("file", ["there", "replaced", "removed"])
def test_it_starts_itself_again_as_it_is_whatever_stands_in_its_place_by_then(
    tmp_path: Path, pack: ModuleType, launcher: bytes, file: str
) -> None:
    content = pack.packed(
        package_files(pack, entry=AGAIN), launcher=launcher, version="1.0.0", level=1
    )
    program = Binary(tmp_path / "edgecron", content=content, places=tmp_path / "places")
    running = program.start("first")
    assert running.stdout is not None
    running.stdout.readline()
    if file != "there":
        program.path.unlink()
    if file == "replaced":
        program.path.write_text("#!/bin/sh\necho another version\n")
        program.path.chmod(0o755)

    said, error = running.communicate("go\n", timeout=BOUND_S)

    assert (said, error) == (f"the same {file == 'there'}\n", "")


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

    is_used = _is_used(program.versions()[0])
    os.close(way_fd)
    _, folder = json.loads(said.stdout)
    assert folder["is_current"]
    # What runs is this Python's own file, so no process is found by it; the lock tells.
    assert is_used
