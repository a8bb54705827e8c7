"""A program's Scheduler, whose engine ends with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron import Scheduler
from tests.support.newdatabases import new_database


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(new_database(tmp_path / "app.db"))
    yield scheduler
    assert scheduler.stop(), "the engine did not end"
