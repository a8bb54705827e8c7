"""Decide which happenings become notices, and when a notice is sent or tried again. Pure.

A rule gets a notice when a schedule gets into trouble, at each reminder, and when the trouble is
over. A reminder is true at its time: the newest fire failed, nothing has run since the missed time,
or a run is late, slow or silent now. Runs that were skipped on purpose make no notice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from edgecron.base.units import DAY_MS, HOUR_MS
from edgecron.base.values import NamedTuple, replace
from edgecron.model.choices import Status
from edgecron.model.notices import (
    ENGINE_EVENTS,
    LEAST_USUAL_MS,
    RUN_EVENTS,
    STALLED,
    Happening,
    Incident,
    NewNotice,
    Notice,
    NoticeEvent,
    NotifyRule,
    Watched,
)

SETTLE_MS = 2_000  # how long a first notice waits for others, which are then sent with it
GROUP_MS = 60_000  # the least time between two messages of a rule
LEAST_USUAL_RUNS = 10
MOST_USUAL_RUNS = 30  # the newest decide
_USUAL_FACTOR = 3
GIVE_UP_MS = 3 * DAY_MS
_FIRST_RETRY_MS = 15_000
_TROUBLES = {
    STALLED: NoticeEvent.STALLED,
    Status.FAILED: NoticeEvent.FAILED,
    Status.INTERRUPTED: NoticeEvent.FAILED,
    Status.SKIPPED: NoticeEvent.MISSED,
}
_ENDS = (Status.SUCCESS, Status.FAILED, Status.INTERRUPTED)

Key = tuple[str, int, NoticeEvent]  # rule, schedule, trouble


class Judged(NamedTuple):
    """The decision on happenings: notices, and the incidents that changed; None: it is over.

    `watches` says when to look again at a run that was looked at; None: never.
    """

    notices: list[NewNotice]
    incidents: dict[Key, Incident | None]
    watches: dict[tuple[int, NoticeEvent], int | None]


def judge(
    rules: Sequence[NotifyRule],
    happenings: Iterable[Happening],
    incidents: Mapping[Key, Incident],
    *,
    watched: Iterable[Watched] = (),
    now_ms: int,
) -> Judged:
    """Apply rules to what happened, in its order.

    Then to runs that are watched, and to incidents whose reminder is due.
    """
    open_now = dict(incidents)
    judged = Judged([], {}, {})
    for happening in happenings:
        for rule in rules:
            if happening.schedule_id is None:
                _judge_engine(rule, happening, judged)
            elif rule.matches(happening.schedule, happening.group, notify=happening.notify):
                _judge_run(rule, happening, open_now, judged)
    for one in watched:
        _judge_watched(rules, one, open_now, judged, now_ms)
    by_name = {rule.name: rule for rule in rules}
    for key, incident in list(open_now.items()):
        known = by_name.get(incident.rule)
        if known is not None and _is_reminder_due(known, incident, now_ms):
            judged.incidents[key] = open_now[key] = _remind(known, incident, judged, now_ms)
    return judged


def replay(
    rules: Sequence[NotifyRule],
    happenings: Iterable[Happening],
    watched: Iterable[Watched],
    *,
    until_ms: int,
) -> list[NewNotice]:
    """The notices that rules would have sent for a past, in its order, reminders included.

    `watched` is as of the instant at which an engine would have looked: its `at_ms`.
    """
    told: list[NewNotice] = []
    open_now: dict[Key, Incident] = {}
    past: list[Happening | Watched] = [*happenings, *watched]
    history = _History(one for one in past if isinstance(one, Happening))

    def apply(judged: Judged) -> None:
        told.extend(judged.notices)
        for key, incident in judged.incidents.items():
            if incident is None:
                open_now.pop(key, None)
            else:
                open_now[key] = incident

    def remind(now_ms: int) -> None:
        while True:
            times_ms = [one.remind_ms for one in open_now.values() if one.remind_ms is not None]
            next_ms = min(times_ms, default=now_ms)
            if next_ms >= now_ms:
                return
            apply(judge(rules, (), history.at(open_now, next_ms), now_ms=next_ms))

    for one in sorted(past, key=lambda one: one.at_ms):
        remind(one.at_ms)
        related = {key: each for key, each in open_now.items() if key[1] == one.schedule_id}
        if isinstance(one, Happening):
            apply(judge(rules, [one], related, now_ms=one.at_ms))
        else:
            apply(judge(rules, (), related, watched=[one], now_ms=one.at_ms))
    remind(until_ms)
    return told


class _History:
    """When the runs of a past started and ended."""

    def __init__(self, happenings: Iterable[Happening]) -> None:
        self._spans_ms: dict[int, tuple[int, int]] = {}  # by run
        self._runs: defaultdict[int | None, set[int]] = defaultdict(set)  # by schedule
        for one in happenings:
            if one.execution_id is None or one.status in (Status.RUNNING, STALLED):
                continue
            self._spans_ms[one.execution_id] = (one.at_ms - (one.took_ms or 0), one.at_ms)
            self._runs[one.schedule_id].add(one.execution_id)

    def at(self, incidents: Mapping[Key, Incident], now_ms: int) -> dict[Key, Incident]:
        """Return the incidents as they were at an instant of the past."""
        return {
            key: replace(one, is_lasting=self._is_lasting(one, now_ms))
            for key, one in incidents.items()
        }

    def _is_lasting(self, incident: Incident, now_ms: int) -> bool:
        start_ms, end_ms = self._spans_ms.get(incident.execution_id or 0, (now_ms, now_ms))
        match incident.event:
            case NoticeEvent.FAILED:
                return True
            case NoticeEvent.MISSED:
                spans_ms = (self._spans_ms[run] for run in self._runs[incident.schedule_id])
                return not any(first <= now_ms < last for first, last in spans_ms)
            case NoticeEvent.LATE:
                return now_ms < start_ms
        return start_ms <= now_ms < end_ms


def plan_messages(at_ms: Sequence[int], *, most_per_hour: int) -> list[int]:
    """When the messages of a rule go out that carry notices of these times, in order."""
    sent_ms: list[int] = []
    carried = 0
    while carried < len(at_ms):
        last_ms = sent_ms[-1] if sent_ms else None
        due_ms = send_at(now_ms=at_ms[carried], last_sent_ms=last_ms)
        newest_first = sent_ms[::-1][:most_per_hour]
        due_ms = held_until(newest_first, most_per_hour=most_per_hour, now_ms=due_ms) or due_ms
        while carried < len(at_ms) and at_ms[carried] <= due_ms:
            carried += 1
        sent_ms.append(due_ms)
    return sent_ms


def _judge_engine(rule: NotifyRule, happening: Happening, judged: Judged) -> None:
    event = ENGINE_EVENTS[happening.status]
    if event in rule.events:
        judged.notices.append(
            NewNotice(rule.name, event, happening.at_ms, engine_id=happening.engine_id)
        )


def _judge_run(
    rule: NotifyRule, happening: Happening, open_now: dict[Key, Incident], judged: Judged
) -> None:
    assert happening.schedule_id is not None
    if rule.wants_runs:
        _judge_each_run(rule, happening, judged)
        if all(event in RUN_EVENTS for event in rule.events):
            return
    if happening.has_stalled and happening.status in _ENDS:
        # If no engine was there to record the stall, only the end of the run says so.
        _judge_trouble(rule, happening, NoticeEvent.STALLED, open_now, judged)
    if happening.status in _ENDS and happening.late_ms is not None:  # It has started.
        _close_over(rule, happening, open_now, judged)
    if happening.status == Status.SUCCESS:
        return
    event = _TROUBLES.get(happening.status)
    if event is None or not happening.is_final:
        return
    is_stall = event is NoticeEvent.STALLED  # Of a running run, the database has no output.
    if rule.needs_output and not happening.has_output and not is_stall:
        return
    _judge_trouble(rule, happening, event, open_now, judged)


def _judge_trouble(
    rule: NotifyRule,
    happening: Happening,
    event: NoticeEvent,
    open_now: dict[Key, Incident],
    judged: Judged,
) -> None:
    assert happening.schedule_id is not None
    key = (rule.name, happening.schedule_id, event)
    before = open_now.get(key) or Incident(
        rule=rule.name,
        schedule_id=happening.schedule_id,
        event=event,
        since_ms=happening.at_ms,
    )
    is_stall = event is NoticeEvent.STALLED
    is_now = not is_stall or happening.status == STALLED  # else only the end of the run says so
    if is_stall and before.execution_id == happening.execution_id:
        if not is_now:
            return
        after = before  # It stalled again, or another engine has adopted it.
    else:
        after = replace(
            before,
            count=before.count + 1,
            execution_id=happening.execution_id,
            is_lasting=is_now,
        )
    least = rule.failures if event is NoticeEvent.FAILED else 1
    if after.count >= least and event in rule.events:
        after = _tell(rule, after, judged, happening.at_ms, is_now=is_now)
    judged.incidents[key] = open_now[key] = after


def _judge_watched(
    rules: Sequence[NotifyRule],
    one: Watched,
    open_now: dict[Key, Incident],
    judged: Judged,
    now_ms: int,
) -> None:
    """Tell the rules whose limit a run has passed since the last look; when to look again."""
    again = []
    end_ms = now_ms if one.until_ms is None else one.until_ms
    for rule in rules:
        limit_ms = rule.limit_ms(one.event, usual_ms=one.usual_ms)
        if limit_ms is None or not rule.matches(one.schedule, one.group, notify=one.notify):
            continue
        passed_ms = one.from_ms + limit_ms
        if passed_ms > end_ms:
            again += [passed_ms] if one.until_ms is None else []
            continue
        if passed_ms < one.at_ms:
            continue  # It was told at an earlier look.
        key = (rule.name, one.schedule_id, one.event)
        before = open_now.get(key) or Incident(
            rule=rule.name, schedule_id=one.schedule_id, event=one.event, since_ms=passed_ms
        )
        is_now = one.until_ms is None
        after = replace(
            before, count=before.count + 1, execution_id=one.execution_id, is_lasting=is_now
        )
        after = _tell(rule, after, judged, passed_ms, is_now=is_now)
        judged.incidents[key] = open_now[key] = after
    judged.watches[one.execution_id, one.event] = min(again, default=None)


def _judge_each_run(rule: NotifyRule, happening: Happening, judged: Judged) -> None:
    event = NoticeEvent.ENDED
    if happening.status == STALLED:
        return
    if happening.status == Status.RUNNING:
        event = NoticeEvent.STARTED
    elif happening.status == Status.SKIPPED:  # A run that its function skipped is `declined`.
        return  # Its monitor misses the ping by itself.
    if event not in rule.events or (rule.needs_output and not happening.has_output):
        return
    judged.notices.append(
        NewNotice(rule.name, event, happening.at_ms, happening.schedule_id, happening.execution_id)
    )


def _close_over(
    rule: NotifyRule, happening: Happening, open_now: dict[Key, Incident], judged: Judged
) -> None:
    """Close the troubles that a run did not have, which started and has ended."""
    assert happening.schedule_id is not None
    passed_ms = {NoticeEvent.LATE: happening.late_ms, NoticeEvent.SLOW: happening.took_ms}
    for event in (NoticeEvent.FAILED, NoticeEvent.MISSED, NoticeEvent.STALLED, *passed_ms):
        if event is NoticeEvent.FAILED and happening.status != Status.SUCCESS:
            continue
        if event is NoticeEvent.STALLED and happening.has_stalled:
            continue  # It printed nothing for long, whatever its end.
        key = (rule.name, happening.schedule_id, event)
        usual_ms = happening.usual_ms
        limit_ms = rule.limit_ms(event, usual_ms=usual_ms) if event in passed_ms else None
        if limit_ms is not None and (passed_ms[event] or 0) >= limit_ms:
            continue  # It was late again, or slow.
        over = open_now.pop(key, None)
        if over is None:
            continue
        judged.incidents[key] = None
        has_told = over.noticed_ms is not None and event is NoticeEvent.FAILED
        if has_told and NoticeEvent.RECOVERED in rule.events:
            judged.notices.append(
                NewNotice(
                    rule.name,
                    NoticeEvent.RECOVERED,
                    happening.at_ms,
                    happening.schedule_id,
                    happening.execution_id,
                    fire_count=over.count,
                    since_ms=over.since_ms,
                )
            )


def _tell(
    rule: NotifyRule, incident: Incident, judged: Judged, at_ms: int, *, is_now: bool
) -> Incident:
    """Add the first notice of an incident, or a reminder that waited for a run in its trouble.

    Return the incident after it. `is_now`: the run is in this trouble now.
    """
    last_ms = incident.noticed_ms
    if last_ms is not None:
        next_ms = _remind_at(rule, last_ms)
        is_due = next_ms is not None and not last_ms <= at_ms < next_ms
        if incident.remind_ms is not None or not is_due or not is_now:
            return incident
    judged.notices.append(_notice_of(incident, at_ms=at_ms, is_reminder=last_ms is not None))
    return replace(incident, noticed_ms=at_ms, remind_ms=_remind_at(rule, at_ms))


def _notice_of(incident: Incident, *, at_ms: int, is_reminder: bool) -> NewNotice:
    return NewNotice(
        incident.rule,
        incident.event,
        at_ms,
        incident.schedule_id,
        incident.execution_id,
        fire_count=incident.count,
        since_ms=incident.since_ms,
        is_reminder=is_reminder,
    )


def _is_reminder_due(rule: NotifyRule, incident: Incident, now_ms: int) -> bool:
    if incident.remind_ms is None:
        return False
    next_ms = _remind_at(rule, now_ms)
    # Further ahead than the next one: the clock was set back, or the rule reminds more often now.
    is_far = next_ms is not None and incident.remind_ms > next_ms
    return incident.remind_ms <= now_ms or is_far


def _remind(rule: NotifyRule, incident: Incident, judged: Judged, now_ms: int) -> Incident:
    """Add a reminder that is due, if it is true now. Return the incident after it.

    Otherwise, the next run in this trouble brings the reminder.
    """
    next_ms = _remind_at(rule, now_ms)
    if next_ms is None or not incident.is_lasting:
        return replace(incident, remind_ms=None)
    judged.notices.append(_notice_of(incident, at_ms=now_ms, is_reminder=True))
    return replace(incident, noticed_ms=now_ms, remind_ms=next_ms)


def _remind_at(rule: NotifyRule, at_ms: int) -> int | None:
    return None if rule.remind_s is None else at_ms + round(rule.remind_s * 1000)


def usual_limit_ms(durations_ms: Sequence[int]) -> int | None:
    """How long a run takes at most, as usual: three times the median, at least a minute.

    `durations_ms` are those of the last successful runs. None: they are too few.
    """
    if len(durations_ms) < LEAST_USUAL_RUNS:
        return None
    median_ms = sorted(durations_ms)[len(durations_ms) // 2]
    return max(_USUAL_FACTOR * median_ms, LEAST_USUAL_MS)


def send_at(*, now_ms: int, last_sent_ms: int | None, is_immediate: bool = False) -> int:
    """When a new notice of a rule is sent, with all others that are then due.

    A first one comes after two seconds. After a message, the next one comes a minute later.
    """
    if is_immediate:
        return now_ms
    first_ms = now_ms + SETTLE_MS
    if last_sent_ms is None or last_sent_ms > now_ms:  # The clock was set back.
        return first_ms
    return max(first_ms, last_sent_ms + GROUP_MS)


def held_until(sent_ms: Sequence[int], *, most_per_hour: int, now_ms: int) -> int | None:
    """Until when a rule sends nothing more; None if it can send now.

    `sent_ms` are the times of its messages, the newest first.
    """
    within = [at_ms for at_ms in sent_ms if now_ms - HOUR_MS < at_ms <= now_ms]
    if len(within) < most_per_hour:
        return None
    return within[most_per_hour - 1] + HOUR_MS


def grouped_until(last_sent_ms: int | None, *, now_ms: int) -> int | None:
    """Until when notices wait for others after a message of their rule; None if they need not."""
    if last_sent_ms is None or not now_ms - GROUP_MS < last_sent_ms <= now_ms:
        return None
    return last_sent_ms + GROUP_MS


def retry_at(tries: int, *, at_ms: int, now_ms: int, longest_ms: int = HOUR_MS) -> int | None:
    """When a notice that could not be sent is tried again; None: it is given up.

    The pauses double, from 15 seconds to `longest_ms`. `at_ms` is the instant of its event.
    """
    if now_ms - at_ms >= GIVE_UP_MS:
        return None
    return now_ms + min(_FIRST_RETRY_MS << min(tries - 1, 10), longest_ms)


class PingPlan(NamedTuple):
    """The pings of a schedule to send now, in order, and those that are never sent."""

    send: Sequence[Notice]
    replaced: Sequence[Notice]


def plan_pings(waiting: Sequence[Notice], *, now_ms: int) -> PingPlan:
    """Plan the pings of a rule about one schedule; `waiting` are all that wait, oldest first.

    They go out in their order. If the oldest could not be sent, the others wait for its next try.
    Only the newest end of a run is sent then, with the starts after it: a late ping of an earlier
    success would hide a later failure.
    """
    oldest = waiting[0]
    if oldest.tries == 0:
        return PingPlan(waiting, ())
    if oldest.due_ms is not None and oldest.due_ms > now_ms:
        return PingPlan((), ())
    newest = len(waiting) - 1
    ends = (at for at in range(newest, -1, -1) if waiting[at].event is NoticeEvent.ENDED)
    first = next(ends, newest)
    return PingPlan(waiting[first:], waiting[:first])
