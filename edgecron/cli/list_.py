"""List schedules, their next and last runs.

    edgecron list
    edgecron list disk        name, group, description or job contains "disk"
    edgecron list --group night --failed
    edgecron list --json | jq -r '.[] | select(.last_status=="failed").name'

A terminal shows the first 50 schedules by name; a pipe and --json get all of them. If you give
several words, a schedule must contain each.
"""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import UsageError
from edgecron.cli.output import STATUS_STYLES
from edgecron.cli.parser import Parser
from edgecron.cli.session import FIRST_SCHEDULE, Session
from edgecron.formats.value_texts import read_count
from edgecron.model.listing import (
    Choice,
    Idle,
    SchedulePage,
    ScheduleState,
    Standing,
    find_idle,
    state_of,
)
from edgecron.views.json_objects import schedule_object
from edgecron.views.phrases import (
    SCHEDULE_GLYPHS,
    glyph,
    last_words,
    next_words,
    trigger_words,
    unreadable_words,
)

if TYPE_CHECKING:
    from edgecron.client.questions import Reader

USAGE = "[WORD...] [--group GROUP] [--failed] [--paused] [--groups] [-n N|all] [--after NAME]"
PAGE = 50  # lines of a list on a terminal
_STATE_STYLES = {
    ScheduleState.ACTIVE: "bold",
    ScheduleState.PAUSED: "yellow",
    ScheduleState.VANISHED: "yellow",
    ScheduleState.BROKEN: "red",
    ScheduleState.DONE: "dim",
}


def add_arguments(parser: Parser) -> None:
    parser.add("[WORD...]", "show schedules that contain this word", dest="words")
    parser.add("--group GROUP", "show schedules of this group")
    parser.add("--failed", "show schedules whose last run failed")
    parser.add("--paused", "show paused schedules")
    parser.add("--groups", "show each group, its limit and its schedules")
    add_page_arguments(parser)


def add_page_arguments(parser: Parser) -> None:
    """Add the options of a list that is shown page by page."""
    parser.add("-n N|all", f"show N lines (default: {PAGE} on a terminal, else all)", dest="limit")
    parser.add("--after NAME", "continue after this name")


def read_limit(cli: Session, text: str | None) -> int | None:
    """Return how many lines to show; None is all. Raises UsageError."""
    if text is None:
        return PAGE if sys.stdout.isatty() and not cli.is_json else None
    return None if text == "all" else read_count(text, what="-n")


def run(cli: Session, args: Namespace) -> int:
    limit = read_limit(cli, args.limit)
    choice = Choice(tuple(args.words), args.group, args.failed, args.paused)
    if args.groups:
        if args.limit is not None or args.after is not None:
            raise UsageError(
                "--groups lists every group; -n and --after are for schedules",
                hint="remove them",
            )
        return _list_groups(cli, choice)
    wanted = None if choice == Choice() else choice
    asked_limit = None if limit is None else limit + 1  # One more tells whether there are more.
    client = cli.find_reader()
    if cli.is_json:
        found = SchedulePage([], [])
        if client is not None:
            found = client.schedule_page(after=args.after, limit=limit, choice=wanted)
        cli.put_json(schedule_object(schedule) for schedule in found.schedules)
        warn_of_unreadable(cli, "schedule", found.unreadable)
        return 0
    standings = []
    if client is not None:
        standings = client.standings(after=args.after, limit=asked_limit, choice=wanted)
    if client is not None and standings:
        shown = standings[:limit]
        _put_table(cli, client, shown)
        if len(standings) > len(shown):
            say_more(cli, ["list", *_words_of(choice)], after=shown[-1].name, limit=args.limit)
        if any(standing.trigger_error is not None for standing in shown):
            cli.say(f"some schedules are broken; see: {cli.command('doctor')}")
        if any(standing.gone_upstreams for standing in shown):
            cli.say(f"some schedules follow a removed schedule; see: {cli.command('doctor')}")
        if any(standing.vanished_at is not None for standing in shown):
            cli.say(f"some schedules have no program that runs them; see: {cli.command('doctor')}")
    elif client is not None and (wanted or args.after) and client.standings(limit=1):
        cli.say("no schedule matches")
    else:
        say_empty(cli)
    return 0


