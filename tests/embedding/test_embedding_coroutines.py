"""What a program asks for from a coroutine: the event loop goes on, whoever holds the lock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from edgecron import Scheduler
from edgecron.errors import DatabaseBusy

BOUND_S = 20.0
FROZEN_S = 1.0  # a loop that stands still for so long; a lock is held for longer


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


async def longest_pause(stop: asyncio.Event) -> float:
    """How long the loop stood still at most."""
    longest, before = 0.0, time.monotonic()
    while not stop.is_set():
        await asyncio.sleep(0.005)
        now = time.monotonic()
        longest, before = max(longest, now - before), now
    return longest


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

    async def main() -> float:
        stop = asyncio.Event()
        watching = asyncio.create_task(longest_pause(stop))
        with locked(path):
            asking = asyncio.ensure_future(call())
            await asyncio.sleep(1.5 * FROZEN_S)
            was_done = asking.done()
        await asyncio.wait_for(asking, BOUND_S)
        stop.set()
        assert not was_done
        return await watching

    assert asyncio.run(main()) < FROZEN_S


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

    assert took_s < FROZEN_S
    assert "await job.arun_now()" in str(hint)
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
