"""edgecron, APScheduler 3 and huey within a program, side by side, in turns.

Each is as its manual shows it, with its store in SQLite and every commit written through to the
disk: edgecron by its own settings (`synchronous` FULL), APScheduler by those of SQLite (a rollback
journal, FULL), huey with `fsync=True`. What each keeps of a job differs. edgecron: its claim before
the call, and its end; huey: that a task was taken, and what it returned; APScheduler: that a job
was begun.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.machine import Setting, child_environment
from tests.bench.peers.programs import Programs
from tests.bench.processes import family_of, memory_kb_of
from tests.bench.startup import imports_s
from tests.bench.table import Reach, Row, at_least, at_most
from tests.bench.timing import percentile

OURS = "edgecron"
APPS = Path(__file__).with_name("apps")
BOUND_S = 900.0
SETTLE_S = 3.0
REGISTERED = 10
# By the program: the package that it takes, and its script.
PROGRAMS = {
    OURS: (OURS, "edgecron_app.py"),
    "APScheduler 3": ("apscheduler", "apscheduler_app.py"),
    "huey": ("huey", "huey_app.py"),
}
# What a program imports, and how it makes the one thing that it then uses.
IMPORTS = {
    OURS: ("from edgecron import Scheduler, cron, every", "Scheduler('x.db')"),
    "APScheduler 3": (
        "from apscheduler.schedulers.background import BackgroundScheduler",
        "BackgroundScheduler().add_jobstore('sqlalchemy', url='sqlite:///x.db')",
    ),
    "huey": ("from huey import SqliteHuey", "SqliteHuey('app', filename='x.db')"),
}


@dataclass(frozen=True, slots=True)
class App:
    """One of the programs, and the Python that it runs in."""

    python: Path
    script: str
    environment: Mapping[str, str]

    def command(self, act: str, database: Path, count: int) -> list[str]:
        return [str(self.python), str(APPS / self.script), act, str(database), str(count)]


def rows(setting: Setting, programs: Programs) -> Iterator[Row]:
    apps = find_apps(programs)
    yield from _throughput_rows(setting, apps)
    yield from _latency_rows(setting, apps)
    yield from _memory_rows(setting, apps)
    yield from _import_rows(setting, apps)


def find_apps(programs: Programs) -> dict[str, App]:
    pythons = {OURS: Path(sys.executable), **programs.pythons}
    ours = child_environment()
    theirs = {name: value for name, value in ours.items() if name != "PYTHONPATH"}
    return {
        name: App(pythons[package], script, ours if name == OURS else theirs)
        for name, (package, script) in PROGRAMS.items()
        if package in pythons
    }


def _throughput_rows(setting: Setting, apps: Mapping[str, App]) -> Iterator[Row]:
    count = setting.pick(1000, 200)
    for act, what in (
        ("burst", f"{count:,} functions due at once: due to the last end on record"),
        ("stream", f"{count:,} functions asked for one by one: to the last end on record"),
    ):
        found = in_turns(setting, apps, act, count, rounds=setting.pick(5, 2))
        per_s = {
            name: [count / float(one["took_s"]) for one in told] for name, told in found.items()
        }
        yield _beside(what, per_s, "jobs/s", reach=at_least(1.0))


def _latency_rows(setting: Setting, apps: Mapping[str, App]) -> Iterator[Row]:
    count = setting.pick(40, 8)
    found = in_turns(setting, apps, "latency", count, rounds=setting.pick(3, 1))
    late_ms = {
        name: [late * 1000 for one in told for late in one["late_s"]]
        for name, told in found.items()
    }
    early = {name: sum(late < 0 for late in lates) for name, lates in late_ms.items()}
    note = "; ".join(
        f"{name} called {times} of {len(late_ms[name])} too early"
        for name, times in early.items()
        if times
    )
    yield _beside("one function due, nothing else to do: due to start, median", late_ms, "ms",
                  reach=at_most(1.0), note=note)  # fmt: skip
    worst = {name: [percentile(lates, 0.99)] for name, lates in late_ms.items()}
    yield _beside("one function due, nothing else to do: due to start, 99 of 100", worst, "ms",
                  reach=at_most(1.0), note=f"of {len(late_ms[OURS])} each")  # fmt: skip


def _memory_rows(setting: Setting, apps: Mapping[str, App]) -> Iterator[Row]:
    """All programs at rest at the same time, with all processes that are theirs."""
    memory: dict[str, dict[str, int]] = {}
    with ExitStack() as stack:
        folders, processes = {}, {}
        for name, app in apps.items():
            folders[name] = stack.enter_context(setting.place())
            processes[name] = subprocess.Popen(
                app.command("idle", folders[name] / "app.db", REGISTERED),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=app.environment,
            )
            stack.callback(processes[name].communicate)
        for name, process in processes.items():
            assert process.stdout is not None
            assert process.stdout.readline() == b"{}\n", f"{name} has failed"
        time.sleep(SETTLE_S)
        for name, process in processes.items():
            family = family_of(process.pid, folders[name])
            found = [memory_kb_of(pid) for pid in family]
            memory[name] = {
                "processes": len(family),
                "pss": sum(one["Pss"] for one in found),
                "rss": sum(one["Rss"] for one in found),
                "private": sum(one["Private_Clean"] + one["Private_Dirty"] for one in found),
            }
    for kind, what in (("rss", "resident"), ("private", "its own alone")):
        note = ", ".join(f"{name} {one['processes']} processes" for name, one in memory.items())
        yield _beside(
            f"a program at rest with {REGISTERED} functions: memory, {what}",
            {name: [one[kind] / 1024] for name, one in memory.items()},
            "MB",
            reach=at_most(1.0),
            note=note if kind == "rss" else "",
        )


def _import_rows(setting: Setting, apps: Mapping[str, App]) -> Iterator[Row]:
    rounds = setting.pick(40, 8)
    with setting.place() as folder:
        for is_made in (False, True):
            codes = {
                name: f"{imported}; {made}" if is_made else imported
                for name, (imported, made) in IMPORTS.items()
                if name in apps
            }
            took: dict[str, list[float]] = {name: [] for name in codes}
            for _ in range(rounds + 1):
                for name, code in codes.items():
                    app = apps[name]
                    took_s = imports_s(app.python, code, app.environment, folder=folder)
                    took[name].append(took_s * 1000)
            # The first ones find nothing in memory; of the others, the machine spoils some.
            best = {name: [min(times[1:])] for name, times in took.items()}
            what = "import, and one scheduler made" if is_made else "import"
            yield _beside(f"{what}, best of {rounds}", best, "ms", reach=at_most(1.0))


def in_turns(
    setting: Setting, apps: Mapping[str, App], act: str, count: int, *, rounds: int
) -> dict[str, list[dict[str, Any]]]:
    """What each said of an act, of each round; who begins a round takes turns, too."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in apps}
    names = list(apps)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            found[name].append(_told(setting, apps[name], act, count))
    return found


