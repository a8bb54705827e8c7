"""Whether this is the process of one function: it starts no engine of its own."""

from __future__ import annotations

_is_child = False


def begin_child() -> None:
    """Say that it is."""
    global _is_child
    _is_child = True


def is_child() -> bool:
    return _is_child
