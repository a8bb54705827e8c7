"""Code around every function: its order, its exceptions, and the functions that it is around."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from edgecron import RunContext, RunFailed, Scheduler
from edgecron.base.errors import InvalidInput
from edgecron.embedding.testing import travel
from tests.support.embedded import run_program

BOUND_S = 20.0
CURRENT: ContextVar[int | None] = ContextVar("CURRENT", default=None)


def noting(said: list[str], name: str) -> Callable[[RunContext], Iterator[None]]:
    def around(run: RunContext) -> Iterator[None]:
        said.append(f"{name} before {run.schedule}")
        try:
            yield
        except OSError as error:
            said.append(f"{name} got {error}")
            raise
        said.append(f"{name} after")

    return around


def anoting(said: list[str], name: str) -> Callable[[RunContext], AsyncIterator[None]]:
    async def around(run: RunContext) -> AsyncIterator[None]:
        said.append(f"{name} before {run.schedule}")
        try:
            yield
        finally:
            said.append(f"{name} at the end")

    return around


def test_middleware_nests_in_the_order_of_declaration(scheduler: Scheduler) -> None:
    said: list[str] = []

    @scheduler.job("@daily")
    def poll(count: int = 3) -> int:
        said.append("poll")
        return count

    for name in ("outer", "inner"):
        scheduler.middleware(noting(said, name))
    scheduler.middleware(anoting(said, "async"))

    with travel(scheduler):
        assert poll.run_now(4).get() == 4

    assert said == [
        *("outer before poll", "inner before poll", "poll", "inner after", "outer after"),
    ]


def test_both_kinds_are_around_a_coroutine(scheduler: Scheduler) -> None:
    said: list[str] = []
    scheduler.middleware(noting(said, "outer"))
    scheduler.middleware(anoting(said, "inner"))

    @scheduler.job("@daily")
    async def poll() -> int:
        said.append("poll")
        raise OSError("no plc")

    with travel(scheduler), pytest.raises(RunFailed, match="no plc"):
        poll.run_now().get()

    assert said == [
        *("outer before poll", "inner before poll", "poll"),
        *("inner at the end", "outer got no plc"),
    ]


def test_a_plain_call_is_without_middleware(scheduler: Scheduler) -> None:
    said: list[str] = []
    scheduler.middleware(noting(said, "outer"))

    @scheduler.job("@daily")
    def poll() -> int:
        return 7

    assert (poll(), said) == (7, [])


def test_middleware_and_function_share_one_run(scheduler: Scheduler) -> None:
    seen: list[RunContext] = []

    @scheduler.middleware
    def remember(run: RunContext) -> Iterator[None]:
        seen.append(run)
        run.state["begun"] = run.payload
        yield

    @scheduler.job("@daily")
    def poll(run: RunContext, host: str = "plc1") -> None:
        seen.append(run)

    with travel(scheduler):
        poll.run_now("plc2").get()
        assert poll.state() == {"begun": {"host": "plc2"}}

    assert seen[0] is seen[1]


def test_a_middleware_that_catches_an_exception_makes_the_run_succeed(
    scheduler: Scheduler,
) -> None:
    @scheduler.middleware
    def catch(run: RunContext) -> Iterator[None]:
        with suppress(OSError):
            yield

    def fail() -> int:
        raise OSError("no plc")

    async def fail_later() -> int:
        raise OSError("no plc")

    jobs = [scheduler.job("@daily")(one) for one in (fail, fail_later)]

    with travel(scheduler):
        assert [job.run_now().wait().status for job in jobs] == ["success"] * 2


def _raises(run: RunContext) -> Iterator[None]:
    raise OSError("no tracer")
    yield


def _never_yields(run: RunContext) -> Iterator[None]:
    if run.id < 0:
        yield


def _yields_twice(run: RunContext) -> Iterator[None]:
    yield
    yield


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (_raises, "OSError: no tracer"),
        (_never_yields, "RuntimeError: generator didn't yield"),
        (_yields_twice, "RuntimeError: generator didn't stop"),
    ],
)
def test_a_middleware_that_fails_fails_the_run(
    scheduler: Scheduler, wrong: Callable[[RunContext], Iterator[None]], error: str
) -> None:
    scheduler.middleware(wrong)

    @scheduler.job("@daily", retries=1, retry_delay=0)
    def poll() -> None:
        """Do nothing."""

    with travel(scheduler):
        run = poll.run_now().wait()

    assert (run.status, run.attempt, run.error) == ("failed", 2, error)


@pytest.mark.parametrize("wrong", [lambda run: None, None, "traced", print])
def test_what_is_no_generator_is_refused(scheduler: Scheduler, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match=r"middleware is .*, expected a generator function"):
        scheduler.middleware(wrong)


def test_context_variables_reach_the_function_and_no_other_run(scheduler: Scheduler) -> None:
    @scheduler.middleware
    def set_current(run: RunContext) -> Iterator[None]:
        token = CURRENT.set(run.id)
        yield
        CURRENT.reset(token)

    @scheduler.job("@daily", overlap="allow")
    def poll(run: RunContext) -> bool:
        return CURRENT.get() == run.id

    @scheduler.job("@daily", overlap="allow")
    async def apoll(run: RunContext) -> bool:
        return CURRENT.get() == run.id

    with scheduler:
        runs = [job.run_now() for _ in range(10) for job in (poll, apoll)]
        assert all(run.get(BOUND_S) for run in runs)

    assert CURRENT.get() is None


PROGRAM = """
    import sys
    from edgecron import Scheduler

    scheduler = Scheduler(sys.argv[1] if __name__ == "__main__" else None, name="app")

    @scheduler.middleware
    def traced(run):
        print("before", run.schedule, run.attempt)
        yield
        print("after")

    @scheduler.job("@daily", process=True)
    def poll() -> int:
        print("poll")
        return 7

    @scheduler.job("@daily", process=True)
    async def apoll() -> int:
        print("apoll")
        return 7

    if __name__ == "__main__":
        @scheduler.middleware
        def only_here(run):
            print("never")
            yield

        with scheduler:
            for job in (poll, apoll):
                run = job.run_now()
                print(run.get(20), run.output.split("\\n"))
"""


def test_middleware_of_the_module_is_around_a_function_in_its_process(tmp_path: Path) -> None:
    ended = run_program(tmp_path, PROGRAM)

    assert ended.stdout.splitlines() == [
        "7 ['before poll 1', 'poll', 'after', '']",
        "7 ['before apoll 1', 'apoll', 'after', '']",
    ], ended.stderr
