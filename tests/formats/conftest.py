"""Crontabs read as a test user, and configuration files of a test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgecron.formats.crontab import read_crontab
from edgecron.formats.crontab_lines import Crontab
from tests.support.settings import Settings

USERS = frozenset({"root", "alice", "bob", "www-data"})


@pytest.fixture
def read() -> Callable[..., Crontab]:
    """Read as alice, in the user format, unless told otherwise."""

    def read_as(
        content: bytes | str,
        *,
        system: bool | None = False,
        importer: str = "alice",
        owner: str | None = None,
    ) -> Crontab:
        return read_crontab(
            content,
            system=system,
            importer=importer,
            is_root=importer == "root",
            user_exists=USERS.__contains__,
            owner=owner,
        )

    return read_as


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Configuration files that are not there yet, and no variable that is set."""
    return Settings(tmp_path, monkeypatch)
