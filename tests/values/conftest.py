"""Configuration files of a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Files that are not there yet, and no variable that is set."""
    return Settings(tmp_path, monkeypatch)
