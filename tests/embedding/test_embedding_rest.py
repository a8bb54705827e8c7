"""What a program with an engine has in its memory while nothing is due."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What is loaded for as long as the program lives, and does nothing for an engine at rest.
NOT_AT_REST = {
    *("textual", "rich", "asyncio", "croniter", "dateutil", "argparse", "subprocess", "tempfile"),
    *("dataclasses", "logging", "traceback", "random", "ssl", "sqlite3", "email", "contextvars"),
    *("shlex", "termios"),
    *("edgecron.client.local", "edgecron.formats.config", "edgecron.store.protocol"),
}
# Since 3.13 Python itself loads linecache for a program of `-c`: what was there before is not ours.
AT_REST = """
import os, sys
{imported}
found = set(sys.modules)
from edgecron import Scheduler, cron, every

scheduler = Scheduler(sys.argv[1])

@scheduler.job(every("1h"))
def poll(host: str = "plc1") -> int: ...

@scheduler.job({trigger})
async def backup() -> None: ...

with scheduler:
    if os.fork() == 0:  # A fork waits until the engine sleeps.
        print(*sorted(set(sys.modules) - found), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize(
    ("imported", "trigger"),
    [
        ("", 'every("1d")'),
        # A program that writes a cron text has croniter, and what croniter itself needs.
        ("import croniter", 'cron("0 2 * * *")'),
    ],
)
def test_an_engine_at_rest_has_loaded_nothing_that_it_does_not_need(
    tmp_path: Path, imported: str, trigger: str
) -> None:
    program = AT_REST.format(imported=imported, trigger=trigger)

    loaded = set(_told(program, tmp_path / "app.db").split())

    assert loaded & NOT_AT_REST == set()
    assert "apsw" in loaded


# Whether the lock of `logging` is free when a fork begins to wait for an engine to rest.
ORDER = """
import os, sys, threading
from edgecron.embedding.concurrency import engine_logger, wait_for_rest

class Resting:
    found = []

    @property
    def awake(self):
        return self

    def acquire(self, timeout):
        import logging
        looking = threading.Thread(target=logging.getLogger, args=("other",), daemon=True)
        looking.start()
        looking.join(5.0)
        self.found.append(not looking.is_alive())
        return True

    def release(self): ...

resting = Resting()
if sys.argv[1] == "before":
    import logging
wait_for_rest(resting)
assert ("logging" in sys.modules) == (sys.argv[1] == "before")
for _ in range(2):
    engine_logger()
if os.fork() == 0:
    os._exit(0)
os.wait()
print(resting.found[0])
"""


@pytest.mark.parametrize("imported", ["before", "after"])
def test_a_fork_waits_for_an_engine_that_logs_before_it_takes_the_locks_of_logging(
    imported: str,
) -> None:
    assert _told(ORDER, imported) == "True\n"


def _told(script: str, argument: object) -> str:
    """What a program prints that has imported nothing else."""
    ended = subprocess.run(
        [sys.executable, "-s", "-c", script, str(argument)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ended.stdout
