"""How engines do, seen from outside: real processes, stopped, stuck, at work and well."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.client.engine_health import EngineHealth, EngineState, find_holder, holds_open
from edgecron.engine.events import Event, EventKind
from edgecron.engine.host import EngineHost
from edgecron.engine.state_folder import count_unheard, engine_lock_path, ring_engine
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.sqlite.connection import Database
from tests.support.clock import FakeClock
from tests.support.processes import Daemon
from tests.support.stuck import (
    KEY,
    SLEEPS,
    SPINS,
    StuckEngine,
    resume,
    stop,
    stop_at_rest,
    wait_for_rest,
)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def client(tmp_path: Path, stack: ExitStack) -> Client:
    return stack.enter_context(Client(tmp_path / "edge.db"))


Start = Callable[[], Daemon]


@pytest.fixture
def start(client: Client, stack: ExitStack) -> Start:
    """Start a real engine on the database, and wait until it has run something."""

    def start_one() -> Daemon:
        if not client.schedules():
            add(client, "once", "@yearly")
        daemon = Daemon(client.path)
        stack.callback(lambda: daemon.process.poll() is None and daemon.kill())
        client.run_now("once")
        daemon.wait_for("ended", schedule="once")
        return daemon

    return start_one


def add(client: Client, name: str, trigger: str) -> None:
    job = Job(kind=JobKind.SHELL, argv=("true",))
    client.add(ScheduleSpec(name=name, triggers=(trigger,), job=job))


def only_state(client: Client) -> EngineState:
    [state] = client.engines()
    return state


def turns_of(pid: int) -> int:
    """How often a process was woken, as the kernel counts it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [count] = [line for line in lines if line.startswith("voluntary_ctxt_switches")]
    return int(count.split()[1])


@pytest.mark.failure(23)
def test_a_stopped_engine_is_stalled_until_it_goes_on(client: Client, start: Start) -> None:
    daemon = start()

    stop_at_rest(daemon.process)
    stopped = only_state(client)
    resume(daemon.process)
    resumed = only_state(client)

    assert (stopped.health, stopped.is_alive, stopped.is_working) == ("stalled", True, False)
    assert stopped.why == "it is stopped (SIGSTOP or Ctrl-Z)"
    assert (resumed.health, resumed.is_working, resumed.why) == ("alive", True, "")


def test_an_engine_with_nothing_due_is_not_woken_by_a_look(client: Client, start: Start) -> None:
    daemon = start()
    wait_for_rest(daemon.process.pid)
    before = turns_of(daemon.process.pid)

    states = [only_state(client).health for _ in range(20)]

    assert set(states) == {EngineHealth.ALIVE}
    assert turns_of(daemon.process.pid) == before


def test_who_only_asks_for_a_lock_does_not_hold_it(client: Client, stack: ExitStack) -> None:
    stuck = StuckEngine(client, SLEEPS)
    stack.callback(stuck.end)
    lock = engine_lock_path(stuck.state_dir, KEY)

    with lock.open():  # as whoever asks has for a moment
        has_it_open = holds_open(os.getpid(), lock)
        holder = find_holder(lock)

    assert (has_it_open, holder) == (True, stuck.process.pid)


def test_an_engine_that_died_is_gone(client: Client, start: Start) -> None:
    start().kill()

    state = only_state(client)

    assert (state.health, state.is_alive, state.is_working) == ("gone", False, False)


def test_an_engine_of_which_something_is_overdue_is_rung_and_hears_it(
    tmp_path: Path, client: Client, start: Start
) -> None:
    daemon = start()
    wait_for_rest(daemon.process.pid)
    before = turns_of(daemon.process.pid)
    # By the clock of who looks, a year has passed; the engine's own says otherwise.
    late = FakeClock(client.clock.now_ms() + 400 * 86_400_000)

    with Client(client.path, clock=late) as onlooker:
        # On a machine that is busy it may take longer than one look has patience.
        seen = {only_state(onlooker).health for _ in range(10)}

    assert EngineHealth.ALIVE in seen
    assert EngineHealth.STALLED not in seen
    assert turns_of(daemon.process.pid) > before


