"""`logs`: the last lines, what is queued beside them, and what comes while it is followed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from edgecron.cli.run_output import last_lines
from edgecron.model.choices import JobKind, Overlap
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.run import OutputChunk, Stream
from edgecron.model.schedule import ScheduleSpec
from tests.support.cli import Edgecron
from tests.support.engines import Place
from tests.support.processes import BOUND_S
from tests.support.program import PROGRAM
from tests.support.reading import read_bytes
from tests.support.stuck import wait_for_rest

Logs = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


@pytest.fixture
def logs(place: Place) -> Iterator[Logs]:
    """`logs` as a process; what still follows at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*PROGRAM, "--db", str(place.database), "logs", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,  # nothing that was read ahead hides from select
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=BOUND_S)


def add(place: Place, name: str, line: str, policies: Policies) -> None:
    job = Job(kind=JobKind.SHELL, argv=(line,))
    place.client.add(ScheduleSpec(name=name, triggers=("@yearly",), job=job, policies=policies))


def pieces(*contents: bytes) -> list[tuple[int, OutputChunk]]:
    return [(7, OutputChunk(stream=Stream.STDOUT, at_ms=0, content=each)) for each in contents]


@pytest.mark.parametrize(
    ("contents", "count", "kept"),
    [
        ((b"a\nb\nc\n",), 2, b"b\nc\n"),
        ((b"a\nb\nc",), 2, b"b\nc"),
        ((b"a\nb", b"c\nd\n"), 2, b"bc\nd\n"),
        ((b"a\n", b"b\n", b"c\n"), 1, b"c\n"),
        ((b"a\n", b"b", b"\n", b"\n"), 2, b"b\n\n"),
        ((b"a\nb\n",), 9, b"a\nb\n"),
        ((b"a\nb\n",), 0, b""),
        ((b"a\nb\n",), None, b"a\nb\n"),
        ((), 3, b""),
    ],
)
def test_the_last_lines_are_counted_across_chunks(
    contents: tuple[bytes, ...], count: int | None, kept: bytes
) -> None:
    found = last_lines(pieces(*contents), count)

    assert b"".join(chunk.content for _, chunk in found) == kept


def test_what_was_not_kept_before_the_last_lines_is_not_told() -> None:
    found = last_lines(pieces(b"a\nb\n", b"c\nd\n"), 3)

    assert [skipped for skipped, _ in found] == [0, 7]


def test_logs_show_the_last_lines_of_a_run_or_of_a_stream(edgecron: Edgecron) -> None:
    edgecron("add", "x", "--every", "1h", "--shell", "seq 30; sleep 0.2; seq 50 60 >&2")
    edgecron("run", "x", "--wait")

    both = edgecron("logs", "x", "-n", "12")
    one = edgecron("logs", "1", "-n", "2", "--stream", "stdout")
    objects = edgecron("logs", "x", "-n", "1", "--json").json
    none = edgecron("logs", "x", "-n", "0")

    assert both.out.split() == ["30", *(str(number) for number in range(50, 61))]
    assert one.out == "29\n30\n"
    assert [each["text"] for each in objects] == ["60\n"]
    assert (none.code, none.out, none.err) == (0, "", "")
    assert edgecron("logs", "x", "-n", "-1").code == 2


def test_following_a_stream_says_of_no_other_that_it_was_not_kept(edgecron: Edgecron) -> None:
    line = "echo early >&2; head -c 600000 /dev/zero | tr '\\0' a; echo late >&2"
    edgecron("add", "x", "--every", "1h", "--shell", line)
    edgecron("run", "x", "--wait")

    shown, followed = (
        edgecron("logs", *words, "1", "--stream", "stderr") for words in ((), ("-f",))
    )

    assert shown.out == followed.out == "early\nlate\n"
    assert (shown.err, followed.err[:6]) == ("", "run 1 ")


def test_logs_of_a_schedule_say_which_newer_run_is_queued(edgecron: Edgecron) -> None:
    edgecron("add", "x", "--every", "1h", "--overlap", "allow", "--shell", "echo old")
    edgecron("run", "x", "--wait")
    edgecron("run", "x")
    edgecron("run", "x")

    newest = edgecron("logs", "x")
    chosen = edgecron("logs", "1")

    assert (newest.code, newest.out) == (0, "old\n")
    assert newest.err == (
        "run 2, which is newer, is queued: no engine is running; 1 more run after it\n"
    )
    assert chosen.err == ""


