"""How near a text is to the letters that somebody has typed for it. Pure."""

from __future__ import annotations

_BEGINS, _BEGINS_A_WORD, _CONTAINS, _IN_ORDER = range(4)
_MOST_SPREAD = 10_000


def rank_of(text: str, letters: str) -> int | None:
    """A rank, the nearer the less; None where the letters are not all there in their order.

    A text that begins with them comes first, then one of which a word does, one that has them
    side by side, and one that has others between them: the fewer, the nearer.
    """
    lower, wanted = text.lower(), letters.lower()
    if lower.startswith(wanted):
        return _BEGINS * _MOST_SPREAD + min(len(lower) - len(wanted), _MOST_SPREAD - 1)
    at = lower.find(wanted)
    while at >= 0:
        if not lower[at - 1].isalnum():
            return _BEGINS_A_WORD * _MOST_SPREAD + min(at, _MOST_SPREAD - 1)
        at = lower.find(wanted, at + 1)
    at = lower.find(wanted)
    if at >= 0:
        return _CONTAINS * _MOST_SPREAD + min(at, _MOST_SPREAD - 1)
    first, end = -1, 0
    for letter in wanted:
        if letter == " ":
            continue
        at = lower.find(letter, end)
        if at < 0:
            return None
        first, end = (at if first < 0 else first), at + 1
    return _IN_ORDER * _MOST_SPREAD + min(end - first, _MOST_SPREAD - 1)
