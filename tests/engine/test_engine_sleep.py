"""Sleeping and waking: what ends a sleep, and that nothing happens while nothing is due."""

from __future__ import annotations

import errno
import os
import select
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from edgecron.base.clock import Clock, ServerTime, SystemClock
from edgecron.base.errors import DatabaseUnusable, SupervisorUnavailable
from edgecron.base.service_manager import FindNext
from edgecron.client import Client
from edgecron.engine.events import EventKind
from edgecron.engine.sleep import NapSleeper, TimerSleeper
from edgecron.engine.state_folder import Doorbell, Doorbells, ring_engines
from edgecron.model.choices import JobKind, OnShutdown, Reason, Status
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.sqlite.store import SqliteStore
from edgecron.supervisor.runner import THREADS, Runner
from tests.simulation.world import SimEngines
from tests.support.sleepy import START_MS, ScriptedSleeper, Sleepy


class Heard:
    """A watchdog that notes what it is told."""

    def __init__(self, every_ms: int | None = None) -> None:
        self.every_ms = every_ms
        self.told: list[str] = []

    def note_alive(self, *, running: int, find_next: FindNext) -> None:
        self.told.append("looked")

    def note_trouble(self, error: Exception) -> None:
        self.told.append("troubled")

    def note_stopping(self, *, running: int) -> None:
        self.told.append("stopping")


@pytest.fixture
def sleepy(tmp_path: Path) -> Sleepy:
    return Sleepy(tmp_path)


def nothing() -> set[int]:
    return set()


def test_an_idle_engine_sleeps_on_without_a_step(sleepy: Sleepy) -> None:
    sleepy.engine.step()
    calls = sleepy.world.calls

    sleeper = sleepy.run(*[nothing] * 20)

    assert sleeper.waits == [None] * 21
    # One step of the loop, then for each look no more than the change mark.
    assert sleepy.world.calls - calls < 15


def test_who_watches_is_told_at_looks_that_there_are_anyway(sleepy: Sleepy) -> None:
    heard = Heard()

    sleeper = sleepy.run(nothing, nothing, watchdog=heard)

    assert sleeper.waits == [None] * 3
    assert heard.told == ["looked"] * 4 + ["stopping"]


