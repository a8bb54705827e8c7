"""How to add an extra to an installation, by what its installer left."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from edgecron.base.bundle import hint_for_extra

CLONE = {"url": "file:///home/ada/my%20clone", "dir_info": {}}


@pytest.mark.parametrize(
    ("origin", "note", "hint"),
    [
        (None, None, "{pip} install 'edgecron[http]'"),
        (CLONE, None, "{pip} install '/home/ada/my clone[http]'"),
        (
            CLONE | {"dir_info": {"editable": True}},
            None,
            "{pip} install -e '/home/ada/my clone[http]'",
        ),
        (CLONE, "pipx_metadata.json", "pipx install --force '/home/ada/my clone[http]'"),
        (None, "uv-receipt.toml", "uv tool install 'edgecron[http]'"),
    ],
)
def test_an_extra_comes_from_where_edgecron_came(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    origin: dict[str, object] | None,
    note: str | None,
    hint: str,
) -> None:
    info = tmp_path / "edgecron-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: edgecron\nVersion: 0.1.0\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))
    if note is not None:
        (tmp_path / note).touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))

    assert hint_for_extra("http") == hint.format(pip=tmp_path / "bin" / "pip")
