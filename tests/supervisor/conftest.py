"""A supervisor with its engine, and a bell, for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from supervisor_bench import Bell, Bench, Gate


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "state")
    yield made
    made.close()


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Bell]:
    made = Bell(tmp_path / "bell")
    yield made
    made.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()
