"""Runs of a program's functions, which print where their program does."""

from __future__ import annotations

import threading
from pathlib import Path

from edgecron import Scheduler
from tests.support.cli import Edgecron

BOUND_S = 20.0
ELSEWHERE = "a function prints to the output of its own program"


def test_logs_say_where_a_function_prints(edgecron: Edgecron, database: Path) -> None:
    scheduler = Scheduler(database)

    @scheduler.job("@daily")
    def tell() -> None:
        print("told")

    with scheduler:
        tell.run_now().wait(BOUND_S)

    said = edgecron("logs", "tell")

    assert (said.code, said.out) == (0, "")
    assert said.err == (
        "run 1 of tell has no output here: a function prints to the output of its own program"
        " (success)\n"
    )


def test_logs_of_a_function_that_failed_say_so_below_where_it_did(
    edgecron: Edgecron, database: Path
) -> None:
    scheduler = Scheduler(database)

    @scheduler.job("@daily")
    def tell() -> None:
        print("told")
        raise LookupError("no such plc")

    with scheduler:
        tell.run_now().wait(BOUND_S)

    said = edgecron("logs", "tell")
    as_json = edgecron("logs", "tell", "--json")

    assert said.out.endswith("LookupError: no such plc\n")
    assert said.err == f"the output ends here; {ELSEWHERE}\n"
    assert as_json.err == ""


def test_logs_of_a_function_that_runs_say_that_nothing_will_come_here(
    edgecron: Edgecron, database: Path
) -> None:
    scheduler = Scheduler(database)
    entered, leave = threading.Event(), threading.Event()

    @scheduler.job("@daily")
    def tell() -> None:
        entered.set()
        assert leave.wait(BOUND_S)

    with scheduler:
        run = tell.run_now()
        assert entered.wait(BOUND_S)
        shown = edgecron("logs", "tell")
        timer = threading.Timer(0.2, leave.set)
        timer.start()
        followed = edgecron("logs", "-f", "1")
        run.wait(BOUND_S)
        timer.join()

    assert (
        shown.err
        == f"run 1 of tell is still running: to follow it to its end, use -f; {ELSEWHERE}\n"
    )
    assert followed.err.startswith(f"run 1 of tell continues; {ELSEWHERE}\nrun 1 of tell: success")
    assert followed.out == ""