def _told(setting: Setting, app: App, act: str, count: int) -> dict[str, Any]:
    with setting.place() as folder:
        ended = subprocess.run(
            app.command(act, folder / "app.db", count),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=BOUND_S,
            env=app.environment,
        )
    assert ended.returncode == 0, f"{app.script} {act} failed: {ended.stderr.strip()[-600:]}"
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def _beside(
    what: str,
    found: Mapping[str, Sequence[float]],
    unit: str,
    *,
    reach: Reach,
    note: str = "",
) -> Row:
    """A row with the medians of all, and the ratio of ours to the best of the others'.

    Who is below nothing, as one that calls too early, is no measure of anybody.
    """
    medians = {name: statistics.median(values) for name, values in found.items()}
    others = [value for name, value in medians.items() if name != OURS and value > 0]
    is_more_better = reach.bound.value == ">="
    best = None if not others else max(others) if is_more_better else min(others)
    return Row(
        bench="embedded",
        what=what,
        measured=f"{_figure(medians[OURS])} {unit}",
        reference=", ".join(
            f"{name} {_figure(value)} {unit}" for name, value in medians.items() if name != OURS
        ),
        ratio=None if best is None else medians[OURS] / best,
        reach=reach,
        figures={name: list(values) for name, values in found.items()},
        note=note,
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