@pytest.mark.failure(23)
def test_an_engine_that_sleeps_and_hears_no_doorbell_is_stalled(
    client: Client, stack: ExitStack
) -> None:
    stuck = StuckEngine(client, SLEEPS)
    stack.callback(stuck.end)
    at_rest = only_state(client)

    add(client, "rings", "@yearly")
    rung = only_state(client)

    assert at_rest.health is EngineHealth.ALIVE, "nothing speaks against it yet"
    assert (rung.health, rung.why) == ("stalled", "it sleeps, and does not answer")
    assert count_unheard(stuck.state_dir, KEY) == 1, "it need not be rung twice"


@pytest.mark.failure(23)
def test_an_engine_that_leaves_undone_what_is_due_is_rung_and_found_out(
    client: Client, stack: ExitStack
) -> None:
    add(client, "due", "@yearly")
    stuck = StuckEngine(client, SLEEPS)
    stack.callback(stuck.end)
    late = FakeClock(client.clock.now_ms() + 400 * 86_400_000)

    with Client(client.path, clock=late) as onlooker:
        state = only_state(onlooker)

    assert state.health is EngineHealth.STALLED
    assert count_unheard(stuck.state_dir, KEY) == 1


def test_an_engine_at_work_is_silent_and_not_stalled(client: Client, stack: ExitStack) -> None:
    stuck = StuckEngine(client, SPINS)
    stack.callback(stuck.end)

    ring_engine(stuck.state_dir, KEY)
    state = only_state(client)

    assert (state.health, state.is_working) == ("silent", True)
    assert "busy" in state.why


@pytest.mark.failure(24)
def test_an_engine_that_waits_for_a_foreign_lock_is_late_and_not_stalled(
    client: Client, start: Start, stack: ExitStack
) -> None:
    start()
    add(client, "tick", "every 1s")
    locker = Database(client.path)
    stack.callback(locker.close)

    with locker.transaction():
        seen: list[Any] = []
        # It wants to write within a second; until then it hears each ring at once.
        while EngineHealth.SILENT not in seen and len(seen) < 10_000:
            ring_engine(state_dir(client.path), only_state(client).info.key)
            seen.append(only_state(client).health)

    assert seen[-1] is EngineHealth.SILENT
    assert EngineHealth.STALLED not in seen


def test_a_process_that_is_not_the_engine_says_nothing_about_it(
    client: Client, stack: ExitStack
) -> None:
    # Not an engine of this database: an engine that is stopped might hold its write lock.
    bystander = stack.enter_context(StuckEngine.start_bystander())
    stack.callback(bystander.kill)
    stop(bystander)
    stuck = StuckEngine(client, SLEEPS, pid=bystander.pid)
    stack.callback(stuck.end)
    ring_engine(stuck.state_dir, KEY)

    [state] = [one for one in client.engines() if one.info.key == KEY]

    assert state.health is EngineHealth.SILENT
    assert state.why.endswith("its process can't be seen from here")


def test_the_holder_of_a_lock_is_told_by_what_it_has_open(client: Client, stack: ExitStack) -> None:
    stuck = StuckEngine(client, SLEEPS)
    stack.callback(stuck.end)
    lock = engine_lock_path(stuck.state_dir, KEY)

    assert holds_open(stuck.process.pid, lock)
    assert not holds_open(os.getpid(), lock)
    assert not holds_open(stuck.process.pid, lock.with_name("missing"))
    assert not holds_open(2**22 + 1, lock)


def test_an_engine_that_reports_its_start_is_found(client: Client, stack: ExitStack) -> None:
    found: list[EngineState] = []

    def report(event: Event) -> None:
        if event.kind is EventKind.ENGINE_STARTED:
            found.extend(client.engines())
            host.loop.stop()

    host = EngineHost(client.path, clock=SystemClock(), report=report)
    stack.callback(host.close)
    host.loop.run()

    [state] = found
    assert state.is_alive
    assert state.info.pid == os.getpid()
