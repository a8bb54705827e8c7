"""Lists of schedules, of groups, and of the next runs."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import UsageError
from edgecron.base.value_texts import read_count
from edgecron.base.window_texts import split_once_in
from edgecron.cli.output import STATUS_STYLES
from edgecron.cli.parser import Parser
from edgecron.cli.session import FIRST_SCHEDULE, Session
from edgecron.model.listing import (
    Choice,
    Idle,
    SchedulePage,
    ScheduleState,
    Standing,
    find_idle,
    state_of,
)
from edgecron.views.json_objects import fire_object, schedule_object
from edgecron.views.phrases import (
    SCHEDULE_GLYPHS,
    glyph,
    last_words,
    moved_words,
    next_words,
    trigger_words,
    unreadable_words,
)
from edgecron.views.times import distance, local_time, short_duration

if TYPE_CHECKING:
    from edgecron.client.questions import Reader
    from edgecron.model.filters import Filter
    from edgecron.planning.forecast import UpcomingFire

PAGE = 50  # lines of a list on a terminal
_STATE_STYLES = {
    ScheduleState.ACTIVE: "bold",
    ScheduleState.PAUSED: "yellow",
    ScheduleState.VANISHED: "yellow",
    ScheduleState.BROKEN: "red",
    ScheduleState.DONE: "dim",
}
_MOST_FIRES = 10_000
_MOST_EACH = 2  # runs of each schedule in a short list of all


class ListCommand:
    """List schedules, their next and last runs.

        edgecron list
        edgecron list disk        name, group, description or job contains "disk"
        edgecron list --group night --failed
        edgecron list --json | jq -r '.[] | select(.last_status=="failed").name'

    A terminal shows the first 50 schedules by name; a pipe and --json get all of them. If you give
    several words, a schedule must contain each.
    """

    USAGE = "[WORD...] [--group GROUP] [--failed] [--paused] [--groups] [-n N|all] [--after NAME]"

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("[WORD...]", "show schedules that contain this word", dest="words")
        parser.add("--group GROUP", "show schedules of this group")
        parser.add("--failed", "show schedules whose last run failed")
        parser.add("--paused", "show paused schedules")
        parser.add("--groups", "show each group, its limit and its schedules")
        add_page_arguments(parser)

    @staticmethod
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
                cli.say(
                    f"some schedules have no program that runs them; see: {cli.command('doctor')}"
                )
        elif client is not None and (wanted or args.after) and client.standings(limit=1):
            cli.say("no schedule matches")
        else:
            say_empty(cli, client or cli.client())
        return 0


def add_page_arguments(parser: Parser) -> None:
    """Add the options of a list that is shown page by page."""
    parser.add("-n N|all", f"show N lines (default: {PAGE} on a terminal, else all)", dest="limit")
    parser.add("--after NAME", "continue after this name")


def read_limit(cli: Session, text: str | None) -> int | None:
    """Return how many lines to show; None is all. Raises UsageError."""
    if text is None:
        return PAGE if sys.stdout.isatty() and not cli.is_json else None
    return None if text == "all" else read_count(text, what="-n")


def _list_groups(cli: Session, choice: Choice) -> int:
    """Print each group of the chosen schedules, by name."""
    # It loads documents and settings: a tenth of the time of a plain list.
    from edgecron.views.changes import is_held

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


def say_empty(cli: Session, client: Reader) -> None:
    """Say that there are no schedules, and how to add one."""
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


class NextCommand:
    """List the next runs.

    edgecron next
    edgecron next nightly -n 3
    edgecron next --filter due:03       runs between 3 and 4, within 7 days
    edgecron next -n 100 --ics > runs.ics

    Without NAME, the table shows at most two runs of each schedule, so that a frequent schedule
    does not hide the others. With -n, --filter, --ics or --json, edgecron shows every run.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("[NAME]", "show runs of this schedule (default: all)")
        parser.add(
            "--filter TEXT", "show runs that match, such as due:03 or command:restic", dest="wanted"
        )
        parser.add("-n N", "show N runs (default: 10)", dest="limit")
        parser.add("--ics", "write an iCalendar file for a calendar")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        limit = read_count("10" if args.limit is None else args.limit, what="-n", most=_MOST_FIRES)
        if args.ics and cli.is_json:
            raise UsageError("--ics and --json exclude each other", hint="use one of them")
        wanted = None if args.wanted is None else _read_filter(args.wanted, name=args.name)
        client = cli.reader()
        is_every = args.name is not None or args.limit is not None or wanted is not None
        each = None if is_every or args.ics or cli.is_json else _MOST_EACH
        coming = client.next_fires(args.name, matches=wanted, most_each=each)
        fires = list(islice(coming, limit))
        if each is not None and len({fire.schedule for fire in fires}) == 1:
            each = None  # There is no other to hide.
            fires = list(islice(client.next_fires(), limit))
        if args.ics:
            # Not `print`: a calendar has CRLF at the end of its lines.
            text = write_calendar(fires, origin=_origin_of(cli, client), now=client.now())
            cli.put_bytes(text.encode())
        elif cli.is_json:
            cli.put_json(fire_object(fire) for fire in fires)
        elif fires:
            _put_fires(cli, client, fires)
            if each is not None and max(Counter(fire.schedule for fire in fires).values()) >= each:
                cli.say(
                    f"shown: at most {each} runs of each schedule;"
                    f" for all runs: {cli.command('next -n 10')}"
                )
        elif wanted is not None:
            cli.say("no upcoming run matches")
        elif client.count_schedules()[0]:
            _say_nothing_to_come(cli, client, args.name)
        else:
            say_empty(cli, client)
        return 0


