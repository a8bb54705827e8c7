"""Runs that print nothing for their stall timeout: who is told, and when they are ended."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from edgecron.embedding.travel_engine import FakeClock
from edgecron.supervisor.control import Control
from edgecron.supervisor.link import Stalled
from edgecron.supervisor.live_run import LiveRun
from edgecron.supervisor.live_runs import LiveRuns
from edgecron.supervisor.protocol import EndCause, Flag
from edgecron.supervisor.reactor import Reactor
from tests.supervisor.supervisor_bench import Bench, Gate, Starting

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def wait_stalled(bench: Bench) -> list[str]:
    """The tokens that the supervisor has reported, one at least."""

    def find() -> list[str]:
        return [event.token for event in bench.events if isinstance(event, Stalled)]

    bench.wait_for(lambda: bool(find()), "a report of a stall")
    return find()


def test_a_silent_run_is_reported_and_continues(bench: Bench, gate: Gate) -> None:
    token = bench.shell(f"read go < {gate.path}", stall_timeout_ms=50)

    told = wait_stalled(bench)
    gate.open()
    record = bench.ended(token)

    assert told == [token]
    assert (record.cause, record.exit_code, record.flags) == (EndCause.EXIT, 0, (Flag.STALLED,))


def test_a_silent_run_can_be_ended(bench: Bench) -> None:
    token = bench.shell("echo begun; exec sleep 60", stall_timeout_ms=200, ends_stalled=True)

    record = bench.ended(token)

    assert wait_stalled(bench) == [token]
    assert (record.cause, record.exit_code) == (EndCause.STALLED, 128 + signal.SIGTERM)
    assert record.error_msg == "printed nothing for 200ms, and was ended"
    assert record.flags == (Flag.STALLED,)
    assert bench.printed(record) == b"begun\n"


def test_an_engine_that_adopts_a_stalled_run_hears_of_it(bench: Bench) -> None:
    token = bench.shell("exec sleep 60", stall_timeout_ms=50)
    wait_stalled(bench)
    bench.link.close()
    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        while control.status().has_engine:
            continue
        bench.link = control.adopt()
    bench.events = bench.link.receive()  # what came with the hello

    told = wait_stalled(bench)

    assert told == [token]


class Watched:
    """One run under `LiveRuns`, with a clock that the test sets."""

    def __init__(self, bench: Bench, line: str) -> None:
        self.clock = FakeClock()
        self.told: list[str] = []
        self.starting = Starting(bench.state_dir, clock=self.clock)
        self.reactor = Reactor()
        self.runs = LiveRuns(
            self.reactor,
            clock=self.clock,
            deadlines=self.starting.deadlines,
            recorder=self.starting.recorder,
            retry=lambda run, failure: None,
            report_stall=self._report,
        )
        self.starting.start(bench.request("/bin/sh", "-c", line, stall_timeout_ms=1000))
        [self.run] = self.starting.started
        self.runs.add(self.run)

    def _report(self, run: LiveRun) -> None:
        self.told.append(run.token)

    def pass_ms(self, span_ms: int) -> int:
        """Let time pass, and act on what is due; how many reports there are by then."""
        self.clock.advance_ms(span_ms)
        for key in self.starting.deadlines.pop_due(self.clock.monotonic_ms()):
            self.runs.on_deadline(key)
        return len(self.told)

    def read_until(self, printed: int) -> None:
        """Read its pipes until it has printed so many bytes."""
        while self.run.read_output(printed - 1).next_position < printed:
            self.reactor.turn(20)

    def close(self) -> None:
        while self.run.token in self.runs.by_token:
            self.reactor.turn(20)
        self.starting.close()


def test_each_output_starts_the_time_again(tmp_path: Path, bench: Bench, gate: Gate) -> None:
    wait = f"read go < {gate.path}"
    watched = Watched(bench, f"{wait}; echo a; {wait}; echo b; {wait}")

    told = [watched.pass_ms(900)]
    gate.open()
    watched.read_until(2)
    told += [watched.pass_ms(900), watched.pass_ms(100), watched.pass_ms(5000)]
    gate.open()
    watched.read_until(4)
    told += [watched.pass_ms(900), watched.pass_ms(100)]
    gate.open()
    watched.close()

    assert told == [0, 0, 1, 1, 1, 2]
