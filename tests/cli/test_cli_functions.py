"""Runs of a program's functions, which print where their program does."""

from __future__ import annotations

from pathlib import Path

from edgecron import Scheduler
from support.cli import Edgecron


def test_logs_say_where_a_function_prints(edgecron: Edgecron, database: Path) -> None:
    scheduler = Scheduler(database)

    @scheduler.job("@daily")
    def tell() -> None:
        print("told")

    with scheduler:
        tell.run_now().wait(20)

    said = edgecron("logs", "tell")

    assert (said.code, said.out) == (0, "")
    assert said.err == (
        "run 1 of tell has no output here: what a function prints goes to its program's own"
        " output (success)\n"
    )
