"""The disk refuses the Nth operation on the file that takes a run's longer output.

The supervisor goes on, whatever of it is refused: others run under it. What could not be kept is
told to be lost, and what is shown as whole is so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.model.run import Stream
from edgecron.supervisor.output import OutputKeeper, load_output
from tests.powerloss.faults import Duration, Faults, Op, Trouble
from tests.powerloss.recorder import recording
from tests.support.clock import FakeClock

LINE = b"x" * 699 + b"\n"
LINES = 60  # more than memory holds
CAP_BYTES = 30_000  # so that the tail is written over, too
MOST = 100


def keep(folder: Path, faults: Faults) -> int:
    """Keep what a run prints; how often the disk refused."""
    folder.mkdir()
    with recording(FakeClock(), folder, faults=faults):
        faults.arm()
        keeper = OutputKeeper(cap_bytes=CAP_BYTES, spool=folder / "run-token.out")
        for number in range(LINES):
            keeper.add(Stream.STDOUT, number * 10_000, b"%04d" % number + LINE[4:])
        told = keeper.finish()
        faults.heal()
    output, is_whole = load_output(told, folder)
    shown = b"".join(chunk.content for chunk in output.chunks)
    printed = b"".join(b"%04d" % number + LINE[4:] for number in range(LINES))
    if is_whole and not keeper.is_lost:
        kept = printed[: CAP_BYTES // 2] + printed[-CAP_BYTES // 2 :]
        assert shown == kept
    assert output.stdout_bytes == len(printed)
    assert output.dropped_bytes == len(printed) - len(shown)
    return faults.met


@pytest.mark.failure(47)
@pytest.mark.failure(51)
@pytest.mark.parametrize("op", [Op.OPEN, Op.WRITE])
@pytest.mark.parametrize("trouble", Trouble)
@pytest.mark.parametrize("duration", Duration)
def test_a_spool_that_can_not_be_written_costs_its_output_and_nothing_else(
    tmp_path: Path, op: Op, trouble: Trouble, duration: Duration
) -> None:
    met = 0

    for nth in range(1, MOST):
        refusing = Faults(trouble=trouble, op=op, nth=nth, duration=duration, names=(".out",))
        now_met = keep(tmp_path / str(nth), refusing)
        met += now_met
        if not now_met:
            break

    assert met > 0
