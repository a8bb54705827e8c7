"""An engine inside a program: what it starts, what it leaves alone, and how it ends."""

from __future__ import annotations

import os
import select
import sys
import threading
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from edgecron.base.clock import SystemClock
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.client.doctor import check_runs, check_supervisors
from edgecron.engine.events import Event, EventKind
from edgecron.engine.host import EngineHost
from edgecron.engine.state_folder import NEWCOMER, Doorbell
from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.job import Job
from edgecron.supervisor.calls import Call
from edgecron.supervisor.control import Control
from edgecron.supervisor.runner import THREADS
from tests.support.embedded import (
    BOUND_S,
    QUEUE,
    add_command,
    fire,
    other_program,
    program,
    run_of,
    step_until_ended,
)
from tests.support.processes import ends


def supervisors(database: Path) -> list[Path]:
    return list(state_dir(database).glob("supervisor-*.lock"))


def step_until(host: EngineHost, database: Path, name: str, status: Status) -> None:
    """Step whenever there is something to step for, until the one run of a schedule stands so."""
    for _ in range(100):
        step = host.engine.step()
        if run_of(database, name).status is status:
            return
        wait_s = BOUND_S
        if step.wake_ms is not None:
            wait_s = max(0.0, min(wait_s, (step.wake_ms - SystemClock().now_ms()) / 1000))
        select.select(host.engine.runners.filenos(), [], [], wait_s)
    raise AssertionError(f"{name} is {run_of(database, name).status}, expected {status}")


def test_who_only_runs_functions_has_no_supervisor(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "poll")

    with program(database, {"poll": lambda call: None}) as host:
        step_until_ended(host)
        found = supervisors(database)

    run = run_of(database, "poll")
    assert found == []
    assert (run.status, run.supervisor_id) == (Status.SUCCESS, THREADS)


def test_the_first_command_has_a_supervisor_started_before_it_is_claimed(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "poll")

    with program(database, {"poll": lambda call: None}) as host:
        step_until_ended(host)
        add_command(database, "log", "@yearly")
        host.engine.step()
        [lock] = supervisors(database)
        with Client(database) as client:
            client.run_now("log")
            step_until_ended(host)
            [engine] = client.store.find_engines()

    run = run_of(database, "log")
    assert run.status is Status.SUCCESS
    assert lock.name == f"supervisor-{run.supervisor_id}.lock"
    assert engine.supervisor_id == run.supervisor_id


def test_a_command_that_follows_a_function_is_run_at_once(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "poll")
    add_command(database, "log", "after poll")

    with program(database, {"poll": lambda call: None}) as host:
        step_until_ended(host)
        step_until(host, database, "log", Status.SUCCESS)

    assert run_of(database, "poll").status is Status.SUCCESS


def test_a_command_in_a_queue_of_functions_is_run_as_well(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    add_command(database, "log", "@yearly", queue=QUEUE)
    with Client(database) as client:
        client.run_now("log")

    with program(database, {}) as host:
        step_until(host, database, "log", Status.SUCCESS)


def test_what_is_offered_is_put_down_when_it_changes_and_not_when_it_is_said_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = ["callable poll"]
    said: list[str] = []

    def trace(_cursor: object, sql: str, _bindings: object) -> bool:
        said.extend(["offers"] if sql.startswith("UPDATE engines SET offers") else [])
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, watch])
    with program(tmp_path / "edge.db", {}, offers=lambda: frozenset(offers)) as host:
        host.engine.step()
        host.engine.step()
        said_anew = len(said)
        offers.append("callable sweep")
        host.engine.step()

    assert (said_anew, len(said)) == (0, 1)


def test_functions_are_run_where_no_supervisor_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "edge.db"
    add_command(database, "log", "@yearly")
    with Client(database) as client:
        client.run_now("log")
    fire(database, "poll")
    events: list[Event] = []

    with program(database, {"poll": lambda call: None}, report=events.append) as host:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(tmp_path / "nothing"))
            step_until_ended(host)
            host.engine.step()
            before = run_of(database, "poll").status, run_of(database, "log").status
            told = [event.kind for event in events]
        step_until(host, database, "log", Status.SUCCESS)

    assert before == (Status.SUCCESS, Status.QUEUED)
    assert told.count(EventKind.SUPERVISOR_TROUBLE) == 1
    assert EventKind.DATABASE_TROUBLE not in told
    assert [event.kind for event in events].count(EventKind.SUPERVISOR_WELL) == 1


