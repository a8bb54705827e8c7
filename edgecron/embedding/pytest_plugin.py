"""Fixtures of pytest for programs that embed a Scheduler: `scheduler` and `travel`.

pytest loads this module in every project of an environment that has edgecron. So edgecron itself is
imported only if a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from edgecron.embedding.scheduler import Scheduler
    from edgecron.embedding.testing import Journey


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    """A Scheduler of its own for each test, not started: `with scheduler:` starts its engine.

    To test the Scheduler of your program, return it from a fixture of the same name.
    """
    from edgecron.embedding.scheduler import Scheduler  # 80 ms, for tests that need it

    made = Scheduler(tmp_path / "edgecron.db")
    yield made
    made.stop()


@pytest.fixture
def travel(scheduler: Scheduler) -> Iterator[Journey]:
    """The time of `scheduler`, which only the test moves: `travel.advance(hours=1)`.

    Due jobs run in the test's thread, in a database of their own: see `edgecron help testing`.
    """
    from edgecron.embedding.testing import travel as begin  # 200 ms, for tests that need it

    with begin(scheduler) as journey:
        yield journey
