"""The engine of a program: functions, coroutines and commands run, and its end is bounded."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from edgecron import Run, RunContext, Scheduler
from edgecron.base.clock import SystemClock
from edgecron.base.errors import Cancelled, Conflict, DatabaseUnusable, EdgecronError, NotFound
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.engine.state_folder import ring_engines

BOUND_S = 20.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def scheduler(path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(path)
    yield scheduler
    assert scheduler.stop(), "the engine did not end"


def threads() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith("edgecron")}


def test_a_function_is_run_with_its_arguments_and_leaves_its_result(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def poll(host: str = "plc1", *, port: int = 502) -> dict[str, object]:
        return {"host": host, "at": (port, 1)}

    with scheduler:
        given = poll.run_now("plc2", port=1502).wait(BOUND_S)
        plain = poll.run_now().wait(BOUND_S)

    assert given.status == "success"
    assert given.result == {"host": "plc2", "at": [1502, 1]}
    assert plain.result == {"host": "plc1", "at": [502, 1]}
    assert [run.id for run in poll.history(status="success")] == [plain.id, given.id]
    assert threads() == set()


def test_a_started_engine_is_on_record(path: Path, scheduler: Scheduler) -> None:
    found = []
    for _ in range(5):
        with scheduler, Client(path) as client:
            found.append(len(client.engines()))

    assert found == [1] * 5


def test_what_a_function_raises_is_its_error_and_where_its_output(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def fail() -> None:
        raise LookupError("no such plc")

    with scheduler:
        run = fail.run_now().wait(BOUND_S)

    assert (run.status, run.reason) == ("failed", "exception")
    assert run.error == "LookupError: no such plc"
    assert 'raise LookupError("no such plc")' in run.output
    assert run.result is None


@pytest.mark.failure(81)
def test_what_json_can_not_hold_is_no_result_but_a_success(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def odd() -> object:
        return {1, 2}

    @scheduler.job("@daily")
    def leave() -> None:
        raise SystemExit(3)

    with scheduler:
        run = odd.run_now().wait(BOUND_S)
        left = leave.run_now().wait(BOUND_S)

    assert (run.status, run.result) == ("success", None)
    assert run.execution.flags == ("result_invalid",)
    assert (left.status, left.error) == ("failed", "SystemExit: 3")


def test_a_context_says_what_the_run_is(scheduler: Scheduler) -> None:
    seen: list[tuple[object, ...]] = []

    @scheduler.job("@daily", retries=1, retry_delay=0)
    def copy(run: RunContext, folder: str = "/srv") -> None:
        seen.append((run.id, run.schedule, run.attempt, run.max_attempts, run.is_last_attempt))
        seen.append((run.cause, run.scope, run.plan_at, run.due_at >= run.plan_at, folder))
        seen.append((run.idempotency_key,))
        if run.attempt == 1:
            raise OSError("once more")

    with scheduler:
        run = copy.run_now("/home").wait(BOUND_S)

    assert run.status == "success"
    assert seen[0][1:] == ("copy", 1, 2, False)
    assert seen[3] == (run.id, "copy", 2, 2, True)
    assert seen[1] == ("manual", ("global", ""), run.plan_at, True, "/home")
    assert seen[4] == ("retry", ("global", ""), run.plan_at, True, "/home")
    assert seen[2] == seen[5]
    assert len(str(seen[2][0])) == 32


def test_a_function_that_is_asked_to_stop_ends_as_cancelled(scheduler: Scheduler) -> None:
    entered = threading.Event()

    @scheduler.job("@daily")
    def loop(run: RunContext) -> None:
        entered.set()
        while True:
            run.check()

    with scheduler:
        run = loop.run_now()
        assert entered.wait(BOUND_S)
        run.cancel()
        run.wait(BOUND_S)

    assert (run.status, run.reason) == ("cancelled", "request")
    assert run.error is not None
    assert run.error.startswith(f"{Cancelled.__module__}.Cancelled: run {run.id} of 'loop'")


def test_coroutines_run_on_the_loop_of_the_program(scheduler: Scheduler) -> None:
    loops: list[object] = []

    @scheduler.job("@daily")
    async def backup(times: int = 1) -> int:
        loops.append(asyncio.get_running_loop())
        return times + 1

    async def main() -> None:
        async with scheduler:
            run = await backup.run_now(4)
            assert run.result == 5
            assert loops == [asyncio.get_running_loop()]

    asyncio.run(main())

    assert not scheduler.is_running


def test_coroutines_have_a_loop_of_their_own_where_the_program_has_none(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("@daily")
    async def name() -> str:
        return threading.current_thread().name

    with scheduler:
        assert name.run_now().wait(BOUND_S).result == "edgecron-asyncio"

    assert threads() == set()


def test_who_starts_it_in_vain_does_not_take_the_loop_away(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    async def where() -> int:
        return id(asyncio.get_running_loop())

    async def start_too() -> None:
        with pytest.raises(Conflict):
            await scheduler.__aenter__()

    async def main() -> None:
        async with scheduler:
            await asyncio.to_thread(asyncio.run, start_too())
            run = await asyncio.to_thread(where.run_now().wait, BOUND_S)
            assert run.result == id(asyncio.get_running_loop())

    asyncio.run(main())


def test_an_engine_whose_start_is_cancelled_is_stopped(scheduler: Scheduler) -> None:
    async def main() -> None:
        starting = asyncio.create_task(scheduler.__aenter__())
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(main())

    assert not scheduler.is_running
    assert threads() == set()


class ClosingLoop(asyncio.SelectorEventLoop):
    """Is closed for other threads, and can be cleared away all the same."""

    is_shut = False
    has_asked_thread = False

    def __init__(self) -> None:
        super().__init__()
        self.has_refused_engine = threading.Event()

    def run_in_executor(self, *args: Any) -> Any:  # type: ignore[override]
        self.has_asked_thread = True
        return super().run_in_executor(*args)

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:  # type: ignore[override]
        if self.is_shut:
            if threading.current_thread().name == "edgecron-engine":
                self.has_refused_engine.set()
            raise RuntimeError("Event loop is closed")
        return super().call_soon_threadsafe(*args, **kwargs)


def test_a_missing_folder_of_a_named_database_is_not_created(tmp_path: Path) -> None:
    scheduler = Scheduler(tmp_path / "nope" / "app.db")

    @scheduler.job("@daily")
    def poll() -> None: ...

    for attempt in (scheduler.start, poll.run_now):
        with pytest.raises(NotFound, match="its folder does not exist") as refused:
            attempt()
        assert f"mkdir -p {tmp_path / 'nope'}" in str(refused.value.hint)
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "nope").mkdir()
    assert poll.run_now().status == "queued"


def test_a_coroutine_is_told_to_await_what_it_would_hold_up(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    async def slow() -> int:
        await asyncio.sleep(0)
        return 5

    async def main() -> None:
        async with scheduler:
            run = slow.run_now()
            with pytest.raises(Conflict, match="block the event loop") as caught:
                run.wait()
            assert caught.value.hint == "await it instead: await run"
            assert (await run).result == 5
            assert run.wait().result == 5  # It has ended.
            assert (await asyncio.to_thread(slow.run_now().wait, BOUND_S)).result == 5

    asyncio.run(main())


def test_who_waited_on_a_loop_that_was_closed_does_not_end_the_engine(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    entered, opened = threading.Event(), threading.Event()

    @scheduler.job("@daily")
    def hold() -> None:
        entered.set()
        assert opened.wait(BOUND_S)

    async def wait_for(run: Run[None]) -> None:
        await run

    loop = ClosingLoop()
    with scheduler:
        run = hold.run_now()
        assert entered.wait(BOUND_S)
        assert run.status == "running"
        task = loop.create_task(wait_for(run))
        while not loop.has_asked_thread:  # The task waits, and reads the run again there.
            loop.run_until_complete(asyncio.sleep(0))
        loop.is_shut = True
        opened.set()
        assert loop.has_refused_engine.wait(BOUND_S)
        run.wait(BOUND_S)
        loop.is_shut = False
        task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    assert run.status == "success"
    assert "the engine has died" not in caplog.text


def test_a_connection_that_was_lent_when_all_were_closed_is_closed_too(
    scheduler: Scheduler,
) -> None:
    with scheduler.client() as lent:
        assert lent.schedules() == []
        scheduler.pool.close()
    with scheduler.client() as next_one:
        pass

    assert next_one is not lent


def test_a_coroutine_is_ended_at_its_timeout_and_on_request(scheduler: Scheduler) -> None:
    ended: list[str] = []
    entered = threading.Event()

    @scheduler.job("@daily", timeout=0.05)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    @scheduler.job("@daily")
    async def long() -> None:
        entered.set()
        await asyncio.Event().wait()

    with scheduler:
        timed_out = slow.run_now().wait(BOUND_S)
        run = long.run_now()
        assert entered.wait(BOUND_S)
        run.cancel()
        run.wait(BOUND_S)

    assert (timed_out.status, timed_out.reason) == ("failed", "timeout")
    assert timed_out.error == "ran longer than its timeout of 0.05 s"
    assert ended == ["slow"]
    assert (run.status, run.reason) == ("cancelled", "request")


def test_what_runs_when_the_program_ends_is_waited_for(scheduler: Scheduler) -> None:
    entered = threading.Event()

    @scheduler.job("@daily")
    def last(run: RunContext) -> bool:
        entered.set()
        while scheduler.is_running:
            pass
        return run.must_stop

    with scheduler:
        run = last.run_now()
        assert entered.wait(BOUND_S)

    assert (run.refresh().status, run.result) == ("success", False)


def test_coroutines_are_cancelled_when_they_were_waited_for_in_vain(path: Path) -> None:
    scheduler = Scheduler(path, shutdown_timeout=0)
    entered = threading.Event()

    @scheduler.job("@daily")
    async def long() -> None:
        entered.set()
        await asyncio.Event().wait()

    with scheduler:
        run = long.run_now()
        assert entered.wait(BOUND_S)

    assert (run.refresh().status, run.reason) == ("cancelled", "shutdown")


def test_a_command_of_the_program_is_run_and_seen(scheduler: Scheduler) -> None:
    rotate = scheduler.add("rotate", "@daily", command=["sh", "-c", "echo $EDGECRON_PAYLOAD"])

    with scheduler:
        [run] = rotate.fire({"size": 3})
        run.wait(BOUND_S)

    assert (run.status, run.exit_code) == ("success", 0)
    assert run.output == '{"size":3}\n'


def test_a_job_that_is_declared_while_the_engine_runs_is_kept_at_once(
    scheduler: Scheduler, path: Path
) -> None:
    with scheduler, Client(path) as client:

        @scheduler.job("@daily")
        def late() -> int:
            return 1

        assert client.schedule("late").spec.queue == "py:app"
        assert late.run_now().wait(BOUND_S).result == 1


def test_it_is_started_once_and_stopped_as_often_as_one_likes(scheduler: Scheduler) -> None:
    with scheduler, pytest.raises(Conflict, match="runs already in this process"):
        scheduler.start()
    scheduler.stop()
    with scheduler:
        assert scheduler.is_running


def test_threads_may_start_and_stop_it_at_the_same_time(scheduler: Scheduler) -> None:
    troubles: list[BaseException] = []

    def start_and_stop() -> None:
        for _ in range(5):
            try:
                with suppress(Conflict):
                    scheduler.start()
                scheduler.stop()
            except BaseException as error:  # noqa: BLE001  a thread of the test tells it
                troubles.append(error)

    restless = [threading.Thread(target=start_and_stop) for _ in range(4)]
    for one in restless:
        one.start()
    for one in restless:
        one.join(BOUND_S)

    assert troubles == []
    assert not any(one.is_alive() for one in restless)


def test_a_second_scheduler_of_one_name_with_other_functions_is_refused(
    scheduler: Scheduler, path: Path
) -> None:
    other, named, same = Scheduler(path), Scheduler(path, name="other"), Scheduler(path)

    def poll() -> int:
        return 1

    for one in (scheduler, same):
        one.job("@daily")(poll)
    for one in (other, named):
        one.job("@daily", name="log")(poll)

    with scheduler:
        with pytest.raises(Conflict, match=r"another Scheduler 'app' of .*: log, poll"):
            other.start()
        with named, same:
            run = scheduler.get("poll").fire()[0].wait(BOUND_S)

    assert (run.status, other.is_running) == ("success", False)


def test_a_job_may_stop_the_engine_that_runs_it(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def leave() -> bool:
        return scheduler.stop(wait=0)

    scheduler.start()
    run = leave.run_now().wait(BOUND_S)

    assert (run.status, run.result) == ("success", False)


def test_an_engine_that_can_not_begin_says_why_and_is_not_running(path: Path) -> None:
    path.mkdir()
    scheduler = Scheduler(path)

    with pytest.raises(DatabaseUnusable, match="is not a regular file, but a folder"):
        scheduler.start()

    assert not scheduler.is_running


class BreakingClock(SystemClock):
    """Raises once, on the thread of the engine, after it was told to."""

    def __init__(self) -> None:
        self.breaks = threading.Event()
        self.has_broken = threading.Event()

    def now_ms(self) -> int:
        if self.breaks.is_set() and threading.current_thread().name == "edgecron-engine":
            self.breaks.clear()
            self.has_broken.set()
            raise ZeroDivisionError("a defect")
        return super().now_ms()


def test_where_gevent_has_patched_threads_no_engine_is_started(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold up all greenlets of its process: a worker of gunicorn answered nothing more."""
    patched = SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)

    with pytest.raises(Conflict, match="gevent has patched threads"):
        scheduler.start()

    assert not scheduler.is_running


