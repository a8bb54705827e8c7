"""The command line, called in this process, with a database of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.cli import run
from tests.support.cli import Edgecron, Said
from tests.support.newdatabases import new_database
from tests.support.story import Story


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a database that does not exist yet; times are UTC."""
    path = tmp_path / "edgecron.db"
    monkeypatch.setenv("EDGECRON_DB", str(path))
    monkeypatch.setenv("TZ", "UTC")
    for variable in ("NO_COLOR", "VISUAL", "EDITOR"):
        monkeypatch.delenv(variable, raising=False)
    return path


@pytest.fixture
def edgecron(database: Path, capsys: pytest.CaptureFixture[str]) -> Edgecron:
    """Run a command line: `edgecron("add", "backup", "--every", "5m", "--", "true")`."""

    def call(*words: str) -> Said:
        capsys.readouterr()
        code = run(words)
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A world with one engine and a clock of its own."""
    return Story(tmp_path / "story.db")


@pytest.fixture
def backup(edgecron: Edgecron, database: Path) -> str:
    """The name of a schedule that prints on both streams and exits with 0."""
    new_database(database)
    said = edgecron("add", "backup", "--every", "1h", "--shell", "echo good; echo bad >&2")
    assert said.code == 0, said.err
    return "backup"
