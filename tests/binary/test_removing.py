"""`edgecron self remove`: by which word, of what, and what is left of it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from tests.binary.bundles import Binary, package_files, wait_for_lock
from tests.support.processes import BOUND_S
from tests.support.terminal import process_of_terminal, read_until
from tests.support.tools import private_mounts


@pytest.fixture
def program(tmp_path: Path, pack: ModuleType, launcher: bytes) -> Binary:
    """A single binary that is the real program, in all but its Python, in a folder of its own."""
    content = pack.packed(package_files(pack), launcher=launcher, version="1.0.0", level=1)
    folder = tmp_path / "bin"
    folder.mkdir()
    made = Binary(folder / "edgecron", content=content, places=tmp_path / "places")
    made.run("--version")
    return made


def is_whole(program: Binary) -> bool:
    return program.path.exists() and len(program.versions()) == 1


def test_it_is_removed_with_all_that_it_has_unpacked(program: Binary) -> None:
    [folder] = program.versions()

    said = program.run("self", "remove", "--yes")

    assert said.returncode == 0, said.stderr
    assert f"removed {folder}" in said.stdout
    assert f"removed {program.path}\n" in said.stdout
    assert not program.path.exists()
    # The place itself was named by somebody.
    assert list(program.places.iterdir()) == []


def test_a_program_is_told_what_was_removed(program: Binary) -> None:
    [folder] = program.versions()

    said = program.run("self", "remove", "--yes", "--json")

    binary, unpacked = json.loads(said.stdout)
    assert (binary["kind"], binary["path"]) == ("binary", str(program.path))
    assert (unpacked["kind"], unpacked["path"]) == ("folder", str(folder))
    assert binary["is_removed"]
    assert unpacked["is_removed"]
    assert not program.path.exists()


@pytest.mark.parametrize("name", ["_internal/edgecron/cli/self_.py", "_internal/entry.py"])
def test_it_is_removed_also_where_its_own_files_have_wrong_bytes(
    program: Binary, name: str
) -> None:
    [folder] = program.versions()
    (folder / name).write_bytes(bytes((folder / name).stat().st_size))

    said = program.run("self", "remove", "--yes")

    assert said.returncode == 0, said.stderr
    assert not program.path.exists()
    assert list(program.places.iterdir()) == []


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_without_a_terminal_it_asks_for_yes_and_does_nothing(
    program: Binary, words: tuple[str, ...]
) -> None:
    said = program.run("self", "remove", *words)

    assert said.returncode == 2
    assert "there is no terminal to ask on" in said.stderr
    assert "--yes" in said.stderr
    assert is_whole(program)


@pytest.mark.parametrize("answer", ["y", "yes", "n", "", "yesterday"])
def test_on_a_terminal_it_asks_and_names_what_would_go(program: Binary, answer: str) -> None:
    [folder] = program.versions()
    command = [str(program.path), "self", "remove"]

    with process_of_terminal(program.environment(TERM="dumb"), command) as (outer, process):
        asked = read_until(outer, "[y/N]")
        os.write(outer, f"{answer}\n".encode())
        said = read_until(outer, None)
        code = process.wait(timeout=BOUND_S)

    assert str(program.path) in asked
    assert str(folder) in asked
    is_removed = answer in ("y", "yes")
    assert code == (0 if is_removed else 1)
    assert ("nothing was removed" in said) is not is_removed
    assert program.path.exists() is not is_removed


def test_what_a_system_package_has_put_there_is_left_to_it(program: Binary) -> None:
    listed = f"mount -t tmpfs tmpfs /var/lib/dpkg/info && echo {program.path} >{{}}"
    script = listed.format("/var/lib/dpkg/info/edgecron.list")

    said = subprocess.run(
        [
            *(*private_mounts(), "sh", "-c"),
            f"{script} && exec {program.path} self remove --yes",
        ],
        env=program.environment(),
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )

    assert said.returncode == 1
    assert f"{program.path} belongs to the package edgecron" in said.stderr
    assert "apt-get remove edgecron" in said.stderr
    assert is_whole(program)


def test_nothing_is_removed_while_another_start_unpacks(program: Binary) -> None:
    lock_fd = os.open(program.program / ".lock", os.O_RDWR)
    fcntl.flock(lock_fd, fcntl.LOCK_EX)

    removing = program.start("self", "remove", "--yes")
    wait_for_lock(removing)
    was_whole = is_whole(program)
    os.close(lock_fd)
    removing.communicate(timeout=BOUND_S)

    assert was_whole
    assert removing.returncode == 0
    assert not program.path.exists()


def test_what_another_process_runs_from_is_not_removed(program: Binary) -> None:
    [folder] = program.versions()
    used_fd = os.open(folder, os.O_RDONLY)
    fcntl.flock(used_fd, fcntl.LOCK_SH)

    said = program.run("self", "remove", "--yes")
    os.close(used_fd)

    assert said.returncode == 1
    assert f"another process has begun to use {folder}" in said.stderr
    assert is_whole(program)
