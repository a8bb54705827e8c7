"""Say values in a few words or a glyph, for tables and single lines.

Callers clean the words for the terminal. A glyph means the same in log, command line and dashboard,
and a word always stands beside it; a front end adds only its style.
"""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from shlex import join
from typing import TYPE_CHECKING

from edgecron.base.safetext import clean
from edgecron.base.units import from_ms
from edgecron.base.values import NamedTuple
from edgecron.base.window_texts import source_of
from edgecron.model.choices import (
    COMMAND_QUEUE,
    COVERS_MARK,
    SUSPENDED_MARK,
    Cause,
    JobKind,
    Reason,
    Status,
    WhileLost,
)
from edgecron.model.conditions import read_condition, read_needs
from edgecron.model.engine import ANYWHERE, EACH, LABEL, base_of, find_program, placement_of
from edgecron.model.listing import ScheduleState, Standing, idle_words, standing_of
from edgecron.views.times import distance, full_time, near_time, seconds_words, with_near_times

if TYPE_CHECKING:
    from edgecron.base.errors import EdgecronError
    from edgecron.model.options import Policies
    from edgecron.model.run import Execution, Progress
    from edgecron.model.schedule import Schedule, ScheduleSpec
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.next_fire import Missed
    from edgecron.views.outlook import LatePlaces


class Glyph(NamedTuple):
    """A narrow letter that every terminal font has, and its ASCII fallback."""

    letter: str
    plain: str


# Findings: of `doctor`, of a check of input, and events of the log that are not about a run.
OK = Glyph("✓", "+")
NOTE = Glyph("•", "#")
WARNING = Glyph("!", "!")
PROBLEM = Glyph("✗", "x")
UNKNOWN = Glyph("?", "?")
# What happens to a definition.
CREATED = Glyph("+", "+")
CHANGED = Glyph("~", "~")
REMOVED = Glyph("-", "-")

RUN_GLYPHS = {
    Status.QUEUED: Glyph("○", "o"),
    Status.RUNNING: Glyph("▸", ">"),
    Status.SUCCESS: OK,
    Status.FAILED: PROBLEM,
    Status.SKIPPED: Glyph("–", "-"),
    Status.CANCELLED: Glyph("⊘", "/"),
    Status.INTERRUPTED: WARNING,
}
SCHEDULE_GLYPHS = {
    ScheduleState.ACTIVE: Glyph("●", "*"),
    ScheduleState.PAUSED: Glyph("‖", "="),
    ScheduleState.VANISHED: UNKNOWN,
    ScheduleState.BROKEN: PROBLEM,
    ScheduleState.DONE: Glyph("·", "."),
}


def glyph(letter: str, plain: str) -> str:
    """Return a letter, or `plain` if the output can't show the letter."""
    try:
        # The dashboard replaces stdout; it runs only with UTF-8.
        letter.encode(getattr(sys.stdout, "encoding", "utf-8") or "ascii")
    except UnicodeEncodeError:
        return plain
    return letter


_NOT_CRON = ("every ", "at ", "on ", "after ")  # the beginnings of other triggers
_OVERDUE_S = 2.0  # a running engine is faster
# The flags of a run that a person should know.
_FLAG_WORDS = {
    "pipe_held": "left processes running",
    "left_behind": "left processes running",
    "escaped": "left processes running",
    "stalled": "printed nothing for its stall timeout",
    "killed": "killed after its grace",
    "output_lost": "part of its output is lost",
    "result_too_big": "its result was too big to keep",
    "result_invalid": "its result was not JSON",
    "gave_up": "the job does not retry this exception",
    "core_dumped": "core dumped",
    "output_not_stored": "its output is not stored (durability volatile)",
    "out_of_memory": "ended by the kernel at its memory limit",
    "memory_per_process": "its memory limit held for each process by itself",
    "cpu_unlimited": "its limit of processor time was not possible here",
    "could_sleep": "the machine could have slept meanwhile",
    "suspended": "suspended for a while",
    "state_refused": "its changes of state were too large to keep",
}
_MOST_NAMED = 5
_MOST_UNREADABLE = 10


def failure_words(execution: Execution) -> str:
    """Return the error of a run on one line."""
    return clean(execution.error_msg or "")


def recorded_words(execution: Execution, *, zone: tzinfo, now: datetime) -> str:
    """Return the error of a run as recorded; for a missed time, with local times."""
    text = execution.error_msg or ""
    # Texts of others stay as they are.
    is_ours = execution.reason is Reason.MISFIRE or is_suspended(execution)
    return with_near_times(text, zone=zone, now=now) if is_ours else text


def moved_words(fire: UpcomingFire, *, zone: tzinfo, now: datetime) -> str:
    """Say that a person moved a fire, and from when if it has a plan time of its own."""
    if fire.plan_at == fire.due_at:
        return "rescheduled"
    return f"rescheduled from {near_time(fire.plan_at, zone=zone, now=now)}"


