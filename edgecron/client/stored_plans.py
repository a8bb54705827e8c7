"""Store the plan of a large apply until it is carried out.

A large apply is carried out in slices, so that no fire waits long for the lock, and still all or
nothing. Everything is checked before anything is written. One small transaction then decides the
apply: it stores the wanted steps in `pending_apply`. After it, slices of a few milliseconds carry
the steps out, and the last one removes the row. If the process dies, the next apply or daemon
finishes. A change that a person makes between the decision and its slice is overwritten, as if it
had come before the apply.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import Conflict
from edgecron.base.paths import state_dir
from edgecron.base.values import replace
from edgecron.formats.document_plan import Action, Step, compare_one
from edgecron.formats.document_tables import read_table
from edgecron.formats.document_writing import spec_table

if TYPE_CHECKING:
    from pathlib import Path

    from edgecron.model.schedule import Schedule


Finder = Callable[[str], "Schedule | None"]

WHOLE = 50  # steps that one transaction takes without delaying anybody
SLICE_MS = 15  # that a slice should take; the next one is made smaller or larger
FIRST_STEPS, MOST_STEPS = 16, 500  # of a slice
_LOCK = "apply.lock"


def next_size(size: int, *, took_ms: int) -> int:
    """How many steps the next slice has, by how long one of `size` took."""
    if took_ms > SLICE_MS:
        return max(1, size * SLICE_MS // (2 * took_ms))
    return min(MOST_STEPS, size * 2) if took_ms <= SLICE_MS // 2 else size


def steps_to_json(steps: Sequence[Step]) -> str:
    """What steps want, without what was read of the schedules that they are for."""
    return json.dumps(
        [
            {"name": step.name}
            if step.wanted is None
            else {
                "name": step.name,
                "to": step.wanted.spec.name,
                "table": spec_table(step.wanted.spec),
                "enabled": step.wanted.enabled,
                "limit": step.wanted.limit,
            }
            for step in steps
        ],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def step_of(stored: dict[str, Any], find: Finder) -> Step:
    """A stored step, on the schedule as it is now."""
    name = stored["name"]
    if "table" not in stored:
        schedule = find(name)
        action = Action.REMOVE if schedule is not None else Action.KEEP
        return Step(action=action, name=name, schedule=schedule)
    wanted, problems = read_table(stored["to"], stored["table"], is_portable=True)
    if wanted is None:
        raise Conflict(f"schedule {name!r} of an apply can't be read: {problems[0].message}")
    limit = stored["limit"]
    wanted = replace(
        wanted, enabled=stored["enabled"], limit=None if limit is None else tuple(limit)
    )
    return compare_one(wanted, find(stored["to"]) or find(name))


@contextmanager
def apply_lock(database: Path) -> Iterator[bool]:
    """Hold the lock of those who apply in slices; False if a living process holds it."""
    folder = state_dir(database)
    folder.mkdir(mode=0o700, exist_ok=True)
    lock_fd = os.open(
        folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode=0o600
    )
    try:
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(lock_fd)
