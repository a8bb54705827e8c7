"""Claims of registered functions in, outcomes out, with real threads between."""

from __future__ import annotations

import asyncio
import json
import math
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from edgecron.base.clock import SystemClock
from edgecron.model.choices import Cause, JobKind, Reason, Status
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.run import Claim, Outcome
from edgecron.supervisor.callable_runner import CallableRunner, Function
from edgecron.supervisor.calls import Call
from edgecron.supervisor.runner import RESERVE_MS, Runner
from edgecron.supervisor.threads import Workers
from tests.support.clock import FakeClock

BOUND_S = 20.0


def claim(name: str, number: int = 1, **changes: Any) -> Claim:
    values: dict[str, Any] = {
        "execution_id": number,
        "lease_token": f"lease-{number}",
        "schedule_id": 7,
        "schedule": "report",
        "job": Job(kind=JobKind.CALLABLE, argv=(name,), payload=changes.pop("payload", None)),
        "plan_ms": 0,
        "due_ms": 0,
        "fire_key": "",
        "cause": Cause.SCHEDULE,
        "attempt": 1,
        "max_attempts": 1,
        "scope_kind": "global",
        "scope_id": "",
        "policies": Policies(
            **{name: changes.pop(name) for name in ("timeout_s", "ok_codes") if name in changes}
        ),
    }
    return Claim(**(values | changes))


def collect_all(runner: Runner) -> dict[int, Outcome]:
    """Outcomes by execution, until nothing is live."""
    poller = select.poll()
    poller.register(runner.fileno(), select.POLLIN)
    outcomes: dict[int, Outcome] = {}
    while runner.live_count:
        assert poller.poll(BOUND_S * 1000), "no outcome came"
        outcomes |= {outcome.execution_id: outcome for outcome in runner.collect()}
    return outcomes