def _read_filter(text: str, *, name: str | None) -> Filter:
    from edgecron.model.filters import parse_filter  # Few lists have a filter.

    wanted = parse_filter(text)
    if wanted.unused_on_fires:
        raise UsageError(
            f"--filter has {wanted.unused_on_fires[0]}:, which does not apply to upcoming runs",
            hint="use job:, command: and due:",
        )
    if name is not None:
        raise UsageError(
            "--filter and NAME exclude each other", hint=f"write: --filter 'job:{name} ...'"
        )
    return wanted


def _put_fires(cli: Session, client: Reader, fires: list[UpcomingFire]) -> None:
    now, zone = client.now(), cli.zone()
    is_trusted = client.is_clock_trusted()
    rows = [
        (
            local_time(fire.due_at, zone=zone),
            distance(fire.due_at, now, is_clock_trusted=is_trusted),
            fire.schedule,
            fire.source or "",
            _fire_note(fire, zone=zone, now=now),
        )
        for fire in fires
    ]
    cli.put_table(
        ("due_at", "from_now", "schedule", "source", "note"),
        rows,
        styles=[(None, "cyan", "bold", "dim", "dim")] * len(rows),
        flexible=((2, 24), (3, 12), (4, 12), (2, 12), 3, 4),
        title=1,
    )


def _fire_note(fire: UpcomingFire, *, zone: tzinfo, now: datetime) -> str:
    if fire.is_moved:
        return moved_words(fire, zone=zone, now=now)
    moved = fire.due_at - fire.plan_at
    parts = None if fire.source is None else split_once_in(fire.source)
    if fire.source is None:
        return "started manually"
    if not moved:
        return "at the earliest" if parts is not None and parts.conditions else ""
    words = short_duration(round(moved.total_seconds() * 1000))
    return f"{words} of jitter" if parts is None else f"{words} into its window"


def _say_nothing_to_come(cli: Session, client: Reader, name: str | None) -> None:
    if name is None:
        cli.say(
            "no upcoming run has a known time; to see what each schedule waits for:"
            f" {cli.command('list')}"
        )
        return
    cli.say(f"{name}: {cli.next_sentence(client.schedule(name))}")


_MOST_OCTETS = 75  # of a line, without its end (RFC 5545, 3.1)


_LASTS = timedelta(minutes=1)  # calendars hide an event that takes no time


def _origin_of(cli: Session, client: Reader) -> str:
    """Return a name of the database that no other database has, or of the server that has it."""
    from urllib.parse import urlsplit  # Rarely needed: only a calendar has identities.

    from edgecron.client.schedules import Schedules

    if isinstance(client, Schedules):
        return client.store.uuid
    return urlsplit(cli.remote_url() or "").netloc


def write_calendar(fires: Iterable[UpcomingFire], *, origin: str, now: datetime) -> str:
    """Return the text of a calendar with one event per fire, at the time when it can start.

    An event keeps its identity (`origin`, schedule and plan time), so that a later import replaces
    it, and that of another machine does not. It does not mark a person as busy.
    """
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//edgecron//next//EN"]
    for fire in fires:
        lines += [
            "BEGIN:VEVENT",
            f"UID:{_stamp(fire.plan_at)}-{fire.schedule}@{origin}",
            f"DTSTAMP:{_stamp(now)}",
            f"DTSTART:{_stamp(fire.due_at)}",
            f"DTEND:{_stamp(fire.due_at + _LASTS)}",
            f"SUMMARY:{_text(fire.schedule)}",
            *([f"DESCRIPTION:{_text(fire.source)}"] if fire.source else []),
            "TRANSP:TRANSPARENT",
            "END:VEVENT",
        ]
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line))


def _stamp(at: datetime) -> str:
    """An aware UTC instant in whole seconds."""
    return f"{at:%Y%m%dT%H%M%SZ}"


def _text(text: str) -> str:
    """Escape what has a meaning in a text (RFC 5545, 3.3.11)."""
    for special in ("\\", ";", ","):
        text = text.replace(special, f"\\{special}")
    return text.replace("\r\n", "\\n").replace("\n", "\\n").replace("\r", "\\n")


def _folded(line: str) -> Iterator[str]:
    """Cut a line into parts of at most 75 octets; each further part begins with a space."""
    part = ""
    for letter in line:
        if len((part + letter).encode()) > _MOST_OCTETS:
            yield part
            part = " "
        part += letter
    yield part
