"""Record in the database which rules for notices its configurations have.

From then on, what happens is recorded for them, by whichever program writes it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidConfig
from edgecron.base.paths import ServerUrl
from edgecron.base.values import NamedTuple, names_of
from edgecron.formats.config import Config, load
from edgecron.formats.notify_rules import ReadRule, rule_words
from edgecron.model.choices import Status
from edgecron.model.notices import (
    LEAST_USUAL_MS,
    STALLED,
    Channel,
    ChannelKind,
    Happening,
    NewNotice,
    NoticeEvent,
    NotifyRule,
    Watched,
)
from edgecron.planning.notices import GIVE_UP_MS, MOST_USUAL_RUNS, replay, usual_limit_ms
from edgecron.store.sql.notices import find_past, find_past_engine_ends
from edgecron.store.sql.outbox import find_rules, note_gone, write_rules

if TYPE_CHECKING:
    from edgecron.client.local import Client

_MOST_PAST = 50_000  # runs
_NEVER_MS = 2**62


class KnownRules(NamedTuple):
    """The rules that a database knows, and the channels of those whose file can be read."""

    rules: dict[str, NotifyRule]
    channels: dict[str, Channel]


def sync_config(client: Client, config: Config) -> dict[str, ReadRule]:
    """Record the rules of the files of a configuration; the rules by name.

    A rule of the user's file hides one of the same name in the system's file.
    """
    found = config.notify_rules()
    for file in config.files:
        _record(client, found, source=str(file.path), may_forget=False)
    return found


def load_recorded(client: Client, *, may_forget: bool = True) -> KnownRules:
    """Read the rules of all files that the database knows, and record what has changed in them.

    If a file is gone or can't be read, its rules apply as they were recorded, and their notices
    wait. The rules of a file that is gone for three days are forgotten. On a server, a rule that
    its file lacks is kept as long: the same file of another machine can have it. `may_forget`:
    other machines have just had the time to record the rules of their files.
    """
    channels: dict[tuple[str, str], Channel] = {}
    for source in sorted({one.source for one in find_rules(client.store)}):
        try:
            rules = load(source).notify_rules()
        except InvalidConfig:
            if not os.path.lexists(source):
                _forget_gone(client, source, may_forget=may_forget)
            continue
        _record(client, rules, source=source, may_forget=may_forget)
        channels |= {(source, name): one.channel for name, one in rules.items()}
    recorded = find_rules(client.store)
    return KnownRules(
        {one.name: _rule_in(one.rule) for one in recorded if one.rule is not None},
        {
            one.name: channels[one.source, one.name]
            for one in recorded
            if (one.source, one.name) in channels
        },
    )


def _forget_gone(client: Client, source: str, *, may_forget: bool) -> None:
    """Record that a file is gone; forget the rules of one that is gone for long."""
    now_ms = client.clock.now_ms()
    gone_ms = note_gone(client.store, source, now_ms=now_ms)
    if may_forget and now_ms - gone_ms >= GIVE_UP_MS:
        words = f"the configuration file {source} was gone for three days"
        write_rules(client.store, [], source=source, error=words)


def find_unreadable(client: Client) -> list[tuple[str, str]]:
    """The recorded files of rules that can't be read, with the reason: their notices wait."""
    found = []
    for source in sorted({one.source for one in find_rules(client.store)}):
        try:
            load(source)
        except InvalidConfig as error:
            found.append((source, error.message))
    return found


def rehearse(client: Client, rules: Sequence[NotifyRule], *, since_ms: int) -> list[NewNotice]:
    """The notices that rules would have sent for the history since an instant.

    Nothing that has begun before counts. At most of the newest 50,000 runs.
    """
    now_ms = client.clock.now_ms()
    past = find_past(client.store, since_ms=since_ms, limit=_MOST_PAST)
    happenings = find_past_engine_ends(client.store, since_ms=since_ms)
    watched: list[Watched] = []
    durations_ms: defaultdict[int, list[int]] = defaultdict(list)
    for run in past:
        # Runs from before are not read: what is usual is known later here than it was then.
        before_ms = durations_ms[run.happening.schedule_id or 0]
        one = run.happening._replace(usual_ms=usual_limit_ms(before_ms[-MOST_USUAL_RUNS:]))
        if one.status == Status.SUCCESS and one.took_ms is not None:
            before_ms.append(one.took_ms)
        if any(rule.wants_runs for rule in rules) and run.claimed_ms is not None:
            happenings.append(one._replace(at_ms=run.claimed_ms, status=Status.RUNNING))
        if one.has_stalled:
            happenings.append(one._replace(status=STALLED))
        happenings.append(one)
        for event, from_ms, until_ms in (
            (NoticeEvent.LATE, run.due_ms, run.claimed_ms),
            (NoticeEvent.SLOW, run.claimed_ms, one.at_ms),
        ):
            if from_ms is None or until_ms is None:
                continue
            for rule in rules:
                limit_ms = rule.limit_ms(event, usual_ms=one.usual_ms)
                if limit_ms is None or from_ms + limit_ms > until_ms:
                    continue
                watched.append(_watched(one, event, from_ms, limit_ms))
    return replay(rules, happenings, list(dict.fromkeys(watched)), until_ms=now_ms)


def _watched(one: Happening, event: NoticeEvent, from_ms: int, limit_ms: int) -> Watched:
    """A run as at the look when it passed a limit."""
    assert one.schedule_id is not None
    assert one.execution_id is not None
    return Watched(
        event=event,
        at_ms=from_ms + limit_ms,
        execution_id=one.execution_id,
        schedule_id=one.schedule_id,
        schedule=one.schedule,
        group=one.group,
        from_ms=from_ms,
        until_ms=None,
        notify=one.notify,
        usual_ms=one.usual_ms,
    )


def _record(client: Client, rules: dict[str, ReadRule], *, source: str, may_forget: bool) -> None:
    marks = [mark_of(one.rule) for one in rules.values() if one.rule.source == source]
    kept_ms = 0
    if isinstance(client.location, ServerUrl):
        # The same file of another machine can have the rules that this one lacks.
        kept_ms = GIVE_UP_MS if may_forget else _NEVER_MS
    now_ms = client.clock.now_ms()
    if write_rules(client.store, marks, source=source, now_ms=now_ms, kept_ms=kept_ms):
        client.ring()


def mark_of(rule: NotifyRule) -> dict[str, object]:
    """Return the mark of a rule for the database: of its channel, only the kind."""
    return {
        "name": rule.name,
        "channel": rule.channel.value,
        "wants_runs": int(rule.wants_runs),
        "words": rule_words(rule),
        "late_ms": rule.late_ms,
        # From then on, each look at a run finds what is usual for its schedule.
        "slow_ms": LEAST_USUAL_MS if rule.slow_as_usual else rule.slow_ms,
        "beat_ms": rule.beat_ms,
        "rule": json.dumps({name: getattr(rule, name) for name in names_of(NotifyRule)}),
    }


def _rule_in(text: str) -> NotifyRule:
    """Read a rule that `mark_of` wrote."""
    content = json.loads(text)
    for name in ("schedules", "groups"):
        content[name] = None if content[name] is None else tuple(content[name])
    content["channel"] = ChannelKind(content["channel"])
    content["events"] = tuple(NoticeEvent(event) for event in content["events"])
    return NotifyRule(**content)
