"""Notices, and the rules that cause them: list both, and test a rule."""

from __future__ import annotations

import socket
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from edgecron.base.checks import suggest
from edgecron.base.errors import EdgecronError, NotFound, UsageError
from edgecron.base.units import DAY_MS, format_ms, from_ms, to_ms
from edgecron.base.value_texts import read_count
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.model.notices import ChannelKind, Notice, NoticeStatus, NotifyRule
from edgecron.views.json_objects import notice_object
from edgecron.views.phrases import count_words
from edgecron.views.run_words import delivery_words, event_words
from edgecron.views.times import near_time

if TYPE_CHECKING:
    from edgecron.formats.notify_rules import ReadRule

_MOST = 10_000
_STYLES = {
    NoticeStatus.SENT: "green",
    NoticeStatus.WAITING: "blue",
    NoticeStatus.HELD: "yellow",
    NoticeStatus.GIVEN_UP: "red",
}
_PAST_MS = 7 * DAY_MS  # of a dry run
_HINT_FOR_RULES = "edgecron help alerts"


class NoticesCommand:
    """List notices and whether they were sent.

        edgecron notices
        edgecron notices ops -n 50
        edgecron notices --json

    The newest notices come first. A notice is `waiting` until it is sent. It is `held` if its rule
    has reached its limit of messages per hour; all held notices go out later in one message. If a
    notice can't be sent, edgecron tries again for three days, with growing pauses. `edgecron notify
    list` lists the rules.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("[RULE]", "show only notices of this rule")
        parser.add("-n N", "show N notices (default: 20)", dest="limit", default="20")
        parser.add("--before ID", "show notices older than this one")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        limit = read_count(args.limit, what="-n", most=_MOST)
        before = (
            None if args.before is None else read_count(args.before, what="--before", most=2**62)
        )
        client = cli.client(must_exist=True)
        found = client.notices(rule=args.rule, before=before, limit=limit + 1)
        shown = found[:limit]
        if cli.is_json:
            cli.put_json(notice_object(one) for one in shown)
            return 0
        if not shown:
            cli.say("no notices yet" if args.rule is None else f"no notices of rule {args.rule!r}")
            return 0
        now = client.now()
        cli.put_table(
            ("id", "at", "rule", "event", "schedule", "run_id", "status", "note"),
            [_notice_row(cli, one, now) for one in shown],
            styles=[
                ("dim", None, "bold", None, "bold", "dim", _STYLES[one.status], "dim")
                for one in shown
            ],
            flexible=((7, 30), (4, 16), (7, 12)),
            title=2,
        )
        if len(found) > limit:
            cli.say(f"older notices: --before {shown[-1].id}")
        return 0


def _notice_row(cli: Session, notice: Notice, now: datetime) -> tuple[str, ...]:
    return (
        str(notice.id),
        near_time(from_ms(notice.at_ms), zone=cli.zone(), now=now),
        notice.rule,
        event_words(notice),
        notice.schedule or "",
        "" if notice.execution_id is None else str(notice.execution_id),
        notice.status.value.replace("_", " "),
        delivery_words(notice, zone=cli.zone(), now=now),
    )


class NotifyCommand:
    """List and test rules for notices.

        edgecron notify list
        edgecron notify list --dry-run
        edgecron notify test ops

    A rule is a table [notify.NAME] in the configuration: see `edgecron help alerts`. A running
    daemon uses a changed rule from the next notice on. After you write your first rule, restart the
    daemon or run `edgecron notify list`.

    list --dry-run shows the notices that the runs of the last 7 days would have caused with the
    rules as they are now, and sends nothing. It only counts pings.

    test sends a message over the channel of a rule immediately, and says if that worked.
    """

    USAGE = "list [--dry-run] | test NAME"

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("[list|test]", "(default: list)", dest="action", default="list")
        parser.add("[NAME]", "the rule to test")
        parser.add("--dry-run", "list the notices that the last 7 days would send")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        actions = {"list": _list, "test": _test}
        if args.action not in actions:
            from edgecron.cli.suggestions import refuse_action  # Only for errors.

            refuse_action("notify", args.action, actions)
        actions[args.action](cli, args)
        return 0


def _rules(cli: Session) -> dict[str, ReadRule]:
    """The rules of the configuration, which the database then knows, too."""
    if not cli.has_database():
        return cli.config().notify_rules()
    from edgecron.client.notice_rules import sync_config

    return sync_config(cli.local_client(), cli.config())


def _list(cli: Session, args: Namespace) -> None:
    if args.name is not None:
        raise UsageError("list takes no name", hint="edgecron notify list")
    from edgecron.formats.notify_rules import rule_words

    rules = [one.rule for one in _rules(cli).values()]
    if args.dry_run and rules:
        _rehearse(cli, rules)
        return
    if cli.is_json:
        cli.put_json(
            {
                "name": rule.name,
                "channel": rule.channel.value,
                "events": [event.value for event in rule.events],
                "schedules": None if rule.schedules is None else list(rule.schedules),
                "groups": None if rule.groups is None else list(rule.groups),
                "failures": rule.failures,
                "remind_s": rule.remind_s,
                "most_per_hour": rule.most_per_hour,
                "needs_output": rule.needs_output,
                "late_s": None if rule.late_ms is None else rule.late_ms / 1000,
                "slow_s": None if rule.slow_ms is None else rule.slow_ms / 1000,
                "slow_as_usual": rule.slow_as_usual,
                "heartbeat_s": None if rule.beat_ms is None else rule.beat_ms / 1000,
                "source": rule.source,
            }
            for rule in rules
        )
        return
    if not rules:
        cli.say(f"the configuration has no rules; see: {_HINT_FOR_RULES}")
        return
    cli.put_table(
        ("name", "channel", "events", "source"),
        [(rule.name, rule.channel.value, rule_words(rule), rule.source) for rule in rules],
        styles=[("bold", None, None, "dim") for _ in rules],
        flexible=((3, 20), (2, 30)),
    )


def _rehearse(cli: Session, rules: Sequence[NotifyRule]) -> None:
    """Show what the history would have sent with these rules."""
    from edgecron.client.notice_rules import rehearse
    from edgecron.formats.notify_rules import rule_words
    from edgecron.planning.notices import plan_messages

    client = cli.local_client(must_exist=True)
    now = client.now()
    told = rehearse(client, rules, since_ms=to_ms(now) - _PAST_MS)
    ids = {one.schedule_id for one in told if one.schedule_id is not None}
    names = {line.id: line.standing.name for line in client.schedule_lines(sorted(ids))}
    for one in told:  # Of a removed schedule, its runs have the name.
        schedule_id, run_id = one.schedule_id, one.execution_id
        if schedule_id is not None and schedule_id not in names and run_id is not None:
            names[schedule_id] = client.execution(run_id).schedule
    if cli.is_json:
        cli.put_json(
            {
                "rule": one.rule,
                "event": one.event.value,
                "at": format_ms(one.at_ms),
                "schedule": names.get(one.schedule_id or 0),
                "run_id": one.execution_id,
                "is_reminder": one.is_reminder,
            }
            for one in told
        )
        return
    pinging = {rule.name for rule in rules if rule.channel is ChannelKind.PING}
    shown = [one for one in told if one.rule not in pinging]  # Two pings a run would hide them.
    if shown:
        cli.put_table(
            ("at", "rule", "event", "schedule", "run_id"),
            [
                (
                    near_time(from_ms(one.at_ms), zone=cli.zone(), now=now),
                    one.rule,
                    f"{one.event} (reminder)" if one.is_reminder else one.event.value,
                    names.get(one.schedule_id or 0, ""),
                    "" if one.execution_id is None else str(one.execution_id),
                )
                for one in shown
            ],
            styles=[(None, "bold", None, "bold", "dim") for _ in shown],
            flexible=((3, 16),),
        )
    for rule in rules:
        times_ms = sorted(one.at_ms for one in told if one.rule == rule.name)
        if rule.beat_ms is not None:
            words = f"a ping {rule_words(rule)}"
        elif rule.name in pinging:
            words = f"{count_words(len(times_ms), 'ping')} in 7 days"
        else:
            planned = len(plan_messages(times_ms, most_per_hour=rule.most_per_hour))
            messages = count_words(planned, "message")
            words = f"{count_words(len(times_ms), 'notice')} in {messages} in 7 days"
        cli.say(f"rule {rule.name}: {words}")
    cli.say("nothing was sent")


def _test(cli: Session, args: Namespace) -> None:
    if args.dry_run:
        raise UsageError("test takes no --dry-run", hint="edgecron notify list --dry-run")
    rules = _rules(cli)
    if args.name is None:
        raise UsageError("missing NAME", hint=f"edgecron notify test {next(iter(rules), 'NAME')}")
    found = rules.get(args.name)
    if found is None:
        meant = suggest(args.name, rules)
        raise NotFound(
            f"the configuration has no rule {args.name!r}",
            hint=f"did you mean {meant}?"
            if meant
            else "list the rules: edgecron notify"
            if rules
            else "to write a rule: edgecron help alerts",
        )
    from edgecron.client.notice_channels import Message, send

    host = socket.gethostname()
    subject, text = (
        f"[{host}] test of rule {args.name}",
        "This is a test. edgecron can reach you.\n",
    )
    run_id = str(uuid4())
    body = {"id": run_id, "host": host, "rule": args.name, "subject": subject, "text": text}
    message = Message(
        id=run_id,
        subject=subject,
        text=text,
        body={**body, "held": 0, "notices": []},
        schedule="test",
        run=run_id,
    )
    try:
        send(found.channel, message)
    except EdgecronError as error:
        raise EdgecronError(
            f"rule {args.name!r} could not send over {found.rule.channel}: {error.message}",
            hint=error.hint or "check its keys in the configuration: edgecron help channels",
        ) from error
    cli.say(f"sent a test message with rule {args.name} over {found.rule.channel}")
