"""What a run leaves as its result: JSON in a file, within bounds, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgecron.supervisor.forked_start import SpawnFailed
from edgecron.supervisor.journal import forget
from edgecron.supervisor.launch import StartBy
from edgecron.supervisor.limits import RunLimits
from edgecron.supervisor.live_run import Spawned
from edgecron.supervisor.protocol import EndCause, Flag, Identity, StartRequest
from edgecron.supervisor.results import result_path, split_result
from edgecron.supervisor.start import Spawner
from edgecron.supervisor.state_files import result_name
from tests.supervisor.supervisor_bench import Bell, Bench, Gate, Starting, wait_gone
from tests.support.accounts import as_root, identity
from tests.support.clock import FakeClock

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.real_starts,
]


@pytest.mark.parametrize("by", list(StartBy))
def test_a_result_comes_with_the_end_and_its_file_is_gone(tmp_path: Path, by: StartBy) -> None:
    bench = Bench(tmp_path / "state", by=by)
    line = """printf '{"rows": 12, "ä": null}\\n' >"$EDGECRON_RESULT"; exit 3"""

    record = bench.run_shell(line)
    trace = bench.journal().traces[record.token]
    bench.close()

    assert (record.exit_code, record.flags) == (3, ())
    assert record.result == '{"rows": 12, "ä": null}'
    assert trace.exit == record
    assert [path.name for path in bench.state_dir.iterdir() if path.suffix == ".result"] == []


def test_a_run_without_a_result_has_none_and_no_flag(bench: Bench) -> None:
    record = bench.run_shell('test ! -e "$EDGECRON_RESULT" && dirname "$EDGECRON_RESULT"')

    assert (record.result, record.flags, record.exit_code) == (None, (), 0)
    assert bench.printed(record).decode().strip() == str(bench.state_dir)


def _levels(depth: int) -> str:
    """A line that leaves lists within lists."""
    bracket = f'head -c {depth} /dev/zero | tr "\\0"'
    return f'({bracket} "["; {bracket} "]") >"$EDGECRON_RESULT"'


def test_a_result_may_have_as_many_levels_as_a_payload(bench: Bench) -> None:
    record = bench.run_shell(_levels(501))

    assert (record.result, record.flags) == ("[" * 501 + "]" * 501, ())


@pytest.mark.parametrize(
    "line",
    [
        ': >"$EDGECRON_RESULT"',
        'echo "{" >"$EDGECRON_RESULT"',
        'echo NaN >"$EDGECRON_RESULT"',
        'echo "[-1e999]" >"$EDGECRON_RESULT"',
        'printf \'"\\377"\' >"$EDGECRON_RESULT"',
        'head -c 60000 /dev/zero | tr "\\0" "[" >"$EDGECRON_RESULT"',
        'head -c 60000 /dev/zero | tr "\\0" 9 >"$EDGECRON_RESULT"',
        _levels(502),
        'mkfifo "$EDGECRON_RESULT"',
        'echo 1 >/tmp/edgecron-$$; ln -s /tmp/edgecron-$$ "$EDGECRON_RESULT"',
        'ln -s /dev/zero "$EDGECRON_RESULT"',
    ],
)
def test_what_is_no_file_of_json_is_flagged_and_removed(bench: Bench, line: str) -> None:
    record = bench.run_shell(line)

    assert (record.exit_code, record.result, record.flags) == (0, None, (Flag.RESULT_INVALID,))
    assert not os.path.lexists(bench.state_dir / result_name(record.token))


def test_a_folder_in_place_of_a_result_is_flagged_and_does_no_harm(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    record = bench.run_shell('mkdir "$EDGECRON_RESULT"')
    bench.close()

    assert (record.result, record.flags) == (None, (Flag.RESULT_INVALID,))
    assert forget(tmp_path, bench.link.supervisor_id)


@pytest.mark.parametrize(("size", "is_kept"), [(65_536, True), (65_537, False), (10**8, False)])
def test_a_result_has_64_kibibytes_at_most(bench: Bench, size: int, is_kept: bool) -> None:
    fill = f"""head -c {size - 2} /dev/zero | tr '\\0' x; printf '"'"""

    record = bench.run_shell(f"""(printf '"'; {fill}) >"$EDGECRON_RESULT" """)

    assert record.flags == (() if is_kept else (Flag.RESULT_TOO_BIG,))
    assert (record.result is not None and len(json.loads(record.result)) == size - 2) is is_kept
    assert not (bench.state_dir / result_name(record.token)).exists()


def test_a_run_that_was_ended_keeps_the_result_it_had_left(bench: Bench, bell: Bell) -> None:
    token = bench.shell(f'echo 1 >"$EDGECRON_RESULT"; echo >{bell.path}; exec sleep 60')
    bell.wait()

    bench.link.cancel([token])
    record = bench.ended(token)

    assert (record.cause, record.result) == (EndCause.CANCELLED, "1")


def test_a_result_of_an_interrupted_run_is_cleared_away(tmp_path: Path, bell: Bell) -> None:
    bench = Bench(tmp_path)
    token = bench.shell(f'echo 1 >"$EDGECRON_RESULT"; echo >{bell.path}; exec sleep 60')
    bell.wait()
    guardian = bench.guardian()

    os.kill(bench.link.pid, 9)
    wait_gone(guardian)
    was_there = (tmp_path / result_name(token)).exists()
    forget(tmp_path, bench.link.supervisor_id)

    assert was_there
    assert list(tmp_path.iterdir()) == [bell.path]
    bench.link.close()


NOBODY = Identity(name="nobody", uid=65534, gid=65534, groups=(65534,))


@as_root
def test_a_run_as_another_user_leaves_a_result_too(bench: Bench) -> None:
    line = """id -u; stat -c %a:%u "$EDGECRON_RESULT"; echo 7 >"$EDGECRON_RESULT" """

    record = bench.run_shell(line, identity=NOBODY)
    without = bench.run_shell("true", identity=NOBODY)
    place = bench.printed(bench.run_shell('echo "$EDGECRON_RESULT"', identity=NOBODY))

    assert bench.printed(record) == b"65534\n600:65534\n"
    assert (record.result, record.flags) == ("7", ())
    assert (without.result, without.flags) == (None, ())
    assert not os.path.lexists(place.decode().strip())


@as_root
@pytest.mark.failure(47)
def test_a_run_as_another_user_leaves_its_result_where_it_can_fill_no_memory(bench: Bench) -> None:
    record = bench.run_shell('dirname "$EDGECRON_RESULT"', identity=NOBODY)
    folder = Path(bench.printed(record).decode().strip())

    assert folder == result_path("any", bench.state_dir, of_another_user=True).parent
    assert Path("/run") not in folder.parents


@as_root
def test_a_run_as_another_user_sees_no_result_but_its_own(bench: Bench) -> None:
    line = (
        'cd "$(dirname "$EDGECRON_RESULT")"; ls . 2>&1; touch another 2>&1; rm "$EDGECRON_RESULT"'
    )

    record = bench.run_shell(line, identity=NOBODY)

    printed = bench.printed(record).decode()
    assert printed.count("Permission denied") == 2
    assert ".result\n" not in printed
    assert record.exit_code == 1
    assert record.result is None


@as_root
def test_a_result_of_an_interrupted_run_as_another_user_is_cleared_away(
    tmp_path: Path, bell: Bell
) -> None:
    bench = Bench(tmp_path)
    line = 'echo "$EDGECRON_RESULT"; exec sleep 60'
    token = bench.shell(line, identity=NOBODY)
    place = result_path(token, tmp_path, of_another_user=True)
    bench.started(token)
    guardian = bench.guardian()

    os.kill(bench.link.pid, 9)
    wait_gone(guardian)
    was_there = place.exists()
    forget(tmp_path, bench.link.supervisor_id)

    assert was_there
    assert not place.exists()
    bench.link.close()


@as_root
def test_the_result_file_of_a_command_that_can_not_be_started_is_gone(bench: Bench) -> None:
    record = bench.run("/no/such/command", identity=NOBODY)

    assert record.cause is EndCause.SPAWN
    assert not result_path(record.token, bench.state_dir, of_another_user=True).exists()


class OverSoon(Spawner):
    """A busy machine, on which a command has ended before its start has returned."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def spawn(
        self, request: StartRequest, *, env: Mapping[str, str], limits: RunLimits | None = None
    ) -> Spawned:
        spawned = super().spawn(request, env=env, limits=limits)
        os.waitid(os.P_PID, spawned.pid, os.WEXITED | os.WNOWAIT)
        self._clock.advance_ms(40)
        return spawned


