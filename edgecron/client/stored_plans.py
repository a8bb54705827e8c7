"""Store the plan of a large apply until it is written; recognise a document without changes.

edgecron writes a large apply in slices: no fire waits long for the lock, and the apply is still
all or nothing. In one transaction, 10,000 schedules made a due run 1.3 s late.

1. Everything is checked before anything is written.
2. One small transaction decides the apply: it stores the steps in `pending_apply`.
3. Slices of a few milliseconds write the schedules. The last one removes the stored steps.

If the process dies, the next apply or daemon finishes the steps. They overwrite a change that a
person made after the decision.

`PlanMemory` keeps one digest per origin in a file beside the database: of a document that changed
nothing, and of all definitions. If the digest is the same again, so is the plan: an unchanged
document of 10,000 schedules takes 0.1 s instead of 4 s. A document whose meaning depends on the
time of day is never remembered.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from edgecron import __version__
from edgecron.base.errors import Conflict, Unreadable
from edgecron.base.paths import make_folders, state_dir
from edgecron.base.values import replace, sha256
from edgecron.formats.document_schedule import read_table
from edgecron.formats.document_tables import PRUNABLE, Action, Step, compare_one, spec_table

if TYPE_CHECKING:
    from pathlib import Path

    from edgecron.client import Client
    from edgecron.model.schedule import Schedule


Finder = Callable[[str], "Schedule | None"]

WHOLE = 50  # steps that fit into one transaction without a delay for others
SLICE_MS = 15  # the aim for a slice; a slower one makes the next one smaller
FIRST_STEPS, MOST_STEPS = 16, 500  # of a slice
_LOCK = "apply.lock"


def next_size(size: int, *, took_ms: int) -> int:
    """Return the number of steps of the next slice, after one of `size` steps took `took_ms`."""
    if took_ms > SLICE_MS:
        return max(1, size * SLICE_MS // (2 * took_ms))
    return min(MOST_STEPS, size * 2) if took_ms <= SLICE_MS // 2 else size


def steps_to_json(steps: Sequence[Step]) -> str:
    """Return the changes of steps as JSON, without the schedules that they were compared with."""
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
    """Read a stored step, and compare it with the schedule as it is now."""
    name = stored["name"]
    if "table" not in stored:
        schedule = find(name)
        action = Action.REMOVE if schedule is not None else Action.KEEP
        return Step(action=action, name=name, schedule=schedule)
    wanted, problems = read_table(stored["to"], stored["table"], is_portable=True)
    if wanted is None:
        raise Conflict(
            f"schedule {name!r} of an apply can't be read: {problems[0].message}",
            hint="apply the file again: edgecron apply FILE",
        )
    limit = stored["limit"]
    wanted = replace(
        wanted, enabled=stored["enabled"], limit=None if limit is None else tuple(limit)
    )
    return compare_one(wanted, find(stored["to"]) or find(name))


@contextmanager
def apply_lock(database: Path) -> Iterator[bool]:
    """Hold the lock of sliced applies; yield False if another process holds it."""
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


class PlanMemory:
    """Remember the plan of a document that changes nothing in the database as it is now."""

    def __init__(self, client: Client, document: bytes, *, origin: str, is_pruned: bool) -> None:
        self._client = client
        self._is_pruned = is_pruned
        asked = json.dumps([__version__, origin, is_pruned, len(document)]).encode()
        self._asked = sha256(asked + document).digest()
        name = f"applied-{sha256(origin.encode()).hexdigest()[:16]}"
        self._path = client.state_dir / name
        self._digest = self._digest_now()

    def recall(self) -> tuple[int, int] | None:
        """Return how many schedules stay unchanged, and how many are not in the document.

        None if the plan must be made.
        """
        if self._client.store.find_pending_apply() is not None:
            return None  # The apply finishes the pending one first.
        try:
            found, kept, left = json.loads(self._path.read_bytes())
        except (OSError, ValueError, TypeError):
            return None  # Without the file, the plan is made from the document.
        return (int(kept), int(left)) if found == self._digest is not None else None

    def remember(self, steps: Collection[Step]) -> None:
        """Remember a plan if it changes nothing, has many steps and will be the same later."""
        from edgecron.base.files import write_whole

        kept = [step.wanted for step in steps if step.action is Action.KEEP]
        left = [step for step in steps if step.action is Action.LEAVE and step.note != PRUNABLE]
        is_quiet = len(kept) + len(left) == len(steps) and not (left and self._is_pruned)
        if not is_quiet or len(kept) <= WHOLE:
            return
        for wanted in kept:
            if wanted is None or wanted.spec.from_at or wanted.spec.until_at:
                return
            if any(text.startswith("at ") or " from " in text for text in wanted.spec.triggers):
                return
        if self._digest is None or self._digest != self._digest_now():
            return  # A schedule changed while the plan was made.
        with suppress(OSError):  # It only saves time.
            make_folders(self._path.parent)
            content = json.dumps([self._digest, len(kept), len(left)]).encode()
            write_whole(self._path, [content], mode=0o600)

    def _digest_now(self) -> str | None:
        """Return a digest of everything the plan depends on; None if a schedule can't be read."""
        digest = sha256(self._asked)
        with suppress(Unreadable):  # The plan itself reports it.
            for text in self._client.store.definition_texts():
                digest.update(text.encode())
            return digest.hexdigest()
        return None
