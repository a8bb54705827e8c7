"""What actions do to a database: functions of a Client, for one schedule or run or for many.

Nothing here knows of screens. What goes wrong with one of many keeps none of the others from it.
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
from edgecron.client.run_words import blocking_words
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


class WordsFront(NamedTuple):
    """The dashboard, as words know it, on the desk of an open database."""

    opened: Client

    def client(self) -> Client:
        """The open database."""
        return self.opened

    def command(self, words: str) -> str:
        """A command line of ours."""
        return f"edgecron {words}"


T = TypeVar("T")
Progress = Callable[[int, int], object]  # to how many it is done, and to how many in all

_MOST_ACTIVE = 1000
_MOST_ERRORS = 3  # that are told; of the others the number is


class Report(NamedTuple):
    """What became of it: how many it was done to, what is to be said of the first of them, how
    many it could not be done to and why, of the first ones; `idle` says of what was queued
    that no engine at work takes it, '' of commands. `is_summed`: what is said is of all of them.
    `removed` names the removed schedules that can be restored."""

    done: int = 0
    said: str = ""
    refused: int = 0
    errors: tuple[EdgecronError, ...] = ()
    idle: tuple[str, ...] = ()
    is_summed: bool = False
    removed: tuple[str, ...] = ()


def names_of(client: Client, targets: Targets) -> tuple[str, ...]:
    """The names of the schedules that were chosen, or whose runs were."""
    names = list(targets.names)
    if targets.schedule_ids:
        wanted = frozenset(targets.schedule_ids)
        names += (name for id_, name in client.names_of_all() if id_ in wanted)
    if targets.run_ids:
        names += (client.execution(id_).schedule for id_ in targets.run_ids)
    return tuple(dict.fromkeys(names))


def active_runs_of(client: Client, targets: Targets) -> tuple[Execution, ...]:
    """The runs that were chosen and have not ended, or those of the schedules."""
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
    """Fire schedules now."""
    # What ended while no engine was alive must not look like a run that this one overlaps.
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
    return report._replace(idle=_idle(client, queued))


def _idle(client: Client, schedules: Iterable[Schedule]) -> tuple[str, ...]:
    """What is to be said of these, of which no engine at work takes anything; '' of commands."""
    idle = set()
    for one in schedules:
        if not client.has_engine(one.spec.queue, offer=one.offer):
            is_command = one.spec.queue == COMMAND_QUEUE
            idle.add("" if is_command else absence_words(client, one))
    return tuple(sorted(idle))


def pause(
    client: Client,
    targets: Targets,
    progress: Progress,
    *,
    until: datetime | None,
    zone: tzinfo,
) -> Report:
    """Hold schedules, without end or until an instant."""
    is_trusted = client.clock_state().is_trusted

    def hold(name: str) -> str:
        held, now = client.pause(name, until=until), client.now()
        return paused_words(held, until=until, zone=zone, now=now, is_clock_trusted=is_trusted)

    return _each(names_of(client, targets), hold, progress)


def resume(client: Client, targets: Targets, progress: Progress, *, zone: tzinfo) -> Report:
    """Let schedules fire again; one that is not held is refused, and says so."""
    is_trusted = client.clock_state().is_trusted

    def clear_marks(name: str) -> str:
        now = client.now()
        if not is_held(client.schedule(name), now):
            raise Conflict(f"{name} is not paused")
        resumed = client.resume(name)
        return resumed_words(
            resumed, was_held=True, zone=zone, now=now, is_clock_trusted=is_trusted
        )

    return _each(names_of(client, targets), clear_marks, progress)


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
    """End runs, or withdraw those that wait."""
    return _each(run_ids, lambda id_: cancelled_words(client.cancel(id_)), progress)


def remove(client: Client, names: Sequence[str], progress: Progress) -> Report:
    """Remove schedules, those that can't be read too."""

    removed: list[str] = []

    def take_away(name: str) -> str:
        try:
            client.remove(name)
            removed.append(name)
        except Unreadable as error:
            if not client.remove_unreadable(name):
                raise
            return f"removed {name} unread: {error.message}"
        return f"removed {name}; its history stays"

    return _each(names, take_away, progress)._replace(removed=tuple(removed))


def restore(client: Client, names: Sequence[str], progress: Progress, *, zone: tzinfo) -> Report:
    """Restore removed schedules, with their history."""

    def put_back(name: str) -> str:
        [schedule] = client.undo_removal(name)
        when = next_sentence(
            schedule,
            zone=zone,
            now=client.now(),
            is_clock_trusted=client.clock_state().is_trusted,
        )
        return f"restored {name}; {when}"

    return _each(names, put_back, progress)


def backfill(
    client: Client,
    names: Sequence[str],
    progress: Progress,
    *,
    span: tuple[datetime, datetime],
) -> Report:
    """Queue runs for what schedules have not done of a range of the past."""
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
        report = report._replace(said=f"queued {runs} of {schedules}", is_summed=True)
    return report._replace(idle=_idle(client, queued))


def _each(targets: Iterable[T], act: Callable[[T], str], progress: Progress) -> Report:
    """Do it to one after the other. A database that can't be written ends it, with the error
    where nothing was done yet."""
    targets = tuple(targets)
    said, done = "", 0
    errors: list[EdgecronError] = []
    refused = 0
    for number, target in enumerate(targets, 1):
        try:
            words = act(target)
        except QueryInterrupted:
            raise  # Nobody waits for it any more: what is left to do is left.
        except EdgecronError as error:
            refused += 1
            if len(errors) < _MOST_ERRORS:
                errors.append(error)
            if isinstance(error, DatabaseUnusable) and not isinstance(error, Unreadable):
                if not done:
                    raise
                refused = len(targets) - done
                break
        else:
            done += 1
            said = said or words
        progress(number, len(targets))
    return Report(done=done, said=said, refused=refused, errors=tuple(errors))