def test_what_a_command_took_counts_from_before_its_start(tmp_path: Path, bench: Bench) -> None:
    clock = FakeClock()
    began_ms = clock.now_ms()
    starting = Starting(tmp_path, clock=clock, spawner=OverSoon(clock))

    starting.start(bench.request("true"))
    record = starting.started[0].reap()
    starting.close()

    assert record is not None
    assert (record.started_ms, record.duration_ms) == (began_ms, 40)


class NoProcessLeft(Spawner):
    """A system that is short of processes for ever."""

    def spawn(
        self, request: StartRequest, *, env: Mapping[str, str], limits: RunLimits | None = None
    ) -> Spawned:
        raise SpawnFailed("EAGAIN", "the system has no process left", is_temporary=True)


@as_root
@pytest.mark.failure(40)
@pytest.mark.parametrize("how", ["cancel", "remove"])
def test_the_result_file_of_a_start_that_is_given_up_between_its_tries_is_gone(
    tmp_path: Path, bench: Bench, how: str
) -> None:
    request = bench.request("true", identity=NOBODY)
    place = result_path(request.token, tmp_path, of_another_user=True)
    starting = Starting(tmp_path, spawner=NoProcessLeft())
    queue = starting.queue
    starting.start(request)
    was_there = place.exists()

    if how == "remove":
        queue.remove(request.token)
    else:
        queue.cancel(request.token, EndCause.CANCELLED)
    starting.close()

    assert was_there
    assert not place.exists()
    assert not queue


