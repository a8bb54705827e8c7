"""Queues: who runs what is in one, by its name; and what an engine of a program offers. Pure.

What anybody may run is in the queue `command`, the functions of a program are in `py:` and its
name. Of a program there may be several versions at work: each of its engines offers what its code
declares, and takes nothing else of that queue.
"""

from __future__ import annotations

from collections.abc import Collection, Set

PROGRAM = "py:"  # begins the queue of a program; its name follows
FUNCTION = "callable"  # the kind of a job that is called by its own name

Offers = Set[str]  # jobs, as `offer_of` has them


def find_program(queue: str) -> str | None:
    """The name of the program whose queue it is; None where it is no program's."""
    return queue.removeprefix(PROGRAM) if queue.startswith(PROGRAM) else None


def origin_of(program: str) -> str:
    """Whose a schedule is that a program has declared, in words."""
    return f"program {program}"


def offer_of(kind: str, job: str, *, schedule: str) -> str:
    """What an engine has to offer to run a job of this kind: a function is known by its own name,
    and what runs in a process of its own by that of its schedule, whatever its command is."""
    return f"{kind} {job if kind == FUNCTION else schedule}"


def is_taken(
    offer: str, queue: str, *, queues: Collection[str], offers: Collection[str] | None
) -> bool:
    """Whether an engine of these queues takes a job of a queue: with `offers`, of a program's only
    what is among them."""
    return queue in queues and (offers is None or find_program(queue) is None or offer in offers)
