"""`run --wait`: what a run prints comes as it is printed, and its code is ours."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.base.zones import load_zone
from edgecron.model.choices import JobKind, Overlap, Status
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.sqlite.connection import Database
from edgecron.views.times import near_time
from tests.support.cli import Edgecron
from tests.support.edits import Edit
from tests.support.engines import Place
from tests.support.processes import BOUND_S, Gate
from tests.support.program import PACKAGE, PROGRAM, copied_program
from tests.support.reading import read_bytes
from tests.support.terminal import on_terminal, read_until

SEVERAL = "seq 20000"  # more than a pipe holds, less than is kept
COUNTED = b"".join(b"%d\n" % number for number in range(1, 20_001))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def place(tmp_path: Path, stack: ExitStack) -> Place:
    return Place(tmp_path, stack)


@pytest.fixture(params=["here", "elsewhere"])
def anywhere(request: pytest.FixtureRequest, place: Place) -> Place:
    """A place without an engine, and one with an engine at work."""
    if request.param == "elsewhere":
        place.daemon().wait_for("engine_started")
    return place


def program(
    place: Place, *words: str, stdout: int = subprocess.PIPE, package: Path | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*(PROGRAM if package is None else PACKAGE), "--db", str(place.database), *words],
        cwd=package,  # where Python looks first
        stdout=stdout,
        stderr=subprocess.PIPE,
        bufsize=0,  # nothing that was read ahead hides from select
    )


def end_of(process: subprocess.Popen[bytes]) -> tuple[int, bytes, str]:
    out, err = process.communicate(timeout=BOUND_S)
    return process.returncode, out, err.decode()


def add(place: Place, name: str, line: str, policies: Policies | None = None) -> None:
    job = Job(kind=JobKind.SHELL, argv=(line,))
    spec = ScheduleSpec(name=name, triggers=("@yearly",), job=job, policies=policies or Policies())
    place.client.add(spec)


def test_what_a_run_prints_comes_while_it_runs_on_the_stream_of_its_own(anywhere: Place) -> None:
    add(anywhere, "x", f"echo one; echo bad >&2; {anywhere.gate.line}; echo two; exit 7")
    waiting = program(anywhere, "run", "x", "--wait")

    early = read_bytes(waiting.stdout, b"one\n"), read_bytes(waiting.stderr, b"bad\n")
    anywhere.gate.wait_arrival()
    anywhere.gate.open()

    assert early == (b"one\n", b"bad\n")
    assert end_of(waiting) == (7, b"two\n", "")


def test_no_byte_is_lost_or_doubled_between_what_is_live_and_what_is_stored(
    anywhere: Place,
) -> None:
    add(anywhere, "x", f"{SEVERAL}; {anywhere.gate.line}; {SEVERAL}")
    waiting = program(anywhere, "run", "x", "--wait")

    early = read_bytes(waiting.stdout, b"\n20000\n")
    anywhere.gate.wait_arrival()
    anywhere.gate.open()
    code, late, err = end_of(waiting)

    assert (code, err) == (0, "")
    assert early + late == COUNTED * 2


def test_a_run_that_ends_at_once_is_shown_whole(anywhere: Place) -> None:
    add(anywhere, "x", "printf out; printf err >&2")

    said = [end_of(program(anywhere, "run", "x", "--wait")) for _ in range(3)]

    assert said == [(0, b"out", "err")] * 3


def test_a_run_whose_engine_is_killed_is_followed_into_the_next_one(place: Place) -> None:
    add(place, "x", f"{SEVERAL}; {place.gate.line}; {SEVERAL}; exit 9")
    first = place.daemon()
    first.wait_for("engine_started")
    waiting = program(place, "run", "x", "--wait")
    early = read_bytes(waiting.stdout, b"\n20000\n")
    place.gate.wait_arrival()

    first.kill()
    place.daemon().wait_for("adopted", schedule="x")
    place.gate.open()
    code, late, _ = end_of(waiting)

    assert code == 9
    assert early + late == COUNTED * 2


def test_each_attempt_is_followed_and_the_code_is_the_last_one_s(anywhere: Place) -> None:
    line = "echo attempt $EDGECRON_ATTEMPT; exit $((EDGECRON_ATTEMPT + 4))"
    add(anywhere, "x", line, Policies(retries=2, retry_delay_s=0))

    code, out, err = end_of(program(anywhere, "run", "x", "--wait"))

    assert (code, out) == (7, b"attempt 1\nattempt 2\nattempt 3\n")
    first, second = err.splitlines()
    assert first.startswith("edgecron: run 1 of x: failed (exit code 5), ")
    assert "; attempt 2 of 3 is run 2, due at " in first
    assert "; attempt 3 of 3 is run 3, due at " in second


def test_history_shows_when_an_attempt_that_waits_is_due(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")  # The times are longer if a day ends between them.
    add(place, "x", "exit 3", Policies(retries=1, retry_delay_s=1800))
    daemon = place.daemon()
    place.client.run_now("x")
    daemon.wait_for("ended", schedule="x")

    code, out, _ = end_of(program(place, "history"))
    [first, retry] = place.runs("x")

    assert code == 0
    assert retry.plan_at == first.plan_at
    waiting, ended = out.decode().splitlines()[1:]
    assert re.search(r" attempt 2, due in \d+(m|h)( \d+m)?$", waiting)
    assert near_time(retry.due_at, zone=load_zone("local"), now=place.client.now()) in waiting
    assert "due" not in ended


def test_with_json_the_last_attempt_is_shown_and_nothing_that_it_printed(
    edgecron: Edgecron,
) -> None:
    options = ("--every", "1h", "--retries", "1", "--retry-delay", "0s")
    edgecron("add", "x", *options, "--shell", "echo loud; echo bad >&2; exit 6")

    said = edgecron("run", "x", "--wait", "--json")

    [run] = said.json
    assert (said.code, run["exit_code"], run["attempt"], run["id"]) == (6, 6, 2, 2)
    assert "loud" not in said.out
    assert "bad" not in said.err


@pytest.mark.parametrize(("end", "code"), [("exec sleep 600", 143), ("exit 0", 125)])
def test_a_run_that_is_cancelled_meanwhile_is_no_success(
    anywhere: Place, end: str, code: int
) -> None:
    add(anywhere, "x", f"trap '{end}' TERM; {anywhere.gate.line}")
    add(anywhere, "y", f"{anywhere.gate.line}; exec sleep 600")
    name = "x" if code == 125 else "y"
    waiting = program(anywhere, "run", name, "--wait")
    anywhere.gate.wait_arrival()

    anywhere.client.cancel(1)

    said = end_of(waiting)
    assert said[0] == code
    assert "run 1" in said[2]
    assert "ended early: cancelled: request" in said[2]


def test_a_run_that_took_too_long_and_then_says_0_is_no_success(anywhere: Place) -> None:
    add(anywhere, "x", "trap 'exit 0' TERM; sleep 600 & wait", Policies(timeout_s=0.1))

    code, _, err = end_of(program(anywhere, "run", "x", "--wait"))

    assert code == 125
    assert "ended early: failed: timeout" in err


def test_ctrl_c_shows_what_the_run_still_prints_and_nothing_twice(place: Place) -> None:
    add(place, "x", "trap 'echo bye; exit 3' TERM; sleep 600 & echo one; wait")
    waiting = program(place, "run", "x", "--wait")
    early = read_bytes(waiting.stdout, b"one\n")

    waiting.send_signal(signal.SIGINT)

    code, late, err = end_of(waiting)
    assert (code, early + late) == (130, b"one\nbye\n")
    assert err == "edgecron: ending run 1; Ctrl-C again leaves it to its supervisor\n"
    assert place.client.execution(1).status is Status.CANCELLED


def leave_running(place: Place, name: str) -> None:
    """A run at the gate whose engine was killed."""
    daemon = place.daemon()
    daemon.wait_for("engine_started")
    place.client.run_now(name)
    place.gate.wait_arrival()
    daemon.kill()


def test_ctrl_c_withdraws_what_waits_to_be_run_here(place: Place) -> None:
    add(place, "x", place.gate.line, Policies(overlap=Overlap.QUEUE))
    leave_running(place, "x")
    waiting = program(place, "run", "x", "--wait")
    words = read_bytes(waiting.stderr, b"\n")

    waiting.send_signal(signal.SIGINT)

    code, _, _ = end_of(waiting)
    assert code == 130
    assert words.startswith(
        b"edgecron: run 2 waits: run 1 is still running, and no engine is running"
    )
    assert place.client.execution(2).status is Status.CANCELLED
    assert place.client.execution(1).status is Status.RUNNING


def test_an_engine_that_comes_runs_what_waits_to_be_run_here_and_once(place: Place) -> None:
    line = f'echo ran >>"{place.log}"; {place.gate.line}; echo done'
    add(place, "x", line, Policies(overlap=Overlap.QUEUE))
    leave_running(place, "x")
    waiting = program(place, "run", "x", "--wait")
    read_bytes(waiting.stderr, b"run 1 is still running")

    daemon = place.daemon()
    daemon.wait_for("adopted", schedule="x")
    place.gate.open()
    place.gate.wait_arrival()
    place.gate.open()
    code, out, _ = end_of(waiting)
    daemon.wait_for("ended", schedule="x")

    assert (code, out) == (0, b"done\n")
    assert place.effects() == ["ran", "ran"]


def test_a_run_that_waits_for_its_group_says_so_once(place: Place, edgecron: Edgecron) -> None:
    for name, line in (("first", place.gate.line), ("second", "echo second")):
        edgecron("--db", str(place.database), "add", name, "--every", "1h", "--group", "one:1",
                 "--shell", line)  # fmt: skip
    daemon = place.daemon()
    daemon.wait_for("engine_started")
    place.client.run_now("first")
    place.gate.wait_arrival()
    waiting = program(place, "run", "second", "--wait")

    words = read_bytes(waiting.stderr, b"\n")
    place.gate.open()

    assert words == b"edgecron: run 2 is queued: waits for a place in its group\n"
    assert end_of(waiting) == (0, b"second\n", "")


@pytest.mark.failure(75)
def test_a_run_goes_on_when_the_reader_of_its_output_has_gone(
    anywhere: Place, tmp_path: Path, stack: ExitStack
) -> None:
    # A gate of its own: who comes back to one that is just being opened passes it again.
    folder = tmp_path / "later"
    folder.mkdir()
    later = Gate(folder)
    stack.callback(later.close)
    add(anywhere, "x", f"echo one; {anywhere.gate.line}; echo two; {later.line}")
    waiting = program(anywhere, "run", "x", "--wait")
    assert waiting.stdout is not None
    read_bytes(waiting.stdout, b"one\n")
    anywhere.gate.wait_arrival()

    waiting.stdout.close()
    anywhere.gate.open()
    assert waiting.stderr is not None
    words = waiting.stderr.read().decode()
    waiting.stderr.close()

    # Not 0: that would say that the job has done its work.
    assert waiting.wait(BOUND_S) == 125
    assert words.startswith("edgecron: run 1 continues; to end it: edgecron --db ")
    later.wait_arrival()
    assert anywhere.client.execution(1).status is Status.RUNNING


def test_output_that_can_not_be_written_is_an_error_of_our_own(anywhere: Place) -> None:
    add(anywhere, "x", "echo one")
    full = os.open("/dev/full", os.O_WRONLY)

    code, _, err = end_of(program(anywhere, "run", "x", "--wait", stdout=full))
    os.close(full)

    assert code == 125
    assert "no space left on device" in err


def test_errors_of_a_run_that_can_not_be_written_are_an_error_of_our_own(place: Place) -> None:
    add(place, "x", "echo one; exec 1>&-; echo bad >&2")
    full = os.open("/dev/full", os.O_WRONLY)

    waiting = subprocess.run(
        [*PROGRAM, "--db", str(place.database), "run", "x", "--wait"],
        stdout=subprocess.DEVNULL,
        stderr=full,
        timeout=BOUND_S,
        check=False,
    )
    os.close(full)

    assert waiting.returncode == 125


def test_a_defect_of_ours_is_shown_and_is_not_taken_for_the_job_s_end(place: Place) -> None:
    add(place, "x", "echo one")
    function = "ManualRuns.enqueue_together"
    defect = Edit(function=function, old="list(left.values())", new="list(nothing)")
    broken = copied_program(place.database.parent, defect)

    code, out, err = end_of(program(place, "run", "x", "--wait", package=broken))

    assert (code, out) == (125, b"")
    assert err.startswith("Traceback")
    assert "NameError: name 'nothing' is not defined" in err


def test_a_database_that_takes_no_run_is_not_taken_for_the_job_s_end(place: Place) -> None:
    add(place, "x", "echo one", Policies(overlap=Overlap.ALLOW))
    place.client.run_now("x")
    database = Database(place.database)
    with database.transaction():
        database.change("CREATE UNIQUE INDEX somebody_s ON executions (cause)")
    database.close()

    code, out, err = end_of(program(place, "run", "x", "--wait"))

    assert (code, out) == (125, b"")
    assert "UNIQUE constraint failed" in err
    assert f"edgecron --db {place.database} doctor --deep" in err


@pytest.mark.parametrize(
    "words",
    [
        ("run", "x", "--wait", "--color", "purple"),
        ("--db=", "run", "x", "--wait"),
        ("run", "x", "--wait", "--sideways"),
        ("run", "nothing-of-that-name", "--wait"),
    ],
)
def test_what_is_wrong_with_the_command_line_is_an_error_of_our_own(
    place: Place, words: tuple[str, ...]
) -> None:
    add(place, "x", "echo one")

    code, out, err = end_of(program(place, *words))

    assert (code, out) == (125, b"")
    assert err.startswith("error: ")


def test_a_callable_of_a_program_that_is_not_here_is_not_queued(place: Place) -> None:
    job = Job(kind=JobKind.CALLABLE, argv=("report",))
    spec = ScheduleSpec(name="x", triggers=("@yearly",), job=job, queue="py:shop")
    place.client.add(spec)

    code, _, err = end_of(program(place, "run", "x", "--wait"))

    assert code == 125
    assert "is run by the program 'shop', which is not running" in err
    assert place.runs("x") == []


@pytest.mark.failure(45)
def test_what_a_run_prints_is_cleaned_on_a_terminal_and_its_last_line_is_ended(
    place: Place,
) -> None:
    add(place, "x", r"printf 'a\033]52;c;aGk=\007b\r\nc'; exec 1>&-; printf 'd\233' >&2")
    environment = {**os.environ, "EDGECRON_DB": str(place.database), "TERM": "xterm"}

    with on_terminal(environment, "run", "x", "--wait") as outer:
        shown = read_until(outer, None)

    assert shown in (
        "a\\x1b]52;c;aGk=\\x07b\r\ncd\ufffd\r\n",
        "d\ufffda\\x1b]52;c;aGk=\\x07b\r\nc\r\n",
    )
