"""What screens show, as text in files: `screens/NAME.txt`.

They are written anew where TESTS_WRITE_SCREENS is set; the change is then to be looked at.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_SIZE = re.compile(r"7\d\d KiB")
_FOLDER = Path(__file__).parent / "screens"


def check_screen(lines: list[str], name: str) -> None:
    """Fail where a screen does not show what its file has."""
    path = _FOLDER / f"{name}.txt"
    # How large a database is depends on its schema, too.
    text = _SIZE.sub("700 KiB", "\n".join(lines) + "\n")
    if os.environ.get("TESTS_WRITE_SCREENS"):
        _FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()
