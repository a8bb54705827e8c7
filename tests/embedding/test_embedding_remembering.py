"""What a run says of itself, what its schedule remembers, and runs in processes of their own."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from edgecron import RunContext, Scheduler
from edgecron.base.errors import InvalidInput
from tests.support.embedded import run_program

BOUND_S = 20.0


def test_what_a_schedule_remembers_is_kept_with_a_success_alone(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def count(run: RunContext, *, fails: bool = False) -> int:
        run.state["count"] = run.state.get("count", 0) + 1
        run.state["last"] = {"run": run.id}
        if fails:
            raise OSError("not this time")
        return len(run.state)

    with scheduler:
        first = count.run_now().wait(BOUND_S)
        failed = count.run_now(fails=True).wait(BOUND_S)
        again = count.run_now().wait(BOUND_S)

    assert (first.result, failed.status, again.result) == (2, "failed", 2)
    assert count.state() == {"count": 2, "last": {"run": again.id}}


def test_a_schedule_forgets_what_its_run_deletes(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def keep(run: RunContext, *, gone: bool = False) -> list[str]:
        if gone:
            del run.state["a"]
            assert "a" not in run.state
            with pytest.raises(KeyError):
                del run.state["a"]
        else:
            run.state.update(a=1, b=2)
        return sorted(run.state)

    with scheduler:
        assert keep.run_now().wait(BOUND_S).result == ["a", "b"]
        assert keep.run_now(gone=True).wait(BOUND_S).result == ["b"]

    assert keep.state() == {"b": 2}


def test_a_value_that_json_does_not_hold_is_refused_where_it_is_set(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def keep(run: RunContext) -> None:
        run.state["when"] = {1, 2}

    with scheduler:
        run = keep.run_now().wait(BOUND_S)

    assert run.status == "failed"
    assert "InvalidInput: state 'when' is set, which JSON does not hold" in str(run.error)


def test_a_state_that_grows_too_large_is_refused_where_it_is_set(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def keep(run: RunContext) -> None:
        for number in range(20):
            run.state[f"part {number}"] = "x" * 60_000

    with scheduler:
        run = keep.run_now().wait(BOUND_S)

    assert run.status == "failed"
    assert "expected at most 1048576" in str(run.error)
    assert keep.state() == {}


def test_how_far_a_run_is_shows_while_it_runs(scheduler: Scheduler) -> None:
    goes_on = threading.Event()

    @scheduler.job("@daily")
    def copy(run: RunContext) -> None:
        run.progress(0.4, "copied 12 of 30")
        assert goes_on.wait(BOUND_S)
        with pytest.raises(InvalidInput):
            run.progress(1.5)

    with scheduler:
        run = copy.run_now()
        while run.refresh().progress is None:
            goes_on.wait(0.01)
        seen = run.progress
        goes_on.set()
        run.wait(BOUND_S)

    assert seen is not None
    assert (seen.fraction, seen.text) == (0.4, "copied 12 of 30")
    assert run.status == "success"


PROGRAM = """
    import os, pathlib, signal, sys, threading
    from edgecron import RunContext, Scheduler

    scheduler = Scheduler(sys.argv[1] if __name__ == "__main__" else os.environ["DATABASE"])

    @scheduler.job("@daily", process=True)
    def crunch(run: RunContext, times: int = 1, *, fails: bool = False) -> dict[str, object]:
        print("crunches", times)
        run.progress(0.5, "half")
        run.state["times"] = run.state.get("times", 0) + times
        if fails:
            raise OSError("no")
        key = run.idempotency_key
        return {"pid": os.getpid(), "folder": os.getcwd(), "key": key, "attempt": run.attempt}

    @scheduler.job("@daily", process=True)
    async def brew(cups: int = 2) -> int:
        return cups

    @scheduler.job("@daily", process=True)
    def odd() -> object:
        return {1}

    @scheduler.job("@daily", process=True, timeout="200ms", kill_grace=0)
    def hang() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Event().wait()

    if __name__ == "__main__":
        import json
        os.environ["DATABASE"] = sys.argv[1]
        sys.path.append(pathlib.Path("lib"))  # what no import looks at, and JSON does not hold
        with scheduler:
            runs = [crunch.run_now(3).wait(20), crunch.run_now(fails=True).wait(20)]
            runs += [crunch.run_now().wait(20)]
            runs += [brew.run_now(5), odd.run_now(), hang.run_now()]
            told = []
            for run in runs:
                run.wait(20)
                told.append([run.status, run.reason, run.result, run.output, run.execution.flags])
        print(json.dumps({"told": told, "state": crunch.state(), "pid": os.getpid()}))
