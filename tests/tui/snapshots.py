"""What screens show, as text in files: `screens/NAME.txt`.

They are written anew where TESTS_WRITE_SCREENS is set; the change is then to be looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

from tests.tui.pilot import Seen

_SIZE = re.compile(r"7\d\d KiB")
_FOLDER = Path(__file__).parent / "screens"


async def check_sizes(
    seen: Seen,
    name: str,
    *sizes: tuple[int, int],
    lines: Callable[[Seen], list[str]] = Seen.lines,
) -> None:
    """Compare what is shown at each size, as `NAME-COLUMNSxROWS`; the first is the present one."""
    assert seen.app.size == sizes[0]
    for columns, rows in sizes:
        await seen.resize((columns, rows))
        check_screen(lines(seen), f"{name}-{columns}x{rows}")


def check_screen(lines: list[str], name: str) -> None:
    """Fail where a screen does not show what its file has."""
    path = _FOLDER / f"{name}.txt"
    # How large a database is depends on its schema, too.
    text = _SIZE.sub("700 KiB", "\n".join(lines) + "\n")
    if os.environ.get("TESTS_WRITE_SCREENS"):
        _FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    drawn = path.read_text(encoding="utf-8").splitlines()
    change = "\n".join(unified_diff(drawn, text.splitlines(), "drawn", "shown", n=1, lineterm=""))
    assert not change, f"{name}:\n{change}"
