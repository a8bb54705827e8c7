"""A place with real engines, for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.engines import Place
from tests.support.story import Story


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "story.db")
