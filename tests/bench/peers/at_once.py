"""APScheduler 3 and huey: a thousand functions, and a thousand commands, due at one instant."""

from __future__ import annotations

import os
from pathlib import Path

from tests.bench.front_door import Contestant, Starts, read_program
from tests.bench.machine import Setting
from tests.bench.peers.programs import Programs

SCRIPTS = {
    "APScheduler 3": ("apscheduler", "apscheduler_jobs.py"),
    "huey": ("huey", "huey_tasks.py"),
}


def contestants(programs: Programs, act: str) -> dict[str, Contestant]:
    """Those that are here, with a store in SQLite; `act` is 'call' or 'spawn'."""
    found = {}
    for peer, (package, script) in SCRIPTS.items():
        if package in programs.pythons:
            python = programs.pythons[package]

            def measure(
                setting: Setting, count: int, python: Path = python, script: str = script
            ) -> Starts:
                with setting.place() as folder:
                    words = script_command(python, script, folder / "peer.db", count, act)
                    return read_program(words, environment())

            found[peer] = Contestant(measure=measure)
    return found


def script_command(python: Path, script: str, database: Path, count: int, act: str) -> list[str]:
    path = Path(__file__).with_name(script)
    return [str(python), str(path), str(database), str(count), act]


def environment() -> dict[str, str]:
    """The environment of other programs: without the path to this package."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