def test_the_supervisor_is_no_copy_of_the_program_and_holds_nothing_of_it(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    add_command(database, "log", "@yearly")
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)

    with program(database, {}) as host:
        host.engine.step()
        with Control(state_dir(database), host.engine.runners.own.id) as control:
            command_line = Path(f"/proc/{control.pid}/cmdline").read_bytes()
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], BOUND_S)
    content = os.read(reader, 1)
    os.close(reader)

    assert command_line != Path("/proc/self/cmdline").read_bytes()
    assert (ready, content) == ([reader], b"")


@pytest.mark.failure(80)
def test_an_engine_goes_on_where_its_program_forks_and_ends_with_its_program(
    tmp_path: Path,
) -> None:
    database = tmp_path / "edge.db"
    add_command(database, "log", "@yearly")
    fire(database, "poll")
    stay, leave = os.pipe()

    with program(database, {"poll": lambda call: None}) as host:
        host.engine.step()
        pid = os.fork()
        if pid == 0:
            os.close(leave)
            os.read(stay, 1)
            os._exit(0)
        step_until_ended(host)
        supervisor_id = host.engine.runners.own.id
        with Control(state_dir(database), supervisor_id) as control:
            supervisor = os.pidfd_open(control.pid)
    has_ended = ends(supervisor)
    left = list(state_dir(database).glob("engine-*"))
    os.close(leave)
    os.close(stay)
    os.waitpid(pid, 0)
    os.close(supervisor)

    # The child lives on, and yet the supervisor sees the end of its engine.
    assert has_ended
    assert left == []
    assert run_of(database, "poll").status is Status.SUCCESS


class Hung:
    """A function that ends when it is let go, whatever it is asked."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, call: Call) -> str:
        self.entered.set()
        assert self.opened.wait(BOUND_S)
        return "whole"


def begin_hanging(host: EngineHost, hung: Hung) -> None:
    """Have it called, then the loop stopped, which gives up waiting for it."""
    host.engine.step()
    assert hung.entered.wait(BOUND_S)
    host.loop.stop()
    host.loop.run()


@pytest.mark.failure(81)
def test_a_function_that_hangs_beyond_the_end_of_its_engine_is_left_alone_by_others(
    tmp_path: Path,
) -> None:
    database = tmp_path / "edge.db"
    fire(database, "wait")
    hung, again = Hung(), Hung()

    with program(database, {"wait": hung}, call_grace_ms=1) as host:
        begin_hanging(host, hung)
        with program(database, {"wait": again}) as peer:
            peer.engine.step()
            running = run_of(database, "wait")
            with Client(database) as client:
                engines = [engine.queues for engine in client.store.find_engines()]
            hung.opened.set()
            host.loop.linger()
            ended = run_of(database, "wait")
            peer.engine.recovery.suspect()
            peer.engine.step()
        with Client(database) as client:
            left = client.store.find_engines()

    assert running.status is Status.RUNNING
    assert engines[0] == ()  # It is not counted on.
    assert (ended.status, ended.result) == (Status.SUCCESS, '"whole"')
    assert not again.entered.is_set()
    assert [engine.id for engine in left] == [peer.engine.engine_id]


@pytest.mark.failure(19)
def test_an_engine_tells_those_that_are_there_of_itself_once_before_it_claims(
    tmp_path: Path,
) -> None:
    database = tmp_path / "edge.db"
    bells: list[Doorbell] = []

    def poll(call: Call) -> str:
        return repr(NEWCOMER in bells[0].clear())

    with program(database, {}) as host, program(database, {"poll": poll}) as peer:
        host.engine.step()
        bells.append(host.loop.doorbell)
        fire(database, "poll")
        bells[0].clear()
        step_until_ended(peer)
        peer.engine.step()
        rung_later = bells[0].clear()

    assert run_of(database, "poll").result == '"True"'
    assert NEWCOMER not in rung_later


@pytest.mark.failure(81)
def test_what_ends_while_an_engine_lingers_still_has_others_follow(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "wait")
    add_command(database, "log", "after wait")
    hung = Hung()

    with program(database, {"wait": hung}, call_grace_ms=1) as host:
        begin_hanging(host, hung)
        hung.opened.set()
        host.loop.linger()

    assert run_of(database, "log").status is Status.QUEUED


def test_an_engine_whose_functions_end_in_time_does_not_linger(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "poll")

    with program(database, {"poll": lambda call: None}) as host:
        host.engine.step()
        host.loop.stop()
        host.loop.run()
        is_lingering = host.loop.is_lingering
        host.loop.linger()
        with Client(database) as client:
            left = client.store.find_engines()

    assert not is_lingering
    assert left == []


@pytest.mark.failure(17)
def test_a_function_that_runs_is_one_whatever_its_schedule_is_made_meanwhile(
    tmp_path: Path,
) -> None:
    database = tmp_path / "edge.db"
    add_command(database, "log", "@yearly")
    fire(database, "wait")
    hung = Hung()

    with program(database, {"wait": hung}) as host, Client(database) as client:
        host.engine.step()
        assert hung.entered.wait(BOUND_S)
        command = Job(kind=JobKind.COMMAND, argv=("true",))
        client.edit("wait", lambda spec: replace(spec, job=command))
        [row] = client.store.find_running()
        hung.opened.set()
        step_until_ended(host)

    # By its supervisor's journal it never started: taken for a command, it would start again.
    assert (row.kind, row.supervisor_id == THREADS) == (JobKind.CALLABLE, False)


HANGING = """
def wait(call):
    host.loop.stop()
    threading.Event().wait()

