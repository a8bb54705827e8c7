"""What functions report while they run, from any thread: their progress, and changes of state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from edgecron.base.errors import Conflict, InvalidInput
from edgecron.model.reports import (
    MOST_ALL_STATE_BYTES,
    MOST_STATE_KEYS,
    Reported,
    check_state_key,
    check_state_value,
    fits_state,
    state_bytes,
)

ReadState = Callable[[int], Mapping[str, str]]  # by the id of a schedule


class ProgressReports:
    """The newest progress of each run, until it is taken.

    `ring` is called when there is some after a time in which nobody reported: who has taken some
    comes back by himself, until there is none. It is called from the thread that reports.
    """

    def __init__(self, *, ring: Callable[[], object]) -> None:
        self._ring = ring
        self._lock = threading.Lock()
        self._newest: dict[str, str | None] = {}  # by token, of what runs
        self._untaken: dict[str, Reported] = {}
        self._is_awaited = False  # somebody comes for what is reported next

    def open(self, token: str) -> None:
        """Take reports of a run from now on."""
        with self._lock:
            self._newest[token] = None

    def put(self, reported: Reported) -> None:
        """Report; nothing where it is what was reported last, or the run has ended."""
        token = reported.lease_token
        with self._lock:
            if token not in self._newest or self._newest[token] == reported.progress:
                return
            self._newest[token] = reported.progress
            self._untaken[token] = reported
            must_ring, self._is_awaited = not self._is_awaited, True
        if must_ring:
            self._ring()

    def take(self) -> list[Reported]:
        """What was reported since the last time, the newest of each run."""
        with self._lock:
            taken = list(self._untaken.values())
            self._untaken.clear()
            self._is_awaited = bool(taken)
        return taken

    def close(self, token: str) -> str | None:
        """Take no more reports of a run, which has ended; its newest, taken or not."""
        with self._lock:
            self._untaken.pop(token, None)
            return self._newest.pop(token, None)


class StateChanges:
    """The state of the schedule of a run, as the run sees it, and how the run has changed it.

    Texts of JSON by key. `read` is asked once, when that is first needed.
    """

    def __init__(self, schedule_id: int, read: ReadState) -> None:
        self._schedule_id = schedule_id
        self._read = read
        self._lock = threading.Lock()
        self._values: dict[str, str] | None = None
        self._changes: dict[str, str | None] = {}
        self._is_closed = False

    def values(self) -> dict[str, str]:
        """What there is now, the run's own changes included."""
        with self._lock:
            return dict(self._now())

    def set(self, key: str, value: str) -> None:
        """Change a value, or make one. Raises InvalidInput, and Conflict once the run has ended."""
        check_state_key(key)
        check_state_value(key, value)
        with self._lock:
            self._need_open()
            values = self._now()
            if key not in values and len(values) >= MOST_STATE_KEYS:
                raise InvalidInput(
                    f"the state has {len(values)} keys, expected at most {MOST_STATE_KEYS}",
                    hint="delete what is not needed any more, or keep it elsewhere",
                )
            changed = values | {key: value}
            if not fits_state(values, changed):
                raise InvalidInput(
                    f"the state would have {state_bytes(changed)} bytes,"
                    f" expected at most {MOST_ALL_STATE_BYTES}",
                    hint="keep what is large in a file, and its name in the state",
                )
            values[key] = self._changes[key] = value

    def delete(self, key: str) -> None:
        """Remove a value, where there is one. Raises as `set` does."""
        check_state_key(key)
        with self._lock:
            self._need_open()
            self._now().pop(key, None)
            self._changes[key] = None

    def close(self) -> dict[str, str | None] | None:
        """Take no more changes; those that there were, None where there was none."""
        with self._lock:
            self._is_closed = True
            return self._changes or None

    def _now(self) -> dict[str, str]:
        if self._values is None:
            self._values = dict(self._read(self._schedule_id))
        return self._values

    def _need_open(self) -> None:
        if self._is_closed:
            raise Conflict("the run has ended, and the state with it")