def disk_words(problem: str) -> str:
    """Say what a full disk does to schedules."""
    return f"{problem}: edgecron starts a run only if it can record the start"


def is_overdue(instant: datetime, now: datetime) -> bool:
    """Return whether a running engine would have taken a time by now."""
    return (now - instant).total_seconds() >= _OVERDUE_S


_UNTRUSTED = "held: the clock can't be trusted"


def next_words(standing: Standing, *, zone: tzinfo, now: datetime, is_clock_trusted: bool) -> str:
    """Say when a schedule starts next, or why it does not.

    If the clock can't be trusted, the distance is unknown.
    """
    why_none = idle_words(standing, now=now)
    if why_none is not None or standing.next_run_at is None:
        return why_none or "no more times"
    time = near_time(standing.next_run_at, zone=zone, now=now)
    if not is_clock_trusted:
        return f"{time}, {_UNTRUSTED}"
    if is_overdue(standing.next_run_at, now):
        return f"overdue since {time}"
    held = "paused, " if standing.paused_until is not None and standing.paused_until > now else ""
    return f"{held}{time}, {distance(standing.next_run_at, now)}"


def next_sentence(
    schedule: Schedule, *, zone: tzinfo, now: datetime, is_clock_trusted: bool
) -> str:
    """Say the next time in full, local and how far away; see `next_words`."""
    if schedule.next_run_at is None or schedule.vanished_at is not None or schedule.is_excluded:
        standing = standing_of(schedule)
        words = next_words(standing, zone=zone, now=now, is_clock_trusted=is_clock_trusted)
        return f"next: {words}"
    time = full_time(schedule.next_run_at, schedule.spec.timezone, zone=zone)
    if not is_clock_trusted:
        return f"next {time} ({_UNTRUSTED})"
    word = "overdue since" if is_overdue(schedule.next_run_at, now) else "next"
    return f"{word} {time} ({distance(schedule.next_run_at, now)})"


def last_words(standing: Standing, *, now: datetime) -> str:
    """Say how the last run ended, and how long ago."""
    if standing.last_status is None:
        return "-"
    status, when = standing.last_status, standing.last_run_at
    return status if when is None else f"{status} {distance(when, now)}"


def trigger_words(standing: Standing, *, zone: tzinfo) -> str:
    """Return the trigger texts, short: the column of the next time shows the time of an `at`.

    Cron texts have their zone behind them, unless it is the one in which times are shown.
    """
    texts = ", ".join("once" if text.startswith("at ") else text for text in standing.triggers)
    there = standing.timezone or "UTC"
    is_here = there in ("local", getattr(zone, "key", str(zone)))
    has_cron = any(not text.startswith(_NOT_CRON) for text in standing.triggers)
    return texts if is_here or not has_cron else f"{texts} {there}"


def job_words(spec: ScheduleSpec) -> str:
    """Return the job of a schedule as a shell would read it."""
    return join(spec.job.argv) if spec.job.kind is JobKind.COMMAND else spec.job.argv[0]


def status_words(execution: Execution) -> str:
    """Return a status and its reason: `failed: timeout`."""
    if is_suspended(execution):
        return f"{execution.status.value}: {SUSPENDED_MARK}"
    # The exit code or signal is shown beside the status.
    if execution.reason in (None, Reason.EXIT, Reason.SIGNAL):
        return execution.status.value
    return f"{execution.status.value}: {execution.reason}"


def is_suspended(execution: Execution) -> bool:
    """Return whether the processes of a run are stopped until its condition is true again."""
    return execution.status is Status.RUNNING and SUSPENDED_MARK in execution.flags


def took_ms(execution: Execution, *, now: datetime) -> int | None:
    """Return how long a run took, or has taken so far; None if it has not started."""
    if execution.status is Status.RUNNING and execution.started_at is not None:
        return max(0, round((now - execution.started_at).total_seconds() * 1000))
    return execution.duration_ms


def due_words(execution: Execution, *, zone: tzinfo, now: datetime) -> str:
    """Say when a queued run can start: `due at 14:05:10, in 10s`."""
    due = near_time(execution.due_at, zone=zone, now=now)
    return f"due at {due}, {distance(execution.due_at, now)}"


def condition_words(condition: str, until: datetime, *, zone: tzinfo, now: datetime) -> str:
    """`waits for a success of backup within 1h, until 14:05:00`."""
    words = read_condition(condition).words()
    return f"waits for {words}, until {near_time(until, zone=zone, now=now)}"