def _list_groups(cli: Session, choice: Choice) -> int:
    """Print each group of the chosen schedules, by name."""
    # It loads documents and settings: a tenth of the time of a plain list.
    from edgecron.views.acts import is_held

    client = cli.find_reader()
    page = SchedulePage([], []) if client is None else client.schedule_page(choice=choice)
    groups: dict[str, dict[str, Any]] = {}
    for schedule in page.schedules:
        if client is None or schedule.spec.group is None:
            continue
        of = groups.setdefault(
            schedule.spec.group,
            {
                "group": schedule.spec.group,
                "max_running": schedule.group_max_running,
                "schedules": 0,
                "paused": 0,
            },
        )
        of["schedules"] += 1
        of["paused"] += is_held(schedule, client.now())
    found = [groups[name] for name in sorted(groups)]
    if cli.is_json:
        cli.put_json(found)
    elif found:
        rows = [
            (
                str(of["group"]),
                "-" if of["max_running"] is None else str(of["max_running"]),
                str(of["schedules"]),
                str(of["paused"]),
            )
            for of in found
        ]
        cli.put_table(("group", "max_running", "schedules", "paused"), rows)
    else:
        cli.say(f"no schedule is in a group; to put one in: {cli.command('edit NAME --group G')}")
    warn_of_unreadable(cli, "schedule", page.unreadable)
    return 0


def warn_of_unreadable(cli: Session, what: str, names: Sequence[str]) -> None:
    """Name the runs or schedules that are not shown because their rows can't be read."""
    words = unreadable_words(what, names)
    if words:
        cli.warn(f"{words}; what is wrong: {cli.command('doctor --deep')}")


def _words_of(choice: Choice) -> list[str]:
    """Return the arguments that make a choice of schedules."""
    words = [*choice.words]
    words += ["--group", choice.group] if choice.group is not None else []
    return words + ["--failed"] * choice.is_failed + ["--paused"] * choice.is_paused


def say_more(cli: Session, words: list[str], *, after: str, limit: str | None) -> None:
    """Say how to see the rest of a list after one page.

    `words` are the command and its arguments, `limit` is the text of -n.
    """
    more = [*words, "--after", after, *(("-n", limit) if limit is not None else ())]
    cli.say(f"there are more: {cli.command(shlex.join(more))}; or all: -n all")


def say_empty(cli: Session) -> None:
    """Say that there are no schedules, and how to add one."""
    client = cli.client()
    cli.say(f"no schedules yet in {client.place}")
    cli.say(f"add one: {cli.command(FIRST_SCHEDULE)}")


def _put_table(cli: Session, client: Reader, standings: list[Standing]) -> None:
    now, zone = client.now(), cli.zone()
    is_clock_trusted = client.is_clock_trusted()
    rows, styles = [], []
    for standing in standings:
        sign, style = _state(standing, now)
        last = standing.last_status
        rows.append(
            (
                f"{sign} {standing.name}",
                trigger_words(standing, zone=zone),
                next_words(standing, zone=zone, now=now, is_clock_trusted=is_clock_trusted),
                last_words(standing, now=now),
                str(standing.run_count),
            )
        )
        next_style = None if style == "bold" else style
        styles.append((style, "dim", next_style, STATUS_STYLES.get(last or "", "dim"), None))
    cli.put_table(
        ("name", "triggers", "next_run_at", "last_status", "run_count"),
        rows,
        styles=styles,
        flexible=((0, 26), (1, 12), (0, 18), (3, 8), (2, 20), (0, 14), 1, (0, 12), (2, 13)),
    )


def _state(standing: Standing, now: datetime) -> tuple[str, str]:
    """Return the glyph for the state of a schedule, and its style."""
    state = state_of(standing, now=now)
    style = _STATE_STYLES[state]
    idle = find_idle(standing, now=now)
    if idle is Idle.NO_NEXT or (idle is Idle.UPSTREAM and standing.gone_upstreams):
        style = "yellow"
    return glyph(*SCHEDULE_GLYPHS[state]), style