def test_following_a_run_ends_with_it_and_says_how_it_ended(place: Place, logs: Logs) -> None:
    line = f"echo one; echo two; {place.gate.line}; echo three; exit 7"
    add(place, "x", line, Policies(retries=1, retry_delay_s=3600))
    place.daemon()
    place.client.run_now("x")
    place.gate.wait_arrival()
    follower = logs("-f", "1", "-n", "1")

    early = read_bytes(follower.stdout, b"two\n")
    place.gate.open()
    late, err = follower.communicate(timeout=BOUND_S)

    assert (follower.returncode, early, late) == (0, b"two\n", b"three\n")
    assert err.startswith(b"run 1 of x: failed (exit code 7), ")
    assert b"; attempt 2 of 2 is run 2, due at " in err


def wait_for_reader(pid: int, path: Path) -> None:
    """Wait, bounded, until a process has a file open and rests."""
    for _ in range(1_000_000):
        with suppress(OSError):  # What it had open is closed meanwhile.
            if any(fd.readlink() == path for fd in Path(f"/proc/{pid}/fd").iterdir()):
                wait_for_rest(pid)
                return
    raise AssertionError(f"process {pid} does not open {path}")


def test_of_what_comes_while_it_is_followed_everything_is_shown(place: Place, logs: Logs) -> None:
    add(place, "x", "printf 'one\\ntwo\\nthree\\n'", Policies())
    place.client.run_now("x")
    follower = logs("-f", "1", "-n", "1")
    wait_for_reader(follower.pid, place.database)

    place.daemon()
    shown, _ = follower.communicate(timeout=BOUND_S)

    assert (follower.returncode, shown) == (0, b"one\ntwo\nthree\n")


def test_following_a_schedule_goes_on_with_its_next_runs(place: Place, logs: Logs) -> None:
    place.add("x", "@yearly", "echo this is $EDGECRON_RUN_ID")
    daemon = place.daemon()
    daemon.wait_for("engine_started")
    follower = logs("-f", "x")

    waits = read_bytes(follower.stderr, b"first run\n")
    shown = []
    for number in (1, 2):
        place.client.run_now("x")
        shown.append(read_bytes(follower.stdout, b"this is %d\n" % number))
    headers = read_bytes(follower.stderr, b"run 2 of x: success")
    follower.send_signal(signal.SIGINT)

    follower.communicate(timeout=BOUND_S)
    assert waits == b"schedule x has not run yet; waiting for its first run\n"
    assert shown == [b"this is 1\n", b"this is 2\n"]
    assert b"==> run 1 of x, " in headers
    assert b"==> run 2 of x, " in headers
    assert follower.returncode == 130


def test_following_a_schedule_shows_each_of_the_runs_that_go_on_at_once(
    place: Place, logs: Logs
) -> None:
    line = f"echo this is $EDGECRON_RUN_ID; {place.gate.line}"
    add(place, "x", line, Policies(overlap=Overlap.ALLOW))
    place.daemon().wait_for("engine_started")
    for _ in range(3):
        place.client.run_now("x")
        place.gate.wait_arrival()
    follower = logs("-f", "x")

    shown = [read_bytes(follower.stdout, b"this is 1\n")]
    for run in place.runs("x")[1:]:
        place.client.cancel(run.id)
    place.gate.open()
    shown.append(read_bytes(follower.stdout, b"this is 3\n"))
    follower.send_signal(signal.SIGINT)

    follower.communicate(timeout=BOUND_S)
    assert b"".join(shown) == b"this is 1\nthis is 2\nthis is 3\n"


def test_following_a_schedule_ends_when_it_is_removed(place: Place, logs: Logs) -> None:
    place.add("x", "@yearly", "echo ran")
    daemon = place.daemon()
    place.client.run_now("x")
    daemon.wait_for("ended", schedule="x")
    follower = logs("-f", "x")
    early = read_bytes(follower.stdout, b"ran\n")

    place.client.remove("x")
    late, err = follower.communicate(timeout=BOUND_S)

    assert (follower.returncode, early, late) == (0, b"ran\n", b"")
    assert err.endswith(b"schedule x was removed: it has no more runs\n")
