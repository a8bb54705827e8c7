"""How an hour is shaded by how busy it is. Pure; what is counted is `edgecron.busy`'s."""

from __future__ import annotations

from math import ceil, log1p

SHADES = 4  # from 1 on; 0 is an hour without any


def shade(count: int, most: int) -> int:
    """From 0, nothing at all, to 4, for an hour whose busiest like has `most`.

    By magnitude: one run beside a thousand is to be seen, and hundreds are not all the same.
    """
    if count <= 0 or most <= 0:
        return 0
    return min(ceil(SHADES * log1p(count) / log1p(most)), SHADES)
