"""Longer output lies in a file of its own, which is never synced: an exit may outlive it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.engine.other_engines import LocalEngines
from edgecron.model.choices import COMMAND_QUEUE, Status
from edgecron.model.run import Execution, Stream
from edgecron.store.contract import Claimant, RunningRow
from edgecron.supervisor.journal import Exit
from edgecron.supervisor.output import OutputKeeper
from edgecron.supervisor.protocol import EndCause, ExitRecord, Flag
from edgecron.supervisor.state_files import spool_name
from tests.powerloss.disk import SECTOR_BYTES
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

LINE = b"x" * 699 + b"\n"
LINES = 60  # more than memory holds, less than the cap


class Left:
    """A run that had ended, with what the power left of its output."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock = FakeClock()
        self._client = Client(folder / "edgecron.db", clock=self._clock)
        self._row = self._claim()
        self.spool = folder / spool_name(self._row.lease_token)
        keeper = OutputKeeper(cap_bytes=262_144, spool=self.spool)
        for number in range(LINES):
            keeper.add(Stream.STDOUT, self._clock.now_ms() + number * 10_000, LINE)
        self._record = ExitRecord(
            token=self._row.lease_token,
            cause=EndCause.EXIT,
            exit_code=0,
            started_ms=self._clock.now_ms(),
            finished_ms=self._clock.now_ms(),
            output=keeper.finish(),
        )

    def _claim(self) -> RunningRow:
        self._client.add(make_spec())
        self._client.run_now("backup")
        store, now_ms = self._client.store, self._clock.now_ms()
        engine_id = store.register_engine(
            key="k", pid=1, boot_id="boot-1", queues=(COMMAND_QUEUE,), now_ms=now_ms
        )
        claimant = Claimant(
            engine_id=engine_id, supervisor_id="0" * 16, queues=(COMMAND_QUEUE,), max_running=1
        )
        assert store.claim_queued(claimant=claimant, now_ms=now_ms).granted
        [row] = store.find_running()
        return row

    def end(self) -> tuple[Execution, int]:
        """The row after the next boot's recovery has ended it, and how much output it has."""
        others = LocalEngines(self._folder, boot_id="boot-2")
        outcome = others.outcome_of(Exit(record=self._record), self._row)
        [ended] = self._client.store.finish([outcome], now_ms=self._clock.now_ms())
        assert ended is not None
        execution = self._client.execution(self._row.execution_id)
        output = self._client.output(execution.id)
        assert output is not None
        return execution, sum(len(chunk.content) for chunk in output.chunks)

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Left]:
    made = Left(tmp_path)
    yield made
    made.close()


def test_output_that_is_whole_is_kept(left: Left) -> None:
    execution, kept_bytes = left.end()

    assert (execution.status, execution.flags) == (Status.SUCCESS, ())
    assert kept_bytes == LINES * len(LINE)


@pytest.mark.failure(16)
def test_output_whose_file_is_missing_is_told_to_be_lost(left: Left) -> None:
    left.spool.unlink()

    execution, kept_bytes = left.end()

    assert (execution.status, execution.flags) == (Status.SUCCESS, (Flag.OUTPUT_LOST,))
    assert kept_bytes == 0


@pytest.mark.failure(16)
def test_output_whose_end_is_missing_is_kept_as_far_as_it_goes(left: Left) -> None:
    content = left.spool.read_bytes()
    left.spool.write_bytes(content[: len(content) // 2])

    execution, kept_bytes = left.end()

    assert (execution.status, execution.flags) == (Status.SUCCESS, (Flag.OUTPUT_LOST,))
    assert 0 < kept_bytes < LINES * len(LINE)


@pytest.mark.failure(16)
def test_output_that_became_zeros_is_told_to_be_lost(left: Left) -> None:
    left.spool.write_bytes(bytes(left.spool.stat().st_size))

    execution, kept_bytes = left.end()

    assert (execution.status, execution.flags) == (Status.SUCCESS, (Flag.OUTPUT_LOST,))
    assert kept_bytes == 0


@pytest.mark.failure(16)
@pytest.mark.parametrize("sector", range(4))
def test_output_of_which_one_sector_is_missing_is_not_shown_as_whole(
    left: Left, sector: int
) -> None:
    content = bytearray(left.spool.read_bytes())
    first = sector * 3 * SECTOR_BYTES
    content[first : first + SECTOR_BYTES] = bytes(SECTOR_BYTES)
    left.spool.write_bytes(content)

    execution, _ = left.end()

    assert (execution.status, execution.flags) == (Status.SUCCESS, (Flag.OUTPUT_LOST,))


@pytest.mark.failure(16)
def test_output_with_a_damaged_length_does_not_keep_its_run_from_ending(left: Left) -> None:
    content = bytearray(left.spool.read_bytes())
    first = content.index(LINE) - struct.calcsize("<BqI")
    struct.pack_into("<BqI", content, first, Stream.STDOUT, 0, 2**31)
    left.spool.write_bytes(content)

    execution, _ = left.end()

    assert (execution.status, execution.flags) == (Status.SUCCESS, (Flag.OUTPUT_LOST,))
