"""What each costs with a hundred schedules and nothing due, all at the same time; and how long
each takes to begin."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack

from tests.bench.machine import Setting
from tests.bench.peers.at_once import SCRIPTS, script_command
from tests.bench.peers.daemons import NEVER, available, running
from tests.bench.peers.programs import Programs
from tests.bench.processes import cpu_s_of, daemon, memory_kb_of, wakes_of, watchers_of
from tests.bench.schedules import TRUE, command_spec, make
from tests.bench.startup import compare
from tests.bench.table import Row

COUNT = 100
AT_REST = {**SCRIPTS, "Celery beat": ("celery", "celery_beat.py")}
SETTLE_S = 10.0


def rows(setting: Setting, programs: Programs) -> Iterator[Row]:
    yield from _idle_rows(setting, programs)
    yield from _import_rows(setting, programs)


def _idle_rows(setting: Setting, programs: Programs) -> Iterator[Row]:
    seconds = setting.pick(120, 15)
    families: dict[str, list[int]] = {}
    with ExitStack() as stack:
        database = stack.enter_context(setting.place()) / "ours.db"
        make(database, [command_spec(f"s{number}", NEVER) for number in range(COUNT)])
        engine = stack.enter_context(daemon(database))
        families["edgecron"] = [engine, *watchers_of(database)]
        for peer, (program, prepare) in available(programs).items():
            folder = stack.enter_context(setting.place())
            command = prepare(folder, program, NEVER, [TRUE], COUNT)
            families[peer] = [stack.enter_context(running(folder, command)).pid]
        for peer, (package, script) in AT_REST.items():
            if package in programs.pythons:
                folder = stack.enter_context(setting.place())
                python = programs.pythons[package]
                process = subprocess.Popen(
                    script_command(python, script, folder / "peer.db", COUNT, "idle"),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
                stack.callback(process.communicate)
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n", f"{script} has failed"
                families[peer] = [process.pid]
        time.sleep(SETTLE_S)
        before = {peer: _used(pids) for peer, pids in families.items()}
        time.sleep(seconds)
        after = {peer: _used(pids) for peer, pids in families.items()}
        memory = {
            peer: sum(memory_kb_of(pid)["Pss"] for pid in pids) for peer, pids in families.items()
        }
    for peer in families:
        wakes, cpu_ms = (a - b for a, b in zip(after[peer], before[peer], strict=True))
        yield Row(
            bench="peers",
            what=f"{peer}: idle {seconds} s, {COUNT} schedules",
            measured=f"{memory[peer] / 1024:.1f} MB, {wakes:g} wake-ups, {cpu_ms:.1f} ms",
            reference=f"edgecron {memory['edgecron'] / 1024:.1f} MB",
            ratio=memory[peer] / memory["edgecron"],
            figures={"pss_kb": memory[peer], "wakes": wakes, "cpu_ms": cpu_ms},
            note="proportional set size of engine, supervisor and guardian, which share memory"
            if peer == "edgecron"
            else "",
        )


def _used(pids: list[int]) -> tuple[float, float]:
    tasks = [int(task) for pid in pids for task in os.listdir(f"/proc/{pid}/task")]
    return sum(map(wakes_of, tasks)), sum(map(cpu_s_of, pids)) * 1000


def _import_rows(setting: Setting, programs: Programs) -> Iterator[Row]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    cases = {
        "apscheduler": "from apscheduler.schedulers.background import BackgroundScheduler",
        "huey": "from huey import SqliteHuey",
        "cronstable": "import cronstable.cron",
    }
    for package, code in cases.items():
        if package not in programs.pythons:
            continue
        python = str(programs.pythons[package])
        pairs = compare(
            [python, "-c", code], [python, "-c", "pass"], environment, rounds=setting.pick(20, 5)
        )
        yield Row(
            bench="peers",
            what=f"{package}: a process that imports it and ends",
            measured=f"{pairs.our_median * 1000:.0f} ms",
            reference=f"python -c pass {pairs.their_median * 1000:.1f} ms",
            ratio=pairs.ratio,
            low=pairs.middle[0],
            high=pairs.middle[1],
            figures=pairs.figures(),
        )
