"""Why, in plain sentences: of a run, and of a time that has none."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from edgecron.base.units import from_ms
from edgecron.client.engine_words import absence_advice
from edgecron.views.phrases import (
    count_words,
    covered_range,
    range_words,
    recorded_words,
    waiting_words,
)
from edgecron.views.times import full_time, near_time, short_duration

if TYPE_CHECKING:
    from edgecron.client.engine_words import FrontEnd
    from edgecron.model.run import Execution
    from edgecron.model.schedule import ScheduleSpec
    from edgecron.views.explanation import Explanation

MOST_RUNS = 5
_NOT_RUN = {
    "overlap": "an earlier run of it was still active",
    "misfire": "nothing could run it at its time, and its catch-up left it out",
    "paused": "it was paused",
    "edited": "its time had passed when its times were changed",
    "rescheduled": "the run before it was rescheduled past its time",
    "jitter": "jitter delayed the run before it past its time; the jitter exceeds the interval",
    "condition": "what it needs did not come true in time",
    "removed": "it was removed",
    "request": "somebody asked for its end",
    "replaced": "a newer fire of it took its place",
    "shutdown": "its engine was told to stop, and to end what runs",
    "restored": "the database was restored from a backup that was made while it was active",
    "lost": "its supervisor died, and how it ended is not on record",
    "reboot": "the machine started anew while it ran",
}
_MISSED_BY = {
    "missed:asleep": "the machine was asleep",
    "missed:off": "no engine was running: the machine was off, or the engine was killed",
    "missed:stopped": "no engine was running: the last one had been stopped",
    "missed:stalled": "an engine was running, and did not get to it in time",
    "missed:clock": "the clock could not be trusted, or was set forward",
}
_PASSED = {"failed": "failed", "interrupted": "was interrupted", "cancelled": "was cancelled"}


def run_sentence(
    run: Execution, *, zone: tzinfo, now: datetime, spec: ScheduleSpec | None = None
) -> str:
    """`Run 41 ran at 02:00:00, because ...; it succeeded after 3 s.`

    `spec` is what its schedule said when the run was decided; None if that is unknown.
    """
    from edgecron.model.choices import Cause, Status

    because = f"because {_cause_words(run, spec, zone=zone, now=now)}"
    scope = f" ({run.scope_kind}:{run.scope_id})" if run.scope_id else ""
    subject = f"Run {run.id}{scope}"
    if run.status is Status.SKIPPED:
        missed = range_words(run, zone=zone, now=now)
        count = run.missed_count or 1
        time = near_time(run.plan_at, zone=zone, now=now)
        what = f"Its time {time} was left out"
        if missed:
            what = f"Its {count} times {missed.split(' ', 2)[2]} were left out"
        elif run.cause is Cause.MANUAL:
            what = f"What somebody asked for at {time} was left out"
        return f"{what} (run {run.id}{scope}), because {_reason_words(run, zone=zone, now=now)}."
    if run.status is Status.QUEUED:
        return f"{subject} waits to start, {because}{_waits(run, zone=zone, now=now)}."
    if run.started_at is None:
        passed = _PASSED.get(run.status.value, run.status.value)
        why = _reason_words(run, zone=zone, now=now)
        return f"{subject} {passed} before it started: {why}. It was due {because}."
    began = f"{subject} ran at {near_time(run.started_at, zone=zone, now=now)}, {because}"
    if run.status is Status.RUNNING:
        asked = ", and its end was asked for" if run.cancel_requested_at is not None else ""
        return f"{began}; it still runs{asked}."
    after = f" after {short_duration(run.duration_ms)}" if run.duration_ms is not None else ""
    if run.status is Status.SUCCESS:
        return f"{began}; it succeeded{after}."
    return (
        f"{began}; it {_PASSED[run.status.value]}{after}: {_reason_words(run, zone=zone, now=now)}."
    )


def verdict_sentences(
    front: FrontEnd, found: Explanation, *, zone: tzinfo, now: datetime
) -> list[str]:
    """Why nothing is on record of a time: what it is for the schedule, and what is around it."""
    from edgecron.views.explanation import Verdict

    schedule = found.schedule
    name, spec = schedule.name, schedule.spec

    def shown(instant: datetime | None) -> str:
        return "" if instant is None else full_time(instant, spec.timezone, zone=zone)

    time = shown(found.plan_at or found.at)
    made = shown(schedule.created_at)
    by = "" if found.source is None else f" by {found.source!r}"
    moved = ""
    if found.due_at is not None and found.due_at != found.plan_at:
        moved = f", and start at {shown(found.due_at)}"
    until = schedule.paused_until
    if until is None or not schedule.enabled:
        end = f"; let it fire again: {front.command(f'resume {name}')}"
    else:
        end = f" until {shown(until)}"
    did = "was" if found.at <= now else "is"
    words = {
        Verdict.BROKEN: f"It {did} not run: its triggers can't be read:"
        f" {schedule.trigger_error or 'as they stood then'}.",
        Verdict.NOT_MADE: f"It did not run at {time}: it was made later, at {made}.",
        Verdict.NO_TIME: f"{time} {did} not one of its times.{_around(found, zone=zone)}",
        Verdict.TOO_EARLY: f"{time} lies before --from, {shown(spec.from_at)}.",
        Verdict.ENDED: f"{time} lies after --until, {shown(spec.until_at)}.",
        Verdict.USED_UP: f"--max-runs, {spec.max_runs}, {did} reached before {time}.",
        Verdict.HELD: f"{time} {did} left out: it is paused{end}.",
        Verdict.VANISHED: f"It {did} not run at {time}:"
        f" {absence_advice(front, schedule, zone=zone, now=now)}.",
        Verdict.COMING: f"It will run: {time} is one of its times{by}{moved}.",
        Verdict.DUE: f"{time} is one of its times{by}{moved}, has come, and was not decided yet.",
        Verdict.FORGOTTEN: f"What became of {time} was removed by retention.",
        Verdict.UNRECORDED: f"{time} is one of its times{by}, and nothing is on record of it: its"
        " times were changed about then, or its history was removed.",
    }
    lines = [words[found.verdict]]
    if found.verdict in (Verdict.NO_TIME, Verdict.UNRECORDED) and (
        found.words.revision != schedule.revision
    ):
        lines.append(
            f"That is by revision {found.words.revision} of"
            f" {shown(found.words.written_at)}; it was changed since, to {schedule.revision}."
        )
    if found.verdict in (Verdict.DUE, Verdict.COMING):
        lines += _engine_words(front, found, zone=zone, now=now)
    return lines


def _engine_words(front: FrontEnd, found: Explanation, *, zone: tzinfo, now: datetime) -> list[str]:
    """What stands in the way of what is due, or will be."""
    client, schedule = front.client(), found.schedule
    if not client.has_engine(schedule.spec.queue, offer=schedule.offer):
        return [_sentence(absence_advice(front, found.schedule, zone=zone, now=now))]
    if not client.clock_state().is_trusted:
        return [f"This machine's clock can't be trusted; see {front.command('doctor')}."]
    return []


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _around(found: Explanation, *, zone: tzinfo) -> str:
    timezone = found.schedule.spec.timezone
    around = [
        f"{word} is {full_time(instant, timezone, zone=zone)}"
        for word, instant in (
            ("the one before", found.previous_at),
            ("the next one", found.next_at),
        )
        if instant is not None
    ]
    if not around:
        triggers = " and ".join(found.schedule.spec.triggers)
        return f" It has no times of its own: it runs {triggers}."
    return f" Of those, {' and '.join(around)}."


def _cause_words(run: Execution, spec: ScheduleSpec | None, *, zone: tzinfo, now: datetime) -> str:
    plan = near_time(run.plan_at, zone=zone, now=now)
    by = "" if run.trigger_text is None else f" of {run.trigger_text!r}"
    moved = _moved_words(run, spec, zone=zone, now=now)
    upstream = run.fire_key.partition(":")[2]
    again = ""
    if run.fire_key.startswith("again:"):
        at = near_time(from_ms(int(upstream)), zone=zone, now=now)
        again = f" once more, as the clock was set back at {at}"
    return {
        "schedule": f"{plan} was its time{by}{moved}{again}"
        f"{_covered_words(run, zone=zone, now=now)}",
        "catch_up": f"its time {plan}{by}{moved} was missed{_missed_words(run)}, and caught up",
        "manual": "somebody asked for it",
        "retry": f"attempt {run.attempt - 1} of {plan} had not succeeded"
        f" (this is {run.attempt} of {run.max_attempts})",
        "boot": "the machine had booted",
        "after": f"run {upstream} had ended, which it comes after",
        "backfill": f"a backfill asked for {plan}",
    }[run.cause.value]


def _missed_words(run: Execution) -> str:
    """Why the time of a run that catches up was missed: ` (the machine was asleep)`."""
    for flag in run.flags:
        words = _MISSED_BY.get(flag)
        if words is not None:
            return f" ({words})"
    return ""


def _covered_words(run: Execution, *, zone: tzinfo, now: datetime) -> str:
    """Which missed times a run covers: ` (it also covers 14 missed times from 18:45:05 on)`."""
    covered = covered_range(run)
    if covered is None:
        return ""
    count, first_at = covered
    times = count_words(count, "missed time")
    return f" (it also covers {times} from {near_time(first_at, zone=zone, now=now)} on)"


def _moved_words(run: Execution, spec: ScheduleSpec | None, *, zone: tzinfo, now: datetime) -> str:
    """Why a run was due at another time than its plan time: ` (rescheduled to 10:30:00)`."""
    jitter_s = 0.0 if spec is None else spec.policies.jitter_s
    if spec is None or run.due_at == run.plan_at:
        return ""
    due = near_time(run.due_at, zone=zone, now=now)
    if timedelta(0) <= run.due_at - run.plan_at <= timedelta(seconds=jitter_s):
        return f" (delayed to {due} by its jitter)"
    return f" (rescheduled to {due})"


def _reason_words(run: Execution, *, zone: tzinfo, now: datetime) -> str:
    reason = "" if run.reason is None else run.reason.value
    known = _NOT_RUN.get(reason)
    if reason == "timeout":
        known = "it took longer than its timeout"
    if known is None:
        return run.error_msg or reason
    if reason == "misfire" and run.error_msg:
        return f"{recorded_words(run, zone=zone, now=now)}, and its catch-up left it out"
    if reason == "condition" and run.error_msg:
        return f"{known}: {run.error_msg}"
    return known


def _waits(run: Execution, *, zone: tzinfo, now: datetime) -> str:
    if run.waiting_for is not None and run.wait_until is not None:
        return f"; it {waiting_words(run.waiting_for, run.wait_until, zone=zone, now=now)}"
    if run.due_at > now:
        return f"; it is due at {near_time(run.due_at, zone=zone, now=now)}"
    return ""
