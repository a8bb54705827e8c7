"""Fifty runs that print on both streams outlive their engine, of any version; or end with their
supervisor, and with the boot."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgecron
from edgecron.base.clock import SystemClock
from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.paths import state_dir
from edgecron.client.doctor import check_supervisors
from edgecron.client.engine_health import record_left_ends
from edgecron.engine.host import EngineHost
from edgecron.model.choices import Reason, Status
from edgecron.model.run import Stream
from edgecron.store.sqlite.connection import Database
from edgecron.supervisor.control import Control
from edgecron.supervisor.protocol import PROTOCOL_VERSION
from edgecron.supervisor.state_files import lock_is_held, lock_path
from tests.support.crowd import COUNT, Crowd, name_of, printed
from tests.support.edits import Edit
from tests.support.engines import Place
from tests.support.following import follow
from tests.support.processes import Daemon, ends, parent_of
from tests.support.program import copied_program
from tests.support.stuck import resume, stop_at_rest

# Forked, also where the test runner has threads of its own.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture
def crowd(place: Place, tmp_path: Path) -> Iterator[Crowd]:
    made = Crowd(place, tmp_path)
    yield made
    made.close()


@pytest.mark.failure(19)
@pytest.mark.failure(43)
@pytest.mark.parametrize(
    ("how", "version", "protocol"),
    [
        (signal.SIGKILL, None, None),
        (signal.SIGTERM, "0.0.9", None),
        pytest.param(signal.SIGKILL, "0.0.9", None, marks=pytest.mark.slow),
        (signal.SIGTERM, "9.9.9", 99),
    ],
)
def test_fifty_runs_outlive_their_engine_whole(
    place: Place,
    crowd: Crowd,
    tmp_path: Path,
    how: signal.Signals,
    version: str | None,
    protocol: int | None,
) -> None:
    program = another_version(tmp_path, version, protocol=protocol) if version else None
    first = place.daemon("--max-running", "60", program=program)
    crowd.run()
    supervisor, key = os.pidfd_open(crowd.supervisor), supervisor_key(place)
    early, late = range(0, COUNT, 2), range(1, COUNT, 2)

    end(first, how)
    crowd.let_through(early)
    assert all(ends(crowd.jobs[number]) for number in early)
    assert speaks_another_protocol(place, key) is (protocol is not None)
    second = place.daemon("--max-running", "60")
    second.wait_for("engine_started")
    if protocol is None:
        second.wait_until(lambda _: adopted(second) >= names_of(late), what="all are adopted")
    crowd.let_through(late)
    second.wait_until(lambda _: told_of(second, "ended") == names_of(range(COUNT)), what="all ends")
    assert ends(supervisor), "the supervisor of an engine that has gone stays without work"
    os.close(supervisor)

    assert not (protocol and adopted(second))
    check_each_run_was_whole(place)
    check_only_the_living_have_files(place)
    assert versions(place) == {version or edgecron.__version__, edgecron.__version__}


@pytest.mark.failure(43)
def test_runs_of_a_version_that_can_not_be_adopted_are_seen_followed_and_ended(
    place: Place, tmp_path: Path
) -> None:
    place.add("long", "@yearly", f"echo before; {place.gate.line}")
    first = place.daemon(program=another_version(tmp_path, "9.9.9", protocol=99))
    [run] = place.client.run_now("long")
    place.gate.wait_arrival()
    first.kill()

    [finding] = check_supervisors(place.client)
    _, printed = next(follow(place.client, run.id))
    second = place.daemon()
    second.wait_for("engine_started")
    # It is held, so that it can't record the end before the row is read for the answer.
    stop_at_rest(second.process)
    cancelled = place.client.cancel(run.id)
    resume(second.process)
    ended = second.wait_for("ended", schedule="long")

    assert (finding.status, finding.hint) == ("ok", None)
    assert "continues without an engine, with 1 run; another version" in finding.message
    assert printed.content == b"before\n"
    assert cancelled.status is Status.RUNNING
    assert ended["status"] == "cancelled"
    assert not adopted(second)


@pytest.mark.failure(19)
def test_one_engine_takes_over_from_three_that_were_killed_at_once(
    place: Place, crowd: Crowd
) -> None:
    firsts = [place.daemon("--max-running", "20") for _ in range(3)]
    crowd.run()
    supervisors = [os.pidfd_open(pid) for pid in crowd.supervisors]
    early, late = range(0, COUNT, 2), range(1, COUNT, 2)

    for daemon in firsts:
        daemon.process.send_signal(signal.SIGKILL)
    for daemon in firsts:
        daemon.wait_end()
    crowd.let_through(early)
    assert all(ends(crowd.jobs[number]) for number in early)
    last = place.daemon("--max-running", "60")
    crowd.let_through(late)
    for _ in range(COUNT):
        last.wait_for("ended")

    assert len(supervisors) == 3
    for pidfd in supervisors:
        assert ends(pidfd)
        os.close(pidfd)
    check_each_run_was_whole(place)
    check_only_the_living_have_files(place)


@pytest.mark.failure(18)
@pytest.mark.failure(35)
def test_all_that_a_killed_supervisor_ran_ends_with_it(place: Place, crowd: Crowd) -> None:
    daemon = place.daemon("--max-running", "60")
    crowd.run()

    os.kill(crowd.supervisor, signal.SIGKILL)

    assert all(ends(pidfd) for pidfd in crowd.processes())
    check_each_is_interrupted(place, daemon, Reason.LOST)


@pytest.mark.failure(17)
@pytest.mark.failure(19)
def test_all_that_ran_is_interrupted_when_engine_and_supervisor_were_killed(
    place: Place, crowd: Crowd
) -> None:
    first = place.daemon("--max-running", "60")
    crowd.run()

    supervisor = crowd.supervisor
    first.kill()
    os.kill(supervisor, signal.SIGKILL)

    # Before there is an engine to see to it.
    assert all(ends(pidfd) for pidfd in crowd.processes())
    check_each_is_interrupted(place, place.daemon("--max-running", "60"), Reason.LOST)


class AnotherBoot(SystemClock):
    """The machine's clocks after it has started anew."""

    def boot_id(self) -> str:
        return "another boot"


