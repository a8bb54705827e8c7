"""How an hour is shaded by how busy it is. Pure; what is counted is `edgecron.views.busy`'s."""

from __future__ import annotations

from math import ceil, log1p

SHADES = 4  # from 1 on; 0 is an hour without any
_WIDE = 8  # times the quietest hour: from there on magnitudes are told apart, and not amounts


def shade(count: int, least: int, most: int) -> int:
    """From 0, nothing at all, to 4, where the quietest hour of a week that has any has `least`,
    and its busiest `most`.

    Where they are close, the shades part the amounts between them. Else they go by magnitude: one
    run beside a thousand is to be seen, and hundreds are not all the same.
    """
    if count <= 0 or most <= 0:
        return 0
    if most <= least:
        return SHADES // 2  # every hour is like the others
    if most < _WIDE * least:
        # An hour of which a part is over may have less than the least.
        return min(1 + SHADES * max(count - least, 0) // (most - least), SHADES)
    return min(ceil(SHADES * log1p(count) / log1p(most)), SHADES)
