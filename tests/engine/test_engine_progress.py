"""How far the functions of a program are, as their engine puts it on record."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.engine.host import EngineHost, ProgramFunctions
from edgecron.engine.presence import EngineSettings
from edgecron.model.choices import JobKind, Status
from edgecron.model.job import Job
from edgecron.model.run import Progress
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.callable_runner import CallableRunner
from edgecron.supervisor.calls import Call
from tests.support.clock import FakeClock

QUEUE = "py:app"
BOUND_S = 20.0


class Program:
    """A program with one engine and one function, which does what it is told to, step by step."""

    def __init__(self, database: Path, clock: FakeClock) -> None:
        self.client = Client(database, clock=clock)
        job = Job(kind=JobKind.CALLABLE, argv=("work",))
        self.client.add(ScheduleSpec(name="work", triggers=("@yearly",), job=job, queue=QUEUE))
        self.runner = CallableRunner({"work": self._work}, clock=clock, read_state=self._read_state)
        self.host = EngineHost(
            database,
            EngineSettings(queues=(QUEUE,)),
            clock=clock,
            report=lambda event: None,
            functions=ProgramFunctions(self.runner),
        )
        self._database = database
        self._clock = clock
        self._calls: list[Call] = []
        self._begun = threading.Event()
        self._may_end = threading.Event()

    def _read_state(self, schedule_id: int) -> dict[str, str]:
        with Client(self._database, clock=self._clock) as client:
            return client.store.find_state(schedule_id)

    def _work(self, call: Call) -> None:
        self._calls.append(call)
        self._begun.set()
        assert self._may_end.wait(BOUND_S)
        count = int(call.state.get("count", "0"))
        call.set_state("count", str(count + 1))

    def begin(self) -> Call:
        """Have it run; the call that goes on then."""
        self._begun.clear()
        self._may_end.clear()
        self.client.run_now("work")
        self.host.engine.step()
        assert self._begun.wait(BOUND_S)
        return self._calls[-1]

    def end(self) -> None:
        self._may_end.set()
        while self.host.engine.runners:
            descriptors = self.host.engine.runners.filenos()
            assert select.select(descriptors, [], [], BOUND_S)[0], "no end came"
            self.host.engine.step()

    def progress(self) -> Progress | None:
        return self.client.history("work")[0].progress

    def is_woken(self) -> bool:
        """Whether a loop that sleeps would make a step now."""
        ready = select.select(self.host.engine.runners.filenos(), [], [], 0)[0]
        return bool(ready) and self.host.engine.has_ends()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def program(tmp_path: Path, clock: FakeClock) -> Iterator[Program]:
    program = Program(tmp_path / "edgecron.db", clock)
    with closing(program.client), closing(program.host):
        yield program


def at(fraction: float) -> Progress:
    return Progress(fraction=fraction)


def test_progress_is_written_once_a_second_at_most_and_the_newest_wins(
    program: Program, clock: FakeClock
) -> None:
    call = program.begin()
    clock.advance_ms(1000)
    seen, waits = [], []
    for number in range(1, 21):
        call.report_progress(number / 100)
        if program.is_woken() or number > 1:
            step = program.host.engine.step()
            assert step.wake_ms is not None
            waits.append(step.wake_ms - clock.now_ms())
        seen.append(program.progress())
        clock.advance_ms(100)
    program.end()

    assert seen == [at(0.01)] * 10 + [at(0.11)] * 10
    # Its loop wakes by itself for what comes next, no sooner than it may be written.
    assert waits[:11] == [*range(1000, 0, -100), 1000]
    assert program.progress() == at(0.2), "the last stays on the row"


def test_a_loop_is_woken_for_the_first_progress_and_not_for_those_that_follow(
    program: Program, clock: FakeClock
) -> None:
    call = program.begin()
    clock.advance_ms(1000)
    quiet = program.is_woken()

    call.report_progress(0.1)
    first = program.is_woken()
    program.host.engine.step()
    call.report_progress(0.2)
    second = program.is_woken()
    clock.advance_ms(1000)
    program.host.engine.step()
    clock.advance_ms(1000)
    calm = program.host.engine.step()
    call.report_progress(0.3)
    later = program.is_woken()
    program.end()

    assert (quiet, first, second, later) == (False, True, False, True)
    assert calm.wake_ms is None or calm.wake_ms - clock.now_ms() > 1000


def test_an_engine_whose_functions_report_nothing_is_not_woken_for_it(
    program: Program, clock: FakeClock
) -> None:
    program.begin()
    clock.advance_ms(60_000)
    program.host.engine.step()
    step = program.host.engine.step()

    assert not program.is_woken()
    assert step.wake_ms is None or step.wake_ms - clock.now_ms() > 1000
    program.end()


def test_what_a_run_has_its_schedule_remember_is_there_for_the_next_one(
    program: Program,
) -> None:
    for _ in range(3):
        program.begin()
        program.end()

    assert program.client.state("work") == {"count": "3"}
    runs = program.client.history("work")
    assert [run.status for run in runs] == [Status.SUCCESS] * 3
