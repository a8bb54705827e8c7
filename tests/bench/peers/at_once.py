"""APScheduler 3 and huey: a thousand callables, and a thousand commands, due at once."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.bench import callables, commands
from tests.bench.machine import Setting
from tests.bench.peers.programs import Programs
from tests.bench.table import Row

SCRIPTS = {
    "APScheduler 3": ("apscheduler", "apscheduler_jobs.py"),
    "huey": ("huey", "huey_tasks.py"),
}
BOUND_S = 900.0


def rows(setting: Setting, programs: Programs) -> Iterator[Row]:
    count = setting.pick(1000, 200)
    for act, what in (("call", "callables"), ("spawn", "commands")):
        for peer, (package, script) in SCRIPTS.items():
            if package not in programs.pythons:
                continue
            python = programs.pythons[package]
            ours, bare = [], []
            for _ in range(setting.pick(2, 1)):
                bare.append(
                    callables.measure_bare(setting, count)
                    if act == "call"
                    else commands.measure_bare(setting, count).took_s
                )
                ours.append(_measure(setting, python, script, count, act))
            ratios = [one / other for one, other in zip(ours, bare, strict=True)]
            loop = "claim and call" if act == "call" else "claim and spawn"
            yield Row(
                bench="peers",
                what=f"{peer}, store in SQLite: {count:,} {what} due at once: due to last started",
                measured=f"{statistics.median(ours):.2f} s",
                reference=f"bare {loop} {statistics.median(bare) * 1000:.0f} ms",
                ratio=statistics.median(ratios),
                low=min(ratios),
                high=max(ratios),
                figures={"peer_s": ours, "bare_s": bare},
                note="ten threads; it looks for what is due once a second"
                if peer == "huey"
                else "",
            )


def script_command(python: Path, script: str, database: Path, count: int, act: str) -> list[str]:
    path = Path(__file__).with_name(script)
    return [str(python), str(path), str(database), str(count), act]


def _measure(setting: Setting, python: Path, script: str, count: int, act: str) -> float:
    with setting.place() as folder:
        ended = subprocess.run(
            script_command(python, script, folder / "peer.db", count, act),
            capture_output=True,
            text=True,
            check=False,
            timeout=BOUND_S,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
    assert ended.returncode == 0, f"{script} failed: {ended.stderr.strip()[-600:]}"
    return float(ended.stdout.split()[-1])
