"""The control socket: what anybody may ask of a supervisor, with its engine or without."""

from __future__ import annotations

import os
import resource
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.base import sockets
from edgecron.base.errors import SupervisorUnavailable
from edgecron.model.run import Output, OutputChunk, Stream
from edgecron.supervisor import protocol
from edgecron.supervisor.control import Control, rest_of
from edgecron.supervisor.launch import StartBy
from edgecron.supervisor.link import Exited, Started
from edgecron.supervisor.output import OutputKeeper, Part
from edgecron.supervisor.protocol import EndCause, Flag, Kind, Phase, encode
from edgecron.supervisor.reactor import Peer, Reactor
from edgecron.supervisor.state_files import journal_path, socket_path
from tests.supervisor.supervisor_bench import BOUND_MS, Bell, Bench, Gate, follow, wait_gone

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.real_starts,
]


@pytest.fixture
def control(bench: Bench) -> Iterator[Control]:
    with Control(bench.state_dir, bench.link.supervisor_id) as made:
        yield made


def text(part: Part) -> bytes:
    return b"".join(chunk.content for chunk in part.chunks)


@pytest.mark.parametrize("by", list(StartBy))
def test_anybody_can_see_what_runs(tmp_path: Path, by: StartBy) -> None:
    bench = Bench(tmp_path / "state", by=by)
    started = bench.started(bench.start("/bin/sleep", "60"))

    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        state = control.status()
        pid = control.pid
    bench.close()

    [live] = state.running
    assert (live.token, live.pid, live.started_ms) == (
        started.token, started.pid, started.started_ms
    )  # fmt: skip
    assert (state.waiting, state.has_engine, pid) == ((), True, bench.link.pid)


def test_the_socket_is_private_and_gone_with_the_supervisor(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        bench = Bench(tmp_path / "state", by=StartBy.FORK)
    finally:
        os.umask(before)
    path = socket_path(bench.state_dir, bench.link.supervisor_id)
    seen = path.stat()

    bench.close()

    assert stat.S_ISSOCK(seen.st_mode)
    assert seen.st_mode & 0o777 == 0o600
    assert not path.exists()
    with pytest.raises(SupervisorUnavailable, match="can't be asked"):
        Control(bench.state_dir, bench.link.supervisor_id)


@pytest.mark.parametrize("has_proc", [True, False])
def test_a_socket_can_be_reached_whatever_the_length_of_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_proc: bool
) -> None:
    if not has_proc:
        monkeypatch.setattr("edgecron.base.sockets.FD_FOLDER", "/no/such/folder")
    bench = Bench(tmp_path / ("x" * 120) / ("y" * 120), by=StartBy.FORK)

    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        state = control.status()
    bench.close()

    assert state.running == ()


def test_who_is_at_the_other_end_is_known() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert sockets.peer_uid(ours) == os.geteuid()


def test_a_stranger_is_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgecron.base.sockets.peer_uid", lambda link: 12345)
    bench = Bench(tmp_path / "state", by=StartBy.FORK)
    try:
        with pytest.raises(SupervisorUnavailable, match="can't be asked"):
            Control(bench.state_dir, bench.link.supervisor_id)
        assert bench.run("/bin/true").exit_code == 0
    finally:
        bench.close()


def test_a_cancel_needs_no_engine(tmp_path: Path, bell: Bell) -> None:
    bench = Bench(tmp_path)
    token = bench.shell(f"trap 'exit 9' TERM; echo >{bell.path}; while :; do sleep 0.01; done")
    bell.wait()
    bench.link.close()

    with Control(tmp_path, bench.link.supervisor_id) as control:
        has_engine = control.status().has_engine
        phases = control.cancel([token, "unheard-of"])
    wait_gone(bench.link.pid)
    record = bench.journal().traces[token].exit

    assert not has_engine
    assert phases == {token: Phase.RUNNING, "unheard-of": Phase.UNKNOWN}
    assert record is not None
    assert (record.cause, record.exit_code) == (EndCause.CANCELLED, 9)


