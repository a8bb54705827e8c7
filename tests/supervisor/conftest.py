"""A supervisor with its engine, and a bell, for each test."""

from __future__ import annotations

import contextlib
import gc
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.supervisor_bench import Bell, Bench, Gate, Unanswering
from tests.support.forkserver import begin_server


@pytest.fixture(autouse=True)
def no_descriptor_left() -> Iterator[None]:
    """What a test has opened it closes: the kernel's list is the same before and after."""
    begin_server()
    before = _list_descriptors()
    yield
    if _list_descriptors().items() - before.items():
        gc.collect()  # A poll object in a cycle is closed when it is collected: a quarter second.
    left = _list_descriptors().items() - before.items()
    assert not left


def _list_descriptors() -> dict[int, str]:
    """What is open in this process, by number."""
    found = {}
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):  # of the listing itself
            found[int(name)] = os.readlink(f"/dev/fd/{name}")
    return found


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "state")
    yield made
    made.close()


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Bell]:
    made = Bell(tmp_path / "bell")
    yield made
    made.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of nobody's, which they can reach: pytest's own is closed to others."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and "pytest" in str(folder):
            folder.chmod(0o711)
    made = tmp_path / "home"
    made.mkdir()
    os.chown(made, pwd.getpwnam("nobody").pw_uid, -1)
    return made


@pytest.fixture
def unanswering(theirs: Path) -> Iterator[Unanswering]:
    made = Unanswering(theirs / "program")
    yield made
    made.answer()
