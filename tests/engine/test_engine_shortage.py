"""When a machine is short of memory, processes, descriptors or space: which run pays, and what its
row says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.paths import state_dir
from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.job import Job
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.protocol import Flag
from tests.support.cgroups import Cgroup
from tests.support.edits import Edit
from tests.support.engines import Place
from tests.support.places import fill, small_disk
from tests.support.processes import Daemon, parent_of
from tests.support.program import copied_program

MakeGroup = Callable[[str, int], Cgroup]


@pytest.fixture
def make_group() -> Iterator[MakeGroup]:
    with ExitStack() as stack:

        def make(name: str, limit: int) -> Cgroup:
            group = Cgroup(name, limit)
            stack.callback(group.close)
            return group

        yield make


def at_the_gate(place: Place, **how: Any) -> tuple[Daemon, int]:
    """A daemon, and the supervisor of its run `long` that waits at the gate, to exit with 7."""
    place.add("long", "@yearly", f"{place.gate.line}; exit 7")
    daemon = place.daemon(**how)
    place.client.run_now("long")
    return daemon, parent_of(place.gate.wait_arrival())


def only_run(place: Place, name: str) -> Execution:
    [run] = place.runs(name)
    return run


@pytest.mark.failure(21)
def test_a_job_killed_for_memory_fails_alone(place: Place, make_group: MakeGroup) -> None:
    daemon, supervisor = at_the_gate(place)
    # Engine, guardian and supervisor share the limit, as in a service with one: the kernel
    # chooses who goes.
    group = make_group("memory.max", 120_000_000)
    group.add(daemon.process.pid, parent_of(supervisor), supervisor)
    place.add("greedy", "@yearly", f"exec {sys.executable} -c 'bytearray(400_000_000)'")

    place.client.run_now("greedy")
    greedy = daemon.wait_for("ended", schedule="greedy")
    place.gate.open()
    long = daemon.wait_for("ended", schedule="long")

    assert (greedy["status"], greedy["reason"]) == ("failed", "signal")
    assert (greedy["exit_code"], only_run(place, "greedy").error_msg) == (137, "ended by SIGKILL")
    assert (long["status"], long["exit_code"]) == ("failed", 7)


@pytest.mark.failure(40)
def test_a_run_for_which_no_process_is_left_at_first_is_started_later(
    place: Place, make_group: MakeGroup, tmp_path: Path
) -> None:
    # As patient as the test, however busy the machine is meanwhile.
    patience = Edit(function="RETRY_LIMIT_MS", old="5000", new="600000")
    daemon, supervisor = at_the_gate(place, program=copied_program(tmp_path, patience))
    group = make_group("pids.max", 1)
    group.add(supervisor)
    place.add("next", "@yearly", 'echo ran >>"$LOG"')

    place.client.run_now("next")
    daemon.wait_for("started", schedule="next")
    # The end of a run that is let through afterwards says that the start was tried.
    place.gate.open()
    daemon.wait_for("ended", schedule="long")
    while_short = only_run(place, "next").status, place.effects()
    group.set("max")
    daemon.wait_for("ended", schedule="next")

    assert while_short == (Status.RUNNING, [])
    assert only_run(place, "next").status is Status.SUCCESS
    assert only_run(place, "next").flags == (Flag.SPAWN_RETRIED,)
    assert place.effects() == ["ran"]


@pytest.mark.failure(40)
def test_a_run_for_which_no_process_is_ever_left_says_so_and_others_go_on(
    place: Place, make_group: MakeGroup
) -> None:
    daemon, supervisor = at_the_gate(place)
    place.add("next", "@yearly", 'echo ran >>"$LOG"')
    group = make_group("pids.max", 1)
    group.add(supervisor)

    place.client.run_now("next")
    daemon.wait_for("ended", schedule="next")
    group.set("max")
    place.gate.open()
    long = daemon.wait_for("ended", schedule="long")

    run = only_run(place, "next")
    assert (run.status, run.reason, run.exit_code) == (Status.FAILED, Reason.SPAWN, None)
    assert "no process left" in (run.error_msg or "")
    assert run.flags == (Flag.SPAWN_RETRIED,)
    assert place.effects() == []
    assert long["exit_code"] == 7


@pytest.mark.failure(41)
def test_a_missing_command_or_folder_fails_at_once_with_a_reason_of_its_own(place: Place) -> None:
    jobs = {
        "command": Job(kind=JobKind.COMMAND, argv=("/no/such/command",)),
        "folder": Job(kind=JobKind.COMMAND, argv=("true",), cwd="/no/such/folder"),
        "in-shell": Job(kind=JobKind.SHELL, argv=("exit 127",)),
    }
    for name, job in jobs.items():
        place.client.add(ScheduleSpec(name=name, triggers=("@yearly",), job=job))
    daemon = place.daemon()

    for name in jobs:
        place.client.run_now(name)
        daemon.wait_for("ended", schedule=name)

    for name in ("command", "folder"):
        run = only_run(place, name)
        assert (run.status, run.reason, run.exit_code) == (Status.FAILED, Reason.SPAWN, None)
        assert f"'/no/such/{name}' is missing" in (run.error_msg or "")
        assert run.flags == ()  # it was not tried again
    assert only_run(place, "in-shell").reason is Reason.EXIT


@pytest.fixture
def small_state(place: Place) -> Iterator[Path]:
    """The state folder, on a file system of 256 KiB."""
    with small_disk(state_dir(place.database), kib=256) as folder:
        yield folder


@pytest.mark.failure(47)
def test_without_space_for_output_the_job_goes_on_and_its_row_is_flagged(
    place: Place, small_state: Path
) -> None:
    place.add("loud", "@yearly", f"{place.gate.line}; head -c 200000 /dev/zero; exit 3")
    daemon = place.daemon()
    place.client.run_now("loud")
    place.gate.wait_arrival()

    filler = fill(small_state)
    place.gate.open()
    ended = daemon.wait_for("ended", schedule="loud")
    filler.unlink()

    assert (ended["status"], ended["exit_code"]) == ("failed", 3)
    run = only_run(place, "loud")
    output = place.client.output(run.id)
    assert Flag.OUTPUT_LOST in run.flags
    assert output is not None
    kept = sum(len(chunk.content) for chunk in output.chunks)
    assert output.stdout_bytes == 200_000
    assert 0 < output.dropped_bytes == 200_000 - kept


@pytest.mark.failure(47)
def test_without_space_for_the_journal_a_run_waits_and_then_runs_once(
    place: Place, small_state: Path
) -> None:
    place.add("next", "@yearly", 'echo ran >>"$LOG"')
    daemon = place.daemon()
    daemon.wait_for("engine_started")
    filler = fill(small_state)

    # What is left of the journal's last page is used up by a few runs.
    refused = {"event": "ended"}
    while refused["event"] == "ended":
        place.client.run_now("next")
        refused = daemon.wait_until(is_told_of("ended", "not_started"), what="an end or a refusal")
    while_full = place.effects()
    filler.unlink()
    daemon.wait_for("ended", schedule="next")

    runs = place.runs("next")
    assert "No space left" in refused["error_msg"]
    assert len(while_full) == len(runs) - 1
    assert {run.status for run in runs} == {Status.SUCCESS}
    assert len(place.effects()) == len(runs)


def is_told_of(*events: str) -> Callable[[dict[str, Any]], bool]:
    return lambda line: line["event"] in events