def test_what_was_printed_can_be_read_while_it_runs(
    bench: Bench, control: Control, bell: Bell, gate: Gate
) -> None:
    token = bench.shell(f"echo out; echo err >&2; echo >{bell.path}; read go <{gate.path}")
    bell.wait()

    chunks: list[OutputChunk] = []
    phases = set()
    position = 0
    while position < 8:  # a part at a time, and the bell may be faster than the pipes
        phase, part = control.output(token, position)
        phases.add(phase)
        chunks += part.chunks
        position = part.next_position
    rest = control.output(token, 6)
    end = control.output(token, 8)
    gate.open()
    bench.ended(token)

    assert phases == {Phase.RUNNING}
    assert {(chunk.stream, chunk.content) for chunk in chunks} == {
        (Stream.STDOUT, b"out\n"), (Stream.STDERR, b"err\n")
    }  # fmt: skip
    assert (text(rest[1]), rest[1].position) == (chunks[-1].content[2:], 6)
    assert end == (Phase.RUNNING, Part(position=8))
    assert control.output(token) == (Phase.ENDED, Part(position=0))
    assert control.output("unheard-of")[0] is Phase.UNKNOWN


def test_what_a_run_prints_can_be_followed_to_its_end(
    bench: Bench, control: Control, bell: Bell, gate: Gate
) -> None:
    line = f"head -c 150000 /dev/zero; echo >{bell.path}; read go <{gate.path}; echo more; exit 3"
    token = bench.shell(line)
    bell.wait()

    content = b""
    phases = []
    for phase, part in follow(control, token):
        phases.append(phase)
        content += text(part)
        if len(content) == 150_000:
            gate.open()
        position = part.next_position
    record = bench.ended(token)
    content += text(rest_of(bench.output(record), position))

    assert content == bytes(150_000) + b"more\n"
    assert set(phases[:-1]) == {Phase.RUNNING}
    assert phases[-1] is Phase.ENDED
    assert control.status().running == ()


def test_who_follows_and_does_not_read_costs_nothing(bench: Bench, control: Control) -> None:
    token = bench.shell("yes | head -c 30000000", output_cap_bytes=20_000_000)
    control.begin_follow(token)
    before = _most_memory_kb(bench.link.pid)  # A forked supervisor begins with that of its parent.

    record = bench.ended(token)

    assert bench.output(record).stdout_bytes == 30_000_000
    assert _most_memory_kb(bench.link.pid) - before < 25_000


def _most_memory_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0])


def test_a_token_that_was_revoked_never_starts(bench: Bench, control: Control) -> None:
    running = bench.start("/bin/sleep", "60")
    ended = bench.run("/bin/true").token
    bench.started(running)
    late = bench.request("/bin/true")

    phases = control.revoke([running, ended, late.token])
    again = control.revoke([late.token])
    bench.link.start([late])
    bench.wait_for(lambda: bool(bench.not_started()), "the refusal")

    assert phases == {
        running: Phase.RUNNING, ended: Phase.ENDED, late.token: Phase.UNKNOWN
    }  # fmt: skip
    assert again == {late.token: Phase.REVOKED}
    assert bench.not_started()[late.token].error_code == "ECANCELED"
    assert [live.token for live in control.status().running] == [running]
    assert late.token not in bench.journal().traces


def test_a_token_that_waits_is_withdrawn_by_a_revocation(bench: Bench, control: Control) -> None:
    requests = [bench.request("/bin/true") for _ in range(1000)]
    bench.link.start(requests)
    tokens = [request.token for request in requests]

    phases = control.revoke(tokens)
    on_record = bench.journal().traces
    started = {token for token in tokens if phases[token] in (Phase.RUNNING, Phase.ENDED)}
    bench.wait_for(
        lambda: len(bench.exits()) + len(bench.not_started()) == 1000, "an answer for each"
    )

    assert bench.exits().keys() == started
    assert bench.not_started().keys() == set(tokens) - started
    assert len(started) < 1000
    # Were the supervisor to die now, they could be queued again all the same.
    assert on_record.keys() == started


