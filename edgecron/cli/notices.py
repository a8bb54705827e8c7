"""List notices and whether they were sent.

    edgecron notices
    edgecron notices ops -n 50
    edgecron notices --json

The newest notices come first. A notice is waiting until it is sent. It is held if its rule has sent
its messages of this hour, and then goes out with the others that were held. If it can't be sent,
edgecron tries again for three days, with growing pauses. `edgecron notify list` lists the rules.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from edgecron.base.units import from_ms
from edgecron.cli.session import Session
from edgecron.formats.option_texts import read_count
from edgecron.model.notices import Notice, NoticeStatus
from edgecron.views.times import near_time

if TYPE_CHECKING:
    from datetime import datetime

_MOST = 10_000
_STYLES = {
    NoticeStatus.SENT: "green",
    NoticeStatus.WAITING: "blue",
    NoticeStatus.HELD: "yellow",
    NoticeStatus.GIVEN_UP: "red",
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("rule", nargs="?", metavar="RULE", help="show only notices of this rule")
    parser.add_argument(
        "-n", dest="limit", default="20", metavar="N", help="show N notices (default: 20)"
    )
    parser.add_argument("--before", metavar="ID", help="show notices older than this one")


def run(cli: Session, args: Namespace) -> int:
    limit = read_count(args.limit, what="-n", most=_MOST)
    before = None if args.before is None else read_count(args.before, what="--before", most=2**62)
    client = cli.local_client(must_exist=True)
    from edgecron.client.notice_sending import notice_object  # loads what sends, too
    from edgecron.store.sqlite.outbox import find_notices

    found = find_notices(client.store, before_id=before, limit=limit + 1, rule=args.rule)
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
        f"{notice.event} (reminder)" if notice.is_reminder else notice.event.value,
        notice.schedule or "",
        "" if notice.execution_id is None else str(notice.execution_id),
        notice.status.value.replace("_", " "),
        _note(cli, notice, now),
    )


def _note(cli: Session, notice: Notice, now: datetime) -> str:
    """Say when it is sent or was sent, and why not."""

    def time(at_ms: int) -> str:
        return near_time(from_ms(at_ms), zone=cli.zone(), now=now)

    if notice.sent_ms is not None:
        return f"at {time(notice.sent_ms)}" + (f", try {notice.tries}" if notice.tries > 1 else "")
    parts = [] if notice.error is None else [f"{notice.error} (try {notice.tries})"]
    if notice.due_ms is not None:
        parts.append(f"{'again' if notice.tries else 'goes out'} at {time(notice.due_ms)}")
    return "; ".join(parts)
