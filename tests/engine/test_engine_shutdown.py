"""Engines that are told to stop while commands run: left, waited for, ended."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

from edgecron.model.choices import Reason, Status
from edgecron.model.run import Execution
from tests.support.engines import Place
from tests.support.processes import Daemon, ends
from tests.support.terminal import on_terminal, read_until


def begin(place: Place, daemon: Daemon) -> tuple[Execution, int]:
    """A run that waits at the gate, and a descriptor of its process."""
    place.add("long", "@yearly", f"{place.gate.line}; echo went >>$LOG; exit 7")
    [run] = place.client.run_now("long")
    daemon.wait_for("started", schedule="long")
    return run, os.pidfd_open(place.gate.wait_arrival())


def end_of(place: Place, run: Execution) -> tuple[Status, Reason | None, int | None]:
    ended = place.client.execution(run.id)
    return ended.status, ended.reason, ended.exit_code


@pytest.mark.failure(36)
def test_wait_ends_with_the_last_run_and_starts_nothing_more(place: Place) -> None:
    daemon = place.daemon("--on-shutdown", "wait")
    run, _ = begin(place, daemon)
    place.add("next", "@yearly", "true")

    daemon.process.terminate()
    stopping = daemon.wait_for("engine_stopping")
    [queued] = place.client.run_now("next")
    place.gate.open()
    code = daemon.wait_end()

    assert (stopping["on_shutdown"], stopping["runs"]) == ("wait", 1)
    assert code == 0
    assert daemon.lines[-1]["event"] == "engine_stopped"
    assert daemon.lines[-1]["runs"] == 0
    assert end_of(place, run) == (Status.FAILED, Reason.EXIT, 7)
    assert place.client.execution(queued.id).status is Status.QUEUED


@pytest.mark.failure(36)
@pytest.mark.parametrize(
    "options", [("stop",), ("wait", "--shutdown-timeout", "10ms")], ids=["stop", "wait"]
)
def test_what_runs_is_ended_at_once_or_after_the_wait(
    place: Place, options: tuple[str, ...]
) -> None:
    daemon = place.daemon("--on-shutdown", *options)
    run, process = begin(place, daemon)

    code = daemon.stop()

    told = [line["on_shutdown"] for line in daemon.lines if line["event"] == "engine_stopping"]
    assert told == list(dict.fromkeys([options[0], "stop"]))
    assert code == 0
    assert ends(process)
    assert end_of(place, run) == (Status.CANCELLED, Reason.SHUTDOWN, 143)
    assert place.effects() == []


@pytest.mark.failure(36)
def test_stop_ends_what_was_adopted_too(place: Place) -> None:
    first = place.daemon()
    run, process = begin(place, first)
    first.kill()
    second = place.daemon("--on-shutdown", "stop")
    second.wait_for("adopted", schedule="long")

    second.stop()

    assert ends(process)
    assert end_of(place, run) == (Status.CANCELLED, Reason.SHUTDOWN, 143)


@pytest.mark.failure(31)
@pytest.mark.failure(36)
def test_stop_ends_what_runs_also_where_the_database_is_gone(place: Place) -> None:
    daemon = place.daemon("--on-shutdown", "stop")
    _, process = begin(place, daemon)
    place.add("next", "every 1s", "true")

    place.database.unlink()
    code = daemon.wait_end()

    assert code == 5
    assert ends(process)
    assert place.effects() == []


@pytest.mark.failure(36)
def test_a_second_signal_ends_the_engine_at_once_and_its_runs_go_on(place: Place) -> None:
    first = place.daemon("--on-shutdown", "wait")
    run, _ = begin(place, first)

    first.process.terminate()
    first.wait_for("engine_stopping")
    code = first.stop()
    second = place.daemon()
    second.wait_for("adopted", schedule="long")
    place.gate.open()
    second.wait_for("ended", schedule="long")

    assert code == -signal.SIGTERM
    assert end_of(place, run) == (Status.FAILED, Reason.EXIT, 7)
    assert place.effects() == ["went"]


@pytest.fixture
def terminal(place: Place) -> Iterator[tuple[int, int]]:
    """A daemon on a terminal: its process id and the terminal's other end."""
    words = ("--db", str(place.database), "daemon")
    with on_terminal({**os.environ, "TZ": "UTC"}, *words) as outer:
        pid = int(read_until(outer, "nothing to come").split("pid ")[1].split(":")[0])
        yield pid, outer


def begin_on(place: Place, outer: int) -> tuple[Execution, int]:
    place.add("long", "@yearly", f"{place.gate.line}; exit 7")
    [run] = place.client.run_now("long")
    process = os.pidfd_open(place.gate.wait_arrival())
    read_until(outer, "started")
    return run, process


@pytest.mark.failure(36)
def test_a_second_key_on_a_terminal_ends_what_the_first_would_have_left(
    place: Place, terminal: tuple[int, int]
) -> None:
    pid, outer = terminal
    run, process = begin_on(place, outer)

    os.kill(pid, signal.SIGINT)
    first = read_until(outer, "too")
    os.kill(pid, signal.SIGINT)
    second = read_until(outer, None)

    assert re.search("1 run still running without the engine; Ctrl-C within 5 s", first)
    assert "ending 1 run" in second
    assert "cancelled" in second
    assert ends(process)
    assert end_of(place, run) == (Status.CANCELLED, Reason.SHUTDOWN, 143)


@pytest.mark.failure(36)
def test_one_key_on_a_terminal_ends_the_engine_with_a_run_that_ends_soon(
    place: Place, terminal: tuple[int, int]
) -> None:
    pid, outer = terminal
    run, _ = begin_on(place, outer)

    os.kill(pid, signal.SIGINT)
    told = read_until(outer, "too")
    place.gate.open()  # The engine is there for some seconds more, and ends with the run.
    rest = read_until(outer, None)

    assert "1 run still running" in told
    assert "no run is active" in rest
    assert end_of(place, run) == (Status.FAILED, Reason.EXIT, 7)
