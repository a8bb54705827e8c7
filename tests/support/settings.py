"""Configuration files in a folder of a test's own, in the places of the real ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgecron.formats import config_files as files


class Settings:
    """A user's file, named by EDGECRON_CONFIG once it is written, and the system's file."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.user_path = folder / "user.toml"
        self.system_path = folder / "system.toml"
        self._monkeypatch = monkeypatch
        for name in [name for name in os.environ if name.startswith("EDGECRON_")]:
            if name != "EDGECRON_DB":
                monkeypatch.delenv(name)
        monkeypatch.setattr("edgecron.formats.config.system_config_path", lambda: self.system_path)
        monkeypatch.setattr("edgecron.formats.config.user_config_path", lambda named, environ: (
            Path(named) if named else self.user_path
        ))  # fmt: skip

    def write_user(self, text: str) -> Path:
        return _write(self.user_path, text)

    def write_system(self, text: str) -> Path:
        """Write the system's file; whoever runs the tests counts as root here."""
        self._monkeypatch.setattr(files, "ROOT_UID", os.geteuid())
        return _write(self.system_path, text)

    def set(self, name: str, value: str) -> None:
        self._monkeypatch.setenv(name, value)


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return path
