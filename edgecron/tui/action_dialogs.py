"""Questions before an action: what is read for them, and their dialogs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.formats.value_texts import read_time
from edgecron.model.choices import Status
from edgecron.model.run import Execution
from edgecron.tui.actions import WordsFront, active_runs_of, names_of
from edgecron.tui.dialogs import CheckResult, ConfirmDialog, Dialog, Field, Lines, ShowCheck
from edgecron.tui.list_rows import Targets
from edgecron.views.acts import left_lines
from edgecron.views.phrases import (
    count_words,
    error_words,
    named_words,
    next_sentence,
    status_words,
)
from edgecron.views.times import local_time, near_time, spoken_time

_MOST_READ = 50  # schedules that are read one by one before a question
_MOST_NAMED = 3
_MOST_LISTED = 12  # names of schedules that an action is for
_EXAMPLE = "in 2h, 18:00, tomorrow, monday 09:00, 2026-12-24"

Now = Callable[[], datetime]
TimeRange = tuple[datetime, datetime]


class PauseEnd(NamedTuple):
    """The end of a pause; None for one without end."""

    at: datetime | None


class NextRuns(NamedTuple):
    """Schedules whose next run is to be moved; `words` say which ones and when they are due."""

    names: tuple[str, ...]
    words: str


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


def listed_words(names: Sequence[str]) -> list[str]:
    """Return the names of several schedules in words; nothing for one, which the title names."""
    return [named_words(names, most=_MOST_LISTED)] if len(names) > 1 else []


# Reading.


def read_next_runs(client: Client, targets: Targets, *, zone: tzinfo) -> NextRuns:
    """Read what is to be moved."""
    names = names_of(client, targets)
    if len(names) != 1:
        words = named_words(names, most=_MOST_LISTED)
        few = names if len(names) <= _MOST_READ else ()
        if due := _due_times(client, few):
            ends = (near_time(at, zone=zone, now=client.now()) for at in (min(due), max(due)))
            words = f"{words}: due {' to '.join(dict.fromkeys(ends))}"
        return NextRuns(names, words)
    schedule = client.schedule(names[0])
    is_trusted = client.is_clock_trusted()
    when = next_sentence(schedule, zone=zone, now=client.now(), is_clock_trusted=is_trusted)
    return NextRuns(names, when)


def _due_times(client: Client, names: Sequence[str]) -> list[datetime]:
    """Return when the next runs are due; a removed schedule has none."""
    due = []
    for name in names:
        with suppress(NotFound):
            due.append(client.schedule(name).next_run_at)
    return [at for at in due if at is not None]


def read_removal(client: Client, targets: Targets) -> Removal:
    """Read what is to be removed."""
    names = names_of(client, targets)
    if len(names) > _MOST_READ:
        return Removal(names, None)
    dependents = {other for name in names for other in client.find_dependents(name)}
    return Removal(
        names,
        active_runs_of(client, Targets(names=names)),
        tuple(sorted(dependents.difference(names))),
    )


def read_cancellation(client: Client, targets: Targets) -> Cancellation:
    """Read what is to be cancelled."""
    active = active_runs_of(client, targets)
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


def check_backfill(
    client: Client, names: Sequence[str], span: TimeRange, *, zone: tzinfo
) -> CheckResult[TimeRange]:
    """Say how many runs a backfill would queue, and what it would skip."""
    try:
        plans = [client.plan_backfill(name, *span) for name in names]
    except InvalidInput as error:
        return CheckResult(error_words(error))
    count = sum(len(plan.wanted) for plan in plans)
    lines = left_lines(WordsFront(client).command, plans[0], zone=zone) if len(plans) == 1 else []
    left = "".join(f"; {line}" for line in lines)
    if not count:
        return CheckResult(f"nothing to backfill for {names_words(names)}{left}")
    times = [fire.plan_at for plan in plans for fire in (plan.wanted[:1] + plan.wanted[-1:])]
    first, last = local_time(min(times), zone=zone), local_time(max(times), zone=zone)
    return CheckResult(f"queues {count_words(count, 'run')}, {first} to {last}{left}", span)


# Dialogs.


def pause_dialog(names: Sequence[str], *, zone: tzinfo, now: Now) -> Dialog[PauseEnd]:
    """Ask for the end of a pause."""

    def check(texts: tuple[str, ...], show: ShowCheck[PauseEnd]) -> None:
        if not texts[0]:
            show(CheckResult("until you resume it", PauseEnd(None)))
            return
        found = _check_time(texts[0], zone=zone, now=now())
        if found.value is None:
            show(CheckResult(found.words))
        else:
            show(CheckResult(f"until {found.words}", PauseEnd(found.value)))

    return Lines(
        f"Pause {names_words(names)}",
        [*listed_words(names), "Stops scheduled runs until then. Active runs continue."],
        fields=[Field("until", example=_EXAMPLE)],
        check=check,
        yes="pause",
    )


def reschedule_dialog(next_runs: NextRuns, *, zone: tzinfo, now: Now) -> Dialog[datetime]:
    """Ask for the new time of the next run."""

    def check(texts: tuple[str, ...], show: ShowCheck[datetime]) -> None:
        show(_check_time(texts[0], zone=zone, now=now()) if texts[0] else CheckResult(""))

    words = [next_runs.words] if next_runs.words else []
    return Lines(
        f"Move the next run of {names_words(next_runs.names)}",
        [*words, "Only this run moves. The run after it follows the trigger."],
        fields=[Field("to", example=_EXAMPLE)],
        check=check,
        yes="move",
    )


def removal_dialog(removal: Removal) -> Dialog[bool]:
    """Ask whether to remove; for several schedules, their number must be typed."""
    names = removal.names
    title = f"Remove {names_words(names)}?"
    what = "it" if len(names) == 1 else "them"
    words = [_active_words(removal.active)]
    if removal.dependents:
        named = named_words(removal.dependents, most=_MOST_NAMED)
        words.append(f"Schedules after {what} will not run again: {named}.")
    if len(names) == 1:
        return ConfirmDialog(title, words, yes="remove it", no="keep it", is_danger=True)
    number = str(len(names))

    def check(texts: tuple[str, ...], show: ShowCheck[bool]) -> None:
        is_typed = texts[0] == number
        words = f"removes {names_words(names)}" if is_typed else f"type {number} to remove them"
        show(CheckResult(words, True if is_typed else None))

    return Lines(
        title,
        [named_words(names, most=_MOST_NAMED), *words],
        fields=[Field("how many")],
        check=check,
        yes="remove",
        is_danger=True,
    )


def _active_words(active: Sequence[Execution] | None) -> str:
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


def cancel_dialog(runs: Sequence[Execution]) -> Dialog[bool]:
    """Ask whether to cancel running runs."""
    running = [run for run in runs if run.status is Status.RUNNING]
    if len(runs) == 1:
        title = f"Cancel run {runs[0].id} of {runs[0].schedule}?"
    else:
        title = f"Cancel {count_words(len(runs), 'run')}?"
    whose = "their" if len(running) > 1 else "its"
    words = []
    if len(runs) > 1:
        names = tuple(dict.fromkeys(run.schedule for run in runs))
        words.append(named_words(names, most=_MOST_LISTED))
    if running:
        words.append(f"All {whose} processes get TERM, and KILL after the kill grace.")
    if len(running) < len(runs):
        waiting = len(runs) - len(running)
        words.append(f"{count_words(waiting, 'queued run')} will not start.")
    if len(runs) == 1:
        return ConfirmDialog(title, words, yes="cancel the run", no="let it run", is_danger=True)
    yes = f"cancel {count_words(len(runs), 'run')}"
    return ConfirmDialog(title, words, yes=yes, no="let them run", is_danger=True)


def bulk_dialog(verb: str, names: Sequence[str], *, runs: int = 0) -> Dialog[bool]:
    """Ask whether to act on several schedules; `runs` of them were marked instead of schedules."""
    many = names_words(names)
    words = [named_words(names, most=_MOST_LISTED)]
    if runs:
        verb_of = "belongs" if runs == 1 else "belong"
        words.append(f"{count_words(runs, 'marked run')} {verb_of} to them. Each runs once.")
    title = f"{verb[0].upper()}{verb[1:]} {many}?"
    return ConfirmDialog(title, words, yes=f"{verb} {many}")


def backfill_dialog(
    gap: BackfillRange,
    *,
    zone: tzinfo,
    now: Now,
    plan: Callable[[TimeRange, ShowCheck[TimeRange]], None],
) -> Dialog[TimeRange]:
    """Ask for the time range of a backfill; `plan` previews it."""
    begins, ends = ("", "")
    if gap.span is not None:
        begins, ends = (local_time(instant, zone=zone) for instant in gap.span)

    def check(texts: tuple[str, ...], show: ShowCheck[TimeRange]) -> None:
        if not all(texts):
            show(CheckResult(""))
            return
        try:
            first, last = (
                read_time(text, what=label, timezone="local", now=now(), is_past_ok=True)
                for label, text in zip(("from", "to"), texts, strict=True)
            )
        except InvalidInput as error:
            show(CheckResult(error_words(error)))
            return
        plan((first, last), show)

    return Lines(
        f"Backfill {names_words(gap.names)}",
        [*listed_words(gap.names), "Queues a run for each plan time without a successful run."],
        fields=[
            Field("from", begins, "2026-11-01, or with a time: 2026-11-01 06:00"),
            Field("to", ends, "the last time, included; or now"),
        ],
        check=check,
        yes="queue runs",
    )


def _check_time(text: str, *, zone: tzinfo, now: datetime) -> CheckResult[datetime]:
    try:
        instant = read_time(text, what="time", timezone="local", now=now)
    except InvalidInput as error:
        return CheckResult(error_words(error))
    return CheckResult(spoken_time(instant, zone=zone, now=now), instant)
