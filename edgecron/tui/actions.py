"""Carry out actions through a Client, for one or many schedules or runs; knows no screens.

If an action fails for one target, the others are still done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, tzinfo
from typing import TypeVar

from edgecron.base.errors import (
    Conflict,
    DatabaseUnusable,
    EdgecronError,
    QueryInterrupted,
    Unreadable,
)
from edgecron.base.values import NamedTuple
from edgecron.client.engine_words import absence_words
from edgecron.client.protocol import Client
from edgecron.client.sentences import blocking_words
from edgecron.model.choices import ACTIVE, COMMAND_QUEUE, Status
from edgecron.model.run import Execution
from edgecron.model.schedule import Schedule
from edgecron.tui.list_model import Targets
from edgecron.views.acts import (
    cancelled_words,
    fired_words,
    is_held,
    paused_words,
    queued_words,
    rescheduled_words,
    resumed_words,
)
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
    first errors of `failed` targets. `waiting` says why no running engine takes what was queued;
    '' stands for commands. `removed` names removed schedules that can be restored.
    """

    done: int = 0
    message: str = ""
    failed: int = 0
    errors: tuple[EdgecronError, ...] = ()
    waiting: tuple[str, ...] = ()
    is_summed: bool = False
    removed: tuple[str, ...] = ()


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
            for run in client.history(name, statuses=tuple(ACTIVE), limit=_MOST_ACTIVE)
        ]
    return tuple(run for run in runs if run.status in ACTIVE)


def run_now(client: Client, targets: Targets, progress: Progress) -> Report:
    """Start schedules manually."""
    # A run that ended while no engine ran must not count as an overlap.
    client.take_over()
    queued: list[Schedule] = []

    def fire(name: str) -> str:
        runs = client.run_now(name)
        if any(run.status is Status.QUEUED for run in runs):
            queued.append(client.schedule(name))
        elif runs and all(run.status is Status.SKIPPED for run in runs):
            why = blocking_words(WordsFront(client), runs[0])
            raise Conflict(fired_words(runs[0]), hint=why)
        return "; ".join(fired_words(run) for run in runs)

    report = _each(names_of(client, targets), fire, progress)
    return report._replace(waiting=_waiting_words(client, queued))


def _waiting_words(client: Client, schedules: Iterable[Schedule]) -> tuple[str, ...]:
    """Say why no running engine takes these schedules' runs; '' for commands."""
    waiting = set()
    for one in schedules:
        if not client.has_engine(one.spec.queue, offer=one.offer):
            is_command = one.spec.queue == COMMAND_QUEUE
            waiting.add("" if is_command else absence_words(client, one))
    return tuple(sorted(waiting))


def pause(
    client: Client,
    targets: Targets,
    progress: Progress,
    *,
    until: datetime | None,
    zone: tzinfo,
) -> Report:
    """Pause schedules, without end or until an instant."""
    is_trusted = client.clock_state().is_trusted

    def pause_one(name: str) -> str:
        paused, now = client.pause(name, until=until), client.now()
        return paused_words(paused, until=until, zone=zone, now=now, is_clock_trusted=is_trusted)

    return _each(names_of(client, targets), pause_one, progress)


def resume(client: Client, targets: Targets, progress: Progress, *, zone: tzinfo) -> Report:
    """Resume schedules; one that is not paused counts as failed."""
    is_trusted = client.clock_state().is_trusted

    def resume_one(name: str) -> str:
        now = client.now()
        if not is_held(client.schedule(name), now):
            raise Conflict(f"{name} is not paused")
        resumed = client.resume(name)
        return resumed_words(
            resumed, was_held=True, zone=zone, now=now, is_clock_trusted=is_trusted
        )

    return _each(names_of(client, targets), resume_one, progress)


def reschedule(
    client: Client, targets: Targets, progress: Progress, *, at: datetime, zone: tzinfo
) -> Report:
    """Move the next runs of schedules to an instant."""
    is_trusted = client.clock_state().is_trusted

    def move(name: str) -> str:
        before = client.schedule(name)
        after = client.reschedule(name, at)
        return rescheduled_words(
            before, after, zone=zone, now=client.now(), is_clock_trusted=is_trusted
        )

    return _each(names_of(client, targets), move, progress)


def cancel(client: Client, run_ids: Sequence[int], progress: Progress) -> Report:
    """Cancel running and queued runs."""
    return _each(run_ids, lambda id_: cancelled_words(client.cancel(id_)), progress)


def remove(client: Client, names: Sequence[str], progress: Progress) -> Report:
    """Remove schedules, including unreadable ones."""
    removed: list[str] = []

    def remove_one(name: str) -> str:
        try:
            client.remove(name)
            removed.append(name)
        except Unreadable as error:
            if not client.remove_unreadable(name):
                raise
            return f"removed {name} unread: {error.message}"
        return f"removed {name}; its history stays"

    return _each(names, remove_one, progress)._replace(removed=tuple(removed))


def restore(client: Client, names: Sequence[str], progress: Progress, *, zone: tzinfo) -> Report:
    """Restore removed schedules, with their history."""

    def restore_one(name: str) -> str:
        [schedule] = client.undo_removal(name)
        when = next_sentence(
            schedule,
            zone=zone,
            now=client.now(),
            is_clock_trusted=client.clock_state().is_trusted,
        )
        return f"restored {name}; {when}"

    return _each(names, restore_one, progress)


def backfill(
    client: Client,
    names: Sequence[str],
    progress: Progress,
    *,
    span: tuple[datetime, datetime],
) -> Report:
    """Queue runs for past times of schedules that have no success."""
    first, last = span
    count = 0
    queued: list[Schedule] = []

    def fill(name: str) -> str:
        nonlocal count
        ids = client.backfill(name, first, last)
        if not ids:
            raise Conflict(f"nothing to backfill of {name}")
        count += len(ids)
        queued.append(client.schedule(name))
        return queued_words(name, ids)

    report = _each(names, fill, progress)
    if report.done > 1:
        runs, schedules = count_words(count, "run"), count_words(report.done, "schedule")
        report = report._replace(message=f"queued {runs} of {schedules}", is_summed=True)
    return report._replace(waiting=_waiting_words(client, queued))


def _each(targets: Iterable[T], act: Callable[[T], str], progress: Progress) -> Report:
    """Act on one target after the other. An unusable database ends the loop; if no target was done,
    its error is raised."""
    targets = tuple(targets)
    message, done = "", 0
    errors: list[EdgecronError] = []
    failed = 0
    for number, target in enumerate(targets, 1):
        try:
            words = act(target)
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
    return Report(done=done, message=message, failed=failed, errors=tuple(errors))
