"""How long do commands take in a large database, against `python -c pass`?

10,000 schedules of different times and 200,000 runs. A command that prints a page may take 15 times
as long as a bare interpreter, one that prints or reads everything 40 times.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from tests.bench.history import add_runs
from tests.bench.machine import Setting, child_environment
from tests.bench.schedules import command_spec, make
from tests.bench.startup import compare
from tests.bench.table import Row, at_most

SCHEDULES = 10_000
RUNS = 200_000
NAME = "s77"
MOST = ("-n", "50")  # as on a terminal
A_PAGE, EVERYTHING = 15, 40


def rows(setting: Setting) -> Iterator[Row]:
    with setting.place() as folder:
        database = folder / "large.db"
        setting.say(f"  making {SCHEDULES:,} schedules and {RUNS:,} runs ...")
        make(
            database,
            [
                command_spec(f"s{n}", f"{n % 60} {n // 60 % 24} * * {n % 7}")
                for n in range(SCHEDULES)
            ],
        )
        add_runs(database, runs=RUNS, schedules=SCHEDULES)
        environment = child_environment()
        edgecron = [sys.executable, "-m", "edgecron", "--db", str(database)]
        exported = folder / "schedules.toml"
        with exported.open("wb") as file:
            subprocess.run([*edgecron, "export"], env=environment, stdout=file, check=True)
        page = [
            *(["list", *MOST], ["next"], ["history"], ["status"], ["stats", *MOST]),
            ["stats", NAME],
            *(["history", NAME], ["show", NAME], ["why", NAME], ["doctor"]),
        ]
        everything = [
            *(["export"], ["export", "--crontab"], ["apply", str(exported)]),
            ["list", "-n", "all"],
        ]
        for words, reach in (
            *((words, A_PAGE) for words in page),
            *((words, EVERYTHING) for words in everything),
        ):
            pairs = compare(
                [*edgecron, *words],
                [sys.executable, "-c", "pass"],
                environment,
                rounds=setting.pick(15, 5),
            )
            what = " ".join(words).replace(str(exported), "FILE, nothing changed")
            yield Row(
                bench="large",
                what=f"edgecron {what} ({SCHEDULES:,} schedules, {RUNS:,} runs)",
                measured=f"{pairs.our_median * 1000:.0f} ms",
                reference=f"python -c pass {pairs.their_median * 1000:.1f} ms",
                ratio=pairs.ratio,
                low=pairs.middle[0],
                high=pairs.middle[1],
                reach=at_most(reach),
                figures=pairs.figures(),
            )
