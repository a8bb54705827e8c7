"""Queues: who runs what is in one, by its name. Pure.

What anybody may run is in the queue `command`, the functions of a program are in `py:` and its
name, and those that its code declares no more beside that, where no engine looks.
"""

from __future__ import annotations

PROGRAM = "py:"  # begins the queue of a program; its name follows
VANISHED = ":vanished"  # ends the queue of what its program declares no more
VANISHED_GLOB = f"{PROGRAM}*{VANISHED}"  # has_vanished, as SQLite asks it


def find_program(queue: str) -> str | None:
    """The name of the program whose queue it is, or was; None where it is no program's."""
    return queue.removeprefix(PROGRAM).removesuffix(VANISHED) if queue.startswith(PROGRAM) else None


def has_vanished(queue: str) -> bool:
    """Whether what is in a queue is run by nobody: its program declares it no more."""
    return queue.startswith(PROGRAM) and queue.endswith(VANISHED)
