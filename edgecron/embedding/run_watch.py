"""Watch the runs of a database: what other engines start and end, for subscribers of events.

A thread sleeps until a process writes to the database. It then compares the active runs with those
that it knew: a run that has become active was started, and a run that no longer is has ended. The
engine of this process reports its own runs sooner, and each event is passed on once.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from enum import Flag
from typing import TYPE_CHECKING

from edgecron.base.errors import DatabaseGone, EdgecronError
from edgecron.base.paths import ServerUrl
from edgecron.base.units import to_ms
from edgecron.embedding.concurrency import engine_logger, wait_for_rest
from edgecron.embedding.events import Kind, Origin, PendingEvent
from edgecron.engine.events import Event, EventKind
from edgecron.engine.sleep import SAFETY_MS, WriteWatch, watch_writes
from edgecron.model.choices import ACTIVE, Status

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.client import Client
    from edgecron.model.run import Execution
    from edgecron.store.sql.history import ActiveIds

_PAGE = 1_000
# A write to the log comes before its commit can be seen: look a few times.
_LOOKS_MS = (20, 100, 500, 2_000)
_PACE = 4  # rest for this many times as long as a look took
_BLIND_MS = 500  # between two looks if the system does not report writes
_AFTER_ERROR_MS = 5_000


_EVENT_KINDS: Mapping[Kind, EventKind] = {
    "started": EventKind.STARTED,
    "finished": EventKind.ENDED,
    "skipped": EventKind.SKIPPED,
    "owed": EventKind.QUEUED,
}


class _Told(Flag):
    NOTHING = 0
    OWED = 1
    STARTED = 2


def _watch_writes(client: Client) -> WriteWatch:
    # To subscribe makes no database: opening the store would.
    store = client.store if isinstance(client.location, ServerUrl) else None
    return watch_writes(client.location, store)


class RunWatch:
    """Calls `deliver` with each event of a run once, in order per run.

    `lend` lends a Client to the calling thread, `open_client` makes one for the watch's own thread.
    `is_needed` reports whether there are subscribers: if not, the thread ends.
    """

    def __init__(
        self,
        *,
        lend: Callable[[], AbstractContextManager[Client]],
        open_client: Callable[[], Client],
        deliver: Callable[[PendingEvent], None],
        is_needed: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._lend = lend
        self._open_client = open_client
        self._deliver = deliver
        self._is_needed = is_needed
        self._clock = clock
        self._begin()

    def _begin(self) -> None:
        self.awake = threading.RLock()  # held by the thread, except while it sleeps
        self._looking = threading.Lock()  # held during a look
        # Guards the rest. A stream that is collected while a thread holds it rings our bell.
        self._lock = threading.RLock()
        self._top: int | None = None  # the newest run at the last look; None before the first one
        self._told: dict[int, _Told] = {}  # by active run
        self._ended: set[int] = set()  # runs whose end was told since the last look
        self._thread: threading.Thread | None = None
        self._bell: tuple[int, int] | None = None  # a pipe, as long as the thread lives

    def reset_in_child(self) -> None:
        """Begin again without a thread, in a forked child."""
        self._close_bell()
        self._begin()

    def look_now(self) -> None:
        """Deliver what happened up to now. The first time, only note which runs are active."""
        with self._lend() as client:
            if client.is_there():
                self._look(client)
            elif self._top is None:
                self._top = 0

    def start(self) -> None:
        """Start the thread, if it is needed and does not run yet."""
        with self._lock:
            if self._thread is not None or not self._is_needed():
                return
            self._bell = os.pipe()
            for fd in self._bell:
                os.set_blocking(fd, False)
            # Daemon: it only reads, so the end of the interpreter can cut it short.
            self._thread = threading.Thread(target=self._run, name="edgecron-watch", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Let the thread look now, or end without subscribers. Never waits."""
        with self._lock:
            self._ring()

    def stop(self, *, wait_s: float) -> None:
        """Wait up to `wait_s` for the thread, which is not needed any more."""
        thread = self._thread
        self.wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(wait_s)

    def note(self, pending: PendingEvent) -> None:
        """Pass on an event that the engine of this process reports, unless subscribers have it."""
        run_id = pending.event.execution_id
        if run_id is None:
            return
        with self._lock:
            if self._top is None or self._is_news(pending, run_id):
                self._deliver(pending)

    def _is_news(self, pending: PendingEvent, run_id: int) -> bool:
        told = self._told.get(run_id, _Told.NOTHING)
        if pending.event.kind is EventKind.SKIPPED:
            self._told.pop(run_id, None)
            self._ended.add(run_id)
            return True  # A range of skipped fires can grow.
        if run_id in self._ended:
            return False
        if pending.kind in ("finished", "skipped"):
            if pending.event.kind is EventKind.ENDED and _Told.STARTED not in told:
                self._ring()  # Another engine started it: the database has both events.
                return False
            self._told.pop(run_id, None)
            self._ended.add(run_id)
            return True
        step = _Told.OWED if pending.kind == "owed" else _Told.STARTED
        self._told[run_id] = told | step
        return step not in told

    def _look(self, client: Client) -> None:
        with self._looking:
            store = client.store
            active = store.find_active_ids()
            with self._lock:
                if self._top is None:
                    self._note_first(active)
                    return
                after, changed = self._top, self._find_changed(active)
            rows = store.find_runs_by_id(changed)
            missing = set(changed) - {one.id for one in rows}
            ended_ids = [after]
            while ended_ids:
                self._merge(rows)
                ended_ids = store.find_ended_ids(
                    after_id=ended_ids[-1], until_id=active.top, limit=_PAGE
                )
                rows = store.find_runs_by_id(ended_ids)
            self._note_looked(active, missing=missing)

    def _note_first(self, active: ActiveIds) -> None:
        self._top = active.top
        self._ended.clear()
        self._told = dict.fromkeys(active.queued, _Told.NOTHING)
        self._told |= dict.fromkeys(active.owed, _Told.OWED)
        self._told |= dict.fromkeys(active.running, _Told.OWED | _Told.STARTED)

    def _find_changed(self, active: ActiveIds) -> list[int]:
        """Return the runs to read again: those whose state seems to have changed."""

        def lacking(ids: frozenset[int], step: _Told) -> set[int]:
            return {
                one
                for one in ids
                if one <= active.top and step not in self._told.get(one, _Told.NOTHING)
            }

        gone = self._told.keys() - active.queued - active.running
        begun = lacking(active.running, _Told.STARTED) | lacking(active.owed, _Told.OWED)
        return sorted(gone | (begun - self._ended))

    def _merge(self, rows: list[Execution]) -> None:
        with self._lock:
            for row in sorted(rows, key=lambda one: one.id):
                if row.id not in self._ended:
                    self._tell(row)

    def _tell(self, row: Execution) -> None:
        told = self._told.get(row.id, _Told.NOTHING)
        if row.status is Status.QUEUED:
            if row.waiting_for is not None and _Told.OWED not in told:
                self._deliver(_pending(row, "owed"))
                self._told[row.id] = told | _Told.OWED
            return
        if row.claimed_at is not None and _Told.STARTED not in told:
            self._deliver(_pending(row, "started"))
            self._told[row.id] = told | _Told.STARTED
        if row.status not in ACTIVE:
            self._deliver(_pending(row, "skipped" if row.status is Status.SKIPPED else "finished"))
            self._told.pop(row.id, None)
            self._ended.add(row.id)

    def _note_looked(self, active: ActiveIds, *, missing: set[int]) -> None:
        with self._lock:
            now_active = active.queued | active.running
            for run_id in missing - now_active:
                self._told.pop(run_id, None)  # Retention removed it.
            new = now_active - self._told.keys() - self._ended
            self._told |= {run_id: _Told.NOTHING for run_id in new if run_id <= active.top}
            self._top = active.top
            self._ended = {one for one in self._ended if one > active.top or one in now_active}

    # The thread.

    def _run(self) -> None:
        wait_for_rest(self)
        with self.awake:
            while self._goes_on():
                try:
                    with (
                        closing(self._open_client()) as client,
                        closing(_watch_writes(client)) as writes,
                    ):
                        self._follow(client, writes)
                except EdgecronError as error:
                    engine_logger().warning("events of other engines are late: %s", error)
                    if isinstance(error, DatabaseGone):
                        with self._lock:
                            self._top = None  # Another database has other runs.
                    self._sleep(_AFTER_ERROR_MS)

    def _follow(self, client: Client, writes: WriteWatch) -> None:
        mark: int | None = None
        looks = iter(_LOOKS_MS)
        while self._goes_on():
            found = client.change_mark() if client.is_there() else None
            if found != mark:
                began_ms = self._clock.monotonic_ms()
                self._look(client)
                mark, looks = found, iter(_LOOKS_MS)
                self._sleep(_PACE * (self._clock.monotonic_ms() - began_ms))
            hints = writes.arm()
            if writes.take_news():
                continue
            most_ms = SAFETY_MS if hints else _BLIND_MS
            if self._sleep(min(next(looks, most_ms), most_ms), hints):
                writes.clear()
                looks = iter(_LOOKS_MS)
                self._sleep(next(looks))

    def _goes_on(self) -> bool:
        """Report whether the thread is needed; if not, it ends."""
        with self._lock:
            if self._is_needed():
                return True
            self._thread = None
            self._close_bell()
            return False

    def _sleep(self, ms: int, hints: Sequence[int] = ()) -> bool:
        """Sleep until `wake` or a hint, at most; report whether a hint is readable."""
        assert self._bell is not None
        reading_fd, _ = self._bell
        poll = select.poll()
        for fd in (reading_fd, *hints):
            poll.register(fd, select.POLLIN)
        self.awake.release()
        try:
            ready = {fd for fd, _ in poll.poll(ms)}
        finally:
            self.awake.acquire()
        with suppress(BlockingIOError):
            os.read(reading_fd, 4096)
        return bool(ready & {*hints})

    def _ring(self) -> None:
        if self._bell is not None:
            with suppress(BlockingIOError):  # Full: it wakes anyway.
                os.write(self._bell[1], b"\0")

    def _close_bell(self) -> None:
        if self._bell is not None:
            for fd in self._bell:
                os.close(fd)
            self._bell = None


def _pending(row: Execution, kind: Kind) -> PendingEvent:
    """Make the event of a run as the database has it."""
    at = row.queued_at
    details: dict[str, object] = {}
    if kind == "started":
        at = row.started_at or row.claimed_at
    elif kind == "owed":
        details = {"waiting_for": row.waiting_for}
        if row.wait_until is not None:
            details["wait_until_ms"] = to_ms(row.wait_until)
    else:
        at = row.finished_at
        details = {
            "status": row.status.value,
            "reason": row.reason,
            "exit_code": row.exit_code,
            "duration_ms": row.duration_ms,
            "error_msg": row.error_msg,
            "missed_count": row.missed_count,
        }
        if row.missed_from_at != row.missed_to_at:
            for name in ("missed_from", "missed_to"):
                details[f"{name}_ms"] = to_ms(getattr(row, f"{name}_at"))
    event = Event(
        at_ms=to_ms(at or row.plan_at),
        kind=_EVENT_KINDS[kind],
        execution_id=row.id,
        schedule=row.schedule,
        details=details,
    )
    origin = Origin(plan_ms=to_ms(row.plan_at), cause=row.cause.value, attempt=row.attempt)
    return PendingEvent(event=event, kind=kind, origin=origin)
