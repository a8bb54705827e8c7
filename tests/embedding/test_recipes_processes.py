"""Programs whose children have an engine each, however multiprocessing starts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.model.choices import Status
from tests.support.servers import Plant

MANY = 12


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with ExitStack() as stack:
        yield Plant(tmp_path, stack)


@pytest.mark.failure(56)
@pytest.mark.failure(80)
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_of_multiprocessing_have_engines_and_end_them(plant: Plant, method: str) -> None:
    program = plant.start("-W", "ignore::DeprecationWarning", "children.py", method)
    engines = plant.wait_engines(4)

    plant.fires.wait_for(MANY, "brisk")
    for _ in range(3):
        plant.let_go()
    code = program.wait_end()

    assert code == 0, program.said
    assert {one.pid for one in plant.fires.all()} <= engines
    assert plant.engines() == set()
    assert [one for one in plant.runs() if one.status is Status.INTERRUPTED] == []
    plant.check_one_fire_each()


def test_a_plain_program_in_the_foreground_ends_on_term_with_what_runs(plant: Plant) -> None:
    program = plant.start("worker.py")
    plant.fires.wait_for(MANY, "brisk")

    code = program.stop()

    assert (code, plant.engines()) == (0, set())
    plant.check_one_fire_each()
