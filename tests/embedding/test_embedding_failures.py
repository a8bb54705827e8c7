"""Exceptions of functions: retries, skipped runs, what `get` raises, and `on_failure`."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from edgecron import Retry, Run, RunContext, RunEvent, RunFailed, Scheduler, Skip
from edgecron.base.errors import InvalidInput
from edgecron.embedding.testing import travel
from tests.support.embedded import run_program

BOUND_S = 20.0


class PlcError(OSError):
    """An exception of the program."""


@pytest.mark.parametrize("is_coroutine", [False, True])
@pytest.mark.parametrize(
    ("rules", "raised", "attempts"),
    [
        ({}, ValueError, 3),
        ({"retry_on": OSError}, PlcError, 3),
        ({"retry_on": OSError}, ValueError, 1),
        ({"retry_on": (KeyError, OSError)}, OSError, 3),
        ({"retry_on": ()}, OSError, 1),
        ({"give_up_on": (OSError,)}, PlcError, 1),
        ({"give_up_on": (OSError,)}, ValueError, 3),
        ({"retry_on": OSError, "give_up_on": PlcError}, PlcError, 1),
        ({"retry_on": PlcError, "give_up_on": OSError}, PlcError, 1),
        ({"retry_on": KeyError}, SystemExit, 1),
    ],
)
def test_classes_decide_which_exceptions_are_retried(
    scheduler: Scheduler,
    rules: Any,
    raised: type[BaseException],
    attempts: int,
    is_coroutine: bool,
) -> None:
    def poll() -> None:
        raise raised("no")

    async def poll_later() -> None:
        raise raised("no")

    function: Callable[[], object] = poll_later if is_coroutine else poll
    job = scheduler.job("@daily", name="poll", retries=2, retry_delay=0, **rules)(function)

    with travel(scheduler):
        run = job.run_now().wait()

    assert (run.status, run.attempt) == ("failed", attempts)
    assert run.flags == (("gave_up",) if attempts == 1 else ())


def test_the_last_attempt_does_not_give_up(scheduler: Scheduler) -> None:
    @scheduler.job("@daily", retry_on=OSError)
    def poll() -> None:
        raise ValueError("no")

    with travel(scheduler):
        assert poll.run_now().wait().flags == ()


def test_a_timeout_is_retried_whatever_the_classes(scheduler: Scheduler) -> None:
    @scheduler.job("@daily", retries=1, retry_delay=0, timeout=1, give_up_on=Exception)
    def poll() -> None:
        journey.clock.advance_ms(2_000)
        raise ValueError("no")

    with travel(scheduler) as journey:
        run = poll.run_now().wait()

    assert (run.attempt, run.reason, run.flags) == (2, "timeout", ())


@pytest.mark.parametrize(
    "wrong",
    [
        {"retry_on": "OSError"},
        {"retry_on": (OSError, "ValueError")},
        {"give_up_on": OSError()},
        {"give_up_on": int},
        {"give_up_on": [OSError]},
        {"on_failure": "alert"},
        {"on_failure": asyncio.sleep},
    ],
)
def test_a_wrong_rule_is_refused_by_its_name(scheduler: Scheduler, wrong: Any) -> None:
    [name] = wrong

    with pytest.raises(InvalidInput, match=f"schedule 'poll': {name} is ") as refused:
        scheduler.job("@daily", name="poll", **wrong)(lambda: None)

    assert f"such as {name}=" in str(refused.value.hint)
    scheduler.job("@daily", name="poll")(lambda: None)


@pytest.mark.parametrize(
    ("after", "wait_s"), [("30s", 30), (1.5, 1.5), (timedelta(minutes=2), 120), (0, 0)]
)
def test_retry_asks_for_another_attempt_after_a_delay(
    scheduler: Scheduler, after: Any, wait_s: float
) -> None:
    @scheduler.job("@daily", retries=1, retry_delay="1h", retry_on=KeyError)
    def poll(run: RunContext) -> str:
        if run.attempt == 1:
            raise Retry("the device is busy", after=after)
        return run.due_at.isoformat()

    with travel(scheduler) as journey:
        run = poll.run_now().wait()
        [first, second] = journey.runs(poll)[:2]

    assert (run.attempt, run.status) == (2, "success")
    assert (first.status, first.error, first.output) == ("failed", "the device is busy", "")
    assert first.finished_at is not None
    assert second.execution.due_at - first.finished_at == timedelta(seconds=wait_s)


def test_retry_without_a_delay_takes_that_of_the_job(scheduler: Scheduler) -> None:
    @scheduler.job("@daily", retries=1, retry_delay="1h", retry_max_delay="1h")
    def poll() -> None:
        raise Retry

    with travel(scheduler):
        run = poll.run_now().wait()
        [second, first] = poll.history()

    assert first.finished_at is not None
    waited = second.execution.due_at - first.finished_at
    assert timedelta(minutes=54) < waited <= timedelta(hours=1)
    assert run.error == "the function asked for another attempt; no attempt is left"


def test_retry_that_follows_an_exception_has_its_traceback(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def poll() -> None:
        try:
            raise PlcError("timeout")
        except PlcError as error:
            raise Retry("busy", after=1) from error

    with travel(scheduler):
        run = poll.run_now().wait()
        assert "PlcError: timeout" in run.output

    assert (run.status, run.error) == ("failed", "busy; no attempt is left")


@pytest.mark.parametrize("retries", [0, 1])
def test_only_a_retry_without_an_attempt_left_is_logged_as_an_error(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture, retries: int
) -> None:
    @scheduler.job("@daily", retries=retries)
    def poll(run: RunContext) -> None:
        if run.attempt == 1:
            raise Retry("busy", after=0)

    with scheduler:
        run = poll.run_now().wait(BOUND_S)

    assert run.attempt == 1 + retries
    errors = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(errors) == (1 if retries == 0 else 0)


@pytest.mark.parametrize("after", ["soon", -1, True, float("nan"), float("inf"), [5]])
def test_a_delay_that_is_none_is_refused(after: Any) -> None:
    with pytest.raises(InvalidInput):
        Retry(after=after)


@pytest.mark.parametrize("is_coroutine", [False, True])
def test_skip_ends_a_run_as_skipped(
    scheduler: Scheduler, is_coroutine: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def poll(run: RunContext) -> None:
        run.state["seen"] = 1
        raise Skip("no new files")

    async def poll_later(run: RunContext) -> None:
        poll(run)

    function: Any = poll_later if is_coroutine else poll
    job = scheduler.job("@daily", name="poll", retries=3)(function)
    events: list[RunEvent] = []

    with travel(scheduler) as journey, scheduler.subscribe(events.append, "skipped", job=job):
        run = job.run_now().wait()
        state, ends, output = job.state(), journey.events("finished", job=job), run.output
        with pytest.raises(RunFailed, match="ended as skipped: no new files") as failed:
            run.get()

    assert (run.status, run.reason, run.error, run.attempt) == (
        *("skipped", "declined", "no new files"),
        1,
    )
    assert (run.started_at, output, run.result, state) == (None, "", None, {})
    assert [(one.kind, one.status, one.error) for one in events] == [
        ("skipped", "skipped", "no new files")
    ]
    assert ends == []
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert failed.value.is_a(Skip)


ODD = ["", 5, None, "\ud800", "x" * 5_000]


@pytest.mark.parametrize("reason", ODD, ids=repr)
def test_an_odd_reason_ends_the_run_too(scheduler: Scheduler, reason: Any) -> None:
    @scheduler.job("@daily")
    def poll() -> None:
        raise Skip(reason)

    with travel(scheduler):
        run = poll.run_now().wait()

    assert (run.status, run.reason) == ("skipped", "declined")
    assert len(run.error or "") <= 2_000


PROGRAM = """
    import sys
    from edgecron import Retry, RunContext, Scheduler, Skip

    class PlcError(Exception):
        pass

    scheduler = Scheduler(sys.argv[1] if __name__ == "__main__" else None, name="app")
    called = []

    def alert(run, error):
        called.append((run.schedule, run.attempt, error.type))

    @scheduler.job("@daily", process=True, retries=2, retry_delay=0, retry_on=OSError,
                   on_failure=alert)
    def give_up() -> None:
        print("Traceback (most recent call last):", file=sys.stderr)
        try:
            raise LookupError("no such tag")
        except LookupError:
            raise PlcError("no such plc")

    @scheduler.job("@daily", process=True, retries=2, retry_delay="1h")
    def again(run: RunContext) -> int:
        if run.attempt == 1:
            raise Retry("busy", after="10ms")
        return run.attempt

    @scheduler.job("@daily", process=True, retries=2)
    async def skip() -> None:
        raise Skip("no new files")

    if __name__ == "__main__":
        with scheduler:
            for job in (give_up, again, skip):
                run = job.run_now().wait(20)
                print(run.schedule, run.attempt, run.status, run.reason, run.exit_code, run.error,
                      run.flags)
        print(called)
