"""How jobs of a program end: errors, results that can't be kept, and what its log says of them."""

from __future__ import annotations

import ast
import asyncio
import datetime
import logging
import math
import threading
from pathlib import Path

import pytest

from edgecron import RunContext, Scheduler, Upstream
from edgecron.base.errors import ResultLost, RunFailed
from tests.support.embedded import run_program

BOUND_S = 20.0


def test_a_job_made_of_a_job_controls_its_own_schedule(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def remind(who: str = "me") -> str:
        return who

    weekly = scheduler.job("@weekly", name="weekly")(remind)
    weekly.pause()
    run = weekly.run_now("you")

    assert (weekly.name, remind.name) == ("weekly", "remind")
    assert (weekly.schedule.enabled, remind.schedule.enabled) == (False, True)
    assert (run.schedule, weekly("x"), weekly.__doc__) == ("weekly", "x", remind.__doc__)
    assert [one.schedule for one in weekly.history()] == ["weekly"]


def test_attributes_of_a_function_never_replace_those_of_its_job(tmp_path: Path) -> None:
    scheduler = Scheduler(tmp_path / "app.db", name="app")

    def poll() -> None:
        """Poll."""

    poll.name = "another"  # type: ignore[attr-defined]
    poll.pause = lambda: pytest.fail("the function's own")  # type: ignore[attr-defined]
    poll.schedule = "hourly"  # type: ignore[attr-defined]
    poll.color = "red"  # type: ignore[attr-defined]
    job = scheduler.job("@daily")(poll)
    assert not scheduler.path.exists()  # Nothing was asked of the database.

    job.pause()

    assert (job.name, job.schedule.name) == ("poll", "poll")
    assert not job.schedule.enabled
    assert job.color == "red"  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["raise", "task", "itself"])
def test_a_coroutine_that_leaks_a_cancellation_has_failed_and_is_retried(
    scheduler: Scheduler, way: str
) -> None:
    @scheduler.job("@daily", retries=1, retry_delay=0)
    async def leak() -> None:
        if way == "raise":
            raise asyncio.CancelledError
        if way == "itself":
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            await asyncio.sleep(BOUND_S)
        inner = asyncio.ensure_future(asyncio.sleep(BOUND_S))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    with scheduler:
        run = leak.run_now().wait(BOUND_S)

    assert (run.attempt, run.status, run.reason) == (2, "failed", "exception")
    assert "CancelledError" in str(run.error)


@pytest.mark.parametrize(
    ("returned", "flag"),
    [
        ({1, 2}, "result_invalid"),
        (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "result_invalid"),
        (math.nan, "result_invalid"),
        (10**5000, "result_invalid"),
        ("x" * 1_000_000, "result_too_big"),
    ],
    ids=["set", "datetime", "nan", "long", "large"],
)
def test_a_result_that_can_not_be_kept_is_flagged_logged_and_raised(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture, returned: object, flag: str
) -> None:
    @scheduler.job("@daily")
    def odd() -> object:
        return returned

    with scheduler, caplog.at_level(logging.WARNING, logger="edgecron"):
        run = odd.run_now().wait(BOUND_S)

    assert (run.status, run.flags) == ("success", (flag,))
    with pytest.raises(ResultLost, match="'odd' succeeded, but its result was not kept"):
        run.get()
    [record] = [one for one in caplog.records if one.name == "edgecron"]
    assert record.levelno == logging.WARNING
    assert "job odd succeeded" in record.getMessage()


