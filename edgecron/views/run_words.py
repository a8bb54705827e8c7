"""Say in words why a run started, how it ended, and what a notice about that says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from edgecron.base.units import format_duration_ms, from_ms, to_ms
from edgecron.base.window_texts import most_spread_ms, split_once_in
from edgecron.model.choices import (
    GAVE_UP_MARK,
    ON_TIME_MS,
    Cause,
    JobKind,
    Priority,
    Reason,
    Status,
)
from edgecron.model.notices import Notice, NoticeEvent
from edgecron.planning.windows import windows_of
from edgecron.views.phrases import (
    count_words,
    covered_range,
    failure_words,
    flag_words,
    is_suspended,
    progress_words,
    range_words,
    recorded_words,
    size_words,
    status_words,
    took_ms,
    waiting_words,
)
from edgecron.views.times import local_time, near_time, short_duration

if TYPE_CHECKING:
    from edgecron.model.run import Execution
    from edgecron.model.schedule import ScheduleSpec


NOT_RUN = {
    "overlap": "an earlier run was still active",
    "misfire": "no engine could run it on time, and the catch-up policy skipped it",
    "paused": "the schedule was paused",
    "edited": "an edit changed the times after this one had passed",
    "rescheduled": "the previous run was rescheduled past this time",
    "jitter": "jitter delayed the previous run past this time; the jitter exceeds the interval",
    "condition": "a condition was not met in time",
    "excluded": "the time lies outside the windows of the schedule",
    "declined": "its function had nothing to do",
    "removed": "the schedule was removed",
    "request": "a user cancelled it",
    "replaced": "a newer run replaced it",
    "shutdown": "the engine stopped and ended its running jobs",
    "restored": "the database was restored from a backup made while the run was active",
    "lost": "the supervisor died before it recorded the end",
    "reboot": "the machine restarted during the run",
}
_MISSED_BY = {
    "missed:asleep": "the machine was asleep",
    "missed:off": "no engine was running: the machine was off, or the engine was killed",
    "missed:stopped": "no engine was running: the last one was stopped",
    "missed:stalled": "an engine was running but did not start it in time",
    "missed:clock": "the clock could not be trusted, or was set forward",
    "missed:database": "the engine could not use the database",
}
_PASSED = {"failed": "failed", "interrupted": "was interrupted", "cancelled": "was cancelled"}


def run_sentence(
    run: Execution, *, zone: tzinfo, now: datetime, spec: ScheduleSpec | None = None
) -> str:
    """Say why a run started and how it ended, in one sentence.

    `Run 41 started at 02:00:00, because ...; it succeeded after 3.0s.` `spec` is what its schedule
    said when the run was decided; None if unknown.
    """
    because = f"because {_cause_words(run, spec, zone=zone, now=now)}"
    scope = f" ({run.scope_kind}:{run.scope_id})" if run.scope_id else ""
    subject = f"Run {run.id}{scope}"
    if run.status is Status.SKIPPED:
        missed = range_words(run, zone=zone, now=now)
        count = run.missed_count or 1
        time = near_time(run.plan_at, zone=zone, now=now)
        what = f"Its time {time} was skipped"
        if missed:
            what = f"Its {count} times {missed.split(' ', 2)[2]} were skipped"
        elif run.cause is Cause.MANUAL:
            what = f"The manual run of {time} was skipped"
        return f"{what} (run {run.id}{scope}): {_reason_words(run, spec, zone=zone, now=now)}."
    if run.status is Status.QUEUED:
        return f"{subject} waits to start, {because}{_waits(run, zone=zone, now=now)}."
    if run.started_at is None:
        if _is_by_request(run):
            return f"{subject} was cancelled by a user before it started. It was due {because}."
        passed = _PASSED.get(run.status.value, run.status.value)
        why = _reason_words(run, spec, zone=zone, now=now)
        return f"{subject} {passed} before it started: {why}. It was due {because}."
    began = f"{subject} started at {near_time(run.started_at, zone=zone, now=now)}, {because}"
    if run.status is Status.RUNNING:
        asked = "; a user cancelled it" if run.cancel_requested_at is not None else ""
        if is_suspended(run):
            return f"{began}; it is {recorded_words(run, zone=zone, now=now)}{asked}."
        return f"{began}; it is still running{asked}."
    after = f" after {short_duration(run.duration_ms)}" if run.duration_ms is not None else ""
    if run.status is Status.SUCCESS:
        return f"{began}; it succeeded{after}."
    if _is_by_request(run):
        return f"{began}; a user cancelled it{after}."
    passed = _PASSED.get(run.status.value, run.status.value)
    final = "; the job does not retry this exception" if GAVE_UP_MARK in run.flags else ""
    return f"{began}; it {passed}{after}: {_reason_words(run, spec, zone=zone, now=now)}{final}."


def _is_by_request(run: Execution) -> bool:
    return run.status is Status.CANCELLED and run.reason is Reason.REQUEST


def _cause_words(run: Execution, spec: ScheduleSpec | None, *, zone: tzinfo, now: datetime) -> str:
    plan = near_time(run.plan_at, zone=zone, now=now)
    by = "" if run.trigger_text is None else f" by {run.trigger_text!r}"
    moved = _moved_words(run, spec, zone=zone, now=now)
    upstream = run.fire_key.partition(":")[2]
    again = ""
    if run.fire_key.startswith("again:"):
        at = near_time(from_ms(int(upstream)), zone=zone, now=now)
        again = f" again, because the clock was set back at {at}"
    words = {
        "schedule": f"it was planned for {plan}{by}{moved}{again}"
        f"{_covered_words(run, zone=zone, now=now)}",
        "catch_up": f"it catches up the missed time {plan}{by}{moved}{_missed_words(run)}",
        "manual": "a user or a program started it",
        "retry": f"attempt {run.attempt - 1} of {plan} did not succeed"
        f" (this is attempt {run.attempt} of {run.max_attempts})",
        "boot": "the machine booted",
        "after": f"run {upstream} ended, and the schedule follows it",
        "backfill": f"a backfill covers {plan}",
    }
    return words.get(run.cause.value, run.cause.value)


def _missed_words(run: Execution) -> str:
    """Say why the time of a catch-up was missed: ` (the machine was asleep)`."""
    for flag in run.flags:
        words = _MISSED_BY.get(flag)
        if words is not None:
            return f" ({words})"
    return ""


def _covered_words(run: Execution, *, zone: tzinfo, now: datetime) -> str:
    """Say which missed times a run covers: ` (it also covers 14 missed times since 18:45:05)`."""
    covered = covered_range(run)
    if covered is None:
        return ""
    count, first_at = covered
    times = count_words(count, "missed time")
    return f" (it also covers {times} since {near_time(first_at, zone=zone, now=now)})"


def _most_spread(run: Execution) -> timedelta:
    return timedelta(milliseconds=most_spread_ms(run.trigger_text))


def _moved_words(run: Execution, spec: ScheduleSpec | None, *, zone: tzinfo, now: datetime) -> str:
    """Say why a run was due at another time than planned: ` (rescheduled to 10:30:00)`."""
    jitter_s = 0.0 if spec is None else spec.policies.jitter_s
    if spec is None or run.due_at == run.plan_at:
        return ""
    due = near_time(run.due_at, zone=zone, now=now)
    if timedelta(0) <= run.due_at - run.plan_at <= timedelta(seconds=jitter_s):
        return f" (delayed to {due} by its jitter)"
    if timedelta(0) <= run.due_at - run.plan_at <= _most_spread(run):
        return f" (due at {due}, in the first half of its window)"
    windows = windows_of(spec.policies, spec.timezone)
    if windows is not None and windows.span_at(to_ms(run.due_at)).start_ms == to_ms(run.due_at):
        return f" (held back until its window opened at {due})"
    return f" (rescheduled to {due})"


def _reason_words(run: Execution, spec: ScheduleSpec | None, *, zone: tzinfo, now: datetime) -> str:
    reason = "" if run.reason is None else run.reason.value
    known = NOT_RUN.get(reason)
    if reason == "timeout":
        known = "it exceeded its timeout"
    if reason == "stalled":
        known = f"it {run.error_msg}"
    if known is None:
        return run.error_msg or reason
    if reason == "misfire" and run.error_msg:
        is_one = (run.missed_count or 1) == 1
        then = f"the catch-up policy skipped {'it' if is_one else 'them'}"
        if spec is not None and any(map(split_once_in, spec.triggers)):
            then = "its window has closed" if is_one else "their windows have closed"
        return f"{recorded_words(run, zone=zone, now=now)}, and {then}"
    if reason == "condition" and run.status is Status.CANCELLED:
        return run.error_msg or "its --while condition was no longer true"
    if reason == "declined":
        return run.error_msg or known
    if reason == "condition" and run.error_msg:
        return f"{known}: {run.error_msg}"
    return known


def _waits(run: Execution, *, zone: tzinfo, now: datetime) -> str:
    waits = waiting_words(run, zone=zone, now=now)
    if waits is not None:
        return f"; it {waits}"
    if run.due_at > now:
        return f"; it is due at {near_time(run.due_at, zone=zone, now=now)}"
    return ""


PRINTS_ELSEWHERE = "a function prints to the output of its own program"


def is_planned_earlier(execution: Execution) -> bool:
    """Return whether the plan time of a run says more than its start.

    That is so for a run that was late, retried, caught up or backfilled.
    """
    if execution.attempt > 1 or execution.cause in (Cause.CATCH_UP, Cause.BACKFILL, Cause.RETRY):
        return True
    if execution.started_at is None or execution.cause is Cause.MANUAL:
        return False
    return (execution.started_at - execution.plan_at).total_seconds() * 1000 > ON_TIME_MS


def run_lines(
    execution: Execution, *, zone: tzinfo, now: datetime, mask: str | None
) -> list[tuple[str, str]]:
    """Return all facts about a run except its output, as (label, text).

    `mask` replaces its payload; None shows the payload itself.
    """

    def time(at: datetime | None) -> str:
        return "" if at is None else local_time(at, zone=zone)

    waiting = waiting_words(execution, zone=zone, now=now) or ""
    spent_ms = took_ms(execution, now=now)
    took = "" if spent_ms is None else short_duration(spent_ms)
    late_ms = 0.0
    if execution.started_at is not None:
        late_ms = (execution.started_at - execution.due_at).total_seconds() * 1000
    late = f"  ({short_duration(int(late_ms))} after due)" if late_ms >= 1000 else ""
    attempts = f"{execution.attempt} of {execution.max_attempts}"
    lines = [
        ("status", status_words(execution)),
        ("cause", execution.cause.value.replace("_", " ")),
        ("trigger", execution.trigger_text or ""),
        ("scope", f"{execution.scope_kind}:{execution.scope_id}" if execution.scope_id else ""),
        ("attempt", attempts if execution.max_attempts > 1 else ""),
        ("priority", _priority_words(execution.priority)),
        ("timeout", _timeout_words(execution.timeout_s)),
        ("plan", time(execution.plan_at)),
        ("due", time(execution.due_at)),
        ("started", f"{time(execution.started_at)}{late}" if execution.started_at else ""),
        ("finished", time(execution.finished_at)),
        ("took", took),
        ("exit code", "" if execution.exit_code is None else str(execution.exit_code)),
        ("error", "" if waiting else recorded_words(execution, zone=zone, now=now)),
        ("missed", range_words(execution, zone=zone, now=now) or ""),
        ("waiting", waiting),
        ("cancel", f"requested {time(execution.cancel_requested_at)}"),
        ("progress", "" if execution.progress is None else progress_words(execution.progress)),
        ("result", execution.result or ""),
        ("payload", "" if execution.payload is None else mask or execution.payload),
        ("flags", ", ".join(flag_words(execution))),
        ("engine", "" if execution.engine_id is None else str(execution.engine_id)),
        ("revision", str(execution.revision)),
    ]
    if execution.cancel_requested_at is None:
        lines = [line for line in lines if line[0] != "cancel"]
    return [(label, text) for label, text in lines if text]


def _priority_words(priority: int) -> str:
    """Return a priority by its name or number; '' for the normal one."""
    if priority == Priority.NORMAL:
        return ""
    return next((one.name.lower() for one in Priority if one == priority), str(priority))


def _timeout_words(timeout_s: float | None) -> str:
    """Return the timeout that the run was given itself; '' without one."""
    return "" if timeout_s is None else format_duration_ms(round(timeout_s * 1000))


def no_output_words(
    execution: Execution,
    *,
    spec: ScheduleSpec | None,
    printed_bytes: int,
    removed_at: datetime | None,
    zone: tzinfo,
) -> str:
    """Say why an ended run has no output to show.

    `spec` is what its schedule said when the run was decided; None if it can't be read any more.
    """
    if execution.status is Status.INTERRUPTED:
        return "was interrupted; the output was lost with its supervisor"
    if "output_not_stored" in execution.flags:
        return "succeeded; with durability volatile, the output of such a run is not stored"
    if removed_at is not None:
        when = local_time(removed_at, zone=zone)
        return f"printed {size_words(printed_bytes)}, which retention removed at {when}"
    more = f"; {failure_words(execution)}" if execution.error_msg else ""
    is_function = spec is not None and spec.job.kind is JobKind.CALLABLE
    if is_function and execution.started_at is not None:
        return f"has no output here: {PRINTS_ELSEWHERE} ({status_words(execution)}{more})"
    return f"printed nothing ({status_words(execution)}{more})"


# Notices.

_MOST_SHOWN = 20  # notices of one message
_EVENTS = {
    NoticeEvent.FAILED: "failed",
    NoticeEvent.RECOVERED: "recovered",
    NoticeEvent.MISSED: "was missed",
    NoticeEvent.LATE: "is late",
    NoticeEvent.SLOW: "takes long",
    NoticeEvent.STALLED: "prints nothing",
    NoticeEvent.ENGINE_STOPPED: "engine stopped",
    NoticeEvent.ENGINE_STALLED: "engine stalled",
    NoticeEvent.STARTED: "started",
    NoticeEvent.ENDED: "ended",
}
_ENDED = {
    "success": "succeeded",
    "failed": "failed",
    "interrupted": "was interrupted",
    "cancelled": "was cancelled",
}
_REMINDERS = {
    NoticeEvent.FAILED: "still fails",
    NoticeEvent.MISSED: "is still missed",
    NoticeEvent.LATE: "is still late",
    NoticeEvent.SLOW: "still takes long",
    NoticeEvent.STALLED: "still prints nothing for long",
}
_TROUBLES = {
    NoticeEvent.FAILED: "failed in a row",
    NoticeEvent.MISSED: "were missed",
    NoticeEvent.LATE: "were late",
    NoticeEvent.SLOW: "took long",
    NoticeEvent.STALLED: "printed nothing for long",
}


def message_subject(notices: Sequence[Notice], *, host: str) -> str:
    """Return one line: `[pi] nightly failed`, or `[pi] 3 notices: nightly failed, ...`."""
    titles = list(dict.fromkeys(notice_title(one) for one in notices))
    if len(notices) == 1:
        return f"[{host}] {titles[0]}"
    shown = ", ".join(titles[:3]) + (", ..." if len(titles) > 3 else "")
    return f"[{host}] {len(notices)} notices: {shown}"


def message_text(notices: Sequence[Notice], *, held: int, zone: tzinfo, command: str) -> str:
    """Return the text of a message. `held` of its notices were held back until now.

    `command` is the program with its options, as a shell calls it.
    """
    parts = []
    if held:
        were = "notice was" if held == 1 else "notices were"
        parts.append(
            f"{held} {were} held back, because this rule had reached its limit of messages."
        )
    parts += ["\n".join(_notice_lines(one, zone, command)) for one in notices[:_MOST_SHOWN]]
    if len(notices) > _MOST_SHOWN:
        more = count_words(len(notices) - _MOST_SHOWN, "more notice")
        parts.append(f"And {more}: {command} notices -n {len(notices)}")
    return "\n\n".join(parts) + "\n"


def notice_title(notice: Notice) -> str:
    """Return a notice in a few words: `nightly still fails`."""
    if notice.schedule is None:
        return str(notice.detail.get("title", _EVENTS[notice.event]))
    words = _REMINDERS[notice.event] if notice.is_reminder else _EVENTS[notice.event]
    run = notice.detail.get("run")
    if notice.event is NoticeEvent.ENDED and isinstance(run, dict):
        words = _ENDED.get(run["status"], words)
    return f"{notice.schedule} {words}"


def _notice_lines(notice: Notice, zone: tzinfo, command: str) -> list[str]:
    detail: Mapping[str, Any] = notice.detail
    # In full: a message can arrive days later, and be read in another zone.
    at = from_ms(notice.at_ms).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")
    lines = [f"{notice_title(notice)} ({at})", str(detail.get("sentence", ""))]
    if detail.get("trouble"):
        lines.append(str(detail["trouble"]))
    tail = detail.get("output_tail") or []
    if tail:
        lines += ["", "The end of its output:", *(f"  {line}" for line in tail)]
    if notice.execution_id is not None:
        lines += ["", f"More: {command} show {notice.execution_id}"]
    return [line for number, line in enumerate(lines) if line or number > 1]


def trouble_words(event: NoticeEvent, fire_count: int, since: str | None) -> str | None:
    """Say how long a trouble has lasted: `3 fires failed in a row since 2026-11-27 02:00`."""
    if since is None or fire_count < 2:
        return None
    return f"{count_words(fire_count, 'fire')} {_TROUBLES.get(event, 'failed')} since {since}."


def event_words(notice: Notice) -> str:
    """Return the event of a notice as lists show it."""
    return f"{notice.event} (reminder)" if notice.is_reminder else notice.event.value


def delivery_words(notice: Notice, *, zone: tzinfo, now: datetime) -> str:
    """Say when a notice is sent or was sent, and why not."""

    def time(at_ms: int) -> str:
        return near_time(from_ms(at_ms), zone=zone, now=now)

    if notice.sent_ms is not None:
        again = f", try {notice.tries}" if notice.tries > 1 else ""
        return f"at {time(notice.sent_ms)}{again}"
    tries = f" (try {notice.tries})" if notice.tries else ""
    parts = [] if notice.error is None else [f"{notice.error}{tries}"]
    if notice.due_ms is not None:
        parts.append(f"{'again' if notice.tries else 'goes out'} at {time(notice.due_ms)}")
    return "; ".join(parts)
