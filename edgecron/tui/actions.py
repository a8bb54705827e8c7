"""Read what actions are about, carry them out and report them; through a Client, without screens.

If an action fails for one target, the others are still done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TypedDict, TypeVar

from edgecron.base.errors import (
    Conflict,
    DatabaseUnusable,
    EdgecronError,
    NotFound,
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
from edgecron.views.changes import (
    cancelled_words,
    closed_words,
    fired_words,
    is_held,
    paused_words,
    queued_words,
    rescheduled_words,
    resumed_words,
    undone_words,
)
from edgecron.views.phrases import (
    count_words,
    error_words,
    named_words,
    next_sentence,
    status_words,
)
from edgecron.views.times import near_time

T = TypeVar("T")
Progress = Callable[[int, int], object]  # targets done, targets in all
_MOST_ACTIVE = 1000
_MOST_ERRORS = 3  # shown; the others are counted
_MOST_READ = 50  # schedules that are read one by one before a question
_MOST_LISTED = 12  # names of schedules that an action is for

TimeRange = tuple[datetime, datetime]


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


def _active_runs_of(client: Client, targets: Targets) -> tuple[Execution, ...]:
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


# What a question is about.


class NextRuns(NamedTuple):
    """Schedules whose next run is to be moved; `words` say which ones and when they are due.

    `first` is the soonest of these runs, if it was read.
    """

    names: tuple[str, ...]
    words: str
    first: datetime | None = None


class Removal(NamedTuple):
    """Schedules to remove; if they are few, with their active runs and dependent schedules."""

    names: tuple[str, ...]
    active: tuple[Execution, ...] | None
    dependents: tuple[str, ...] = ()


class Cancellation(NamedTuple):
    """Active runs to cancel; if there are none, the reason."""

    active: tuple[Execution, ...]
    why_none: str


class BackfillRange(NamedTuple):
    """Schedules to backfill, and the time range that the target runs missed."""

    names: tuple[str, ...]
    span: TimeRange | None


def names_words(names: Sequence[str]) -> str:
    """`backup`, `3 schedules`."""
    return names[0] if len(names) == 1 else count_words(len(names), "schedule")


def listed_words(names: Sequence[str]) -> str:
    """Return the names of the schedules that an action is for, as many as a dialog can list."""
    return named_words(sorted(names), most=_MOST_LISTED)


def read_next_runs(client: Client, targets: Targets, *, zone: tzinfo) -> NextRuns:
    """Read what is to be moved."""
    names = names_of(client, targets)
    if len(names) > _MOST_READ:
        return NextRuns(names, listed_words(names))
    if len(names) != 1:
        return _by_next_run(client, names, zone=zone)
    schedule = client.schedule(names[0])
    is_trusted = client.is_clock_trusted()
    when = next_sentence(schedule, zone=zone, now=client.now(), is_clock_trusted=is_trusted)
    return NextRuns(names, when, schedule.next_run_at)


def _by_next_run(client: Client, names: tuple[str, ...], *, zone: tzinfo) -> NextRuns:
    """List schedules by their next runs, soonest first; a removed schedule has none."""
    never = datetime.max.replace(tzinfo=UTC)
    due = dict.fromkeys(sorted(names), never)
    for name in names:
        with suppress(NotFound):
            due[name] = client.schedule(name).next_run_at or never
    ordered, listed = sorted(due, key=due.__getitem__), dict[str, list[str]]()
    for name in ordered[:_MOST_LISTED]:
        at = due[name]
        time = "" if at == never else f" {near_time(at, zone=zone, now=client.now())}"
        listed.setdefault(time, []).append(name)
    words = "; ".join(", ".join(at_once) + time for time, at_once in listed.items())
    more = len(ordered) - _MOST_LISTED
    first = min(due.values(), default=never)
    return NextRuns(
        names,
        f"{words} and {more} more" if more > 0 else words,
        None if first == never else first,
    )


def read_removal(client: Client, targets: Targets) -> Removal:
    """Read what is to be removed."""
    names = names_of(client, targets)
    if len(names) > _MOST_READ:
        return Removal(names, None)
    dependents = {other for name in names for other in client.find_dependents(name)}
    return Removal(
        names,
        _active_runs_of(client, Targets(names=names)),
        tuple(sorted(dependents.difference(names))),
    )


def active_words(active: Sequence[Execution] | None) -> str:
    """Say what happens to the active runs of removed schedules; None: they were not read."""
    if active is None:
        return "Queued runs are cancelled, running ones finish, the history stays."
    queued = sum(run.status is Status.QUEUED for run in active)
    running = len(active) - queued
    parts = []
    if queued:
        verb = "is" if queued == 1 else "are"
        parts.append(f"{count_words(queued, 'queued run')} {verb} cancelled")
    if running:
        verb = "finishes" if running == 1 else "finish"
        parts.append(f"{count_words(running, 'running run')} {verb}")
    parts = parts or ["no active runs"]
    words = ", ".join([*parts, "the history stays"])
    return f"{words[0].upper()}{words[1:]}."


def read_cancellation(client: Client, targets: Targets) -> Cancellation:
    """Read what is to be cancelled."""
    active = _active_runs_of(client, targets)
    if active:
        return Cancellation(active, "")
    if len(targets.run_ids) == 1:
        run = client.execution(targets.run_ids[0])
        return Cancellation(
            (), f"run {run.id} of {run.schedule} has already ended: {status_words(run)}"
        )
    if targets.run_ids:
        return Cancellation((), f"all {len(targets.run_ids):,} runs have already ended")
    return Cancellation((), f"{names_words(names_of(client, targets))}: no active runs")


def read_backfill(client: Client, targets: Targets) -> BackfillRange:
    """Read what is to be backfilled."""
    missed = [
        (run.missed_from_at or run.plan_at, run.missed_to_at or run.plan_at)
        for run in (client.execution(id_) for id_ in targets.run_ids)
    ]
    span = (min(first for first, _ in missed), max(last for _, last in missed)) if missed else None
    return BackfillRange(names_of(client, targets), span)


# What is done.


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

    def pause(self, name: str, *, until: datetime | None, is_only: bool) -> str:
        """Pause a schedule, without end or until an instant.

        A longer pause stays unless `is_only`: a pause of many schedules must not end it.
        """
        before = self._client.schedule(name)
        if before.is_paused_beyond(until) and not is_only:
            raise Conflict(
                f"{name} stays paused for longer", hint="pause only this one to set this end"
            )
        paused = self._noted(self._client.pause(name, until=until))
        return paused_words(before, paused, **self._here)

    def resume(self, name: str) -> str:
        """Resume a schedule. Raises Conflict if it is not paused."""
        if not is_held(self._client.schedule(name), self._client.now()):
            raise Conflict(f"{name} is not paused")
        resumed = self._noted(self._client.resume(name))
        return resumed_words(resumed, was_held=True, **self._here)

    def reschedule(self, name: str, *, to: datetime | timedelta) -> str:
        """Move the next run of a schedule to an instant, or later by a duration."""
        before = self._client.schedule(name)
        if isinstance(to, timedelta):
            to += before.next_run_at or self._client.now()
        moved = self._noted(self._client.reschedule(name, to))
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


class ActionWords(NamedTuple):
    """Words for an action: its verb, present and past forms, and the noun of its targets."""

    key: str
    verb: str
    present: str
    past: str
    noun: str = "schedule"


def report_words(
    report: Report, action: ActionWords, *, engine_key: str, undo_key: str = ""
) -> str:
    """Return the message after an action: its result, its errors, what waits for an engine."""
    parts = []
    if report.done == 1 or report.is_summed:
        parts.append(report.message)
    elif report.done:
        parts.append(f"{action.past} {count_words(report.done, action.noun)}")
    if report.changed and undo_key:
        parts[-1] += f"; {undo_key} {'redoes it' if action.verb == 'undo' else 'undoes it'}"
    if report.done and report.failed:
        parts.append(f"{report.failed:,} failed:")
    parts += [error_words(error) for error in report.errors]
    more = report.failed - len(report.errors)
    if more > 0:
        parts.append(f"and {more:,} more")
    if report.left:
        parts.append(f"stopped: {count_words(report.left, action.noun)} left as before")
    for words in report.waiting:
        if words:
            parts.append(words)
        elif engine_key:
            parts.append(
                f"no engine is running: the run waits; press {engine_key} to start an engine"
            )
        else:
            parts.append("no engine is running: the run waits until you start one")
    return "\n".join(parts)
