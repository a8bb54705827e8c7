"""Functions without times: tasks of a program, which run on demand."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import pytest

from edgecron import Run, RunContext, Scheduler
from edgecron.base.errors import InvalidInput, KeyReused, NotFound
from edgecron.model.choices import Status

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


@pytest.fixture
def copied(scheduler: Scheduler) -> Any:
    """A task with two parameters."""

    @scheduler.task()
    def copied(table: str, rows: int = 1) -> str:
        return f"{rows} of {table}"

    return copied


def test_it_is_enqueued_with_its_arguments(scheduler: Scheduler, copied: Any) -> None:
    runs = [copied.enqueue("users"), copied.enqueue("users", rows=3), copied.enqueue(table="x")]

    scheduler.start()
    assert [run.get(BOUND_S) for run in runs] == ["1 of users", "3 of users", "1 of x"]
    with pytest.raises(TypeError, match="takes"):
        copied.enqueue()


def test_a_call_can_be_delayed(copied: Any) -> None:
    now = datetime.now(UTC)

    delayed = copied.enqueue("users", delay="5m")
    seconds = copied.enqueue("users", delay=2.5)
    at = copied.enqueue("users", at=now + timedelta(hours=1))

    assert timedelta(minutes=4) < delayed.execution.due_at - now < timedelta(minutes=6)
    assert timedelta(seconds=2) < seconds.execution.due_at - now < timedelta(minutes=1)
    assert abs(at.execution.due_at - now - timedelta(hours=1)) < timedelta(milliseconds=2)
    assert delayed.cancel().status == Status.CANCELLED


def test_a_short_delay_passes(scheduler: Scheduler, copied: Any) -> None:
    scheduler.start()

    assert copied.enqueue("users", delay=0.05).get(BOUND_S) == "1 of users"


def test_a_key_gives_the_first_run(copied: Any) -> None:
    first = copied.enqueue("users", key="today")

    assert copied.enqueue("users", key="today").id == first.id
    assert copied.enqueue("users", key="tomorrow").id != first.id
    with pytest.raises(KeyReused):
        copied.enqueue("orders", key="today")


def test_threads_with_one_key_get_one_run(copied: Any) -> None:
    with ThreadPoolExecutor(8) as crowd:
        ids = list(crowd.map(lambda _: copied.enqueue("users", key="k").id, range(40)))

    assert len(set(ids)) == 1
    assert len(copied.history()) == 1


def test_threads_that_enqueue_together_get_their_own_runs(copied: Any) -> None:
    with ThreadPoolExecutor(8) as crowd:
        runs = list(crowd.map(lambda number: copied.enqueue("users", number), range(80)))

    assert [run.execution.payload for run in runs] == [
        f'{{"table":"users","rows":{number}}}' for number in range(80)
    ]


def test_priority_scope_and_timeout_are_of_one_call(scheduler: Scheduler) -> None:
    @scheduler.task(scopes=["device:a", "device:b"])
    def poll(what: str) -> None:
        pass

    run = poll.enqueue("x", scope="device:b", priority="high", timeout="5s")

    assert run.scope == ("device", "b")
    assert run.execution.priority == 10
    with pytest.raises(InvalidInput, match="'poll' has 2 scopes, expected one"):
        poll.enqueue("x")


def test_the_timeout_of_a_call_ends_it(scheduler: Scheduler) -> None:
    @scheduler.task(timeout="1h")
    async def slow() -> None:
        await asyncio.sleep(60)

    scheduler.start()

    ended = slow.enqueue(timeout=0.05).wait(BOUND_S)

    assert (ended.status, ended.reason) == (Status.FAILED, "timeout")


def test_many_calls_are_enqueued_together(scheduler: Scheduler, copied: Any) -> None:
    runs = copied.enqueue_many([("a", 2), {"table": "b", "rows": 3}, "c"], delay=0.01)
    scheduler.start()

    assert [run.get(BOUND_S) for run in runs] == ["2 of a", "3 of b", "1 of c"]
    assert copied.enqueue_many([]) == []
    with pytest.raises(TypeError):
        copied.enqueue_many([("a",), ()])
    assert len(copied.history()) == 3


def test_a_coroutine_enqueues_without_blocking(scheduler: Scheduler, copied: Any) -> None:
    async def main() -> list[object]:
        async with scheduler:
            one = await copied.aenqueue("a", rows=2)
            many = await copied.aenqueue_many(["b", "c"])
            sent = await scheduler.asend("app:copied", "d")
            return [await run.aget() for run in (one, *many, sent)]

    assert asyncio.run(main()) == ["2 of a", "1 of b", "1 of c", "1 of d"]


def test_a_call_can_be_sent_without_the_code(scheduler: Scheduler, copied: Any) -> None:
    scheduler.start()
    _ = copied.schedule
    other = Scheduler(scheduler.path, name="web")

    assert other.send("app:copied", "users", 2).get(BOUND_S) == "2 of users"
    assert other.send("app:copied", table="x").get(BOUND_S) == "1 of x"
    first = other.send("app:copied", "users", key="k", delay="5m")
    assert other.send("app:copied", "users", key="k").id == first.id
    assert [one.name for one in other.schedules()] == ["copied"]


def test_what_a_call_names_wrongly_is_said(scheduler: Scheduler, copied: Any) -> None:
    _ = copied.schedule
    scheduler.add("rotate", "@daily", command=["true"])

    with pytest.raises(NotFound, match="program 'app' has no function 'copy'") as wrong:
        scheduler.send("app:copy")
    with pytest.raises(NotFound, match="program 'other' has no function 'copied'"):
        scheduler.send("other:copied", "users")
    with pytest.raises(NotFound, match="program 'app' has no function 'rotate'"):
        scheduler.send("app:rotate")
    with pytest.raises(InvalidInput, match="expected PROGRAM:NAME"):
        scheduler.send("copied")
    with pytest.raises(InvalidInput, match="positional and keyword arguments"):
        scheduler.send("app:copied", "users", rows=2)
    assert wrong.value.hint == "did you mean 'app:copied'?"


def test_a_parameter_with_the_name_of_an_option_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidInput, match="has the parameter 'key', which is an option of") as no:

        @scheduler.task()
        def store(key: str) -> None:
            pass

    assert no.value.hint == "rename the parameter, such as key_"

    @scheduler.job("@daily")
    def kept(key: str = "x") -> str:
        return key

    assert kept.run_now("y").execution.payload == '{"key":"y"}'
    with pytest.raises(InvalidInput, match="has the parameter 'key'"):
        kept.enqueue(key="y")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delay": "soon"}, "soon"),
        ({"delay": [1]}, "expected a duration"),
        ({"at": datetime(2030, 1, 1)}, "which has no time zone"),  # noqa: DTZ001
        ({"key": 4}, "key is 4, expected text"),
        ({"priority": "urgent"}, "urgent"),
        ({"delay": 1, "at": datetime(2030, 1, 1, tzinfo=UTC)}, "a delay and a time"),
    ],
)
def test_a_wrong_option_is_said(copied: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        copied.enqueue("users", **options)

    assert copied.history() == []


def test_a_job_with_times_can_be_enqueued_too(scheduler: Scheduler) -> None:
    @scheduler.job("@yearly")
    def report(kind: str = "short") -> str:
        return kind

    rotate = scheduler.add("rotate", "@yearly", command=["true"])

    scheduler.start()
    assert report.enqueue("long", delay=0.01).get(BOUND_S) == "long"
    assert rotate.enqueue(delay=0.01).wait(BOUND_S).status == "success"


def test_type_checkers_know_arguments_and_result(scheduler: Scheduler) -> None:
    @scheduler.task()
    def load(table: str, rows: int = 1) -> int:
        return rows

    @scheduler.task()
    async def fetch(run: RunContext, url: str) -> str:
        return url

    assert_type(load.enqueue("users", rows=3), Run[int])
    assert_type(load.enqueue("users", delay="5m", key="k"), Run[int])
    assert_type(fetch.enqueue("https://example.org", at=datetime.now(UTC)), Run[str])
    assert_type(load.enqueue_many(["users"]), list[Run[int]])

    async def main() -> None:
        assert_type(await load.aenqueue("users"), Run[int])
        assert_type(await fetch.aenqueue("x", priority="high"), Run[str])

    asyncio.run(main())
    with pytest.raises(TypeError):
        load.enqueue(4, wrong=1)  # type: ignore[call-overload]
