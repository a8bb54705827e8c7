"""--keep-awake: the inhibitor is held while a run wants it and the battery allows it."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.awake import Inhibitor
from edgecron.supervisor.protocol import Flag
from tests.supervisor.supervisor_bench import Bench
from tests.support.clock import FakeClock
from tests.support.fakemachine import FakeMachine
from tests.support.processes import BOUND_S


class Holder:
    """A program in the place of systemd-inhibit, which says when it holds and when it ends."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "inhibit"
        said = folder / "said"
        line = f'echo held >{said}; "$2"; echo released >{said}'
        self.program.write_text(f"#!/bin/sh\n{line}\n")
        self.program.chmod(0o700)
        os.mkfifo(said)
        self._fd = os.open(said, os.O_RDWR | os.O_NONBLOCK)

    def read(self) -> str:
        assert select.select([self._fd], [], [], BOUND_S)[0]
        return os.read(self._fd, 100).decode().strip()

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path / "machine", FakeClock())


def test_it_is_held_from_the_first_run_to_the_end_of_the_last(
    tmp_path: Path, machine: FakeMachine
) -> None:
    holder = Holder(tmp_path)
    inhibitor = Inhibitor(machine.facts(), program=(str(holder.program),))

    inhibitor.look("one")
    inhibitor.look("two")
    first = holder.read()
    ends = [inhibitor.end("one"), bool(inhibitor), inhibitor.end("two"), bool(inhibitor)]
    last = holder.read()
    holder.close()

    assert (first, last) == ("held", "released")
    assert ends == [True, True, True, False]


def test_it_is_released_while_the_battery_is_low_and_the_run_is_flagged(
    tmp_path: Path, machine: FakeMachine
) -> None:
    holder = Holder(tmp_path)
    inhibitor = Inhibitor(machine.facts(), program=(str(holder.program),))
    inhibitor.look("long")
    held = holder.read()

    machine.set_on_mains(False)
    machine.set_supply("BAT0", energy_now="900")
    inhibitor.look()
    released = holder.read()
    machine.set_on_mains(True)
    inhibitor.look()
    again = holder.read()
    was_kept = inhibitor.end("long")
    holder.read()
    holder.close()

    assert (held, released, again) == ("held", "released", "held")
    assert not was_kept


def test_a_machine_without_the_program_can_sleep(machine: FakeMachine) -> None:
    inhibitor = Inhibitor(machine.facts(), program=("no-such-inhibitor",))

    inhibitor.look("run")

    assert not inhibitor.end("run")


@pytest.mark.parametrize("is_there", [True, False])
def test_a_run_is_flagged_if_the_machine_could_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    if is_there:
        program = folder / "systemd-inhibit"
        program.write_text("#!/bin/sh\nexec /bin/cat\n")
        program.chmod(0o700)
    monkeypatch.setenv("PATH", str(folder))
    bench = Bench(tmp_path / "state")
    awake, plain = bench.run("/bin/true", keep_awake=True), bench.run("/bin/true")
    bench.close()

    assert awake.flags == (() if is_there else (Flag.COULD_SLEEP,))
    assert plain.flags == ()


def test_a_function_can_t_be_kept_awake_by_edgecron() -> None:
    job = Job(kind=JobKind.CALLABLE, argv=("report",))

    with pytest.raises(InvalidInput, match="keep_awake is true, but a function runs in its"):
        ScheduleSpec(
            name="x",
            triggers=("@daily",),
            job=job,
            policies=Policies(keep_awake=True),
            queue="py:a",
        )
