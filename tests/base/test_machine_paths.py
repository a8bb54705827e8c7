"""Paths that do not answer: what is known of them, and that they hold nothing up."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.base.machine import KernelMachine, PathFacts, SlowPaths, look_at_path
from tests.support.tools import private_mounts

BOUND_S = 10.0


class Hanging:
    """A path that answers only after `answer`, and counts the threads that ask it."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = threading.Event()

    def look(self, path: str) -> PathFacts:
        self.asked += 1
        self.answer.wait()
        return look_at_path(path)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    found = Hanging()
    yield found
    found.answer.set()


def test_a_path_that_answers_is_known(tmp_path: Path) -> None:
    paths = SlowPaths(look_at_path)

    found = paths.look([str(tmp_path), str(tmp_path / "gone")], wait_s=BOUND_S)

    assert found[str(tmp_path)].exists is True
    assert (found[str(tmp_path)].free_bytes or 0) > 0
    assert found[str(tmp_path / "gone")].exists is False
    assert not paths.silent
    assert paths.filenos() == []


def test_a_silent_path_is_unknown_after_the_wait_and_asked_by_one_thread(
    tmp_path: Path, hanging: Hanging
) -> None:
    first, second = SlowPaths(hanging.look), SlowPaths(hanging.look)
    began = time.monotonic()

    seen = [one.look([str(tmp_path)], wait_s=0.05) for one in (first, second, first)]

    assert seen == [{}, {}, {}]
    assert time.monotonic() - began < BOUND_S
    assert hanging.asked == 1
    assert first.silent == second.silent == {str(tmp_path)}


def test_many_silent_paths_are_waited_for_together(hanging: Hanging, tmp_path: Path) -> None:
    paths = SlowPaths(hanging.look)
    began = time.monotonic()

    paths.look([str(tmp_path / str(number)) for number in range(20)], wait_s=0.5)

    assert 0.5 <= time.monotonic() - began < 20 * 0.5


def test_a_descriptor_shows_that_a_silent_path_has_answered(
    tmp_path: Path, hanging: Hanging
) -> None:
    paths = SlowPaths(hanging.look)
    paths.look([str(tmp_path)], wait_s=0)
    [fd] = paths.filenos()
    before = select.select([fd], [], [], 0)[0]

    hanging.answer.set()
    after = select.select([fd], [], [], BOUND_S)[0]
    paths.clear()
    found = paths.look([str(tmp_path)], wait_s=0)

    assert (before, after) == ([], [fd])
    assert found[str(tmp_path)].exists is True
    assert paths.filenos() == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_forgotten_path_is_asked_again_and_its_late_answer_is_not_used(
    tmp_path: Path, hanging: Hanging
) -> None:
    file = tmp_path / "late"
    paths = SlowPaths(hanging.look)
    paths.look([str(file)], wait_s=0)
    paths.forget()

    hanging.answer.set()
    for thread in threading.enumerate():
        if thread.name == "edgecron-path":
            thread.join(BOUND_S)
    file.touch()

    assert paths.look([str(file)], wait_s=BOUND_S)[str(file)].exists is True
    assert hanging.asked == 2


# A FUSE file system whose server never answers: each look at it hangs in the kernel.
_HANG = """
import ctypes, os, sys, threading, time
from edgecron.base.clock import SystemClock
from edgecron.base.machine import KernelMachine
from edgecron.model.conditions import find_note, look_at

path = sys.argv[1]
server = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
libc = ctypes.CDLL(None, use_errno=True)
if libc.mount(b"hang", path.encode(), b"fuse", 0, options) != 0:
    raise OSError(ctypes.get_errno(), "mount")
machine = KernelMachine(SystemClock(), wait_s=0.3)
needs = (f"exists:{path}/file", f"disk:{path}:1KB", "exists:/")
began = time.monotonic()
known = [sorted(one.text for one in look_at(machine, needs)) for _ in range(3)]
took_s = time.monotonic() - began
count = sum(one.name == "edgecron-path" for one in threading.enumerate())
print(known == [["exists:/"]] * 3, took_s < 5, count, find_note(machine, needs[0]), flush=True)
os.close(server)  # The server is gone: the kernel answers with an error.
for one in threading.enumerate():
    if one.name == "edgecron-path":
        one.join(10)
print(look_at(machine, needs[:2]), flush=True)
"""


def test_a_file_system_that_hangs_in_the_kernel_holds_nothing_up(tmp_path: Path) -> None:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("needs FUSE: /dev/fuse is missing, or this user can't open it")
    done = subprocess.run(
        [*private_mounts(), sys.executable, "-c", _HANG, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.stdout.splitlines() == [f"True True 2 {tmp_path}/file did not answer", "{}"], (
        done.stderr
    )


def test_a_machine_says_which_paths_are_silent(tmp_path: Path, hanging: Hanging) -> None:
    machine = KernelMachine(SystemClock(), root=tmp_path, wait_s=0.05, look_path=hanging.look)

    machine.look_at_paths(["/mnt/nas"])

    assert machine.exists("/mnt/nas") is None
    assert machine.is_silent("/mnt/nas")
    assert not machine.is_silent("/mnt")