"""


def test_a_function_in_a_process_decides_the_same(tmp_path: Path) -> None:
    ended = run_program(tmp_path, PROGRAM)

    assert ended.stdout.splitlines() == [
        "give_up 1 failed exit 1 PlcError: no such plc ('gave_up',)",
        "again 2 success None 0 None ()",
        "skip 1 skipped declined None no new files ()",
        "[('give_up', 1, 'PlcError')]",
    ], ended.stderr
    # Another process, after a restart, has only what the database holds.
    scheduler = Scheduler(tmp_path / "app.db", name="reader")
    [run] = scheduler.get("give_up").history()
    with pytest.raises(RunFailed, match="'give_up' ended as failed: PlcError: no such plc") as got:
        run.get()
    assert (got.value.type, got.value.message) == ("PlcError", "no such plc")
    assert got.value.is_a(PlcError)  # of another module, by its name
    assert not got.value.is_a(LookupError)
    trace = str(got.value.traceback)
    assert trace.startswith("Traceback (most recent call last):\n  File")
    assert "LookupError: no such tag\n\nDuring handling" in trace
    assert trace.endswith("PlcError: no such plc\n")


def _raise_group() -> None:
    raise ExceptionGroup("two", [ValueError("a"), OSError("b")])


def _raise_syntax_error() -> None:
    compile("1 +", "plc.txt", "exec")


def _raise_without_text() -> None:
    raise ValueError


def _raise_with_note() -> None:
    error = ValueError("no")
    error.add_note("look at the plc")
    raise error


def _raise_own() -> None:
    raise PlcError("no: such: plc")


@pytest.mark.parametrize(
    ("function", "type_", "message", "kinds"),
    [
        (_raise_group, "ExceptionGroup", "two (2 sub-exceptions)", (ExceptionGroup, Exception)),
        (_raise_without_text, "ValueError", "", (ValueError,)),
        (_raise_with_note, "ValueError", "no\nlook at the plc", (ValueError, Exception)),
        (_raise_own, f"{__name__}.PlcError", "no: such: plc", (PlcError, OSError)),
        (_raise_syntax_error, "SyntaxError", None, (SyntaxError,)),
    ],
)
def test_get_raises_what_the_function_raised(
    scheduler: Scheduler,
    function: Callable[[], None],
    type_: str,
    message: str | None,
    kinds: tuple[type[BaseException], ...],
) -> None:
    job = scheduler.job("@daily", name="poll")(function)

    with travel(scheduler), pytest.raises(RunFailed) as got:
        job.run_now().get()

    assert got.value.type == type_
    assert message is None or got.value.message == message
    assert all(got.value.is_a(kind) for kind in kinds)
    assert not got.value.is_a(KeyError)
    assert function.__name__ in str(got.value.traceback)
    assert any("The function raised" in note for note in got.value.__notes__)


def test_get_says_how_a_run_ended_without_an_exception(scheduler: Scheduler) -> None:
    scheduler.add("fail", "@daily", command=["sh", "-c", "echo oh; exit 3"])

    @scheduler.job("@daily", timeout=1)
    def slow() -> None:
        journey.clock.advance_ms(2_000)

    with travel(scheduler, commands="run") as journey:
        with pytest.raises(RunFailed) as exited:
            scheduler.get("fail").run_now().get()
        with pytest.raises(RunFailed) as late:
            slow.run_now().get()

    assert (exited.value.type, exited.value.traceback) == (None, None)
    assert (late.value.type, late.value.traceback) == (None, None)
    assert late.value.message == "ran longer than its timeout of 1 s"
    assert not late.value.is_a(Exception)


def test_aget_raises_the_same(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def poll() -> None:
        raise PlcError("no")

    async def awaited() -> None:
        await (await poll.arun_now()).aget()

    with scheduler, pytest.raises(RunFailed) as got:
        asyncio.run(awaited())

    assert (got.value.message, got.value.is_a(PlcError)) == ("no", True)
    assert "in poll" in str(got.value.traceback)


def test_on_failure_is_called_once_after_the_last_attempt(scheduler: Scheduler) -> None:
    called: list[tuple[Run[Any], RunFailed]] = []

    @scheduler.job(
        "@daily", retries=2, retry_delay=60, on_failure=lambda *given: called.append(given)
    )
    def poll(run: RunContext, succeeds_at: int = 9) -> None:
        if run.attempt < succeeds_at:
            raise PlcError("no")

    with travel(scheduler):
        poll.run_now(succeeds_at=3).wait()
        assert called == []
        poll.run_now().wait()

    [(run, error)] = called
    assert (run.schedule, run.attempt, run.status) == ("poll", 3, "failed")
    assert (error.message, error.is_a(PlcError)) == ("no", True)


def test_on_failure_is_called_if_a_run_gives_up_or_exceeds_its_timeout(
    scheduler: Scheduler,
) -> None:
    called: list[str | None] = []

    def alert(run: Run[Any], error: RunFailed) -> None:
        called.append(run.reason)

    @scheduler.job("@daily", retries=2, give_up_on=OSError, on_failure=alert)
    def give_up() -> None:
        raise PlcError("no")

    @scheduler.job("@daily", timeout=1, on_failure=alert)
    def slow() -> None:
        journey.clock.advance_ms(2_000)

    @scheduler.job("@daily", on_failure=alert)
    def skip() -> None:
        raise Skip("nothing to do")

    with travel(scheduler) as journey:
        for job in (give_up, slow, skip):
            job.run_now().wait()

    assert called == ["exception", "timeout"]


def test_an_error_of_on_failure_is_logged_and_the_next_one_is_called(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    called = threading.Semaphore(0)

    def alert(run: Run[Any], error: RunFailed) -> None:
        called.release()
        raise SystemExit(f"no alert for {run.schedule}")

    @scheduler.job("@daily", on_failure=alert)
    def poll() -> None:
        raise PlcError("no")

    with scheduler:
        for _ in range(2):
            poll.run_now().wait(BOUND_S)
            assert called.acquire(timeout=BOUND_S)

    assert "edgecron-failures" not in {thread.name for thread in threading.enumerate()}
    logged = [one for one in caplog.records if "on_failure of job poll failed" in one.getMessage()]
    assert len(logged) == 2
    assert all(one.exc_info for one in logged)


SURVIVOR = """
    import os, signal, sys, threading
    from pathlib import Path
    from edgecron import Scheduler

    FIFO = Path(__file__).with_name("fifo")
    scheduler = Scheduler(sys.argv[1] if __name__ == "__main__" else None, name="app")
    called = threading.Event()

    def alert(run, error):
        print(run.id, run.status, error, flush=True)
        called.set()

    @scheduler.job("@daily", process=True, on_failure=alert)
    def poll() -> None:
        with FIFO.open("w") as file:
            file.write("begun")
        FIFO.read_text()
        raise OSError("no plc")

    @scheduler.job("@daily", on_failure=alert)
    def here() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if __name__ == "__main__":
        if FIFO.exists():
            with scheduler:
                FIFO.write_text("end")
                called.wait(20)
        else:
            os.mkfifo(FIFO)
            scheduler.start()
            poll.run_now()
            FIFO.read_text()
            here.run_now().wait(20)
"""


def test_on_failure_is_called_by_the_program_that_records_the_end(tmp_path: Path) -> None:
    killed = run_program(tmp_path, SURVIVOR)
    restarted = run_program(tmp_path, SURVIVOR)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert restarted.stdout == "1 failed run 1 of 'poll' ended as failed: OSError: no plc\n", (
        restarted.stderr
    )
    [interrupted] = Scheduler(tmp_path / "app.db", name="reader").get("here").history()
    assert interrupted.status == "interrupted"
