"""Sizes as people write them: `256KiB`, `1GB`."""

from __future__ import annotations

import re

from edgecron.base.errors import InvalidInput

_SIZE = re.compile(r"(\d{1,15})\s?([A-Za-z]*)", re.ASCII)
_UNITS = {"": 1, "b": 1}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)}
_MOST_BYTES = 2**62


def parse_size(text: str, *, what: str) -> int:
    """Bytes of `256KiB` (1024) or `1GB` (1000), or of a number alone; at least one.

    Raises InvalidInput, naming `what` it is of.
    """
    found = _SIZE.fullmatch(text.strip())
    unit = None if found is None else _UNITS.get(found[2].lower())
    size = 0 if found is None or unit is None else int(found[1]) * unit
    if not 1 <= size <= _MOST_BYTES:
        raise InvalidInput(
            f"{what} is {text[:60]!r}, expected a size of at least one byte",
            hint="write a number and a unit, such as 256KiB, 10MB or 1GB",
        )
    return size
