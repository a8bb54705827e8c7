"""What is kept of a run's output: within its cap, in flat memory, whatever it prints."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.model.run import Output, Stream
from edgecron.supervisor.launch import StartBy
from edgecron.supervisor.output import (
    MAX_CHUNKS,
    MEMORY_BYTES,
    OutputKeeper,
    load_output,
    load_saved_output,
)
from edgecron.supervisor.protocol import Flag
from tests.supervisor.supervisor_bench import Bench, Gate
from tests.support.places import fill, small_disk

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")

AT_MS = 1_600_000_000_000


def kept_bytes(output: Output) -> bytes:
    return b"".join(chunk.content for chunk in output.chunks)


def finish(keeper: OutputKeeper, folder: Path) -> Output:
    output, is_whole = load_output(keeper.finish(), folder)
    assert is_whole
    return output


@pytest.mark.parametrize("cap", [0, 1, 2, 3, 100, 1000, 40_000])
@pytest.mark.parametrize("size", [0, 1, 99, 101, 5_000, 300_000])
@pytest.mark.parametrize("step", [1_000, 65_536])
def test_head_and_tail_are_exact_and_the_middle_is_counted(
    tmp_path: Path, cap: int, size: int, step: int
) -> None:
    printed = random.Random(7).randbytes(size)
    keeper = OutputKeeper(cap_bytes=cap, spool=tmp_path / "run.out")

    for first in range(0, size, step):
        keeper.add(Stream.STDOUT, AT_MS + first, printed[first : first + step])
    output = finish(keeper, tmp_path)

    head, tail = cap // 2, cap - cap // 2
    expected = printed if size <= cap else printed[:head] + printed[size - tail :]
    assert kept_bytes(output) == expected
    assert output.stdout_bytes == size
    assert output.dropped_bytes == size - len(expected)
    before = b"".join(chunk.content for chunk in output.chunks[: output.dropped_after])
    assert before == (printed[:head] if size > cap else b"")


@pytest.mark.parametrize("cap", [0, 3, 1000, 40_000])
@pytest.mark.parametrize("size", [0, 99, 5_000, 300_000])
@pytest.mark.parametrize("step", [50, 1_000, 65_536])
def test_the_file_of_a_keeper_that_is_killed_has_what_was_printed(
    tmp_path: Path, cap: int, size: int, step: int
) -> None:
    printed = random.Random(7).randbytes(size)
    spool = tmp_path / "run.out"
    keeper = OutputKeeper(cap_bytes=cap, spool=spool)

    for first in range(0, size, step):
        keeper.add(Stream.STDOUT, AT_MS + first, printed[first : first + step])
        if first % 3 == 0:
            keeper.save()
    keeper.save()
    saved = load_saved_output(spool)

    assert saved == (None if not min(size, cap) else load_output(keeper.finish(), tmp_path))
    if saved is not None:
        assert saved[1]
        assert saved[0].stdout_bytes == size


def test_what_is_not_saved_yet_does_not_count_as_printed(tmp_path: Path) -> None:
    spool = tmp_path / "run.out"
    keeper = OutputKeeper(cap_bytes=1000, spool=spool)

    keeper.add(Stream.STDOUT, AT_MS, b"saved")
    keeper.save()
    keeper.add(Stream.STDOUT, AT_MS, b"pending")

    saved = load_saved_output(spool)
    assert saved is not None
    output, is_whole = saved
    assert is_whole
    assert (kept_bytes(output), output.stdout_bytes, output.dropped_bytes) == (b"saved", 5, 0)
    keeper.finish()


def test_a_file_without_an_index_is_no_saved_output(tmp_path: Path) -> None:
    spool = tmp_path / "run.out"
    assert load_saved_output(spool) is None
    spool.write_bytes(bytes(500))
    assert load_saved_output(spool) is None
    spool.write_bytes(b"ECSPOOL1" + bytes(500))

    assert load_saved_output(spool) is None


def test_reads_of_one_stream_within_a_moment_are_one_chunk(tmp_path: Path) -> None:
    keeper = OutputKeeper(cap_bytes=1000, spool=tmp_path / "run.out")

    keeper.add(Stream.STDOUT, AT_MS, b"a")
    keeper.add(Stream.STDOUT, AT_MS + 99, b"b")
    keeper.add(Stream.STDOUT, AT_MS + 100, b"c")
    keeper.add(Stream.STDERR, AT_MS + 101, b"d")
    keeper.add(Stream.STDOUT, AT_MS + 102, b"e")
    output = finish(keeper, tmp_path)

    assert [(chunk.stream, chunk.at_ms - AT_MS, chunk.content) for chunk in output.chunks] == [
        (Stream.STDOUT, 0, b"ab"),
        (Stream.STDOUT, 100, b"c"),
        (Stream.STDERR, 101, b"d"),
        (Stream.STDOUT, 102, b"e"),
    ]
    assert (output.stdout_bytes, output.stderr_bytes) == (4, 1)


def test_two_streams_that_alternate_byte_by_byte_stay_bounded(tmp_path: Path) -> None:
    keeper = OutputKeeper(cap_bytes=256 * 1024, spool=tmp_path / "run.out")

    for number in range(40_000):
        keeper.add(Stream(1 + number % 2), AT_MS + number, b"x")
    output = finish(keeper, tmp_path)

    assert len(output.chunks) <= 3 * MAX_CHUNKS
    assert output.dropped_bytes == 40_000 - len(output.chunks)


def test_a_spool_is_made_only_when_memory_does_not_do(tmp_path: Path) -> None:
    small = OutputKeeper(cap_bytes=256 * 1024, spool=tmp_path / "small.out")
    large = OutputKeeper(cap_bytes=256 * 1024, spool=tmp_path / "large.out")

    small.add(Stream.STDOUT, AT_MS, b"x" * (MEMORY_BYTES - 100))
    large.add(Stream.STDOUT, AT_MS, b"x" * (MEMORY_BYTES + 100))

    assert os.listdir(tmp_path) == ["large.out"]
    assert (tmp_path / "large.out").stat().st_mode & 0o777 == 0o600
    assert "inline" in small.finish()
    assert large.finish()["spool"] == "large.out"


def test_a_spool_that_has_vanished_is_told(tmp_path: Path) -> None:
    keeper = OutputKeeper(cap_bytes=256 * 1024, spool=tmp_path / "run.out")
    keeper.add(Stream.STDOUT, AT_MS, b"x" * 50_000)
    told = keeper.finish()
    (tmp_path / "run.out").unlink()

    output, is_whole = load_output(told, tmp_path)

    assert not is_whole
    assert (output.stdout_bytes, output.dropped_bytes) == (50_000, 50_000)


@pytest.mark.failure(45)
def test_any_byte_is_kept_as_it_came(bench: Bench) -> None:
    record = bench.run("/usr/bin/printf", r"\000\377\200\033[31m\303(\r\n")

    assert bench.printed(record) == b"\x00\xff\x80\x1b[31m\xc3(\r\n"


def memory_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0])


@pytest.mark.failure(44)
def test_a_line_without_end_is_capped_and_counted_in_flat_memory(bench: Bench) -> None:
    size = 300_000_000
    bench.run_shell("head -c 1000000 /dev/zero")
    before = memory_kib(bench.link.pid)

    record = bench.run("/usr/bin/head", "-c", str(size), "/dev/zero")
    after = memory_kib(bench.link.pid)

    output = bench.output(record)
    assert (output.stdout_bytes, len(kept_bytes(output))) == (size, 256 * 1024)
    assert output.dropped_bytes == size - 256 * 1024
    assert after - before < 1024


@pytest.mark.slow
@pytest.mark.failure(44)
def test_ten_gigabytes_are_capped_and_counted_in_flat_memory(bench: Bench) -> None:
    size = 10_000_000_000
    bench.run_shell("head -c 1000000 /dev/zero")
    before = memory_kib(bench.link.pid)

    record = bench.run("/usr/bin/head", "-c", str(size), "/dev/zero")

    assert bench.output(record).stdout_bytes == size
    assert memory_kib(bench.link.pid) - before < 1024


@pytest.mark.failure(44)
def test_many_live_runs_with_output_cost_little_memory(bench: Bench) -> None:
    line = "head -c 400000 /dev/zero; echo >&2 there; exec sleep 60"
    first = bench.shell(line)
    wait_for_spool(bench, first)
    before = memory_kib(bench.link.pid)

    tokens = [bench.shell(line) for _ in range(60)]
    for token in tokens:
        wait_for_spool(bench, token)

    assert (memory_kib(bench.link.pid) - before) / len(tokens) < 24


def wait_for_spool(bench: Bench, token: str) -> None:
    """Until the run has printed more than memory holds; each look asks the supervisor."""
    while not (bench.state_dir / f"run-{token}.out").exists():
        bench.run("/bin/true")


def test_a_loud_job_starves_no_other(bench: Bench) -> None:
    loud = bench.shell("exec yes")
    bench.started(loud)

    records = [bench.run_shell("echo quiet") for _ in range(10)]
    timed_out = bench.run_shell("exec sleep 60", timeout_ms=100)

    assert {bench.printed(record) for record in records} == {b"quiet\n"}
    assert timed_out.duration_ms is not None
    assert timed_out.duration_ms < 30_000  # far before its own 60 s


def test_a_spool_is_removed_once_its_end_is_acknowledged(bench: Bench) -> None:
    record = bench.run_shell("head -c 100000 /dev/zero")
    spool = bench.state_dir / f"run-{record.token}.out"
    there_before = spool.exists()

    bench.link.acknowledge([record.token])
    bench.run("/bin/true")

    assert there_before
    assert not spool.exists()


@pytest.fixture(name="small_disk")
def make_small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", kib=256) as folder:
        yield folder


@pytest.mark.failure(47)
def test_without_space_the_job_goes_on_and_its_output_is_flagged(
    small_disk: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgecron.supervisor.live_run.RETRY_MS", 50)
    bench = Bench(small_disk / "state", by=StartBy.FORK)
    token = bench.shell(f"read go < {gate.path}; head -c 200000 /dev/zero; echo end >&2; exit 3")
    bench.started(token)
    filler = fill(small_disk)
    gate.open()

    record = bench.ended(token)
    output = bench.output(record)
    filler.unlink()
    bench.close()

    assert record.exit_code == 3
    assert Flag.OUTPUT_LOST in record.flags
    assert output.stdout_bytes == 200_000
    assert output.dropped_bytes == 200_004 - len(kept_bytes(output))


@pytest.mark.failure(47)
def test_without_space_for_a_token_nothing_is_started_and_that_is_said(small_disk: Path) -> None:
    bench = Bench(small_disk / "state")
    tokens = [f"token-{'x' * 50}-{number}" for number in range(64)]
    filler = fill(small_disk)

    bench.link.start([bench.request("/bin/true", token=token) for token in tokens])
    bench.link.start([bench.request("/bin/true", token=f"{token}b") for token in tokens])
    bench.wait_for(lambda: len(bench.not_started()) >= 64, "the refusal")
    filler.unlink()
    record = bench.run("/bin/true")
    refused = bench.not_started()
    bench.close()

    assert {event.error_code for event in refused.values()} == {"ENOSPC"}
    assert not refused.keys() & bench.exits().keys()
    assert record.exit_code == 0


@pytest.mark.failure(47)
def test_an_end_that_finds_no_space_is_told_and_written_later(
    small_disk: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgecron.supervisor.live_run.RETRY_MS", 50)
    bench = Bench(small_disk / "state", by=StartBy.FORK)
    token = bench.shell(f"read go < {gate.path}; head -c 9000 /dev/zero")
    bench.started(token)
    filler = fill(small_disk)
    gate.open()
    unrecorded = bench.ended(token)
    before = bench.journal()
    filler.unlink()

    after = bench.run("/bin/true")
    journal = bench.journal()
    bench.close()

    assert unrecorded.exit_code == after.exit_code == 0
    assert before.is_intact
    assert before.traces[token].exit is None
    assert journal.is_intact
    assert journal.traces[token].exit == unrecorded


def test_an_output_file_that_can_not_be_cleared_away_stops_nobody(bench: Bench) -> None:
    record = bench.run_shell("head -c 100000 /dev/zero")
    spool = bench.state_dir / record.output["spool"]
    spool.unlink()
    spool.mkdir()

    bench.link.acknowledge([record.token])

    assert bench.run_shell("exit 3").exit_code == 3


@pytest.mark.failure(47)
def test_a_limit_of_file_sizes_ends_no_supervisor(bench: Bench) -> None:
    limits = (20_000, resource.RLIM_INFINITY)
    resource.prlimit(bench.link.pid, resource.RLIMIT_FSIZE, limits)

    record = bench.run_shell("head -c 400000 /dev/zero; exit 4")
    again = bench.run_shell("exit 5")

    assert (record.exit_code, again.exit_code) == (4, 5)
    assert Flag.OUTPUT_LOST in record.flags