def waiting_words(execution: Execution, *, zone: tzinfo, now: datetime) -> str | None:
    """`waits for AC power, until 14:05:00 (since 12:05:00)`; None if it waits for no condition.

    If the engine has noted why the condition is not met, that follows.
    """
    if execution.waiting_for is None or execution.wait_until is None:
        return None
    words = condition_words(execution.waiting_for, execution.wait_until, zone=zone, now=now)
    words = f"{words} (since {near_time(execution.due_at, zone=zone, now=now)})"
    return f"{words}: {clean(execution.error_msg)}" if execution.error_msg else words


def needs_words(policies: Policies) -> str:
    """Say what a schedule needs, and how long it waits; empty if it needs nothing."""
    if not policies.needs:
        return ""
    words = " and ".join(condition.words() for condition in read_needs(policies.needs))
    return f"{words}; a run waits up to {seconds_words(policies.needs_deadline_s)}"


def windows_words(policies: Policies) -> str:
    """Say when runs can start: `between 21:00-05:00, except 2026-12-24`; empty for any time."""
    words = [f"between {text}" for text in policies.between]
    words += [f"not between {text}" for text in policies.not_between]
    words += [f"except {source_of(text)}" for text in policies.except_days]
    return ", ".join(words)


def excluded_words(times: Missed, timezone: str | None, *, zone: tzinfo) -> str:
    """`2026-11-20 05:00:00`, or with its count: `2026-11-20 05:00:00, 96 times until 20:50:00`."""
    first = full_time(from_ms(times.from_ms), timezone, zone=zone)
    if times.count == 1:
        return first
    last = full_time(from_ms(times.to_ms), timezone, zone=zone)
    if last[:11] == first[:11] and "," not in last:
        last = last[11:]
    return f"{first}, {times.count:,} times until {last}"


def while_words(policies: Policies) -> str:
    """Say which conditions must hold during a run, and what happens otherwise; empty if none."""
    if not policies.while_needs:
        return ""
    words = " and ".join(condition.text for condition in read_needs(policies.while_needs))
    if policies.while_lost is WhileLost.SUSPEND:
        return f"{words}; a run is suspended while this is not true"
    return f"{words}; a run is ended if this is no longer true"


def group_words(schedule: Schedule) -> str:
    """Return the group of a schedule and its limit; empty if it has none."""
    if schedule.spec.group is None:
        return ""
    most = schedule.group_max_running
    limit = "no limit"
    if most is not None:
        limit = f"at most {count_words(most, 'run')} at the same time"
    return f"{schedule.spec.group}  ({limit})"


def range_words(execution: Execution, *, zone: tzinfo, now: datetime) -> str | None:
    """Say `missed 14 from .. to ..` for a row that covers several times, else None."""
    first, last = execution.missed_from_at, execution.missed_to_at
    # The row's own time shows a single one.
    if first is None or last is None or (execution.missed_count or 0) < 2:
        return None
    start = near_time(first, zone=zone, now=now)
    end = near_time(last, zone=zone, now=now)
    return f"missed {execution.missed_count} from {start} to {end}"


def note_words(execution: Execution, *, zone: tzinfo, now: datetime) -> str:
    """Return all other notes on a run, in one cell."""
    notes = []
    if execution.status is Status.RUNNING and execution.progress is not None:
        notes.append(progress_words(execution.progress))
    if execution.cause not in (Cause.SCHEDULE, Cause.RETRY):  # A retry has its attempt.
        notes.append(execution.cause.value.replace("_", " "))
    if execution.attempt > 1:
        notes.append(f"attempt {execution.attempt}")
    if execution.scope_id:
        notes.append(f"{execution.scope_kind}:{execution.scope_id}")
    missed = range_words(execution, zone=zone, now=now)
    if missed is not None:
        notes.append(missed)
    if execution.status is Status.QUEUED and execution.due_at > now:
        notes.append(f"due {distance(execution.due_at, now)}")
    waits = waiting_words(execution, zone=zone, now=now)
    if waits is not None:
        notes.append(waits)
    elif execution.error_msg:
        notes.append(clean(recorded_words(execution, zone=zone, now=now)))
    return ", ".join(note for note in (*notes, *flag_words(execution)) if note)


def progress_words(progress: Progress) -> str:
    """Return the progress of a run: `40%, copied 12 of 30`."""
    percent = percent_words(progress)
    return f"{percent}, {progress.text}" if percent and progress.text else percent or progress.text


def percent_words(progress: Progress) -> str:
    """Return `40%`; empty if unknown. Only a finished run has 100%."""
    return "" if progress.fraction is None else f"{round(progress.fraction * 10_000) // 100}%"


def flag_words(execution: Execution) -> list[str]:
    """Return the remarks that a person should know about a run, beyond how it ended."""
    # Several flags can mean the same to a person.
    flags = () if is_suspended(execution) else execution.flags
    words = dict.fromkeys(_FLAG_WORDS[flag] for flag in flags if flag in _FLAG_WORDS)
    covered = covered_range(execution)
    if covered is not None:
        words[f"covers {count_words(covered[0], 'missed time')}"] = None
    return list(words)


