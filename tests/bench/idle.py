"""What does an engine cost that has nothing to do? And what does each run cost that lives?"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.engine.state_folder import ring_engines
from edgecron.supervisor.launch import start
from edgecron.supervisor.link import Started, SupervisorLink
from edgecron.supervisor.protocol import StartRequest
from tests.bench.machine import Setting
from tests.bench.processes import (
    cpu_s_of,
    daemon,
    io_of,
    memory_kb_of,
    wait_until,
    wakes_of,
    watchers_of,
)
from tests.bench.schedules import command_spec, count_ended, make, multiply, set_due
from tests.bench.table import Row, at_most

MANY = 100_000
SETTLE_S = 5.0  # after the fire


def rows(setting: Setting) -> Iterator[Row]:
    seconds = setting.pick(60, 15)
    with setting.place() as folder:
        database = folder / "idle.db"
        make(database, [command_spec("s", "every 2h")])
        multiply(database, "s", MANY - 1)
        with daemon(database) as engine:
            set_due(database, SystemClock().now_ms() + 1000, last=1)
            ring_engines(state_dir(database))
            wait_until(lambda: count_ended(database) == 1, "the run has ended")
            time.sleep(SETTLE_S)
            supervisor, guardian = watchers_of(database)
            family = {"engine": engine, "supervisor": supervisor, "guardian": guardian}
            before = {name: _used(pid) for name, pid in family.items()}
            time.sleep(seconds)
            after = {name: _used(pid) for name, pid in family.items()}
            memory = {name: memory_kb_of(pid) for name, pid in family.items()}
    used = {
        what: {name: after[name][what] - before[name][what] for name in family}
        for what in before["engine"]
    }
    wakes, cpu_ms, written = (sum(used[what].values()) for what in ("wakes", "cpu_ms", "wchar"))
    after_words = f"idle {seconds} s, 100,000 schedules, after one fire"
    told = ", ".join(f"{name} {count:g}" for name, count in used["wakes"].items())
    figures = {"used": used, "memory_kb": memory}
    yield Row(bench="idle", what=f"{after_words}: wake-ups", measured=f"{wakes:g}",
              reach=at_most(2), value=wakes, figures=figures, note=told)  # fmt: skip
    yield Row(bench="idle", what=f"{after_words}: processor time", measured=f"{cpu_ms:.2f} ms",
              reach=at_most(1, "ms"), value=cpu_ms)  # fmt: skip
    yield Row(bench="idle", what=f"{after_words}: bytes handed to write()",
              measured=f"{written:g} B", reach=at_most(0, "B"), value=written)  # fmt: skip
    bare = _bare_memory_kb()
    engine_mb = memory["engine"]["Rss"] / 1024
    watchers_mb = (memory["supervisor"]["Pss"] + memory["guardian"]["Pss"]) / 1024
    yield Row(
        bench="idle",
        what="engine, resident",
        measured=f"{engine_mb:.1f} MB",
        reference=f"python that has imported apsw {bare['Rss'] / 1024:.1f} MB",
        ratio=memory["engine"]["Rss"] / bare["Rss"],
        reach=at_most(30, "MB"),
        value=engine_mb,
        note=f"its proportional share {memory['engine']['Pss'] / 1024:.1f} MB,"
        f" its own {_own_mb(memory['engine']):.1f} MB",
    )
    yield Row(
        bench="idle",
        what="supervisor and guardian together, proportional set size",
        measured=f"{watchers_mb:.1f} MB",
        reference=f"python that has imported apsw {bare['Pss'] / 1024:.1f} MB",
        ratio=(memory["supervisor"]["Pss"] + memory["guardian"]["Pss"]) / bare["Pss"],
        reach=at_most(20, "MB"),
        value=watchers_mb,
        note=", ".join(
            f"{name} {memory[name]['Pss'] / 1024:.1f} MB, its own {_own_mb(memory[name]):.1f} MB"
            for name in ("supervisor", "guardian")
        ),
    )


def live_rows(setting: Setting) -> Iterator[Row]:
    """By how much a supervisor grows with each run that lives."""
    live = setting.pick(200, 50)
    with setting.place() as folder:
        link = start(folder / "state", clock=SystemClock())
        # What it needs once, whatever the number: modules, and the room that freed runs leave.
        _start_sleeps(link, range(10))
        before = memory_kb_of(link.pid)
        _start_sleeps(link, range(10, 10 + live))
        after = memory_kb_of(link.pid)
        link.stop_all()
        link.close()
    yield Row(
        bench="live",
        what=f"memory of a supervisor for each live run, of {live}",
        measured=f"{(after['Pss'] - before['Pss']) / live:.1f} kB",
        figures={"before_kb": before, "after_kb": after},
        note=f"proportional set size; resident {(after['Rss'] - before['Rss']) / live:.1f} kB",
    )


def _used(pid: int) -> dict[str, float]:
    io = io_of(pid)
    return {
        "wakes": wakes_of(pid),
        "cpu_ms": cpu_s_of(pid) * 1000,
        "wchar": io["wchar"],
        "write_bytes": io["write_bytes"],
    }


def _own_mb(memory: dict[str, int]) -> float:
    return (memory["Private_Clean"] + memory["Private_Dirty"]) / 1024


def _bare_memory_kb() -> dict[str, int]:
    process = subprocess.Popen(
        [sys.executable, "-c", "import apsw; print('ready', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    found = memory_kb_of(process.pid)
    process.communicate(b"\n")
    return found


def _start_sleeps(link: SupervisorLink, numbers: range) -> None:
    """Start commands that live on, and wait until all have started."""
    link.start(
        [
            StartRequest(
                token=f"t{number}",
                argv=("/bin/sleep", "600"),
                env={"PATH": os.environ["PATH"], "EDGECRON_RUN_ID": str(number)},
                cwd="/",
                output_cap_bytes=256 * 1024,
            )
            for number in numbers
        ]
    )
    started = 0
    while started < len(numbers):
        assert select.select([link], [], [], 30)[0], f"{started} of {len(numbers)} have started"
        started += sum(isinstance(event, Started) for event in link.receive())