def test_a_result_that_comes_after_the_end_is_cleared_away_with_the_supervisor(
    tmp_path: Path, bell: Bell, gate: Gate
) -> None:
    state_dir = tmp_path / "state"
    bench, other = Bench(state_dir), Bench(state_dir)
    late = (
        f'(read go <{gate.path}; echo 1 >"$EDGECRON_RESULT"; echo >{bell.path}) >/dev/null 2>&1 &'
    )
    ended = bench.run_shell(late)
    bench.link.acknowledge([ended.token])
    running = other.shell(f'echo 2 >"$EDGECRON_RESULT"; echo >{bell.path}; exec sleep 60')
    bell.wait()
    gate.open()
    bell.wait()
    was_there = (state_dir / result_name(ended.token)).exists()

    bench.close()
    left = [path.name for path in state_dir.glob("run-*")]
    other.link.cancel([running])
    kept = other.ended(running).result
    other.close()

    assert was_there
    assert left == [result_name(running)]
    assert kept == "2"


@as_root
def test_what_another_user_leaves_is_a_result_and_nothing_else(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    left = '{"edgecron": {"result": 1, "state": {"cursor": "9"}}}'
    record = bench.run_shell(f"echo '{left}' >\"$EDGECRON_RESULT\"", identity=identity())
    plain = bench.run_shell('echo 3 >"$EDGECRON_RESULT"', identity=identity())
    bench.close()

    found = split_result(record.result)

    assert found is not None
    assert found.state is None
    assert json.loads(str(found.result)) == json.loads(left)
    assert plain.result == "3"