"""


@pytest.mark.parametrize("as_module", [False, True])
def test_a_function_runs_in_a_process_of_its_own_where_that_is_asked(
    tmp_path: Path, as_module: bool
) -> None:
    start = ["-m", "program"] if as_module else ["program.py"]

    ended = run_program(tmp_path, PROGRAM, *start)

    assert ended.returncode == 0, ended.stderr
    said: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    first, failed, second, brewed, odd, hung = said["told"]
    assert first[:2] == ["success", None]
    assert first[2]["pid"] != said["pid"]
    assert first[2]["folder"] == str(tmp_path)
    assert (len(first[2]["key"]), first[2]["attempt"]) == (32, 1)
    assert first[3] == "crunches 3\n"
    assert failed[:2] == ["failed", "exit"]
    assert "OSError: no" in failed[3]
    assert second[0] == "success"
    assert said["state"] == {"times": 4}
    assert (brewed[0], brewed[2]) == ("success", 5)
    assert (odd[0], odd[2], odd[4]) == ("success", None, ["result_invalid"])
    assert hung[:2] == ["failed", "timeout"]


HARD_CASES = """
    import apsw, os, sys
    from edgecron import RunContext, Scheduler

    scheduler = Scheduler(sys.argv[1] if __name__ == "__main__" else os.environ["DATABASE"])

    @scheduler.job("@daily", process=True)
    def large(run: RunContext, letters: int = 60_000) -> str:
        run.state["large"] = "x" * letters
        return "y" * letters

    @scheduler.job("@daily", process=True)
    def odd(run: RunContext) -> object:
        run.state["seen"] = 1
        return {1}

    @scheduler.job("@daily", process=True)
    def blocked(run: RunContext) -> str:
        other = apsw.Connection(os.environ["DATABASE"])
        other.set_busy_timeout(20_000)  # The engine may be writing just then.
        other.execute("BEGIN IMMEDIATE")
        run.progress(0.5)
        other.execute("ROLLBACK")
        other.close()
        run.progress(0.75)
        return "done"

    if __name__ == "__main__":
        import json
        os.environ["DATABASE"] = sys.argv[1]
        with scheduler:
            runs = [large.run_now(), odd.run_now(), blocked.run_now()]
            told = []
            for run in runs:
                run.wait(20)
                fraction = None if run.progress is None else run.progress.fraction
                told.append([run.status, run.result, run.output, fraction])
        print(json.dumps({"told": told, "large": large.state(), "odd": odd.state()}))
"""


def test_a_function_in_a_process_loses_nothing_it_was_to_remember_without_failing(
    tmp_path: Path,
) -> None:
    ended = run_program(tmp_path, HARD_CASES)

    assert ended.returncode == 0, ended.stderr
    said: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    large, odd, blocked = said["told"]
    assert (large[0], said["large"]) == ("failed", {})
    assert "bytes together, expected at most 65536" in large[2]
    assert (odd[0], odd[1], said["odd"]) == ("success", None, {"seen": 1})
    assert "its return value is not JSON" in odd[2]
    # That it could not say how far it was is no reason to fail.
    assert (blocked[0], blocked[1], blocked[3]) == ("success", "done", 0.75)


def test_a_function_that_no_other_process_finds_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidInput, match="which no other process can import"):
        scheduler.job("@daily", process=True, name="inner")(lambda: None)
