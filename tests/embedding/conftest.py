"""A program's Scheduler, whose engine ends with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron import Scheduler


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(tmp_path / "app.db")
    yield scheduler
    assert scheduler.stop(), "the engine did not end"