def test_who_watches_closely_has_the_engine_look_as_often(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 10s")

    sleeper = sleepy.run(nothing, watchdog=Heard(every_ms=15_000))
    assert sleeper.waits == [START_MS + 10_000] * 2

    sleeper = sleepy.run(nothing, watchdog=Heard(every_ms=4_000))
    assert sleeper.waits == [START_MS + 4_000] * 2


@pytest.mark.failure(24)
def test_who_watches_is_told_of_trouble_which_is_no_hang(sleepy: Sleepy) -> None:
    heard = Heard()
    sleepy.world.fault_chance = 1.0

    def heal() -> set[int]:
        sleepy.world.fault_chance = 0.0
        return set()

    sleepy.run(nothing, nothing, heal, watchdog=heard)

    assert heard.told == ["troubled"] * 3 + ["looked"] * 2 + ["stopping"]


def test_the_sleep_lasts_until_the_next_due_time_of_its_own_queues(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")
    sleepy.add("theirs", "every 5s", queue="py:other")

    sleeper = sleepy.run()

    assert sleeper.waits == [START_MS + 90 * 60_000]


def test_who_asks_for_one_run_after_the_other_has_some_of_them_begin_together(
    sleepy: Sleepy,
) -> None:
    sleepy.add("mine", "every 90m", lasts_s=5)
    sleepy.add("other", "every 90m", lasts_s=5)
    sleepy.client.run_now("mine")
    sleepy.doorbell.ring()  # As whoever asks while the engine is at work.

    sleeper = sleepy.run(lambda: set(map(id, sleepy.client.run_now("other")[:0])))

    assert sleeper.waits[0] is not None
    assert 0 < sleeper.waits[0] - START_MS < 50
    assert [run.status for run in sleepy.client.history()] == [Status.RUNNING] * 2


@pytest.mark.parametrize(("count", "wait_ms"), [(1, 5), (12, 12), (60, 50)])
def test_the_more_runs_a_pass_starts_the_more_may_come_to_the_next(
    sleepy: Sleepy, count: int, wait_ms: int
) -> None:
    sleepy.engine = sleepy.world.engines[sleepy.world.start_engine(max_running=60)][0]
    for number in range(count):
        sleepy.add(f"s{number}", "every 90m")
        sleepy.client.run_now(f"s{number}")
    sleepy.doorbell.ring()

    sleeper = sleepy.run(nothing)

    assert sleeper.waits[0] == START_MS + wait_ms


def test_a_wake_up_does_not_wait_for_more_where_nothing_was_claimed(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")
    sleepy.doorbell.ring()

    sleeper = sleepy.run()

    assert sleeper.waits == [START_MS + 90 * 60_000]


def test_a_wake_up_fires_what_is_due(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")

    sleeper = sleepy.run(lambda: sleepy.world.clock.advance_ms(90 * 60_000) or set())

    assert [body.schedule for body in sleepy.world.bodies] == ["mine"]
    assert len(sleeper.waits) == 2


def test_a_signal_that_comes_before_the_sleep_ends_it(sleepy: Sleepy) -> None:
    loop = sleepy.loop(ScriptedSleeper())
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        with loop.woken_by_signals():
            assert not sleepy.doorbell.clear()
            signal.raise_signal(signal.SIGUSR1)
            assert sleepy.doorbell.clear()
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert not sleepy.doorbell.clear()


@pytest.mark.failure(7)
def test_a_clock_that_was_set_is_noticed_at_once(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")

    # The kernel cancels the timer: the wait ends although nothing is readable.
    sleepy.run(lambda: sleepy.world.clock.step_ms(90 * 60_000) or set())

    assert [body.schedule for body in sleepy.world.bodies] == ["mine"]


def test_a_change_by_another_process_is_seen_even_if_its_ring_was_lost(sleepy: Sleepy) -> None:
    def somebody_adds() -> set[int]:
        with Client(sleepy.world.path, clock=sleepy.world.clock) as other:
            job = Job(kind=JobKind.COMMAND, argv=("job", "0", "0"))
            other.add(ScheduleSpec(name="new", triggers=("every 10m",), job=job))
        sleepy.doorbell.clear()
        return set()

    sleeper = sleepy.run(somebody_adds)

    assert sleeper.waits == [None, START_MS + 600_000]


def test_an_add_rings_the_doorbell(sleepy: Sleepy) -> None:
    sleepy.doorbell.clear()

    sleepy.add("mine", "every 90m")

    assert select.select([sleepy.doorbell.fileno()], [], [], 0)[0]
    assert sleepy.doorbell.clear()
    assert not sleepy.doorbell.clear()


@pytest.mark.failure(19)
def test_an_engine_that_comes_later_is_watched_from_then_on(sleepy: Sleepy) -> None:
    watched: list[int] = []

    def watched_then() -> None:
        watched.append(len(sleepy.engine.recovery.live_engines))

    def somebody_comes() -> set[int]:
        watched_then()
        newcomer, _ = sleepy.world.engines[sleepy.world.start_engine()]
        newcomer.step()
        ring_engines(sleepy.state_dir, is_new=True)
        return {sleepy.doorbell.fileno()}

    sleepy.run(somebody_comes, lambda: watched_then() or set())

    assert watched == [0, 1]


def test_a_doorbell_without_an_engine_stops_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "engine-dead.fifo")

    heard = ring_engines(tmp_path)

    assert heard == 0


def test_a_full_doorbell_stops_nobody(sleepy: Sleepy) -> None:
    for _ in range(100_000):
        sleepy.doorbell.ring()

    heard = ring_engines(sleepy.state_dir)

    assert heard == 1


def test_a_process_that_rings_often_finds_engines_that_come_and_go(tmp_path: Path) -> None:
    doorbells = Doorbells(tmp_path)
    first = Doorbell(tmp_path, "first")
    heard = [doorbells.ring()]
    # Its next change then has a later time, and the process need not list the folder until then.
    settled_ns = tmp_path.stat().st_mtime_ns - 3_600 * 10**9
    os.utime(tmp_path, ns=(settled_ns, settled_ns))
    heard += [doorbells.ring(), doorbells.ring()]

    second = Doorbell(tmp_path, "second")
    heard.append(doorbells.ring())
    first.leave()
    heard.append(doorbells.ring())

    assert heard == [1, 1, 1, 2, 1]
    assert second.clear()
    second.leave()


def test_an_engine_that_comes_within_a_tick_of_the_file_system_is_rung(tmp_path: Path) -> None:
    doorbells = Doorbells(tmp_path)
    changed_ns = tmp_path.stat().st_mtime_ns
    assert doorbells.ring() == 0
    bell = Doorbell(tmp_path, "new")
    os.utime(tmp_path, ns=(changed_ns, changed_ns))  # as if the tick lasted

    heard = doorbells.ring()

    assert heard == 1
    bell.leave()


@pytest.mark.failure(63)
def test_a_file_or_a_link_in_the_place_of_a_doorbell_is_not_written(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "engine-link.fifo").symlink_to(victim)
    (tmp_path / "engine-file.fifo").write_text("precious")

    heard = ring_engines(tmp_path)

    assert heard == 0
    assert victim.read_text() == "precious"
    assert (tmp_path / "engine-file.fifo").read_text() == "precious"


@pytest.mark.failure(62)
def test_a_doorbell_is_for_its_owner_alone(sleepy: Sleepy) -> None:
    [path] = sleepy.state_dir.glob("*.fifo")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.failure(36)
def test_what_runs_is_left_after_the_time_to_think_again(sleepy: Sleepy) -> None:
    def passes(milliseconds: int) -> set[int]:
        sleepy.world.clock.advance_ms(milliseconds)
        return set()

    sleepy.add("mine", "every 90m", lasts_s=600)
    sleeper = ScriptedSleeper(
        lambda: passes(90 * 60_000),
        lambda: loop.stop(linger_ms=5000) or set(),
        lambda: passes(4000),
        lambda: passes(1000),
    )
    loop = sleepy.loop(sleeper)

    loop.run()

    told = [(event.kind, event.details) for event in sleepy.world.events[-2:]]
    assert told == [
        (EventKind.ENGINE_STOPPING, {"on_shutdown": "leave", "runs": 1}),
        (EventKind.ENGINE_STOPPED, {"runs": 1}),
    ]
    assert len(sleeper.waits) == 4


@pytest.mark.failure(36)
def test_a_supervisor_that_is_stopped_does_not_keep_the_engine_from_stopping(
    sleepy: Sleepy,
) -> None:
    def passes(milliseconds: int) -> set[int]:
        sleepy.world.clock.advance_ms(milliseconds)
        return set()

    sleepy.add("mine", "every 90m", lasts_s=600)
    sleepy.world.supervisors[sleepy.engine.runners.own.id].is_stopped = True
    sleeper = ScriptedSleeper(
        lambda: passes(90 * 60_000),
        lambda: loop.stop() or set(),
        *[lambda: passes(1000)] * 20,  # the grace of 10 s, and 10 s more
    )
    loop = sleepy.loop(sleeper, on_shutdown=OnShutdown.STOP)

    loop.run()

    assert sleepy.world.events[-1].details == {"runs": 1}
    assert len(sleeper.waits) == 22


@pytest.mark.failure(36)
def test_an_end_that_the_database_does_not_take_is_no_reason_to_stay(sleepy: Sleepy) -> None:
    def trouble() -> set[int]:
        sleepy.world.clock.advance_ms(60_000)
        sleepy.world.fault_chance = 1.0
        return set()

    sleepy.add("mine", "every 90m", lasts_s=30)
    sleeper = ScriptedSleeper(
        lambda: sleepy.world.clock.advance_ms(90 * 60_000) or set(),
        lambda: loop.stop(linger_ms=90_000) or set(),
        trouble,
    )
    loop = sleepy.loop(sleeper)

    loop.run()

    kinds = [event.kind for event in sleepy.world.events]
    assert kinds[-2:] == [EventKind.DATABASE_TROUBLE, EventKind.ENGINE_STOPPED]
    assert len(sleepy.engine.runners) == 1
    assert sleepy.engine.runners.unended_count == 0


@pytest.mark.failure(51)
@pytest.mark.failure(24)
def test_database_trouble_is_told_once_and_outlived(sleepy: Sleepy) -> None:
    sleepy.add("mine", "every 90m")
    sleepy.world.fault_chance = 1.0

    def heal() -> set[int]:
        sleepy.world.fault_chance = 0.0
        return set()

    sleepy.run(nothing, nothing, heal)

    kinds = [event.kind for event in sleepy.world.events]
    assert kinds.count(EventKind.DATABASE_TROUBLE) == 1
    assert kinds.count(EventKind.DATABASE_WELL) == 1
    assert kinds[-1] is EventKind.ENGINE_STOPPED


@pytest.mark.failure(51)
def test_database_trouble_in_the_middle_of_a_sleep_is_outlived(
    sleepy: Sleepy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(store: SqliteStore) -> int:
        raise DatabaseUnusable("disk I/O error")

    def break_down() -> set[int]:
        broken.setattr(SqliteStore, "change_mark", property(look))
        return set()

    def heal() -> set[int]:
        broken.undo()
        sleepy.world.clock.advance_ms(10 * 60 * 60_000)
        return set()

    sleepy.add("mine", "every 90m")
    with monkeypatch.context() as broken:
        sleepy.run(break_down, heal, nothing)

    kinds = [event.kind for event in sleepy.world.events]
    assert kinds.count(EventKind.DATABASE_TROUBLE) == 1
    assert kinds.count(EventKind.DATABASE_WELL) == 1
    [missed] = [one for one in sleepy.client.history("mine") if one.reason is Reason.MISFIRE]
    assert (missed.error_code, missed.missed_count) == ("database", 5)


@pytest.mark.failure(40)
def test_a_state_folder_that_can_not_be_looked_into_for_a_while_is_outlived(
    sleepy: Sleepy, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_dead, refusals = SimEngines.dead_supervisors, [1, 2]

    def refuse_at_first(others: SimEngines) -> list[str]:
        if refusals:
            refusals.pop()
            raise OSError(errno.ENFILE, "too many open files in system")
        return find_dead(others)

    monkeypatch.setattr(SimEngines, "dead_supervisors", refuse_at_first)

    sleepy.run(nothing, nothing)

    kinds = [event.kind for event in sleepy.world.events]
    assert kinds.count(EventKind.DATABASE_TROUBLE) == 1
    assert kinds.count(EventKind.DATABASE_WELL) == 1


def test_a_supervisor_that_can_not_be_replaced_at_once_is_replaced_later(
    sleepy: Sleepy, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleepy.add("mine", "every 90m")
    dead = sleepy.engine.runners.own.id
    start, refusals = sleepy.world.start_runner, 2

    def refuse_at_first(key: str, *, places: int) -> Runner:
        nonlocal refusals
        refusals -= 1
        if refusals >= 0:
            raise SupervisorUnavailable("no process is left")
        return start(key, places=places)

    monkeypatch.setattr(sleepy.world, "start_runner", refuse_at_first)
    sleepy.world.kill_supervisor(dead)

    sleepy.run(nothing, nothing)

    kinds = [event.kind for event in sleepy.world.events]
    assert kinds.count(EventKind.DATABASE_TROUBLE) == 1
    assert kinds.count(EventKind.SUPERVISOR_DIED) == 1
    assert sleepy.engine.runners.own.id not in (dead, THREADS)


def an_hour_ahead() -> ServerTime:
    time = ServerTime(SystemClock())
    time.note(SystemClock().now_ms() + 3_600_000)
    return time


@pytest.mark.parametrize("make_clock", [SystemClock, an_hour_ahead])
@pytest.mark.parametrize("make", [TimerSleeper, NapSleeper])
def test_a_sleeper_wakes_at_its_instant_and_not_before(
    make: Callable[[Clock], TimerSleeper | NapSleeper], make_clock: Callable[[], Clock]
) -> None:
    clock = make_clock()
    sleeper = make(clock)
    until_ms = clock.now_ms() + 30

    sleeper.wait([], until_ms=until_ms)
    woke_ms = clock.now_ms()
    sleeper.close()

    # A server's time is computed from other clocks of the kernel, read one after the other.
    assert woke_ms >= until_ms - isinstance(clock, ServerTime)
    assert woke_ms < until_ms + 10_000


@pytest.mark.parametrize("until_ms", [None, 253_402_300_799_000])  # None, the end of 9999
@pytest.mark.parametrize("make", [TimerSleeper, NapSleeper])
def test_a_sleeper_wakes_for_a_descriptor(
    make: Callable[[Clock], TimerSleeper | NapSleeper], until_ms: int | None
) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    sleeper = make(SystemClock())

    ready = sleeper.wait([reader], until_ms=until_ms)
    sleeper.close()
    os.close(reader)
    os.close(writer)

    assert ready == {reader}
