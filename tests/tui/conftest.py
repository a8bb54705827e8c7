"""The home server that the tests of the dashboard look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scene import Scene, make_scene


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """The scene, in a home folder of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with make_scene(tmp_path / "edgecron.db") as scene:
        yield scene