def test_a_supervisor_without_an_engine_can_be_adopted(
    tmp_path: Path, bell: Bell, gate: Gate
) -> None:
    bench = Bench(tmp_path / "state")
    running = bench.shell(f"echo $$ >{bell.path}; read go <{gate.path}; exit 4")
    ended = bench.run_shell("exit 3")
    acknowledged = bench.run_shell("exit 2")
    bench.link.acknowledge([acknowledged.token])
    pid = int(bell.wait())
    bench.link.close()

    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        bench.link = control.adopt()
    bench.events = bench.link.receive()
    bench.wait_for(lambda: ended.token in bench.exits(), "the end that nobody had")
    gate.open()
    code = bench.ended(running).exit_code
    fresh = bench.run_shell("exit 5").exit_code
    events = list(bench.events)
    bench.close()

    assert [e.pid for e in events if isinstance(e, Started) and e.token == running] == [pid]
    assert next(e.record for e in events if isinstance(e, Exited)) == ended
    assert (code, fresh) == (4, 5)
    assert acknowledged.token not in bench.exits()


def test_a_supervisor_without_a_descriptor_or_a_name_for_its_journal_is_adopted(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "state")
    running, pid = bench.start("/bin/sleep", "60"), bench.link.pid
    ended = bench.run_shell("exit 3")
    bench.link.close()
    journal_path(bench.state_dir, bench.link.supervisor_id).unlink()

    control = Control(bench.state_dir, bench.link.supervisor_id)
    control.status()
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    least = next(number for number in range(len(taken) + 1) if number not in taken)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (least, least))
    bench.link = control.adopt()
    bench.wait_for(lambda: ended.token in bench.exits(), "the end that nobody had")
    bench.link.cancel([running])
    cause = bench.ended(running).cause
    bench.close()

    assert cause is EndCause.CANCELLED


@pytest.mark.failure(19)
def test_an_adoption_for_which_the_journal_can_not_be_read_is_refused_and_runs_go_on(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path / "state")
    running = bench.start("/bin/sleep", "60")
    bench.run_shell("exit 3")
    bench.link.close()
    # Damaged by somebody: the end that the next engine must be told of is not there any more.
    os.truncate(journal_path(bench.state_dir, bench.link.supervisor_id), 0)

    with (
        Control(bench.state_dir, bench.link.supervisor_id) as control,
        pytest.raises(SupervisorUnavailable, match=r"its journal can't be read: .* damaged"),
    ):
        control.adopt()
    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        state = control.status()
        control.cancel([running])
    wait_gone(bench.link.pid)

    assert ([live.token for live in state.running], state.has_engine) == ([running], False)


@pytest.mark.parametrize("error", [OSError(24, "no descriptor"), RuntimeError("a defect")])
def test_a_request_that_fails_is_told_to_who_asked_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("edgecron.supervisor.live_run.Recorder.knows", fail)
    bench = Bench(tmp_path / "state", by=StartBy.FORK)
    with (
        Control(bench.state_dir, bench.link.supervisor_id) as control,
        pytest.raises(SupervisorUnavailable, match=f"cancel failed: {type(error).__name__}"),
    ):
        control.cancel(["unheard-of"])
    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        has_engine = control.status().has_engine
    bench.close()

    assert has_engine


def test_an_engine_whose_message_fails_is_let_go_of_and_nothing_else() -> None:
    def fail(kind: Kind, body: object) -> None:
        raise OSError(24, "no descriptor")

    ours, theirs = socket.socketpair()
    reactor = Reactor()
    end = Peer(theirs, reactor, on_message=fail)
    with ours:
        ours.sendall(encode(Kind.CANCEL, []))
        reactor.turn(BOUND_MS / 1000)

        assert not end.is_connected
        assert ours.recv(1) == b""


def test_a_supervisor_is_not_taken_from_an_engine_that_lives(
    bench: Bench, control: Control
) -> None:
    with pytest.raises(SupervisorUnavailable, match="is running"):
        control.adopt()

    assert bench.run("/bin/true").exit_code == 0


@pytest.mark.failure(70)
@pytest.mark.parametrize("version", [0, 99])
def test_a_supervisor_of_another_version_does_all_but_be_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    bench = Bench(tmp_path / "state")
    running = bench.shell("echo printed; exec sleep 60")
    bench.started(running)
    bench.link.close()
    spoken = protocol.PROTOCOL_VERSION
    monkeypatch.setattr(protocol, "PROTOCOL_VERSION", version)

    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        with pytest.raises(
            SupervisorUnavailable, match=f"it speaks version {spoken}, expected {version}"
        ):
            control.adopt()
        state = control.status()
        revoked = control.revoke(["late"])
        _, first = next(follow(control, running))
    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        phase, part = control.output(running)
        cancelled = control.cancel([running])
    wait_gone(bench.link.pid)
    record = bench.journal().traces[running].exit

    assert not control.is_of_our_version
    assert [live.token for live in state.running] == [running]
    assert revoked == {"late": Phase.UNKNOWN}
    assert (phase, text(part), text(first)) == (Phase.RUNNING, b"printed\n", b"printed\n")
    assert cancelled == {running: Phase.RUNNING}
    assert record is not None
    assert record.cause is EndCause.CANCELLED


