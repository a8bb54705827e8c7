"""Functions of a program, run by the engine that is part of it."""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import closing
from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.engine.host import EngineHost
from edgecron.model.choices import Reason, Status
from edgecron.supervisor.calls import Call
from edgecron.supervisor.control import Control
from edgecron.supervisor.state_files import lock_is_held
from tests.support.embedded import (
    BOUND_S,
    add_command,
    fire,
    other_program,
    program,
    run_of,
    step_until_ended,
)


def test_a_registered_function_runs_and_its_row_says_what_it_returned(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "poll")

    with program(database, {"poll": lambda call: {"polled": call.payload}}) as host:
        step_until_ended(host)

    run = run_of(database, "poll")
    assert (run.status, run.result) == (Status.SUCCESS, '{"polled": {"host": "plc1"}}')
    assert run.exit_code is None
    assert run.duration_ms is not None


def test_a_function_is_called_with_the_payload_of_its_run(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "poll", payload='["plc2"]')

    with program(database, {"poll": lambda call: call.payload}) as host:
        step_until_ended(host)

    assert run_of(database, "poll").result == '["plc2"]'


def test_an_exception_is_the_error_of_its_row_and_the_traceback_its_output(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "poll")

    def poll(call: Call) -> None:
        raise TimeoutError("plc1 is silent")

    with program(database, {"poll": poll}) as host:
        step_until_ended(host)

    run = run_of(database, "poll")
    assert (run.status, run.reason) == (Status.FAILED, Reason.EXCEPTION)
    assert run.error_msg == "TimeoutError: plc1 is silent"
    with Client(database) as client:
        output = client.output(run.id)
    assert output is not None
    assert b"in poll" in b"".join(chunk.content for chunk in output.chunks)


@pytest.mark.failure(81)
def test_an_exception_whose_words_are_no_text_holds_up_no_other_end(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "odd")
    fire(database, "poll")

    def odd(call: Call) -> None:
        raise ValueError(os.fsdecode(b"plc\xff"))

    with program(database, {"odd": odd, "poll": lambda call: None}) as host:
        step_until_ended(host)

    assert run_of(database, "poll").status is Status.SUCCESS
    assert run_of(database, "odd").error_msg == r"ValueError: plc\udcff"


def test_an_engine_that_stops_waits_a_while_for_functions_and_writes_their_ends(
    tmp_path: Path,
) -> None:
    database = tmp_path / "edge.db"
    fire(database, "poll")

    entered = threading.Event()

    def poll(call: Call) -> str:
        entered.set()
        while not call.must_stop:
            pass
        return "in time"

    with program(database, {"poll": poll}) as host:
        host.engine.step()
        assert entered.wait(BOUND_S)
        host.loop.stop()
        host.loop.run()

    run = run_of(database, "poll")
    assert (run.status, run.result) == (Status.SUCCESS, '"in time"')


@pytest.mark.failure(67)
def test_a_function_that_the_program_did_not_register_is_not_run(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "os.abort")

    with program(database, {"poll": lambda call: None}) as host:
        step_until_ended(host)

    run = run_of(database, "os.abort")
    assert (run.status, run.reason) == (Status.FAILED, Reason.SPAWN)
    assert run.error_msg == "this program has registered no callable 'os.abort'"


def test_a_callable_of_a_program_that_is_not_there_waits_for_it(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "poll")
    host = EngineHost(database, clock=SystemClock(), report=lambda event: None)

    with closing(host):
        step_until_ended(host)

    assert run_of(database, "poll").status is Status.QUEUED


@pytest.mark.failure(18)
def test_a_supervisor_that_dies_takes_no_callable_with_it(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "wait")
    entered, opened = threading.Event(), threading.Event()

    def wait(call: Call) -> str:
        entered.set()
        assert opened.wait(BOUND_S)
        return "whole"

    add_command(database, "log", "@yearly")
    with program(database, {"wait": wait}) as host:
        host.engine.step()
        assert entered.wait(BOUND_S)
        before = host.engine.runners.own.id
        with Control(state_dir(database), before) as control:
            os.kill(control.pid, signal.SIGKILL)
        while host.engine.runners.own.id == before:
            descriptors = host.engine.runners.filenos()
            assert select.select(descriptors, [], [], BOUND_S)[0], "nobody saw it die"
            host.engine.has_ends()
            host.engine.step()
        running = run_of(database, "wait")
        opened.set()
        step_until_ended(host)

    ended = run_of(database, "wait")
    assert running.status is Status.RUNNING
    assert (ended.status, ended.result) == (Status.SUCCESS, '"whole"')


FORKS = """
import time

def fork(call):
    if os.fork() == 0:
        host.close()  # As a child does that unwinds the stack of its parent.
        print(os.getpid(), flush=True)
        time.sleep(60)
        os._exit(0)
    time.sleep(60)

clock = SystemClock()
settings = EngineSettings(queues=("py:plant",))
host = EngineHost(Path(sys.argv[1]), settings, clock=clock, report=lambda event: None,
                  functions=ProgramFunctions(CallableRunner({"fork": fork}, clock=clock)))
host.loop.run()
"""


def test_a_child_that_a_function_has_forked_does_not_make_its_engine_live_on(
    tmp_path: Path,
) -> None:
    database = tmp_path / "edge.db"
    fire(database, "fork")
    with other_program(FORKS, database) as other:
        assert other.stdout is not None
        child_pid = int(other.stdout.readline())
        try:
            [lock] = state_dir(database).glob("engine-*.lock")
            is_alive = lock_is_held(lock), lock.with_suffix(".fifo").exists()
            other.kill()
            other.wait()

            assert is_alive == (True, True)
            assert not lock_is_held(lock)
            with program(database, {}) as host:
                step_until_ended(host)
            run = run_of(database, "fork")
            assert (run.status, run.reason) == (Status.INTERRUPTED, Reason.LOST)
        finally:
            os.kill(child_pid, signal.SIGKILL)


PROGRAM = """
def wait(call):
    print("called", flush=True)
    sys.stdin.read()

clock = SystemClock()
runner = CallableRunner({"wait": wait}, clock=clock)
settings = EngineSettings(queues=("py:plant",))
host = EngineHost(Path(sys.argv[1]), settings, clock=clock, report=lambda event: None,
                  functions=ProgramFunctions(runner))
host.loop.run()
"""


@pytest.mark.failure(17)
def test_a_callable_whose_program_was_killed_is_interrupted_and_not_run_again(
    tmp_path: Path,
) -> None:
    database = tmp_path / "edge.db"
    fire(database, "wait")
    with other_program(PROGRAM, database) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "called\n"
        other.kill()
        other.wait()
    calls: list[Call] = []

    with program(database, {"wait": calls.append}) as host:
        step_until_ended(host)

    run = run_of(database, "wait")
    assert (run.status, run.reason) == (Status.INTERRUPTED, Reason.LOST)
    assert run.error_msg == "the program that ran it has ended"
    assert calls == []
