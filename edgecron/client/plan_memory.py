"""Recognise a document that changes nothing by a digest, without reading it again.

A file beside the database keeps, for each origin, one digest of a document and of all definitions
in the database. If the digest is the same again, so is the plan. A document whose meaning depends
on the time of day is never remembered.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from edgecron import __version__
from edgecron.base.errors import Unreadable
from edgecron.base.paths import make_folders, state_dir
from edgecron.client.apply_steps import WHOLE

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.formats.document_plan import Step


class PlanMemory:
    """What is remembered of the plan of a document, as the database is now."""

    def __init__(self, client: Client, document: bytes, *, origin: str, is_pruned: bool) -> None:
        self._client = client
        self._is_pruned = is_pruned
        asked = json.dumps([__version__, origin, is_pruned, len(document)]).encode()
        self._asked = sha256(asked + document).digest()
        name = f"applied-{sha256(origin.encode()).hexdigest()[:16]}"
        self._path = state_dir(client.path) / name
        self._digest = self._digest_now()

    def recall(self) -> tuple[int, int] | None:
        """How many schedules stay unchanged, and how many are not in the document.

        None if the plan is unknown: make it.
        """
        if self._client.store.find_pending_apply() is not None:
            return None  # The apply finishes that one first.
        try:
            found, kept, left = json.loads(self._path.read_bytes())
        except (OSError, ValueError, TypeError):
            return None  # Nothing is lost: the document is read instead.
        return (int(kept), int(left)) if found == self._digest is not None else None

    def remember(self, steps: Collection[Step]) -> None:
        """Remember a plan if it changes nothing, has many steps and will be the same later."""
        from edgecron.base.files import write_whole
        from edgecron.formats.document_plan import PRUNABLE, Action

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
            return  # Somebody changed a schedule while the plan was made.
        with suppress(OSError):  # It only saves time.
            make_folders(self._path.parent)
            content = json.dumps([self._digest, len(kept), len(left)]).encode()
            write_whole(self._path, [content], mode=0o600)

    def _digest_now(self) -> str | None:
        """A digest of all that the plan depends on; None if a schedule can't be read."""
        digest = sha256(self._asked)
        with suppress(Unreadable):  # The plan itself reports it.
            for text in self._client.store.definitions():
                digest.update(text.encode())
            return digest.hexdigest()
        return None