@pytest.mark.parametrize(
    "frame", [b"\x00\x00\x00\x03???", b"\xff\xff\xff\xff", encode(Kind.START, []), b"\0\0"]
)
def test_who_talks_nonsense_is_left_alone(bench: Bench, control: Control, frame: bytes) -> None:
    path = socket_path(bench.state_dir, bench.link.supervisor_id)
    with sockets.connect(path, timeout_s=5) as link:
        link.sendall(frame)
        link.shutdown(socket.SHUT_WR)
        while link.recv(4096):
            pass

    assert control.status().has_engine
    assert bench.run("/bin/true").exit_code == 0


def test_more_connections_than_may_be_are_closed(bench: Bench) -> None:
    path = socket_path(bench.state_dir, bench.link.supervisor_id)
    links = [sockets.connect(path, timeout_s=5) for _ in range(70)]
    greeted = [bool(link.recv(4096)) for link in links]
    for link in links:
        link.close()

    assert sum(greeted) == 64
    assert bench.run("/bin/true").exit_code == 0
    with Control(bench.state_dir, bench.link.supervisor_id) as control:
        assert control.status().has_engine


@pytest.mark.parametrize("cap", [0, 1, 10, 1000, 100_000])
def test_what_is_read_live_is_what_is_kept(tmp_path: Path, cap: int) -> None:
    """Whatever sizes come, and wherever the reader is: the right byte stands in each place."""
    keeper = OutputKeeper(cap_bytes=cap, spool=tmp_path / "spool")
    printed = b""
    follower = 0
    for number, size in enumerate([1, 7, 5000, 3, 70_000, 200, 9, 65_536, 40_000, 2] * 3):
        content = bytes((len(printed) + place) % 251 for place in range(size))
        keeper.add(Stream(1 + number % 2), number, content)
        printed += content
        for position in (0, follower, len(printed) - 1, len(printed) // 2):
            follower = check_all_from(keeper, position, printed)
        assert follower == len(printed)

    head, tail = cap // 2, cap - cap // 2
    if cap > 1:
        assert text(keeper.read(0))[: min(head, 100)] == printed[: min(head, 100)]
        assert keeper.read(len(printed) - tail).position == len(printed) - tail
    keeper.finish()


def check_all_from(keeper: OutputKeeper, position: int, printed: bytes) -> int:
    while True:
        part = keeper.read(position)
        assert part.position >= position
        assert text(part) == printed[part.position : part.next_position]
        if not part.chunks:
            return part.position
        position = part.next_position


def test_what_was_lost_on_a_full_disk_is_a_gap_and_no_other_bytes(tmp_path: Path) -> None:
    keeper = OutputKeeper(cap_bytes=100_000, spool=tmp_path / "no" / "such" / "folder")
    printed = b""
    for number in range(40):
        content = bytes((len(printed) + place) % 251 for place in range(5000 - number * 100))
        keeper.add(Stream.STDOUT, number, content)
        printed += content

    assert check_all_from(keeper, 0, printed) == len(printed)
    assert keeper.is_lost
    assert str(Flag.OUTPUT_LOST) == "output_lost"


def test_the_rest_of_an_output_starts_behind_what_was_dropped() -> None:
    def chunk(content: bytes) -> OutputChunk:
        return OutputChunk(stream=Stream.STDOUT, at_ms=0, content=content)

    output = Output(
        chunks=(chunk(b"abc"), chunk(b"de"), chunk(b"xyz")),
        stdout_bytes=18,
        stderr_bytes=0,
        dropped_bytes=10,
        dropped_after=2,
    )

    parts = [rest_of(output, position) for position in (0, 4, 5, 9, 16, 18)]
    found = [(part.position, text(part)) for part in parts]

    assert found == [(0, b"abcde"), (4, b"e"), (15, b"xyz"), (15, b"xyz"), (16, b"yz"), (18, b"")]
