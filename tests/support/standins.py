"""Programs that stand in for those of a system."""

from __future__ import annotations

from pathlib import Path


def found(name: str) -> str:
    """Where a program is on a system that has every one: what `shutil.which` would say there."""
    return f"/usr/bin/{name}"


def script(folder: Path, text: str, *, name: str = "program") -> str:
    """The path of a program in a folder, which does what a text of a shell's says."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o700)
    return str(path)
