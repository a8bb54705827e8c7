"""Say in words what commands did to schedules and runs, and how definitions differ; also in JSON.

`apply --dry-run`, `show --changes`, `undo` and the dashboard show differences as the same lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from shlex import quote
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.base.units import format_ms, from_ms, parse_instant, to_ms
from edgecron.base.values import NamedTuple, replace
from edgecron.base.window_texts import days_of, is_calendar, source_of
from edgecron.formats.document_tables import (
    APPLY,
    SECRET,
    FieldChange,
    default_of,
    find_changes,
    may_be_secret,
    spec_table,
)
from edgecron.formats.toml import write_value
from edgecron.model.choices import Status
from edgecron.model.schedule import Act, Change, Difference, ScheduleSpec, Undo
from edgecron.planning.forecast import is_moved
from edgecron.planning.windows import windows_of
from edgecron.views.json_objects import instant
from edgecron.views.phrases import (
    CHANGED,
    CREATED,
    REMOVED,
    Glyph,
    count_words,
    next_sentence,
    status_words,
    windows_words,
)
from edgecron.views.times import full_time, local_time, near_time

if TYPE_CHECKING:
    from edgecron.model.job import Job
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule
    from edgecron.planning.forecast import Backfill

# Of a shell, and no programs on most systems.
_BUILTINS = frozenset({"cd", "source", ".", "export", "alias", "ulimit", "umask", "set", "unset"})
_SIGNS = frozenset({"|", "||", "&&", ">", ">>", "<", "2>&1"})
_MOST_LETTERS = 200  # of a value, where a change is shown
_MOST_IN_LINE = 72  # letters of a field with both values; longer ones take a line each
_MOST_DAYS = 6  # of a calendar that was read again
REMOVED_FIELD = "removed"
_INSTANTS = ("paused_until", "next_run_at")
_ACTS = {
    Act.ADD: "added",
    Act.EDIT: "changed",
    Act.PAUSE: "paused",
    Act.RESUME: "resumed",
    Act.RESCHEDULE: "next run moved",
    Act.REMOVE: "removed",
    Act.UNDO: "undone",
}
_NOUNS = {
    Act.ADD: "the addition",
    Act.EDIT: "the edit",
    Act.PAUSE: "the pause",
    Act.RESUME: "the resume",
    Act.RESCHEDULE: "the move",
    Act.UNDO: "the undo",
}
_ORIGINS = {
    "cli": "command line",
    "http": "HTTP",
    "dashboard": "dashboard",
    "crontab": "import",
    "python": "Python",
    "sql": "SQL",
    "mcp": "AI assistant",
    "demo": "demo",
    "calendar": "calendar read again",
}


def is_held(schedule: Schedule, now: datetime) -> bool:
    """Return whether `resume` has something to do: a pause, or a trigger that could not be read."""
    until = schedule.paused_until
    is_paused = not schedule.enabled or (until is not None and until > now)
    return is_paused or schedule.trigger_error is not None


def paused_words(
    before: Schedule,
    schedule: Schedule,
    *,
    zone: tzinfo,
    now: datetime,
    is_clock_trusted: bool,
) -> str:
    """`paused backup until 2026-11-21 09:00:00; next 2026-11-22 02:00:00 (in 1d 12h)`.

    Also say if the pause cancels a move of the next run.
    """
    until, name = schedule.paused_until, schedule.name
    end = "" if until is None else f" until {local_time(until, zone=zone)}"
    is_changed = (schedule.enabled, until) != (before.enabled, before.paused_until)
    words = f"paused {name}{end}" if is_changed else f"{name} was already paused{end}"
    words = _with_next(words, schedule, zone=zone, now=now, is_clock_trusted=is_clock_trusted)
    moved = before.next_run_at
    if moved is None or not is_moved(before) or moved == schedule.next_run_at:
        return words
    return f"{words}; the move of its next run to {local_time(moved, zone=zone)} is cancelled"


def resumed_words(
    schedule: Schedule, *, was_held: bool, zone: tzinfo, now: datetime, is_clock_trusted: bool
) -> str:
    """`resumed backup; next 2026-11-22 02:00:00 (in 11h)`."""
    name = schedule.name
    words = f"resumed {name}" if was_held else f"{name} was not paused"
    return _with_next(words, schedule, zone=zone, now=now, is_clock_trusted=is_clock_trusted)


def rescheduled_words(
    before: Schedule, schedule: Schedule, *, zone: tzinfo, now: datetime, is_clock_trusted: bool
) -> str:
    """`rescheduled backup; next .., instead of ..`."""
    was = before.next_run_at
    instead = ""
    if was is not None and was != schedule.next_run_at:
        instead = f", instead of {full_time(was, schedule.spec.timezone, zone=zone)}"
    when = next_sentence(schedule, zone=zone, now=now, is_clock_trusted=is_clock_trusted)
    return f"rescheduled {schedule.name}; {when}{instead}"


def closed_words(schedule: Schedule, *, zone: tzinfo) -> str | None:
    """Say that the next run waits because it is due outside its windows; None if it does not."""
    if schedule.next_run_at is None:
        return None
    windows = windows_of(schedule.spec.policies, schedule.spec.timezone)
    due_ms = to_ms(schedule.next_run_at)
    if windows is None or windows.is_open(due_ms):
        return None
    time = full_time(schedule.next_run_at, schedule.spec.timezone, zone=zone)
    outside = f"{time} is outside the windows of {schedule.name}"
    outside += f" ({windows_words(schedule.spec.policies)})"
    opens_ms = windows.next_open_ms(due_ms)
    if opens_ms is None:
        return f"{outside}: the run will be skipped"
    opens = full_time(from_ms(opens_ms), schedule.spec.timezone, zone=zone)
    return f"{outside}: the run waits until {opens}"


def fired_words(execution: Execution) -> str:
    """`run 41 of backup: queued`."""
    return f"run {execution.id} of {execution.schedule}: {status_words(execution)}"


def cancelled_words(execution: Execution) -> str:
    """Say `cancelling run 41 of backup`, or that it was cancelled before it started."""
    name = execution.schedule
    if execution.status is Status.CANCELLED and execution.started_at is None:
        return f"cancelled run {execution.id} of {name} before it started"
    return f"cancelling run {execution.id} of {name}"


def queued_words(name: str, ids: list[int]) -> str:
    """`queued 3 runs of backup: runs 41 to 43`."""
    if not ids:
        return f"nothing to backfill for {name}"
    runs = f"run {ids[0]}" if len(ids) == 1 else f"runs {ids[0]} to {ids[-1]}"
    return f"queued {count_words(len(ids), 'run')} of {name}: {runs}"


def left_lines(command: Callable[[str], str], plan: Backfill, *, zone: tzinfo) -> list[str]:
    """Say which times a backfill skips, and why."""
    lines = []
    if plan.succeeded:
        lines.append(f"skipped: {len(plan.succeeded)} with a success")
    if plan.active:
        lines.append(f"skipped: {len(plan.active)} already queued or running")
    return lines + undecided_lines(command, plan, zone=zone)


def undecided_lines(command: Callable[[str], str], plan: Backfill, *, zone: tzinfo) -> list[str]:
    """Say which times a backfill skips because they are undecided, forgotten or out of bounds."""
    lines = []
    if plan.undecided_count:
        why = "an engine will decide them"
        if not plan.schedule.enabled:
            why = f"the schedule is paused; first: {command(f'resume {plan.schedule.name}')}"
        lines.append(f"skipped: {plan.undecided_count} not decided yet: {why}")
    if plan.forgotten_count:
        assert plan.schedule.pruned_until is not None
        until = full_time(plan.schedule.pruned_until, plan.schedule.spec.timezone, zone=zone)
        lines.append(
            f"skipped: {plan.forgotten_count} up to {until}: retention removed the runs of that"
            " time, so their results are unknown"
        )
    if plan.out_of_bounds_count:
        lines.append(f"skipped: {plan.out_of_bounds_count} before --from or after --until")
    return lines


def _with_next(
    words: str, schedule: Schedule, *, zone: tzinfo, now: datetime, is_clock_trusted: bool
) -> str:
    if not schedule.enabled:
        return words
    when = next_sentence(schedule, zone=zone, now=now, is_clock_trusted=is_clock_trusted)
    return f"{words}; {when}"


def secret_words(name: str) -> str:
    """Warn about a variable whose name looks like a secret."""
    return f"the database stores {name} in plain text; put secrets in a file and use --env-file"


def kept_words(changes: Iterable[FieldChange], *, forget: str) -> str | None:
    """Name the former values that can be secret and stay in the database; None if there are none.

    `forget` is the command line that removes them.
    """
    keys = [one.key for one in changes if one.old is not None and may_be_secret(one)]
    if not keys:
        return None
    named = clean(" and ".join(keys))
    return (
        f"the database keeps the former {named} for runs that started with it; to remove it:"
        f" {forget}"
    )


def find_missing_command(job: Job) -> str | None:
    """Say that a command would not be found, or needs a shell; None if all is well."""
    command = job.argv[0]
    in_shell = f"works only in a shell: use --shell {quote(' '.join(job.argv))}"
    sign = next((word for word in job.argv if word in _SIGNS), None)
    if sign is not None:
        return f"word {sign!r} {in_shell}"
    if os.path.isabs(command) or command.startswith("~"):
        if not os.path.exists(command):
            return f"command {command!r} does not exist yet"
        if os.path.isdir(command):
            return f"command {command!r} is a folder"
        return None if os.access(command, os.X_OK) else f"command {command!r} is not executable"
    if "/" in command:
        folder = job.cwd or "HOME"
        return f"command {command!r} is relative to {folder}; an absolute path is safer"
    from shutil import which  # loads three compressors

    if which(command):
        return None
    if command in _BUILTINS:
        return f"command {command!r} {in_shell}"
    return f"command {command!r} is not in your PATH"


def find_missing_folder(job: Job) -> str | None:
    """Say that the folder of a job does not exist yet; None if it exists, or if this is unknown."""
    # A relative path counts from the job's HOME, which can differ from ours.
    if job.cwd is None or not job.cwd.startswith("/") or os.path.isdir(job.cwd):
        return None
    return f"folder {job.cwd!r} does not exist yet"


def find_differences(
    old: ScheduleSpec | None,
    new: ScheduleSpec | None,
    *,
    state: Mapping[str, Sequence[Any]] | None = None,
) -> tuple[Difference, ...]:
    """List the fields in which two definitions differ, and those of a state.

    None is no definition. `state` has the values before and after of `enabled` and `removed`, and
    of `paused_until` and `next_run_at` in milliseconds.
    """
    found = [Difference(key, *two) for key, two in _state_values(state or {})]
    if old is not None and new is not None and old.name != new.name:
        found.append(Difference("name", old.name, new.name))
    changes = find_changes(
        {} if old is None else spec_table(old),
        {} if new is None else spec_table(new),
        is_revealed=True,
    )
    found += [Difference(one.key, one.old, one.new) for one in changes]
    if old is not None and new is not None:
        found += _calendar_differences(old.policies.except_days, new.policies.except_days)
    return tuple(found)


def _calendar_differences(old: Sequence[str], new: Sequence[str]) -> Iterator[Difference]:
    """The days that calendars have lost and got, if both definitions name these calendars."""
    before = {source_of(text): days_of(text) for text in old if is_calendar(text)}
    for text in new:
        source, days = source_of(text), days_of(text)
        former = before.get(source, days)
        lost, got = (
            f"{source}: {_some(each)}" if each else None
            for each in (
                [one for one in former if one not in days],
                [one for one in days if one not in former],
            )
        )
        if lost or got:
            yield Difference("except", lost, got)


def _some(days: Sequence[str]) -> str:
    more = len(days) - _MOST_DAYS
    return ", ".join(days[:_MOST_DAYS]) + (f" and {more} more" if more > 0 else "")


def _state_values(state: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, list[object]]]:
    for key, two in state.items():
        if key in _INSTANTS:
            yield key, [None if value is None else format_ms(value) for value in two]
        else:
            yield key, [bool(value) for value in two]


def mask(changes: Iterable[FieldChange | Difference]) -> tuple[Difference, ...]:
    """Replace values of environment, payload and stdin by ***."""
    return tuple(
        Difference(
            one.key,
            SECRET if one.old is not None and may_be_secret(one) else one.old,
            SECRET if one.new is not None and may_be_secret(one) else one.new,
        )
        for one in changes
    )


def mask_change(change: Change) -> Change:
    """Hide the values of a change that can be secret."""
    return replace(change, changes=mask(change.changes))


# Lines.


class DifferenceLine(NamedTuple):
    """A line about a field. `glyph` says whether its value is new, another one, or gone."""

    glyph: Glyph
    text: str


def change_line(change: FieldChange | Difference) -> str:
    """Show a field before and after in one line, `timeout: 1h -> 2h`."""
    if change.old == change.new == SECRET:  # Else they would look alike.
        return f"{change.key}: changed (hidden)"
    old, new = change_words(change)
    return f"{change.key}: {old} -> {new}"


def difference_lines(
    changes: Iterable[FieldChange | Difference],
    *,
    is_whole: bool = False,
    zone: tzinfo | None = None,
    now: datetime | None = None,
) -> list[DifferenceLine]:
    """Show each field by a line, `timeout: 1h -> 2h`, or by two if it is long.

    If `is_whole`, a schedule is made or removed: only its values are shown. With a zone,
    instants are shown in it.
    """
    lines = []
    for change in changes:
        if change.key == REMOVED_FIELD:
            continue  # The act of the change says it.
        old, new = change_words(change, zone=zone, now=now)
        has_old, has_new = change.old is not None, change.new is not None
        if change.old == change.new == SECRET:
            lines.append(DifferenceLine(CHANGED, change_line(change)))
        elif is_whole and has_old != has_new:
            glyph, text = (CREATED, new) if has_new else (REMOVED, old)
            lines.append(DifferenceLine(glyph, f"{change.key}: {text}"))
        elif len(change.key) + len(old) + len(new) > _MOST_IN_LINE:
            if "none" in (old, new):
                glyph, text = (CREATED, new) if old == "none" else (REMOVED, old)
                lines.append(DifferenceLine(glyph, f"{change.key}: {text}"))
                continue
            lines.append(DifferenceLine(REMOVED, f"{change.key}: {old}"))
            lines.append(DifferenceLine(CREATED, f"{change.key}: {new}"))
        else:
            glyph = CREATED if old == "none" else REMOVED if new == "none" else CHANGED
            lines.append(DifferenceLine(glyph, f"{change.key}: {old} -> {new}"))
    return lines


def change_words(
    change: FieldChange | Difference, *, zone: tzinfo | None = None, now: datetime | None = None
) -> tuple[str, str]:
    """Return the old and the new value of a key as text; the default if it is not set."""
    words = []
    for value in (change.old, change.new):
        shown = default_of(change.key) if value is None else value
        if zone is not None and now is not None and change.key in _INSTANTS and value is not None:
            text = near_time(parse_instant(str(value)), zone=zone, now=now)
        else:
            text = "none" if shown in (None, "none") else _bare(write_value(shown))
        text = text.replace("\n", "\\n")
        words.append(text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}...")
    return words[0], words[1]


def _bare(text: str) -> str:
    """Remove the quotes of a TOML text if it is plain."""
    inner = text[1:-1]
    is_plain = text[:1] == '"' == text[-1:] and "\\" not in inner and inner.strip() == inner
    return inner if is_plain and inner else text


def act_words(change: Change) -> str:
    """Put into a word what a change did."""
    if change.act is Act.UNDO:
        for one in change.changes:
            if one.field == REMOVED_FIELD:
                return "removed, by an undo" if one.new else "restored"
    return _ACTS.get(change.act, str(change.act))


def undone_words(undo: Undo) -> str:
    """Say what an undo did, without the next time: `undid the pause of backup`."""
    name = undo.schedule
    if not undo.is_removed and any(one.field == REMOVED_FIELD for one in undo.changes):
        return f"restored {name}"
    if undo.undone is None:
        return f"returned {name} to revision {undo.revision}"
    words = f"undid {_NOUNS.get(undo.undone.act, 'the last change')} of {name}"
    return f"{words}: the schedule is removed, its history stays" if undo.is_removed else words


def origin_words(origin: str) -> str:
    """Put into words from where a change came: `command line`, `apply FILE`."""
    if origin.startswith(APPLY):
        return origin
    return _ORIGINS.get(origin, origin)


def author_words(change: Change) -> str:
    """Name the user of a change and from where it came: `anna, command line`."""
    words = origin_words(change.origin)
    return words if change.user is None else f"{change.user}, {words}"


def change_lines(
    change: Change, *, zone: tzinfo | None = None, now: datetime | None = None
) -> list[DifferenceLine]:
    """Show what a change changed, a line per field."""
    # The words of a pause say this already.
    is_plain = change.act in (Act.PAUSE, Act.RESUME)
    shown = [one for one in change.changes if not (is_plain and one.field == "enabled")]
    return difference_lines(shown, is_whole=change.act is Act.ADD, zone=zone, now=now)


# JSON.


def difference_objects(changes: Iterable[FieldChange | Difference]) -> list[dict[str, Any]]:
    """Return differences as JSON objects."""
    return [{"field": change.key, "old": change.old, "new": change.new} for change in changes]


def change_object(change: Change) -> dict[str, Any]:
    """Return a change as `show --changes` shows it."""
    return {
        "schedule": change.schedule,
        "revision": change.revision,
        "at": instant(change.at),
        "act": change.act.value,
        "origin": change.origin,
        "user": change.user,
        "changes": difference_objects(change.changes),
        "is_complete": change.is_complete,
    }


def undo_object(undo: Undo) -> dict[str, Any]:
    """Return an undo as a JSON object."""
    return {
        "name": undo.schedule,
        "seen": undo.seen,
        "made": undo.made,
        "revision": undo.revision,
        "undone": None if undo.undone is None else change_object(mask_change(undo.undone)),
        "changes": difference_objects(mask(undo.changes)),
        "next_before": [instant(at) for at in undo.next_before],
        "next_after": [instant(at) for at in undo.next_after],
        "is_removed": undo.is_removed,
    }
