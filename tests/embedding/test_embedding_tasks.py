"""Functions without times: tasks of a program, which run on demand."""

from __future__ import annotations

import asyncio

import pytest

from edgecron import Scheduler
from edgecron.base.errors import InvalidInput

BOUND_S = 20.0


def test_a_task_has_no_times_and_its_parameters_need_no_default(scheduler: Scheduler) -> None:
    @scheduler.task(retries=3)
    def load(table: str, rows: int) -> str:
        return f"{rows} of {table}"

    schedule = load.schedule
    assert schedule.spec.triggers == ("on demand",)
    assert (schedule.spec.policies.retries, schedule.next_run_at) == (3, None)
    assert load.next_runs() == []
    scheduler.start()
    assert load.run_now("users", 3).get(BOUND_S) == "3 of users"
    assert load("orders", 4) == "4 of orders"


def test_tasks_run_beside_each_other_unless_told_otherwise(scheduler: Scheduler) -> None:
    @scheduler.task()
    def many() -> None:
        pass

    @scheduler.task(overlap="queue", max_running=2)
    def few() -> None:
        pass

    assert many.schedule.spec.policies.overlap == "allow"
    assert few.schedule.spec.policies.overlap == "queue"
    assert [one.run_now().status for one in (many, many, many)] == ["queued"] * 3


def test_a_coroutine_can_be_a_task(scheduler: Scheduler) -> None:
    @scheduler.task()
    async def load(table: str) -> str:
        return table

    async def main() -> str | None:
        async with scheduler:
            return await (await load.arun_now("users")).aget()

    assert asyncio.run(main()) == "users"


def test_a_job_with_only_this_trigger_is_the_same(scheduler: Scheduler) -> None:
    @scheduler.job("on demand")
    def load(table: str) -> str:
        return table

    assert load.schedule.spec.triggers == ("on demand",)
    assert load.schedule.spec.policies.overlap == "skip"


def test_a_task_takes_no_trigger(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidInput, match="task has no trigger, but was given 'every 5m'"):
        scheduler.task("every 5m")


def test_a_declaration_that_is_the_same_changes_nothing(scheduler: Scheduler) -> None:
    again = Scheduler(scheduler.path)
    for one in (scheduler, again):

        @one.task(name="load")
        def load(table: str) -> None:
            pass

        revision = load.schedule.revision

    assert revision == 1