clock = SystemClock()
settings = EngineSettings(queues=("py:plant",), call_grace_ms=1)
host = EngineHost(Path(sys.argv[1]), settings, clock=clock, report=lambda event: None,
                  functions=ProgramFunctions(
                      CallableRunner({"wait": wait}, clock=clock, close_ms=1)))
host.loop.run()
host.close()
print("closed", flush=True)
sys.stdin.read()
"""


@pytest.mark.failure(79)
def test_a_function_that_hangs_keeps_no_program_from_its_end_and_is_interrupted_by_that(
    tmp_path: Path,
) -> None:
    database = tmp_path / "edge.db"
    fire(database, "wait")
    with other_program(HANGING, database) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "closed\n"

        with program(database, {}) as peer:
            peer.engine.step()
            running = run_of(database, "wait")
            other.stdin.close()
            code = other.wait(BOUND_S)
            peer.engine.recovery.suspect()
            peer.engine.step()

    run = run_of(database, "wait")
    assert running.status is Status.RUNNING
    assert code == 0
    assert (run.status, run.reason) == (Status.INTERRUPTED, Reason.LOST)


@pytest.mark.parametrize("has_supervisor", [False, True])
def test_a_function_is_asked_to_stop_by_whoever_cancels_its_run(
    tmp_path: Path, has_supervisor: bool
) -> None:
    database = tmp_path / "edge.db"
    fire(database, "wait")
    if has_supervisor:
        add_command(database, "log", "@yearly")

    def wait(call: Call) -> None:
        while not call.must_stop:
            pass
        raise InterruptedError

    with program(database, {"wait": wait}) as host:
        host.engine.step()
        with Client(database) as client:
            client.cancel(run_of(database, "wait").id)
        step_until_ended(host)

    run = run_of(database, "wait")
    assert (run.status, run.reason) == (Status.CANCELLED, Reason.REQUEST)


def test_whoever_looks_finds_nothing_amiss_with_a_function_that_runs(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    fire(database, "wait")
    hung = Hung()

    with program(database, {"wait": hung}) as host:
        host.engine.step()
        assert hung.entered.wait(BOUND_S)
        with Client(database) as client:
            states = client.engines()
            [runs] = check_runs(client, states, command=str)
            [supervisors] = check_supervisors(client)
        hung.opened.set()
        step_until_ended(host)

    assert [state.is_working for state in states] == [True]
    assert runs.message == "1 running, 0 queued"
    assert supervisors.message == "every supervisor has its engine"