@pytest.mark.failure(20)
def test_after_a_reboot_runs_are_interrupted_and_their_process_ids_belong_to_others(
    place: Place, crowd: Crowd
) -> None:
    first = place.daemon("--max-running", "60")
    crowd.run()
    supervisor = crowd.supervisor
    guardian = parent_of(supervisor)
    watches = [os.pidfd_open(supervisor), os.pidfd_open(guardian)]

    # A power cut asks nobody. What still lives afterwards stands for the processes of the new
    # boot, which by chance have the very numbers and start times that the journal knows.
    first.kill()
    os.kill(guardian, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    for pidfd in watches:
        assert ends(pidfd)
        os.close(pidfd)
    host = EngineHost(place.database, clock=AnotherBoot(), report=lambda event: None)
    host.engine.step()
    host.close()

    runs = [run for number in range(COUNT) for run in place.runs(name_of(number))]
    assert [(run.status, run.reason) for run in runs] == [
        (Status.INTERRUPTED, Reason.REBOOT)
    ] * COUNT
    assert not any(has_ended(pidfd) for pidfd in crowd.processes())
    assert set(place.effects()) == {f"began-{number}" for number in range(COUNT)}


def another_version(folder: Path, version: str, *, protocol: int | None = None) -> Path:
    """The program of another version, which speaks another protocol where one is given."""
    edits = [Edit(function="__version__", old=repr(edgecron.__version__), new=repr(version))]
    if protocol is not None:
        old, new = repr(PROTOCOL_VERSION), repr(protocol)
        edits.append(Edit(function="PROTOCOL_VERSION", old=old, new=new))
    return copied_program(folder, *edits)


def end(daemon: Daemon, how: signal.Signals) -> None:
    if how is signal.SIGKILL:
        daemon.kill()
    else:
        assert daemon.stop() == 0


def told_of(daemon: Daemon, event: str) -> set[str]:
    """The schedules of all lines of an event that a daemon has printed so far."""
    return {line["schedule"] for line in daemon.lines if line["event"] == event}


def adopted(daemon: Daemon) -> set[str]:
    return told_of(daemon, "adopted")


def names_of(numbers: range) -> set[str]:
    return {name_of(number) for number in numbers}


def living_supervisors(place: Place) -> list[str]:
    folder = state_dir(place.database)
    keys = [path.stem.removeprefix("supervisor-") for path in folder.glob("supervisor-*.lock")]
    return [key for key in keys if lock_is_held(lock_path(folder, key))]


def supervisor_key(place: Place) -> str:
    [key] = living_supervisors(place)
    return key


def speaks_another_protocol(place: Place, key: str) -> bool:
    """Whether a supervisor that lives answers, and yet can't be adopted by an engine of ours."""
    with Control(state_dir(place.database), key) as control:
        control.status()
        if control.is_of_our_version:
            return False
        with pytest.raises(SupervisorUnavailable, match="it speaks version 99, expected"):
            control.adopt()
        return True


def versions(place: Place) -> set[str]:
    database = Database(place.database)
    found = {version for [version] in database.rows("SELECT version FROM engines")}
    database.close()
    return found


def check_each_run_was_whole(place: Place) -> None:
    """One run per schedule, with its own end, all it printed in order, and one body."""
    for number in range(COUNT):
        [run] = place.runs(name_of(number))
        status, reason = (Status.FAILED, Reason.EXIT) if number else (Status.SUCCESS, None)
        assert (run.status, run.reason, run.exit_code) == (status, reason, number)
        output = place.client.output(run.id)
        assert output is not None
        assert output.dropped_bytes == 0
        for stream in Stream:
            chunks = [chunk.content for chunk in output.chunks if chunk.stream is stream]
            assert b"".join(chunks) == printed(number, stream), f"{stream.name} of job {number}"
    words = ("began", "went")
    assert sorted(place.effects()) == sorted(f"{w}-{n}" for w in words for n in range(COUNT))


def check_only_the_living_have_files(place: Place) -> None:
    """What is left in the state folder belongs to the engine that is alive."""
    # The last end may have been taken over an instant before its supervisor went: any engine, and
    # any look for ends, clears that away.
    record_left_ends(place.client.store, state_dir(place.database), clock=SystemClock())
    [engine] = [state.info for state in place.client.engines() if state.is_alive]
    files = {path.name for path in state_dir(place.database).iterdir()}
    own = {f"supervisor-{supervisor_key(place)}.{kind}" for kind in ("lock", "journal", "sock")}
    assert files == own | {f"engine-{engine.key}.lock", f"engine-{engine.key}.fifo"}


def check_each_is_interrupted(place: Place, daemon: Daemon, reason: Reason) -> None:
    ended = [daemon.wait_for("ended") for _ in range(COUNT)]
    assert {(end["status"], end["reason"]) for end in ended} == {("interrupted", reason.value)}
    assert {end["schedule"] for end in ended} == {name_of(number) for number in range(COUNT)}
    runs = [run for number in range(COUNT) for run in place.runs(name_of(number))]
    assert [run.status for run in runs] == [Status.INTERRUPTED] * COUNT
    assert set(place.effects()) == {f"began-{number}" for number in range(COUNT)}


def has_ended(pidfd: int) -> bool:
    return ends(pidfd, bound_s=0)
