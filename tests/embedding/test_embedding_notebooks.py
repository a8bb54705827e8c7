"""Functions that are typed at a prompt or in the cells of a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.embedded import run_program

# Runs cells as a kernel does: in `__main__`, without a file, on an event loop.
_KERNEL = """
import ast, asyncio, inspect, sys
async def run(cells):
    for cell in cells:
        code = compile(cell, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        found = eval(code, sys.modules["__main__"].__dict__)
        if inspect.iscoroutine(found):
            await found
"""
_FIRST = """
from edgecron import Scheduler
scheduler = Scheduler("notebook.db")
"""


def run_cells(folder: Path, *cells: str) -> str:
    """Run cells in a process of their own; return what they print."""
    done = run_program(folder, "", "-c", f"{_KERNEL}\nasyncio.run(run({cells!r}))")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("new", ["def", "async def"])
def test_a_function_that_is_typed_again_replaces_the_former_one(tmp_path: Path, new: str) -> None:
    printed = run_cells(
        tmp_path,
        _FIRST,
        "@scheduler.task()\ndef load(): return 'old'\nscheduler.start()",
        "print(load.enqueue().get(20))",
        f"@scheduler.task(retries=3)\n{new} load(table): return table",
        "print(await load.enqueue('new').aget(), load.schedule.spec.policies.retries)",
        "scheduler.stop()",
    )

    assert printed.splitlines() == ["old", "new 3"]


def test_another_function_of_the_same_name_is_still_refused(tmp_path: Path) -> None:
    printed = run_cells(
        tmp_path,
        _FIRST,
        "@scheduler.task(name='load')\ndef one(): ...",
        "try:\n  scheduler.task(name='load')(print)\nexcept Exception as error:\n  print(error)",
    )

    assert "schedule 'load' is declared twice in this program" in printed


def test_a_run_goes_on_when_the_wait_for_it_is_interrupted(tmp_path: Path) -> None:
    printed = run_cells(
        tmp_path,
        _FIRST,
        "import signal, threading\ngo = threading.Event()\nhas_begun = threading.Event()",
        "@scheduler.task()\ndef load():\n  has_begun.set()\n  go.wait(20)\n  return 'loaded'",
        "scheduler.start()\nrun = load.enqueue()\nhas_begun.wait(20)",
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
        "threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()\n"
        "try:\n  run.get(20)\nexcept KeyboardInterrupt:\n  print('interrupted')",
        "go.set()\nprint(run.get(20))\nscheduler.stop()",
    )

    assert printed.splitlines() == ["interrupted", "loaded"]


def test_a_second_scheduler_beside_a_running_one_warns(tmp_path: Path) -> None:
    again = (
        "import warnings\nwith warnings.catch_warnings(record=True) as found:\n"
        "  warnings.simplefilter('always')\n  second = Scheduler('notebook.db')\n"
        "print([str(one.message) for one in found], [one.filename for one in found])"
    )
    printed = run_cells(
        tmp_path,
        _FIRST,
        again,
        "scheduler.start()",
        again,
        "scheduler.stop()",
        again,
    )

    assert printed.splitlines()[::2] == ["[] []", "[] []"]
    [warned] = printed.splitlines()[1::2]
    assert "another Scheduler 'notebook' of " in warned
    assert "use that one, or stop() it before you make another" in warned
    assert warned.endswith("['<cell>']")


def test_middleware_that_is_typed_again_replaces_the_former_one(tmp_path: Path) -> None:
    around = "@scheduler.middleware\ndef around(run):\n  print({!r})\n  yield"
    other = "@scheduler.middleware\ndef inner(run):\n  print('inner')\n  yield"
    printed = run_cells(
        tmp_path,
        _FIRST,
        around.format("old"),
        other,
        around.format("new"),
        "@scheduler.task()\ndef load(): return 'loaded'\nscheduler.start()",
        "print(load.enqueue().get(20))\nscheduler.stop()",
    )

    assert printed.splitlines() == ["new", "inner", "loaded"]
