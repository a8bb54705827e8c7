"""Stored values that make no sense: what is said of them, so that the others go on."""

from __future__ import annotations

from edgecron.base.checks import check_name
from edgecron.base.errors import EdgecronError, InvalidInput, Unreadable
from edgecron.store.translating import RESTORE

_MOST_SHOWN = 200


def unreadable(what: str, error: BaseException, *, name: object = None) -> Unreadable:
    """The error for stored values of this; of a schedule, where its `name` is known."""
    if isinstance(error, Unreadable) and error.__cause__ is not None:
        error = error.__cause__  # It names the value; its message names only the database.
    reason = error.message if isinstance(error, EdgecronError) else repr(error)
    if len(reason) > _MOST_SHOWN:
        reason = f"{reason[:_MOST_SHOWN]}..."
    hint = RESTORE
    if isinstance(name, str):
        what = f"{what} {name[:60]!r}"
        if _is_name(name):
            hint = f"edgecron rm {name} removes it; {RESTORE}"
    return Unreadable(f"what is stored of {what} can't be read: {reason}", hint=hint)


def texts_of(stored: object) -> tuple[str, ...]:
    """A JSON array of texts. Raises TypeError for anything else."""
    if not isinstance(stored, list) or not {*map(type, stored)} <= {str}:
        raise TypeError("expected an array of texts")
    return tuple(stored)


def _is_name(text: str) -> bool:
    try:
        check_name(text, what="schedule name")
    except InvalidInput:
        return False
    return True
