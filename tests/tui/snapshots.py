"""What screens show, as text in files: `screens/NAME.txt`.

They are written anew where TESTS_WRITE_SCREENS is set; the change is then to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "screens"


def check_screen(lines: list[str], name: str) -> None:
    """Fail where a screen does not show what its file has."""
    path = _FOLDER / f"{name}.txt"
    text = "\n".join(lines) + "\n"
    if os.environ.get("TESTS_WRITE_SCREENS"):
        _FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()
