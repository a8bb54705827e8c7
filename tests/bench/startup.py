"""How long does a command take that hardly does anything, against `python -c pass`?

The script is that which an installation makes; every module was compiled before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench.machine import ROOT, Setting, child_environment
from tests.bench.schedules import command_spec, make
from tests.bench.table import Row, at_most
from tests.bench.timing import Pairs, interleave

SCRIPT = """import sys
from edgecron.__main__ import main
if __name__ == "__main__":
    sys.exit(main())
"""
SYSTEM_PYTHON = Path("/usr/bin/python3")
SCHEDULES = 100


def rows(setting: Setting) -> Iterator[Row]:
    with setting.place() as folder:
        database = folder / "list.db"
        make(database, [command_spec(f"s{n}", f"{n % 60} 3 * * *") for n in range(SCHEDULES)])
        script = folder / "edgecron"
        script.write_text(SCRIPT, encoding="ascii")
        yield from _rows_of(setting, [sys.executable], script, database, child_environment())
        if SYSTEM_PYTHON.exists() and SYSTEM_PYTHON.resolve() != Path(sys.executable).resolve():
            python = _install(folder / "venv")
            script = folder / "venv" / "bin" / "edgecron"
            installed = {k: v for k, v in child_environment().items() if k != "PYTHONPATH"}
            yield from _rows_of(setting, [str(python)], script, database, installed)


def import_rows(setting: Setting) -> Iterator[Row]:
    python, environment = Path(sys.executable), child_environment()
    with setting.place() as folder:
        pairs = interleave(
            setting.pick(40, 8),
            lambda: imports_s(python, "import edgecron", environment, folder=folder),
            lambda: imports_s(python, "import apsw", environment, folder=folder),
        )
    yield Row(
        bench="import",
        what="import edgecron",
        measured=f"{pairs.our_median * 1000:.2f} ms",
        reference=f"import apsw {pairs.their_median * 1000:.2f} ms",
        ratio=pairs.ratio,
        low=pairs.middle[0],
        high=pairs.middle[1],
        reach=at_most(3),
        figures=pairs.figures(),
        note="what a program uses of it is loaded when it first does",
    )


def _rows_of(
    setting: Setting,
    python: list[str],
    script: Path,
    database: Path,
    environment: dict[str, str],
) -> Iterator[Row]:
    version = subprocess.run(
        [*python, "-V"], capture_output=True, text=True, check=True
    ).stdout.strip()
    bare = [*python, "-c", "pass"]
    cases = (
        ("edgecron --version", [*python, str(script), "--version"], 3),
        ("edgecron list", [*python, str(script), "--db", str(database), "list"], 6),
    )
    for what, command, reach in cases:
        pairs = compare(command, bare, environment, rounds=setting.pick(60, 15))
        name = what if "list" not in what else f"{what} ({SCHEDULES} schedules)"
        yield Row(
            bench="startup",
            what=f"{name}, {version}",
            measured=f"{pairs.our_median * 1000:.1f} ms",
            reference=f"python -c pass {pairs.their_median * 1000:.1f} ms",
            ratio=pairs.ratio,
            low=pairs.middle[0],
            high=pairs.middle[1],
            reach=at_most(reach),
            figures=pairs.figures(),
            note=f"{python[0]}; ratio of the best of each {pairs.best_ratio:.2f}",
        )


def compare(
    ours: Sequence[str], theirs: Sequence[str], environment: dict[str, str], *, rounds: int
) -> Pairs:
    """Seconds of two commands that take turns, after one of each to warm up."""
    for command in (ours, theirs):
        took_s(command, environment)
    return interleave(
        rounds,
        lambda: took_s(ours, environment),
        lambda: took_s(theirs, environment),
        within_s=60,
    )


def took_s(command: Sequence[str], environment: dict[str, str]) -> float:
    """Seconds from the start of a command until it has ended; it must go well."""
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], list(command), environment, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - began
    os.close(null)
    assert status == 0, f"{' '.join(command)} ended with status {status}"
    return took


def imports_s(python: Path, code: str, environment: Mapping[str, str], *, folder: Path) -> float:
    """Seconds that a new interpreter takes for some code, its own start left out."""
    timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    ended = subprocess.run(
        [str(python), "-c", timed],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ended.stdout)


def _install(folder: Path) -> Path:
    """A virtual environment of the system's Python with this edgecron in it; its interpreter."""
    python = folder / "bin" / "python"
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", folder], check=True)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", str(ROOT)], check=True, stdout=sys.stderr
    )
    return python
