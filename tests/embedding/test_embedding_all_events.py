"""Events of all engines of a database: each once, and in order per run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from queue import Queue

import apsw
import pytest

from edgecron import RunEvent, Scheduler, Skip
from edgecron.base.clock import SystemClock
from edgecron.client import Client
from edgecron.embedding.events import Origin, PendingEvent
from edgecron.embedding.run_watch import RunWatch
from edgecron.engine.events import Event, EventKind

BOUND_S = 20.0
OTHER = """
import sys
from edgecron import Scheduler

scheduler = Scheduler(sys.argv[1], name="app")

@scheduler.job("@daily", overlap="allow")
def poll(number: int = 0) -> int:
    return number

@scheduler.job("@daily")
def fail() -> None:
    raise LookupError("no host")

with scheduler:
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_engine(path: Path) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path)],
        env={"PYTHONPATH": ":".join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        assert engine.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            engine.stdin.close()


def take(told: Queue[RunEvent], count: int) -> list[RunEvent]:
    return [told.get(timeout=BOUND_S) for _ in range(count)]


def shown(event: RunEvent) -> str:
    return f"{event.schedule} {event.kind} {event.status} {event.reason or ''}".strip()


def test_a_process_without_an_engine_gets_the_events_of_another_one(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    told: Queue[RunEvent] = Queue()
    scheduler = Scheduler(path, name="app")

    with other_engine(path), scheduler.subscribe(told.put) as subscription:
        scheduler.get("poll").run_now().wait(BOUND_S)
        run = scheduler.get("fail").run_now().wait(BOUND_S)
        found = take(told, 4)

        assert [shown(one) for one in found] == [
            "poll started running",
            "poll finished success",
            "fail started running",
            "fail finished failed exception",
        ]
        last = found[-1]
        assert (last.run_id, last.plan_at, last.at) == (run.id, run.plan_at, run.finished_at)
        assert (last.error, last.cause, last.attempt) == ("LookupError: no host", "manual", 1)
        assert subscription.dropped == 0
    for thread in threading.enumerate():
        if thread.name == "edgecron-watch":
            thread.join(BOUND_S)
            assert not thread.is_alive()


def test_two_engines_at_work_report_each_run_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    told: Queue[RunEvent] = Queue()
    scheduler = Scheduler(path, name="app")

    @scheduler.job("@daily", overlap="allow")
    def poll(number: int = 0) -> int:
        return number

    @scheduler.job("@daily")
    def fail() -> None:
        raise LookupError("no host")

    with other_engine(path), scheduler.subscribe(told.put), scheduler:
        runs = [poll.run_now(number) for number in range(200)]
        for run in runs:
            run.wait(BOUND_S)
        found = take(told, 400)

    assert told.empty()
    assert set(Counter((one.run_id, one.kind) for one in found).values()) == {1}
    assert {one.run_id for one in found} == {run.id for run in runs}
    position = {(one.run_id, one.kind): index for index, one in enumerate(found)}
    assert all(position[run.id, "started"] < position[run.id, "finished"] for run in runs)
    with Client(path) as client:
        assert len({client.execution(run.id).engine_id for run in runs}) == 2


def test_what_happened_while_the_scheduler_was_stopped_follows(scheduler: Scheduler) -> None:
    told: Queue[RunEvent] = Queue()
    entry = scheduler.add("rotate", "@daily", command=["true"])
    scheduler.subscribe(told.put, "finished")
    with scheduler:
        pass

    entry.run_now().cancel()
    assert told.empty()
    with scheduler:
        assert [shown(one) for one in take(told, 1)] == ["rotate finished cancelled request"]


def test_events_before_a_subscription_are_not_delivered(scheduler: Scheduler) -> None:
    told: Queue[RunEvent] = Queue()
    entry = scheduler.add("rotate", "@daily", command=["true"])
    entry.run_now().cancel()

    with scheduler.subscribe(told.put):
        second = entry.run_now().cancel()
        assert [one.run_id for one in take(told, 1)] == [second.id]


def test_a_subscription_waits_for_a_database_that_does_not_exist_yet(tmp_path: Path) -> None:
    path, told = tmp_path / "app.db", Queue[RunEvent]()

    with Scheduler(path).subscribe(told.put):
        assert not path.exists()
        Scheduler(path).add("rotate", "@daily", command=["true"]).run_now().cancel()
        assert [one.status for one in take(told, 1)] == ["cancelled"]


def test_subscribing_makes_no_database(tmp_path: Path) -> None:
    told = Queue[RunEvent]()
    paths = [tmp_path / f"app{number}.db" for number in range(10)]
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(Scheduler(path).subscribe(told.put))
        assert not any(path.exists() for path in paths)


def test_a_stream_without_an_engine_has_the_events_of_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    scheduler = Scheduler(path, name="app")

    async def main() -> list[str]:
        async with scheduler.events("finished", job="poll") as events:
            await (await scheduler.aget("poll")).arun_now()
            async for event in events:
                return [shown(event)]
        return []

    with other_engine(path):
        assert asyncio.run(main()) == ["poll finished success"]


def test_rows_written_by_sql_are_reported_once(scheduler: Scheduler) -> None:
    told: Queue[RunEvent] = Queue()
    entry = scheduler.add("rotate", "@daily", command=["true"])
    run = entry.run_now()

    with scheduler.subscribe(told.put):
        with apsw.Connection(str(scheduler.path)) as writer:
            writer.execute(
                """UPDATE executions SET status = 'cancelled', reason = 'request',
                   finished_at = 1 WHERE id = ?""",
                (run.id,),
            )
        assert [one.run_id for one in take(told, 1)] == [run.id]
        second = entry.run_now().cancel()
        assert [one.run_id for one in take(told, 1)] == [second.id]


@pytest.mark.parametrize("count", [1, 2_500])
def test_a_gap_with_many_ends_keeps_the_newest(scheduler: Scheduler, count: int) -> None:
    told: Queue[RunEvent] = Queue()
    entry = scheduler.add("rotate", "@daily", command=["true"])
    scheduler.subscribe(told.put)
    with scheduler:
        pass
    with apsw.Connection(str(scheduler.path)) as writer:
        writer.execute(
            """WITH RECURSIVE numbers (value) AS (
                   SELECT 1 UNION ALL SELECT value + 1 FROM numbers WHERE value < :count)
               INSERT INTO executions (schedule_id, revision, plan_at, due_at, fire_key, cause,
                   queue, status, reason, finished_at)
               SELECT :id, 1, value, value, 'manual:' || value, 'manual', 'command', 'skipped',
                   'overlap', 1 FROM numbers""",
            {"id": entry.schedule.id, "count": count},
        )

    with scheduler:
        found = take(told, 1)
        while found[-1].run_id < count:
            found += take(told, 1)
    assert len(found) + sum(one.dropped for one in found) == count


def test_a_run_that_its_function_skips_is_told_once(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def skip() -> None:
        raise Skip("no new files")

    @scheduler.job("@daily")
    def poll() -> None:
        """Do nothing."""

    told: Queue[RunEvent] = Queue()
    with scheduler.subscribe(told.put), scheduler:
        skip.run_now().wait(BOUND_S)
        assert [one.kind for one in take(told, 2)] == ["started", "skipped"]
        with other_engine(scheduler.path):  # Its writes let the subscribers look again.
            for _ in range(3):
                poll.run_now().wait(BOUND_S)
                assert [one.schedule for one in take(told, 2)] == ["poll", "poll"]

    assert told.empty()


def test_a_skip_that_a_look_has_told_is_not_told_again_by_the_engine(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def skip() -> None:
        raise Skip("no new files")

    told: list[PendingEvent] = []
    with Client(scheduler.path) as client:
        watch = RunWatch(
            lend=lambda: nullcontext(client),
            open_client=lambda: Client(scheduler.path),
            deliver=told.append,
            is_needed=lambda: True,
            clock=SystemClock(),
        )
        watch.look_now()
        with scheduler:
            run = skip.run_now()
            run.wait(BOUND_S)
        watch.look_now()
        assert [one.kind for one in told] == ["skipped"]

        ended = Event(at_ms=0, kind=EventKind.ENDED, execution_id=run.id, schedule="skip")
        origin = Origin(plan_ms=0, cause="manual", attempt=1)
        watch.note(PendingEvent(event=ended, kind="skipped", origin=origin))

        assert [one.kind for one in told] == ["skipped"]
