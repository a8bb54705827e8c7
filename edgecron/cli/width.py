"""How wide the terminal is. `shutil` knows too, and costs a start three compression libraries."""

from __future__ import annotations

import os
import sys


def terminal_columns(*, otherwise: int) -> int:
    """COLUMNS, else the width of the terminal that stdout is, else what is given."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told) > 0:
        return int(told)
    try:
        # The original one, as `shutil.get_terminal_size` has it: ours may be redirected.
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or otherwise  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return otherwise
