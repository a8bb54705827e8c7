"""Carry out actions through a Client, for one or many schedules or runs; knows no screens.

If an action fails for one target, the others are still done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import TypedDict, TypeVar

from edgecron.base.errors import (
    Conflict,
    DatabaseUnusable,
    EdgecronError,
    QueryInterrupted,
    Unreadable,
)
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.client.sentences import absence_words, blocking_words
from edgecron.model.choices import ACTIVE, COMMAND_QUEUE, Status
from edgecron.model.listing import ACTIVE_RUNS
from edgecron.model.run import Execution
from edgecron.model.schedule import Schedule
from edgecron.tui.database_app import Made
from edgecron.tui.list_rows import Targets
from edgecron.views.acts import (
    cancelled_words,
    closed_words,
    fired_words,
    is_held,
    paused_words,
    queued_words,
    rescheduled_words,
    resumed_words,
)
from edgecron.views.changes import undone_words
from edgecron.views.phrases import count_words, next_sentence

T = TypeVar("T")
Progress = Callable[[int, int], object]  # targets done, targets in all
_MOST_ACTIVE = 1000
_MOST_ERRORS = 3  # shown; the others are counted


class WordsFront(NamedTuple):
    """The front end that shared sentences are written for: its client, and its command lines."""

    opened: Client

    def client(self) -> Client:
        """Return the Client of the open database."""
        return self.opened

    def command(self, words: str) -> str:
        """Return a full command line."""
        return f"edgecron {words}"


class Report(NamedTuple):
    """The outcome of an action.

    `message` describes the first of `done` targets, or all of them if `is_summed`. `errors` are the
    first errors of `failed` targets. `left` targets were not reached before a stop. `waiting` says
    why no running engine takes what was queued; '' stands for commands. `changed` are the changes
    that can be undone.
    """

    done: int = 0
    message: str = ""
    failed: int = 0
    errors: tuple[EdgecronError, ...] = ()
    waiting: tuple[str, ...] = ()
    is_summed: bool = False
    changed: tuple[Made, ...] = ()
    left: int = 0


def names_of(client: Client, targets: Targets) -> tuple[str, ...]:
    """Return the names of the target schedules, or of the schedules of the target runs."""
    names = list(targets.names)
    if targets.schedule_ids:
        wanted = frozenset(targets.schedule_ids)
        names += (name for id_, name in client.schedule_names() if id_ in wanted)
    if targets.run_ids:
        names += (client.execution(id_).schedule for id_ in targets.run_ids)
    return tuple(dict.fromkeys(names))


def active_runs_of(client: Client, targets: Targets) -> tuple[Execution, ...]:
    """Return the target runs that have not ended, or those of the target schedules."""
    if targets.run_ids:
        runs = [client.execution(id_) for id_ in targets.run_ids]
    else:
        runs = [
            run
            for name in names_of(client, targets)
            for run in client.history(name, choice=ACTIVE_RUNS, limit=_MOST_ACTIVE)
        ]
    return tuple(run for run in runs if run.status in ACTIVE)


class _Here(TypedDict):
    zone: tzinfo
    now: datetime
    is_clock_trusted: bool


class Actions:
    """Actions on one schedule or run; each method returns a sentence about its effect.

    `queued` are the schedules of the runs that were queued, `changed` the changes that can be
    undone, and `backfilled` counts the runs of backfills.
    """

    def __init__(self, client: Client, zone: tzinfo) -> None:
        self._client = client
        self._zone = zone
        self._is_clock_trusted = client.is_clock_trusted()
        self.queued: list[Schedule] = []
        self.changed: list[Made] = []
        self.backfilled = 0

    @property
    def _here(self) -> _Here:
        """The local zone and clock, for sentences."""
        return _Here(
            zone=self._zone, now=self._client.now(), is_clock_trusted=self._is_clock_trusted
        )

    def run_now(self, name: str) -> str:
        """Start a schedule manually."""
        runs = self._client.run_now(name)
        if any(run.status is Status.QUEUED for run in runs):
            self.queued.append(self._client.schedule(name))
        elif runs and all(run.status is Status.SKIPPED for run in runs):
            why = blocking_words(WordsFront(self._client), runs[0])
            raise Conflict(fired_words(runs[0]), hint=why)
        return "; ".join(fired_words(run) for run in runs)

    def pause(self, name: str, *, until: datetime | None) -> str:
        """Pause a schedule, without end or until an instant."""
        paused = self._noted(self._client.pause(name, until=until))
        return paused_words(paused, is_changed=True, until=until, **self._here)

    def resume(self, name: str) -> str:
        """Resume a schedule. Raises Conflict if it is not paused."""
        if not is_held(self._client.schedule(name), self._client.now()):
            raise Conflict(f"{name} is not paused")
        resumed = self._noted(self._client.resume(name))
        return resumed_words(resumed, was_held=True, **self._here)

    def reschedule(self, name: str, *, at: datetime) -> str:
        """Move the next run of a schedule to an instant."""
        before = self._client.schedule(name)
        moved = self._noted(self._client.reschedule(name, at))
        words = rescheduled_words(before, moved, **self._here)
        closed = closed_words(moved, zone=self._zone)
        return words if closed is None else f"{words}; {closed}"

    def _noted(self, schedule: Schedule) -> Schedule:
        self.changed.append(Made(schedule.name, schedule.revision))
        return schedule

    def cancel(self, run_id: int) -> str:
        """Cancel a running or queued run."""
        return cancelled_words(self._client.cancel(run_id))

    def remove(self, name: str) -> str:
        """Remove a schedule, even an unreadable one."""
        try:
            removed = self._client.remove(name)
        except Unreadable as error:
            if not self._client.remove_unreadable(name):
                raise
            return f"removed {name} without reading it: {error.message}"
        self.changed.append(Made(name, removed.revision + 1))
        return f"removed {name}; its history stays"

    def undo(self, made: Made, *, seen: int | None) -> str:
        """Undo a change, unless the schedule was changed since revision `seen`."""
        undo = self._client.undo(made.name, seen=seen, change=made.revision)
        self.changed.append(Made(undo.schedule, undo.made))
        words = undone_words(undo)
        if undo.is_removed:
            return words
        schedule = self._client.schedule(undo.schedule)
        return f"{words}; {next_sentence(schedule, **self._here)}"

    def backfill(self, name: str, *, span: tuple[datetime, datetime]) -> str:
        """Queue runs for past times of a schedule that have no success."""
        ids = self._client.backfill(name, *span)
        if not ids:
            raise Conflict(f"nothing to backfill for {name}")
        self.backfilled += len(ids)
        self.queued.append(self._client.schedule(name))
        return queued_words(name, ids)


def act_on_each(
    client: Client,
    targets: Sequence[T],
    act: Callable[[Actions, T], str],
    *,
    zone: tzinfo,
    progress: Progress,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Report:
    """Act on one target after the other, and report the outcome. `is_stopped` is asked before each.

    An unusable database ends the loop. If no target was done, its error is raised.
    """
    actions = Actions(client, zone)
    message, done, failed = "", 0, 0
    errors: list[EdgecronError] = []
    left = 0
    for number, target in enumerate(targets, 1):
        if is_stopped():
            left = len(targets) - number + 1
            break
        try:
            words = act(actions, target)
        except QueryInterrupted:
            raise  # The dashboard ends: leave the remaining targets.
        except EdgecronError as error:
            failed += 1
            if len(errors) < _MOST_ERRORS:
                errors.append(error)
            if isinstance(error, DatabaseUnusable) and not isinstance(error, Unreadable):
                if not done:
                    raise
                failed = len(targets) - done
                break
        else:
            done += 1
            message = message or words
        progress(number, len(targets))
    is_summed = actions.backfilled > 0 and done > 1
    if is_summed:
        runs, schedules = count_words(actions.backfilled, "run"), count_words(done, "schedule")
        message = f"queued {runs} of {schedules}"
    return Report(
        done=done,
        message=message,
        failed=failed,
        errors=tuple(errors),
        waiting=_waiting_words(client, actions.queued),
        is_summed=is_summed,
        changed=tuple(actions.changed),
        left=left,
    )


def _waiting_words(client: Client, schedules: Sequence[Schedule]) -> tuple[str, ...]:
    """Say why no running engine takes these schedules' runs; '' for commands."""
    waiting = set()
    for one in schedules:
        if not client.has_engine(one.spec.placed_queue, offer=one.offer):
            is_command = one.spec.queue == COMMAND_QUEUE
            waiting.add("" if is_command else absence_words(client, one))
    return tuple(sorted(waiting))