def test_a_run_is_waited_for_while_another_thread_is_half_through_importing_asyncio(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine imports it for its first coroutine, and a request asks at the same time."""

    @scheduler.job("@daily")
    def poll() -> str:
        return "well"

    with scheduler:
        monkeypatch.setitem(sys.modules, "asyncio", ModuleType("asyncio"))

        assert poll.run_now().wait(BOUND_S).result == "well"


@pytest.mark.failure(77)
def test_an_engine_that_dies_of_a_defect_is_told_of_and_started_anew(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = BreakingClock()
    scheduler = Scheduler(path, clock=clock)

    @scheduler.job("@daily")
    def one() -> int:
        return 1

    with scheduler:
        assert one.run_now().wait(BOUND_S).result == 1
        clock.breaks.set()
        run = one.run_now()  # It wakes the engine.
        assert clock.has_broken.wait(BOUND_S)
        assert run.wait(BOUND_S).result == 1

    assert "the engine has died: a defect" in caplog.text
    assert scheduler.failure is None


@pytest.mark.failure(77)
def test_what_runs_when_an_engine_dies_has_its_end_and_holds_up_nothing_after_it(
    path: Path,
) -> None:
    clock = BreakingClock()
    scheduler = Scheduler(path, clock=clock)
    entered, opened = threading.Semaphore(0), threading.Event()

    @scheduler.job("@daily")
    def long() -> str:
        entered.release()
        assert opened.wait(BOUND_S)
        return "whole"

    @scheduler.job("@daily")
    async def patient() -> str:
        entered.release()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(BOUND_S)
        return "late"

    @scheduler.job("@daily")
    def short() -> None: ...

    with scheduler:
        runs = [long.run_now(), patient.run_now()]
        for _ in runs:
            assert entered.acquire(timeout=BOUND_S)
        clock.breaks.set()
        short.run_now().wait(BOUND_S)  # by the next engine
        opened.set()
        ends = [run.wait(BOUND_S) for run in runs]
        again = long.run_now().wait(BOUND_S)

    assert clock.has_broken.is_set()
    assert [(run.status, run.result) for run in ends] == [
        ("success", "whole"),
        ("success", "late"),
    ]
    assert again.status == "success"


@pytest.mark.failure(56)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_is_forked_begins_anew_and_leaves_the_parent_alone(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("@daily")
    def pid() -> int:
        return os.getpid()

    with scheduler:
        before = pid.run_now().wait(BOUND_S).result
        child = os.fork()
        if child == 0:
            code = 1
            try:
                is_anew = not scheduler.is_running
                with scheduler:
                    run = pid.run_now().wait(BOUND_S)
                code = 0 if is_anew and run.status == "success" else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pid.run_now().wait(BOUND_S).result == before == os.getpid()


@pytest.mark.failure(80)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_that_a_server_forks_have_an_engine_each_and_one_fire(
    path: Path, tmp_path: Path
) -> None:
    log = tmp_path / "fires"
    log.touch()
    scheduler = Scheduler(path)

    @scheduler.job("@daily", overlap="allow")
    def note(number: int = 0) -> None:
        with log.open("a") as lines:
            lines.write(f"{number} {os.getpid()}\n")

    note.next_runs()  # The master has the database open.
    readers: list[Any] = []
    pids: list[Any] = []
    for _ in range(4):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            for other in readers:
                os.close(other)
            try:
                with scheduler:
                    os.write(writer, b"+")
                    for number in range(10):
                        note.run_now(number).wait(BOUND_S)
                    os.write(writer, b".")
            finally:
                os._exit(0)
        os.close(writer)
        readers.append(reader)
        pids.append(pid)
    told = [os.read(reader, 1) + os.read(reader, 1) for reader in readers]
    for pid in pids:
        os.waitpid(pid, 0)

    assert told == [b"+."] * 4
    lines = log.read_text().splitlines()
    assert sorted(int(line.split()[0]) for line in lines) == sorted([*range(10)] * 4)
    with Client(path) as client:
        assert {one.status for one in client.history(limit=100)} == {"success"}
    for reader in readers:
        os.close(reader)


def test_each_scope_of_a_job_has_a_run_of_its_own(scheduler: Scheduler) -> None:
    @scheduler.job("@daily", scopes=["device:plc1", "device:plc2"])
    def poll(run: RunContext, port: int = 502) -> str:
        return f"{run.scope[1]}:{port}"

    with scheduler:
        runs = [run.wait(BOUND_S) for run in poll.fire({"port": 1502})]

    assert [run.scope for run in runs] == [("device", "plc1"), ("device", "plc2")]
    assert [run.result for run in runs] == ["plc1:1502", "plc2:1502"]
    assert len({run.id for run in runs}) == 2


@pytest.mark.failure(31)
def test_a_program_whose_database_is_gone_runs_nothing_and_makes_no_other(
    scheduler: Scheduler, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @scheduler.job("@daily")
    def one() -> int:
        return 1

    with scheduler:
        assert one.run_now().wait(BOUND_S).result == 1
        for name in ("app.db", "app.db-wal", "app.db-shm"):
            path.with_name(name).unlink()
        with pytest.raises(EdgecronError):
            one.run_now()
        ring_engines(state_dir(path))
        while scheduler.failure is None:
            threading.Event().wait(0.01)
        with pytest.raises(EdgecronError):
            one.run_now()
        is_made = path.exists()
    with scheduler:
        assert one.run_now().wait(BOUND_S).result == 1

    assert not is_made
    assert "the engine has died" in caplog.text