def covered_range(execution: Execution) -> tuple[int, datetime] | None:
    """Return how many missed times a run covers in addition to its own, and the first of them."""
    for flag in execution.flags:
        if flag.startswith(COVERS_MARK):
            count, _, first_ms = flag.removeprefix(COVERS_MARK).partition(":")
            return int(count), from_ms(int(first_ms))
    return None


def count_words(count: int, what: str) -> str:
    """`1 run`, `3 runs`, `1,200 runs`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def named_words(names: Sequence[str], *, most: int = _MOST_NAMED) -> str:
    """`a, b and 3 more`: the first names, and how many others there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def unreadable_words(what: str, names: Sequence[str]) -> str:
    """Name runs or schedules that can't be read; empty if all can."""
    if not names:
        return ""
    shown = named_words([name[:60] for name in names], most=_MOST_UNREADABLE)
    return f"{what if len(names) == 1 else f'{what}s'} {shown} can't be read"


def size_words(size_bytes: int) -> str:
    """`512 bytes`, `40 KiB`, `1.2 GiB`."""
    if size_bytes == 1:
        return "1 byte"
    size = float(size_bytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def error_words(error: EdgecronError) -> str:
    """Return an error and its hint on one line."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


def late_words(late: LatePlaces) -> str:
    """Name the late runs that run now: `2 running, at most 2 (poll-a, poll-b); 30 more wait`."""
    counts = Counter(schedule for _, schedule in late.held_by)
    named = [f"{name} ({count} runs)" if count > 1 else name for name, count in counts.items()]
    most = "" if late.places is None else f", at most {late.places}"
    waits = "waits" if late.waiting == 1 else "wait"
    wait = f"; {late.waiting:,} more {waits}" if late.waiting else ""
    return (
        f"{len(late.held_by)} running{most}" + (f" ({named_words(named)})" if named else "") + wait
    )


def runner_words(queue: str) -> str:
    """Name who runs the jobs of a queue: `an engine on web1`, `the program 'app'`."""
    on = place_words(queue)
    if base_of(queue) == COMMAND_QUEUE:
        return f"an engine{on}"
    program = find_program(queue)
    if program is None:
        return f"the program of queue {queue!r}"
    return f"the program {program!r}{on}"


def no_engine_words(queue: str) -> str:
    """`no engine of web1 is running`, for a queue of commands."""
    on = placement_of(queue)
    if on.startswith(LABEL):
        return f"no engine with the label {on.removeprefix(LABEL)} is running"
    is_any = on in (ANYWHERE, EACH)
    return "no engine is running" if is_any else f"no engine of {on} is running"


def place_words(queue: str) -> str:
    """Say where a queue's jobs run: ` on web1`, ` with the label berlin`; '' is anywhere."""
    on = placement_of(queue)
    if on == EACH:
        return " on each machine"
    if on.startswith(LABEL):
        return f" with the label {on.removeprefix(LABEL)}"
    return "" if on == ANYWHERE else f" on {on}"


def start_words(queue: str) -> str:
    """Return the command that starts an engine for a queue: `daemon --label berlin`."""
    on = placement_of(queue)
    return f"daemon --label {on.removeprefix(LABEL)}" if on.startswith(LABEL) else "daemon"


def display_width(text: str) -> int:
    """Return the columns that a text takes: wide letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(letter_width(letter) for letter in text)


@lru_cache(4096)
def letter_width(letter: str) -> int:
    """Return the columns that a letter takes: none, one or two."""
    # The second and third part of a Hangul syllable are joined to the first one.
    if unicodedata.category(letter) in ("Mn", "Me") or "\u1160" <= letter <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def beginning(text: str, width: int) -> str:
    """Return as much of a text as fits into `width` columns."""
    taken = 0
    for number, letter in enumerate(text):
        taken += letter_width(letter)
        if taken > width:
            return text[:number]
    return text


def fit(text: str, width: int) -> str:
    """Pad or cut a text to exactly `width` columns."""
    if text.isascii() and len(text) <= width:
        return text.ljust(width)
    size = display_width(text)
    if size <= width:
        return text + " " * (width - size)
    kept = beginning(text, width - 1)
    return kept + glyph("…", "~") + " " * (width - 1 - display_width(kept))


def folded(text: str, width: int) -> Iterator[str]:
    """Yield a text in parts that fit, broken between words if possible."""
    while display_width(text) > width:
        end = len(beginning(text, width)) or 1
        # A word that begins in the first half would leave more than half of the line empty.
        at = text.rfind(" ", end // 2, end + 1)
        yield text[: at if at > 0 else end].rstrip()
        text = text[at if at > 0 else end :].lstrip()
    yield text
