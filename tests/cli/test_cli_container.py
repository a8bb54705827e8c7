"""`edgecron daemon` as process 1 of a container, here of a namespace of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgecron.client import Client
from tests.support.accounts import as_root
from tests.support.program import PROGRAM
from tests.support.servers import wait_until
from tests.support.specs import make_spec

_CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_LEAVES_A_PROCESS = "exec 3<&0; (cat <&3 >/dev/null & echo $!)"


@contextmanager
def container(database: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The daemon as process 1, with the number that this process has outside."""
    command = [*_CONTAINER, *PROGRAM, "--db", str(database), "daemon", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            while "engine_started" not in process.stdout.readline():
                assert process.poll() is None
            [first] = children_of(process.pid)
            yield process, first
        finally:
            process.kill()


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


@as_root
@pytest.mark.needs("unshare", "nsenter")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_process_1_reaps_orphans_and_exits_with_the_code_of_the_engine(
    tmp_path: Path, end: signal.Signals
) -> None:
    database = tmp_path / "edgecron.db"
    with Client(database) as client:
        client.add(make_spec("job", "0 2 * * *"))
    with container(database) as (process, first):
        enter = ("nsenter", "-t", str(first), "-p", "-m")
        with subprocess.Popen(
            [*enter, "sh", "-c", _LEAVES_A_PROCESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as shell:
            assert shell.stdout is not None
            left = shell.stdout.readline().strip()
            assert shell.wait() == 0
            orphan = Path(f"/proc/{first}/root/proc/{left}")
            assert orphan.exists()
        # Its stdin is closed: the process ends now, after its parent.
        wait_until(lambda: not orphan.exists(), lambda: (orphan / "status").read_text())
        os.kill(first, end)

        assert process.wait() == 0
    with Client(database) as client:
        assert client.engines() == []


@as_root
@pytest.mark.needs("unshare", "nsenter")
def test_process_1_tells_by_its_exit_code_which_signal_killed_the_engine(tmp_path: Path) -> None:
    database = tmp_path / "edgecron.db"
    with Client(database) as client:
        client.add(make_spec("job", "0 2 * * *"))
    with container(database) as (process, first):
        [engine] = [child for child in children_of(first) if "guard" not in name_of(child)]
        os.kill(engine, signal.SIGKILL)

        assert process.wait() == 128 + signal.SIGKILL


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8")
