"""List notices and whether they were sent.

    edgecron notices
    edgecron notices ops -n 50
    edgecron notices --json

The newest notices come first. A notice is `waiting` until it is sent. It is `held` if its rule has
reached its limit of messages per hour; all held notices go out later in one message. If a notice
can't be sent, edgecron tries again for three days, with growing pauses. `edgecron notify list`
lists the rules.
"""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime

from edgecron.base.units import from_ms
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.value_texts import read_count
from edgecron.model.notices import Notice, NoticeStatus
from edgecron.views.json_objects import notice_object
from edgecron.views.notice_words import delivery_words, event_words
from edgecron.views.times import near_time

_MOST = 10_000
_STYLES = {
    NoticeStatus.SENT: "green",
    NoticeStatus.WAITING: "blue",
    NoticeStatus.HELD: "yellow",
    NoticeStatus.GIVEN_UP: "red",
}


def add_arguments(parser: Parser) -> None:
    parser.add("[RULE]", "show only notices of this rule")
    parser.add("-n N", "show N notices (default: 20)", dest="limit", default="20")
    parser.add("--before ID", "show notices older than this one")


def run(cli: Session, args: Namespace) -> int:
    limit = read_count(args.limit, what="-n", most=_MOST)
    before = None if args.before is None else read_count(args.before, what="--before", most=2**62)
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
        [_row(cli, one, now) for one in shown],
        styles=[
            ("dim", None, "bold", None, "bold", "dim", _STYLES[one.status], "dim") for one in shown
        ],
        flexible=((7, 30), (4, 16), (7, 12)),
        title=2,
    )
    if len(found) > limit:
        cli.say(f"older notices: --before {shown[-1].id}")
    return 0


def _row(cli: Session, notice: Notice, now: datetime) -> tuple[str, ...]:
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
