"""Events: a program is told what becomes of runs, and its engine waits for no listener."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from datetime import timedelta
from queue import Queue

import pytest

from edgecron import RunEvent, Scheduler
from edgecron.base.errors import InvalidInput
from edgecron.embedding import subscriptions
from edgecron.embedding.events import PendingEvent, run_event
from edgecron.engine.events import Event, EventKind

BOUND_S = 20.0


def shown(event: RunEvent) -> str:
    return f"{event.schedule} {event.kind} {event.status} {event.reason or ''}".strip()


def thread_count() -> int:
    return sum(one.name == "edgecron-events" for one in threading.enumerate())


def test_a_callback_is_told_that_a_run_has_started_and_finished(scheduler: Scheduler) -> None:
    told: list[RunEvent] = []
    scheduler.subscribe(told.append)

    @scheduler.job("@daily")
    def poll() -> None: ...

    with scheduler:
        run = poll.run_now().wait(BOUND_S)

    assert [shown(one) for one in told] == ["poll started running", "poll finished success"]
    started, finished = told
    assert (started.run_id, started.plan_at) == (run.id, run.plan_at)
    assert (finished.run_id, finished.plan_at) == (run.id, run.plan_at)
    assert {(one.cause, one.attempt) for one in told} == {("manual", 1)}
    assert run.finished_at is not None
    assert finished.at >= run.finished_at
    assert finished.duration_ms is not None
    assert thread_count() == 0


def test_who_asks_for_failures_of_one_job_is_told_of_no_others(scheduler: Scheduler) -> None:
    @scheduler.job("@daily", retries=1, retry_delay=0.001)
    def fail() -> None:
        raise TimeoutError("plc1 is silent")

    @scheduler.job("@daily")
    def other() -> None:
        raise TimeoutError("plc2 is silent")

    told: list[RunEvent] = []
    scheduler.subscribe(told.append, "failed", "skipped", job=fail)

    with scheduler:
        fail.run_now().wait(BOUND_S)
        other.run_now().wait(BOUND_S)

    assert [(one.schedule, one.status, one.reason, one.attempt, one.cause) for one in told] == [
        ("fail", "failed", "exception", 1, "manual"),
        ("fail", "failed", "exception", 2, "retry"),
    ]
    assert {one.error for one in told} == {"TimeoutError: plc1 is silent"}


def test_a_kind_that_there_is_not_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidInput, match="'finnished' is unknown") as caught:
        scheduler.subscribe(print, "finnished")  # type: ignore[arg-type]

    assert "finished" in str(caught.value.hint)


def test_a_coroutine_is_refused_as_a_callback_and_the_hint_says_what_to_use(
    scheduler: Scheduler,
) -> None:
    async def tell(event: RunEvent) -> None: ...

    with pytest.raises(InvalidInput, match="expected a function") as caught:
        scheduler.subscribe(tell)

    assert "async for" in str(caught.value.hint)


def test_a_callback_that_can_not_be_called_is_refused(scheduler: Scheduler) -> None:
    wrong: object = "finished"

    with pytest.raises(InvalidInput, match="the callback is 'finished', expected a function"):
        scheduler.subscribe(wrong)  # type: ignore[arg-type]


def test_what_a_callback_raises_is_logged_and_the_others_are_told(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def fail(event: RunEvent) -> None:
        raise SystemExit(1) if event.kind == "started" else LookupError("nobody to tell")

    scheduler.subscribe(fail)
    scheduler.subscribe(lambda event: told.append(event.kind))

    @scheduler.job("@daily")
    def poll() -> None: ...

    with scheduler:
        poll.run_now().wait(BOUND_S)
        poll.run_now().wait(BOUND_S)

    assert told == ["started", "finished"] * 2
    assert [one.name for one in caplog.records] == ["edgecron"] * 4
    assert "fail> could not receive an event" in caplog.records[0].getMessage()


def test_a_slow_callback_holds_up_no_run_and_the_oldest_events_give_way(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MOST", 2)
    told: list[RunEvent] = []
    is_busy, may_go_on = threading.Event(), threading.Event()

    def tell(event: RunEvent) -> None:
        told.append(event)
        is_busy.set()
        assert may_go_on.wait(BOUND_S)

    slow = scheduler.subscribe(tell)

    @scheduler.job("@daily")
    def poll() -> None: ...

    with scheduler:
        runs = [poll.run_now().wait(BOUND_S)]
        assert is_busy.wait(BOUND_S)
        runs += [poll.run_now().wait(BOUND_S) for _ in range(3)]
        may_go_on.set()

    assert [(one.run_id, one.kind, one.dropped) for one in told] == [
        (runs[0].id, "started", 0),
        (runs[3].id, "started", 5),
        (runs[3].id, "finished", 0),
    ]
    assert slow.dropped == 5


def test_after_its_close_a_callback_is_not_called_any_more(scheduler: Scheduler) -> None:
    told: Queue[RunEvent] = Queue()

    @scheduler.job("@daily")
    def poll() -> None: ...

    with scheduler:
        with scheduler.subscribe(told.put, "finished"):
            run = poll.run_now().wait(BOUND_S)
            first = told.get(timeout=BOUND_S)
        poll.run_now().wait(BOUND_S)

    assert first.run_id == run.id
    assert told.empty()


def test_a_callback_may_end_its_own_subscription(scheduler: Scheduler) -> None:
    told: list[RunEvent] = []

    def once(event: RunEvent) -> None:
        told.append(event)
        subscription.close()

    subscription = scheduler.subscribe(once)

    @scheduler.job("@daily")
    def poll() -> None: ...

    with scheduler:
        poll.run_now().wait(BOUND_S)

    assert [one.kind for one in told] == ["started"]
    assert repr(subscription).endswith("once, closed>")


def test_callbacks_are_told_of_the_next_engine_too(scheduler: Scheduler) -> None:
    told: list[RunEvent] = []
    scheduler.subscribe(told.append, "finished")

    @scheduler.job("@daily")
    def poll() -> None: ...

    runs = []
    for _ in range(2):
        with scheduler:
            runs.append(poll.run_now().wait(BOUND_S).id)

    assert [one.run_id for one in told] == runs


def test_what_the_engine_does_not_say_of_an_end_is_looked_up(scheduler: Scheduler) -> None:
    """Who subscribes while a run goes on has not heard of its start."""

    @scheduler.job("@daily")
    def poll() -> None: ...

    with scheduler:
        run = poll.run_now().wait(BOUND_S)
    end = Event(at_ms=0, kind=EventKind.ENDED, execution_id=run.id, details={"status": "success"})
    told = PendingEvent(event=end, kind="finished", origin=None)

    with scheduler.client() as client:
        finished = run_event(told, client.execution, dropped=0)
        gone = run_event(
            told._replace(event=end._replace(execution_id=99)), client.execution, dropped=0
        )

    assert gone is None
    assert finished is not None
    assert (finished.schedule, finished.plan_at) == ("poll", run.plan_at)
    assert (finished.cause, finished.attempt) == ("manual", 1)


def test_what_is_left_out_or_withdrawn_is_told_with_its_reason(scheduler: Scheduler) -> None:
    told: Queue[RunEvent] = Queue()
    has_begun, may_end = threading.Event(), threading.Event()
    scheduler.subscribe(told.put, "skipped", "cancelled")

    @scheduler.job("@daily")
    def poll() -> None:
        has_begun.set()
        assert may_end.wait(BOUND_S)

    with scheduler:
        poll.run_now()
        assert has_begun.wait(BOUND_S)
        with scheduler.client() as client:
            client.reschedule("poll", client.now() + timedelta(milliseconds=100))
        skipped = told.get(timeout=BOUND_S)
        may_end.set()

    assert shown(skipped) == "poll skipped skipped overlap"
    assert (skipped.attempt, skipped.cause) == (1, "schedule")


def test_what_waits_for_a_condition_is_owed_until_when(scheduler: Scheduler) -> None:
    told: Queue[RunEvent] = Queue()
    scheduler.subscribe(told.put)

    @scheduler.job("@yearly")
    def backup() -> None: ...

    @scheduler.job(
        "@yearly", "after other", needs="success:backup:1h", needs_deadline="2h", name="report"
    )
    def report() -> None: ...

    @scheduler.job("@yearly")
    def other() -> None: ...

    with scheduler:
        other.run_now().wait(BOUND_S)
        while (owed := told.get(timeout=BOUND_S)).kind != "owed":
            assert owed.schedule == "other"
        backup.run_now().wait(BOUND_S)
        while (started := told.get(timeout=BOUND_S)).schedule != "report":
            assert started.schedule == "backup"

    assert (owed.schedule, owed.status, owed.waiting_for) == (
        "report",
        "queued",
        "success:backup:1h",
    )
    assert owed.wait_until is not None
    assert (started.kind, started.run_id, started.cause) == ("started", owed.run_id, "after")


def test_a_stream_has_all_events_from_when_it_was_made_and_ends_with_the_engine(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("@daily")
    async def poll() -> int:
        return 4

    async def main() -> list[str]:
        async with scheduler:
            events = scheduler.events("finished")
            await poll.run_now()
            await poll.run_now()
            asyncio.get_running_loop().call_later(0.01, stop.set)
            listening = asyncio.ensure_future(listen(events))
            await stop.wait()
        return await asyncio.wait_for(listening, BOUND_S)

    async def listen(events: subscriptions.EventStream) -> list[str]:
        return [shown(event) async for event in events]

    stop = asyncio.Event()
    assert asyncio.run(main()) == ["poll finished success"] * 2


def test_a_stream_that_nobody_has_any_more_takes_up_nothing(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def poll() -> None: ...

    def find_inboxes() -> list[subscriptions.Inbox]:
        gc.collect()
        return [one for one in gc.get_objects() if isinstance(one, subscriptions.Inbox)]

    async def main() -> str:
        with scheduler:
            poll_run = poll.run_now()
            kinds = []
            async for event in scheduler.events():
                kinds.append(event.kind)
                assert len(find_inboxes()) == before + 1
                break
            await poll_run
            assert len(find_inboxes()) == before
            return kinds[0]

    before = len(find_inboxes())
    assert asyncio.run(asyncio.wait_for(main(), BOUND_S)) in ("started", "finished")


def test_a_stream_that_is_closed_ends_for_who_waits_for_it(scheduler: Scheduler) -> None:
    async def main() -> list[RunEvent]:
        async with scheduler.events() as events:
            listening = asyncio.ensure_future(listen(events))
            await asyncio.sleep(0)
        return await asyncio.wait_for(listening, BOUND_S)

    async def listen(events: subscriptions.EventStream) -> list[RunEvent]:
        return [event async for event in events]

    assert asyncio.run(main()) == []


def test_a_stream_is_for_one_task_at_a_time(scheduler: Scheduler) -> None:
    async def main() -> None:
        events = scheduler.events()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task waits"):
            await anext(events)
        first.cancel()

    asyncio.run(main())


def test_a_forked_child_is_told_by_its_own_engine(scheduler: Scheduler) -> None:
    """A server that forks its workers subscribes where it declares its jobs, before that."""
    told: list[str] = []
    scheduler.subscribe(lambda event: told.append(event.kind))

    @scheduler.job("@daily")
    def poll() -> None: ...

    with scheduler:
        poll.run_now().wait(BOUND_S)
    child = os.fork()
    if not child:
        status = 1
        try:
            told.clear()
            with scheduler:
                poll.run_now().wait(BOUND_S)
            status = 0 if told == ["started", "finished"] else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert told == ["started", "finished"]
