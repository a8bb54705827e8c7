"""Engines that are stopped, stuck or at rest, as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.supervisor.state_files import prepare_state_dir

_SCRIPT = """
import sys
from pathlib import Path
from edgecron.engine.state_folder import Doorbell, take_engine_lock
folder, key = Path(sys.argv[1]), sys.argv[2]
lock, doorbell = take_engine_lock(folder, key), Doorbell(folder, key)
print("ready", flush=True)
"""
SLEEPS = "sys.stdin.read()"  # as in a write to a log that nobody reads
SPINS = "while True: pass"
LOCKS = """
from edgecron.store.sqlite.connection import Database
database = Database(folder.with_suffix(""))
sys.stdin.readline()
with database.transaction():
    print("locked", flush=True)
    sys.stdin.read()
"""
FORKS = "import os; os.fork(); sys.stdin.read()"  # and leaves the lock to a child, too
KEY = "0123456789abcdef"


class StuckEngine:
    """A process that is an engine of a database by all signs, and then does what it is told."""

    def __init__(self, client: Client, then: str, *, pid: int | None = None) -> None:
        """`pid` is what the database says of it, where that is not the truth."""
        self.state_dir: Path = prepare_state_dir(state_dir(client.path))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT + then, str(self.state_dir), KEY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        if then != SPINS:
            wait_for_rest(self.process.pid)  # On a busy machine it is at work for some more.
        self.engine_id = client.store.register_engine(
            key=KEY,
            pid=self.process.pid if pid is None else pid,
            boot_id=client.clock.boot_id(),
            queues=("command",),
            now_ms=client.clock.now_ms(),
        )

    def take_write_lock(self) -> None:
        """Have the engine, of LOCKS, hold the database's write lock from now on."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"now\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"locked\n"

    @staticmethod
    def start_bystander() -> subprocess.Popen[bytes]:
        """A process that has nothing to do with any engine."""
        return subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def stop_at_rest(process: subprocess.Popen[bytes]) -> None:
    """The same to an engine that is between its steps: it holds no lock while it is stopped."""
    wait_for_rest(process.pid)
    stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGSTOP to a child of ours, until it has stopped."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


def resume(process: subprocess.Popen[bytes]) -> None:
    """SIGCONT to a child of ours, until it goes on."""
    process.send_signal(signal.SIGCONT)
    os.waitid(os.P_PID, process.pid, os.WCONTINUED)


def wait_for_rest(pid: int) -> None:
    """Wait, bounded, until a process has not taken a turn between a hundred looks at it."""
    looks, last = 0, ""
    for _ in range(100_000):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        now = "".join(line for line in lines if "ctxt_switches" in line or "State" in line)
        looks = looks + 1 if now == last and "S (sleeping)" in now else 0
        last = now
        if looks == 100:
            return
    raise AssertionError(f"process {pid} does not come to rest")
