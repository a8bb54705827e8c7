"""What a program asks for from a coroutine: the event loop goes on, whoever holds the lock."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

import apsw
import pytest

from edgecron import Scheduler
from edgecron.base.errors import DatabaseBusy

BOUND_S = 20.0
BUSY_WAIT_S = 30.0  # how long a call outside a loop waits for a lock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def scheduler(path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(path)
    yield scheduler
    assert scheduler.stop()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the database's lock, as another process does."""
    locker = apsw.Connection(str(path))
    locker.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        locker.execute("ROLLBACK")
        locker.close()


def asks(scheduler: Scheduler) -> dict[str, Callable[[], Awaitable[object]]]:
    job = scheduler.get("poll")
    return {
        "arun_now": job.arun_now,
        "afire": job.afire,
        "apause": job.apause,
        "aresume": job.aresume,
        "areschedule": lambda: job.areschedule(datetime(2030, 1, 1, tzinfo=UTC)),
        "aadd": lambda: scheduler.aadd("more", "@daily", command=["true"]),
        "aprune": scheduler.aprune,
    }


@pytest.mark.parametrize(
    "name", ["arun_now", "afire", "apause", "aresume", "areschedule", "aadd", "aprune"]
)
def test_a_lock_of_another_process_does_not_freeze_the_loop(
    scheduler: Scheduler, path: Path, name: str
) -> None:
    @scheduler.job("@daily")
    def poll() -> int:
        return 1

    scheduler.keep_declared()
    scheduler.job("@weekly", name="later")(poll.function)
    call = asks(scheduler)[name]
    scheduler.job("@weekly", name="even_later")(poll.function)

    async def main() -> None:
        # The loop itself gives the lock back. A call that froze the loop would wait for it in
        # vain, and raise DatabaseBusy.
        with locked(path):
            asking = asyncio.ensure_future(call())
            for _ in range(100):
                await asyncio.sleep(0)
            assert not asking.done()
        await asyncio.wait_for(asking, BOUND_S)

    asyncio.run(main())


def test_a_call_that_waits_gives_up_soon_on_the_loop_and_says_what_to_await(
    scheduler: Scheduler, path: Path
) -> None:
    @scheduler.job("@daily")
    def poll() -> int:
        return 1

    scheduler.keep_declared()

    async def main() -> tuple[float, str | None]:
        poll.schedule  # noqa: B018  a connection is open, and kept
        with locked(path):
            began = time.monotonic()
            with pytest.raises(DatabaseBusy) as raised:
                poll.run_now()
            return time.monotonic() - began, raised.value.hint

    took_s, hint = asyncio.run(main())

    assert took_s < BUSY_WAIT_S / 2
    assert "await job.arun_now()" in str(hint)
    assert poll.run_now().id == 1


def test_a_call_can_come_while_another_thread_loads_asyncio(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    @scheduler.job("@daily")
    def poll() -> int:
        return 1

    scheduler.keep_declared()
    monkeypatch.setitem(sys.modules, "asyncio.events", ModuleType("asyncio.events"))

    assert poll.run_now().id == 1


def test_what_a_coroutine_asks_for_is_the_same(scheduler: Scheduler) -> None:
    @scheduler.job("@daily")
    def poll(host: str = "plc1") -> str:
        return host

    async def main() -> None:
        async with scheduler:
            run = await (await poll.arun_now("plc2"))
            entry = await scheduler.aget("poll")
            [fired] = await entry.afire()
            again = await fired
            await (await scheduler.aadd("rotate", "@daily", command=["true"])).arun_now()
            await poll.apause()
            paused = await poll.aschedule()
            await poll.aresume()
            assert (run.result, again.result, paused.enabled) == ("plc2", "plc1", False)
            assert len(await poll.anext_runs(2)) == 2
            assert [one.id for one in await poll.ahistory(limit=1)] == [again.id]
            assert (await scheduler.arun(run.id)).result == "plc2"
            assert await run.aoutput() == ""
            assert (await run.arefresh()).status == "success"
            assert await poll.astate() == {}
            assert {one.spec.name for one in await scheduler.aschedules()} == {"poll", "rotate"}
            assert await scheduler.aprune() == []
        await scheduler.astart()
        assert await (await poll.arun_now()).aget() == "plc1"
        assert await scheduler.astop()

    asyncio.run(main())


def test_arguments_that_are_wrong_are_refused_before_anything_is_asked(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("@daily")
    def poll(host: str = "plc1") -> str:
        return host

    async def main() -> None:
        with pytest.raises(TypeError):
            await poll.arun_now(port=1)  # type: ignore[call-arg]

    asyncio.run(main())

    assert poll.history() == []