def test_get_gives_the_result_or_raises_why_there_is_none(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def poll(*, fails: bool = False) -> int:
        if fails:
            raise OSError("no such plc")
        return 7

    async def awaited() -> int | None:
        return await (await poll.arun_now()).aget()

    with scheduler:
        assert poll.run_now().get(BOUND_S) == 7
        assert asyncio.run(awaited()) == 7
        with pytest.raises(RunFailed, match="ended as failed: OSError: no such plc"):
            poll.run_now(fails=True).get(BOUND_S)


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_a_failing_job_is_logged_with_its_traceback(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture, is_coroutine: bool
) -> None:
    def fail() -> None:
        raise LookupError("no such plc")

    async def fail_later() -> None:
        fail()

    job = scheduler.job("@daily", name="poll")(fail_later if is_coroutine else fail)

    with scheduler, caplog.at_level(logging.WARNING, logger="edgecron"):
        run = job.run_now().wait(BOUND_S)

    [record] = [one for one in caplog.records if one.name == "edgecron"]
    assert record.levelno == logging.ERROR
    assert f"job poll failed (run {run.id}, exception): LookupError: no such plc" in caplog.text
    assert "Traceback (most recent call last)" in caplog.text
    assert 'raise LookupError("no such plc")' in caplog.text


PROGRAM = """
    import asyncio, logging, sys
    from edgecron import RunContext, Scheduler, Upstream

    logging.basicConfig(level=logging.WARNING)
    scheduler = Scheduler(sys.argv[1] if __name__ == "__main__" else None, name="app")

    @scheduler.job("@daily", process=True)
    def crash() -> None:
        raise LookupError("no such plc")

    @scheduler.job("@daily", process=True)
    async def leak() -> None:
        raise asyncio.CancelledError

    @scheduler.job("@daily", process=True)
    def long() -> int:
        return 10**5000

    @scheduler.job("@daily", process=True)
    def leave() -> None:
        sys.exit(3)

    if __name__ == "__main__":
        with scheduler:
            for job in (crash, leak, long, leave):
                run = job.run_now().wait(20)
                code = run.execution.error_code
                told = (run.schedule, run.status, run.reason, run.exit_code, code, run.error)
                print(*told, run.flags)
"""


def test_a_function_in_a_process_fails_with_its_exception(tmp_path: Path) -> None:
    ended = run_program(tmp_path, PROGRAM)

    assert ended.returncode == 0, ended.stderr
    crash, leak, long, leave = ended.stdout.splitlines()
    assert crash == "crash failed exit 1 LookupError LookupError: no such plc ()"
    assert leak.startswith("leak failed exit 1 CancelledError asyncio.exceptions.CancelledError")
    assert long == "long success None 0 None None ('result_invalid',)"
    assert leave.startswith("leave failed exit 3")
    assert "ERROR:edgecron:job crash failed" in ended.stderr
    assert 'raise LookupError("no such plc")' in ended.stderr
    assert "WARNING:edgecron:job long succeeded" in ended.stderr


def test_a_follow_up_finds_the_run_before_it(scheduler: Scheduler) -> None:
    found: list[Upstream | None] = []
    done = threading.Event()

    @scheduler.job("@daily")
    def poll() -> None:
        raise OSError("no such plc")

    @scheduler.job("after poll:failure")
    def report(run: RunContext) -> None:
        found.append(run.upstream)

    with scheduler:
        report.run_now().wait(BOUND_S)
        with scheduler.subscribe(lambda event: done.set(), "finished", job=report):
            failed = poll.run_now().wait(BOUND_S)
            assert done.wait(BOUND_S)

    assert found == [
        None,
        Upstream("poll", failed.id, "failed", "exception", None, "OSError: no such plc"),
    ]


FOLLOW_UP = """
    import sys
    from edgecron import RunContext, Scheduler

    scheduler = Scheduler(sys.argv[1] if __name__ == "__main__" else None, name="app")

    @scheduler.job("@daily", process=True)
    def poll() -> None:
        sys.exit(3)

    @scheduler.job("after poll:any", process=True)
    def report(run: RunContext) -> object:
        return run.upstream and run.upstream._asdict()

    if __name__ == "__main__":
        with scheduler:
            print(report.run_now().wait(20).result)
            print(poll.run_now().wait(20).id)
            # The transaction that ended the run has written the follow-up's row.
            print(report.history()[0].wait(20).result)
"""


def test_a_follow_up_in_a_process_finds_the_run_before_it(tmp_path: Path) -> None:
    # The program is itself a follow-up of another edgecron: that is not for its own runs.
    outer = {
        "EDGECRON_UPSTREAM_NAME": "outer",
        "EDGECRON_UPSTREAM_RUN_ID": "1",
        "EDGECRON_UPSTREAM_STATUS": "success",
        "EDGECRON_UPSTREAM_REASON": "",
        "EDGECRON_UPSTREAM_EXIT_CODE": "0",
        "EDGECRON_UPSTREAM_ERROR": "",
        "EDGECRON_PAYLOAD": '{"of": "outer"}',
    }

    ended = run_program(tmp_path, FOLLOW_UP, environment=outer)

    assert ended.returncode == 0, ended.stderr
    manual, run_id, followed = ended.stdout.splitlines()
    assert manual == "None"
    assert ast.literal_eval(followed) == {
        "name": "poll",
        "run": int(run_id),
        "status": "failed",
        "reason": "exit",
        "exit_code": 3,
        "error": "exit code 3",
    }