class Gate:
    """Keeps functions inside until it opens."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()

    def __call__(self, call: Call) -> str:
        self.entered.release()
        assert self.opened.wait(BOUND_S)
        return threading.current_thread().name

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.entered.acquire(timeout=BOUND_S), "a function was not called"


@pytest.fixture
def registry() -> dict[str, Function]:
    return {}


@pytest.fixture
def runner(registry: Mapping[str, Function]) -> Iterator[CallableRunner]:
    runner = CallableRunner(registry, clock=SystemClock())
    yield runner
    runner.close()


def run(runner: Runner, one: Claim) -> Outcome:
    runner.start([one])
    return collect_all(runner)[one.execution_id]


def printed(outcome: Outcome) -> str:
    assert outcome.output is not None
    return b"".join(chunk.content for chunk in outcome.output.chunks).decode()


def test_a_function_that_returns_is_a_success_and_its_value_the_result(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    registry["report"] = lambda call: {"rows": 12, "of": call.payload}

    outcome = run(runner, claim("report", payload='["plc1", 3]'))

    assert (outcome.status, outcome.reason) == (Status.SUCCESS, None)
    assert json.loads(outcome.result or "") == {"rows": 12, "of": ["plc1", 3]}
    assert outcome.started_ms is not None
    assert outcome.finished_ms >= outcome.started_ms
    assert outcome.output is None


def test_a_function_that_raises_has_failed_and_its_traceback_is_kept(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    def report(call: Call) -> None:
        raise ConnectionError("plc1 is away")

    registry["report"] = report

    outcome = run(runner, claim("report"))

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.EXCEPTION)
    assert (outcome.error_code, outcome.error_msg) == (
        "ConnectionError",
        "ConnectionError: plc1 is away",
    )
    assert "in report" in printed(outcome)


@pytest.mark.failure(81)
@pytest.mark.parametrize("raised", [SystemExit(0), SystemExit("no"), KeyboardInterrupt()])
def test_a_function_that_would_end_the_program_has_failed_and_ends_nothing(
    runner: CallableRunner, registry: dict[str, Function], raised: BaseException
) -> None:
    def report(call: Call) -> None:
        raise raised

    registry["report"] = report
    registry["next"] = lambda call: "still here"

    outcome = run(runner, claim("report"))

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.EXCEPTION)
    assert outcome.error_code == type(raised).__name__
    assert run(runner, claim("next", 2)).result == '"still here"'


@pytest.mark.failure(81)
def test_an_exception_that_can_not_be_printed_is_recorded_all_the_same(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even this")

    def report(call: Call) -> None:
        raise Unprintable

    registry["report"] = report

    outcome = run(runner, claim("report"))

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.EXCEPTION)
    assert "Unprintable" in (outcome.error_msg or "")


@pytest.mark.failure(81)
@pytest.mark.parametrize("text", ["\udcff\ud800", "x" * 2_000_000])
def test_what_a_row_says_of_an_exception_is_short_and_can_be_stored(
    runner: CallableRunner, registry: dict[str, Function], text: str
) -> None:
    def report(call: Call) -> None:
        raise ValueError(text)

    registry["report"] = report

    outcome = run(runner, claim("report"))

    assert outcome.error_msg is not None
    assert 20 < len(outcome.error_msg.encode()) <= 4000


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


class Broken(dict[str, object]):
    """Rows that are fetched when they are asked for, from where there is nothing any more."""

    def items(self) -> Any:
        raise ConnectionError("plc1 is away")


@pytest.mark.failure(81)
@pytest.mark.parametrize(
    ("returned", "flag"),
    [
        ({1, 2}, "result_invalid"),
        (math.nan, "result_invalid"),
        ("\udcff", "result_invalid"),
        (_nested(100_000), "result_invalid"),
        (_nested(501), "result_invalid"),
        (Broken(rows=1), "result_invalid"),
        ("x" * 70_000, "result_too_big"),
    ],
)
def test_what_json_can_not_hold_is_left_out_and_flagged(
    runner: CallableRunner, registry: dict[str, Function], returned: object, flag: str
) -> None:
    registry["report"] = lambda call: returned

    outcome = run(runner, claim("report"))

    assert (outcome.status, outcome.result, outcome.flags) == (Status.SUCCESS, None, (flag,))


@pytest.mark.failure(67)
def test_a_name_that_the_program_did_not_register_is_refused(runner: CallableRunner) -> None:
    outcome = run(runner, claim("os.system", payload='"touch x"'))

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.SPAWN)
    assert outcome.error_msg == "this program has registered no callable 'os.system'"
    assert (outcome.started_ms, outcome.flags) == (None, ())


def test_functions_that_block_run_beside_each_other_and_short_ones_do_not_wait_for_them(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    gate = registry["wait"] = Gate()
    registry["quick"] = lambda call: "quick"

    runner.start([claim("wait", number) for number in range(1, 33)])
    runner.start([claim("quick", 100)])
    gate.wait_for(32)
    outcomes: dict[int, object] = {}
    while 100 not in outcomes:
        assert select.select([runner.fileno()], [], [], BOUND_S)[0], "no outcome came"
        outcomes |= {outcome.execution_id: outcome for outcome in runner.collect()}

    assert set(outcomes) == {100}
    gate.opened.set()
    threads = {outcome.result for outcome in collect_all(runner).values()}
    assert len(threads) == 32
    assert all("edgecron-call" in (name or "") for name in threads)


def test_one_that_returns_after_its_timeout_has_failed_and_was_told(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    seen: list[bool] = []

    def report(call: Call) -> str:
        seen.append(call.must_stop)
        while not call.must_stop:
            pass
        return "late"

    registry["report"] = report

    outcome = run(runner, claim("report", timeout_s=0.05))

    assert (outcome.status, outcome.reason) == (Status.FAILED, Reason.TIMEOUT)
    assert outcome.error_msg == "ran longer than its timeout of 0.05 s"
    assert outcome.result is None
    assert seen == [False]


def test_one_that_is_asked_to_stop_and_raises_is_cancelled(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    entered = threading.Event()

    def report(call: Call) -> None:
        entered.set()
        while not call.must_stop:
            pass
        raise RuntimeError("stopped half way")

    registry["report"] = report

    runner.start([claim("report")])
    assert entered.wait(BOUND_S)
    runner.cancel("lease-1")
    outcome = collect_all(runner)[1]

    assert (outcome.status, outcome.reason) == (Status.CANCELLED, Reason.REQUEST)


def test_one_that_returns_although_it_was_asked_to_stop_was_a_success(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    gate = registry["wait"] = Gate()

    runner.start([claim("wait")])
    gate.wait_for(1)
    runner.stop()
    gate.opened.set()
    outcome = collect_all(runner)[1]

    assert (outcome.status, outcome.reason) == (Status.SUCCESS, None)


def test_a_long_traceback_keeps_its_end(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    def report(call: Call) -> None:
        raise ValueError("x" * 200_000 + " at the end")

    registry["report"] = report

    outcome = run(runner, claim("report"))

    assert outcome.output is not None
    assert printed(outcome).endswith("x at the end\n")
    assert outcome.output.dropped_bytes == outcome.output.stderr_bytes - len(printed(outcome))


def test_an_end_always_wakes_who_waits_for_it(
    runner: CallableRunner, registry: dict[str, Function]
) -> None:
    registry["quick"] = lambda call: None
    poller = select.poll()
    poller.register(runner.fileno(), select.POLLIN)

    for number in range(2000):
        runner.start([claim("quick", number)])
        assert poller.poll(BOUND_S * 1000), f"nobody told of call {number}"
        while runner.live_count:
            runner.collect()


def test_many_short_pieces_take_a_few_threads() -> None:
    worked: list[int] = []
    workers: Workers[int] = Workers(worked.append, name="piece", clock=SystemClock())

    for number in range(5000):
        workers.put([number])
    left = workers.close(wait_ms=20_000)

    assert left == 0
    assert sorted(worked) == list(range(5000))
    assert pieces_threads() == []


def test_pieces_that_come_together_do_not_wait_for_each_other() -> None:
    together = threading.Barrier(12)
    workers: Workers[int] = Workers(
        lambda number: together.wait(BOUND_S), name="piece", clock=SystemClock()
    )

    workers.put(range(12))
    left = workers.close(wait_ms=20_000)

    assert left == 0
    assert not together.broken


def pieces_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("piece-")]


def test_threads_that_a_burst_needed_are_let_go_of() -> None:
    gate = threading.Event()
    started = threading.Semaphore(0)

    def work(number: int) -> None:
        started.release()
        gate.wait(BOUND_S)

    workers: Workers[int] = Workers(work, name="piece", clock=SystemClock())
    for number in range(40):
        workers.put([number])
    for _ in range(40):
        assert started.acquire(timeout=BOUND_S)
    threads = pieces_threads()
    most = len(threads)

    gate.set()
    for _ in range(4000):
        if len(pieces_threads()) <= 10:
            break
        threads[0].join(0.005)
        threads.append(threads.pop(0))
    least = len(pieces_threads())
    left = workers.close(wait_ms=20_000)

    assert most >= 40
    assert least <= 10
    assert left == 0
    assert pieces_threads() == []


@pytest.mark.failure(81)
def test_one_that_hangs_is_left_behind_after_a_bound() -> None:
    gate = threading.Event()
    entered = threading.Event()

    def work(number: int) -> None:
        entered.set()
        gate.wait(BOUND_S)

    workers: Workers[int] = Workers(work, name="hanging", clock=SystemClock())
    workers.put([1])
    assert entered.wait(BOUND_S)

    left = workers.close(wait_ms=10)

    assert left == 1
    gate.set()


async def turns() -> None:
    """Let a loop begin and end what is ready."""
    for _ in range(5):
        await asyncio.sleep(0)


async def seven(call: Call) -> int:
    return 7


def test_a_call_that_has_not_begun_when_all_is_stopped_is_for_another_engine() -> None:
    loop = asyncio.new_event_loop()
    runner = CallableRunner(
        {}, coroutines={"seven": seven}, find_loop=lambda: loop, clock=SystemClock()
    )
    runner.start([claim("seven", 1), claim("seven", 2)])

    runner.cancel("lease-2")
    runner.stop()
    loop.run_until_complete(turns())
    outcomes = collect_all(runner)

    assert outcomes[1].flags == ("given_back",)
    assert (outcomes[2].status, outcomes[2].reason) == (Status.CANCELLED, Reason.REQUEST)
    assert outcomes[2].flags == ()
    runner.close()
    loop.close()


class InstantClock(SystemClock):
    """Has something happen when a call is just beginning."""

    def __init__(self) -> None:
        self.happening: Callable[[], object] | None = None

    def now_ms(self) -> int:
        happening, self.happening = self.happening, None
        if happening is not None:
            happening()
        return super().now_ms()


def test_a_coroutine_that_is_asked_to_stop_while_it_begins_is_cancelled() -> None:
    loop = asyncio.new_event_loop()
    clock = InstantClock()

    async def sleep(call: Call) -> None:
        await asyncio.sleep(BOUND_S)

    runner = CallableRunner(
        {}, coroutines={"sleep": sleep}, find_loop=lambda: loop, clock=clock, close_ms=0
    )
    runner.start([claim("sleep")])

    clock.happening = lambda: runner.cancel("lease-1")
    loop.run_until_complete(turns())
    outcomes = runner.collect()

    assert [(one.status, one.reason) for one in outcomes] == [(Status.CANCELLED, Reason.REQUEST)]
    runner.close()
    loop.close()


def test_a_coroutine_whose_loop_is_closed_was_not_started() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    runner = CallableRunner(
        {}, coroutines={"seven": seven}, find_loop=lambda: loop, clock=SystemClock()
    )

    runner.start([claim("seven")])

    assert collect_all(runner)[1].flags == ("not_started",)
    runner.close()


@pytest.mark.failure(81)
def test_a_coroutine_that_ends_after_its_runner_was_closed_writes_into_no_other_s_file() -> None:
    loop = asyncio.new_event_loop()
    opened = asyncio.Event()

    async def hang(call: Call) -> int:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(BOUND_S)
        await opened.wait()
        return 7

    runner = CallableRunner(
        {}, coroutines={"hang": hang}, find_loop=lambda: loop, clock=SystemClock(), close_ms=0
    )
    runner.start([claim("hang")])
    loop.run_until_complete(turns())

    runner.close()
    others = [os.pipe() for _ in range(4)]  # They may well have the descriptors that it had.
    opened.set()
    loop.run_until_complete(turns())
    readable = select.select([one[0] for one in others], [], [], 0)[0]
    outcomes = collect_all(runner)

    assert readable == []
    assert (outcomes[1].status, outcomes[1].result) == (Status.SUCCESS, "7")
    for one in others:
        os.close(one[0])
        os.close(one[1])
    loop.close()


def narrow_runner(registry: Mapping[str, Function], **more: Any) -> CallableRunner:
    """A runner with one place."""
    return CallableRunner(registry, clock=SystemClock(), places=1, **more)


def test_calls_beyond_the_places_follow_each_other_on_one_thread() -> None:
    threads: list[str] = []
    active = 0

    def work(call: Call) -> None:
        nonlocal active
        active += 1
        assert active == 1
        threads.append(threading.current_thread().name)
        active -= 1

    runner = narrow_runner({"work": work})
    runner.start([claim("work", number) for number in range(20)])

    outcomes = collect_all(runner)

    assert {one.status for one in outcomes.values()} == {Status.SUCCESS}
    assert len(threads) == 20
    assert len(set(threads)) == 1
    runner.close()


def test_functions_and_coroutines_share_the_places() -> None:
    loop = asyncio.new_event_loop()
    order: list[str] = []

    async def later(call: Call) -> None:
        order.append("begins")
        await asyncio.sleep(0)
        order.append("ends")

    def now(call: Call) -> None:
        order.append("function")

    runner = narrow_runner({"now": now}, coroutines={"later": later}, find_loop=lambda: loop)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner.start([claim(name, n) for n, name in enumerate(["later", "now", "later", "now"])])

    outcomes = collect_all(runner)

    assert {one.status for one in outcomes.values()} == {Status.SUCCESS}
    assert order == ["begins", "ends", "function"] * 2
    runner.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join(BOUND_S)
    loop.close()


def test_a_call_that_waits_too_long_for_a_place_is_given_back() -> None:
    clock = FakeClock()
    gate = Gate()
    runner = CallableRunner({"wait": gate}, clock=clock, places=1)
    runner.start([claim("wait", 1), claim("wait", 2)])
    gate.wait_for(1)
    assert runner.wake_ms == RESERVE_MS
    clock.advance_ms(RESERVE_MS - 1)
    assert runner.collect() == []
    assert runner.wake_ms == 1

    clock.advance_ms(1)
    [given_back] = runner.collect()

    assert (given_back.execution_id, given_back.flags) == (2, ("given_back",))
    assert given_back.started_ms is None
    assert runner.wake_ms is None
    gate.opened.set()
    assert collect_all(runner)[1].status is Status.SUCCESS
    runner.close()


def test_calls_that_wait_for_a_place_are_given_back_at_the_end_and_cancelled_on_request() -> None:
    gate = Gate()
    runner = narrow_runner({"wait": gate})
    runner.start([claim("wait", number) for number in (1, 2, 3)])
    gate.wait_for(1)

    runner.cancel("lease-2")
    [cancelled] = runner.collect()
    runner.stop()
    [given_back] = runner.collect()

    assert (cancelled.execution_id, cancelled.status) == (2, Status.CANCELLED)
    assert cancelled.reason is Reason.REQUEST
    assert (given_back.execution_id, given_back.flags) == (3, ("given_back",))
    gate.opened.set()
    assert collect_all(runner).keys() == {1}
    runner.close()
