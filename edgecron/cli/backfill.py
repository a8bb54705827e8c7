"""Run missed times of the past.

    edgecron backfill report 2026-11-01 2026-11-08 --dry-run
    edgecron backfill report yesterday now
    edgecron backfill report "2026-11-01 06:00" "2026-11-01 12:00" --yes

Each time of the range, both ends included, gets its own run with that time as EDGECRON_PLAN_AT. The
runs start one after the other, after all other due runs. Backfill skips times whose run succeeded,
is queued or is running, times that the engine has not decided yet, and times whose runs retention
has removed. For more than 100 runs, edgecron asks first.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from edgecron.base.errors import UsageError
from edgecron.base.units import format_instant
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.option_texts import read_priority
from edgecron.formats.value_texts import read_time
from edgecron.views.acts import left_lines, queued_words, undecided_lines
from edgecron.views.json_objects import execution_object
from edgecron.views.phrases import count_words
from edgecron.views.times import full_time

if TYPE_CHECKING:
    from edgecron.planning.forecast import Backfill, PastFire

_MOST_UNASKED = 100
_SHOWN = 10  # first, and as many last
_LEAST_STEPS = 4  # each queues 250 runs


def add_arguments(parser: Parser) -> None:
    parser.add("NAME", "the schedule")
    parser.add("FROM", "the first time: 'yesterday', '2d ago', RFC 3339", dest="from_at")
    parser.add("TO", "the last time", dest="to_at")
    parser.add("--dry-run", "show the runs; start nothing")
    parser.add(
        "--priority low|normal|high|N",
        "set the priority of the runs (default: below all other runs)",
    )
    parser.add("-y --yes", "start any number of runs without asking")


def run(cli: Session, args: Namespace) -> int:
    client = cli.client(must_exist=True)
    priority = None if args.priority is None else read_priority(args.priority, "--priority")
    now = client.now()
    first, last = (
        read_time(text, what=what, timezone="local", now=now, is_past=True)
        for text, what in ((args.from_at, "FROM"), (args.to_at, "TO"))
    )
    plan = client.plan_backfill(args.name, first, last)
    if args.dry_run:
        _put_plan(cli, plan)
        return 0
    if len(plan.wanted) > _MOST_UNASKED and not args.yes and not _agrees(cli, plan):
        cli.say("nothing was done")
        return 1
    progress = cli.progress("queued", least_steps=_LEAST_STEPS)
    ids = client.backfill(args.name, first, last, priority=priority, on_progress=progress)
    _put_done(cli, plan, ids)
    if ids:
        cli.warn_without_engine(client, plan.schedule)
    return 0


def _agrees(cli: Session, plan: Backfill) -> bool:
    what = f"{count_words(len(plan.wanted), 'run')} of {plan.schedule.name}"
    if not cli.can_ask():
        raise UsageError(
            f"this would queue {what}, and there is no terminal to ask on",
            hint="see them with --dry-run, then repeat with --yes",
        )
    for line in _lines(cli, plan):
        cli.say(line)
    return cli.ask(f"queue {what}?")


def _put_plan(cli: Session, plan: Backfill) -> None:
    if cli.is_json:
        cli.put_json(
            [
                *(_fire_object(plan, fire, "run", None) for fire in plan.wanted),
                *(_fire_object(plan, fire, "leave", "success") for fire in plan.succeeded),
                *(_fire_object(plan, fire, "leave", "active") for fire in plan.active),
            ]
        )
        for line in undecided_lines(cli.command, plan, zone=cli.zone()):
            cli.say(f"edgecron: {line}")
        return

    for line in _lines(cli, plan):
        cli.put(line)
    cli.say_dry_run()


def _fire_object(
    plan: Backfill, fire: PastFire, action: str, reason: str | None
) -> dict[str, object]:
    return {
        "schedule": plan.schedule.name,
        "scope_kind": fire.scope[0],
        "scope_id": fire.scope[1],
        "plan_at": format_instant(fire.plan_at),
        "trigger_text": fire.source,
        "action": action,
        "reason": reason,
    }


def _put_done(cli: Session, plan: Backfill, ids: list[int]) -> None:
    client = cli.client()
    if cli.is_json:
        cli.put_json(execution_object(client.execution(id_)) for id_ in ids)
        return

    name = plan.schedule.name
    cli.put(queued_words(name, ids))
    if ids and not plan.schedule.enabled:
        cli.put(f"  the schedule is paused: the runs wait for {cli.command(f'resume {name}')}")
    lost = len(plan.wanted) - len(ids)
    if lost:
        cli.put(f"  {lost} skipped: another program queued them in the meantime")
    for line in left_lines(cli.command, plan, zone=cli.zone()):
        cli.put(f"  {line}")


def _lines(cli: Session, plan: Backfill) -> list[str]:
    """Return the first and last ten runs to queue, and what is skipped and why."""
    name, wanted = plan.schedule.name, plan.wanted
    if not wanted:
        return [
            f"nothing to backfill for {name}",
            *(f"  {line}" for line in left_lines(cli.command, plan, zone=cli.zone())),
        ]
    lines = [f"{count_words(len(wanted), 'run')} of {name}, one after the other:"]
    if len(wanted) <= 2 * _SHOWN:
        lines += [f"  {_fire_words(cli, plan, fire)}" for fire in wanted]
    else:
        lines += [f"  {_fire_words(cli, plan, fire)}" for fire in wanted[:_SHOWN]]
        lines.append(f"  ... {len(wanted) - 2 * _SHOWN} more ...")
        lines += [f"  {_fire_words(cli, plan, fire)}" for fire in wanted[-_SHOWN:]]
    return [*lines, *left_lines(cli.command, plan, zone=cli.zone())]


def _fire_words(cli: Session, plan: Backfill, fire: PastFire) -> str:
    time = full_time(fire.plan_at, plan.schedule.spec.timezone, zone=cli.zone())
    scope = f"  {fire.scope[0]}:{fire.scope[1]}" if fire.scope[1] else ""
    return f"{time}  {fire.source}{scope}"
