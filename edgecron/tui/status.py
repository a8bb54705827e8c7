"""Lines around the lists: status, banner, filter, details of the line under the cursor, keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.model.choices import HealthState
from edgecron.tui.database_app import DatabaseApp, Engines, Overview
from edgecron.tui.keys import actions_of, key_words
from edgecron.tui.text_line import Span, TextLine, whole_parts
from edgecron.tui.themes import STATUS_GLYPHS
from edgecron.views.phrases import (
    PROBLEM,
    UNKNOWN,
    WARNING,
    count_words,
    display_width,
    error_words,
    fit,
    folded,
    job_words,
    size_words,
)
from edgecron.views.times import distance

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution


_MOST_OWED = 1000
Part = tuple[Span, ...]  # of a line: shown as a whole, or left out
_MOST_LINES = 3
_REDRAW_S = 60.0


def read_engines(client: Client) -> Engines:
    """Read the state of engines and clock: it changes without a commit."""
    from edgecron.client.engine_health import EngineHealth
    from edgecron.model.choices import COMMAND_QUEUE

    states = client.engines()
    if not any(state.is_working for state in states):
        client.take_over()  # End runs whose engine and supervisor are gone.
    return Engines(
        alive=tuple(
            state.info.pid
            for state in states
            if state.is_working and COMMAND_QUEUE in state.info.queues
        ),
        stalled=sum(state.health is EngineHealth.STALLED for state in states),
        gone=sum(state.health is EngineHealth.GONE for state in states),
        is_clock_trusted=client.is_clock_trusted(),
    )


def read_overview(client: Client) -> Overview:
    """Read what the status line shows."""
    from edgecron.model.choices import Status

    counts = client.active_counts()
    schedules, broken, vanished = client.count_schedules()
    database_bytes, wal_bytes = client.database_sizes()
    health = client.schedule_health(limit=0)
    return Overview(
        place=client.place,
        engines=read_engines(client),
        schedules=schedules,
        broken=broken,
        vanished=vanished,
        health={} if health is None else health.counts,
        running=counts.get(Status.RUNNING, 0),
        queued=counts.get(Status.QUEUED, 0),
        owed=len(client.waiting_runs(limit=_MOST_OWED)),
        last_failure=client.last_failure(),
        database_bytes=database_bytes,
        wal_bytes=wal_bytes,
    )


def status_parts(
    found: Overview, *, now: datetime, own_pid: int | None = None, engine_key: str = ""
) -> tuple[list[Part], Part]:
    """Return the parts of the status line, the most important first, and its right end.

    `own_pid` is the process of the dashboard's own engine, `engine_key` the key that starts one.
    """
    waiting = found.queued - found.owed
    parts: list[Part] = [
        *_engine_parts(found.engines, own_pid=own_pid, engine_key=engine_key),
        *_health_parts(found.health),
        ((f"{found.running} running", "busy" if found.running else "dim"),),
        ((f"{waiting} queued", "wait" if waiting else "dim"),),
    ]
    if found.owed:
        parts.append(((f"{found.owed} waiting", "warn"),))
    if found.broken:
        parts.append(((f"{PROBLEM.letter} {found.broken} broken", "bad"),))
    if found.vanished:
        parts.append(((f"{UNKNOWN.letter} {found.vanished} vanished", "warn"),))
    if not found.engines.is_clock_trusted:
        parts.append(((f"{WARNING.letter} clock not trusted", "bad"),))
    failure = found.last_failure
    if failure is not None:
        when = distance(failure.finished_at or failure.plan_at, now)
        glyph, style = STATUS_GLYPHS[failure.status.value]
        parts.append(((f"{glyph} ", style), (f"{clean(failure.schedule)} {when}", "dim")))
    size = size_words(found.database_bytes + found.wal_bytes)
    return parts, ((f"{clean(_short(found.place))}  {size}", "dim"),)


def _health_parts(counts: Mapping[HealthState, int]) -> list[Part]:
    # Loaded when needed: the first lines are drawn before the counts are read.
    from edgecron.views.schedule_health import STATE_WORDS

    return [
        (
            (
                f"{PROBLEM.letter if is_bad else WARNING.letter} {count} {STATE_WORDS[state]}",
                "bad" if is_bad else "warn",
            ),
        )
        for state, count in counts.items()
        for is_bad in [state is HealthState.FAILING]
    ]


def _engine_parts(found: Engines, *, own_pid: int | None, engine_key: str) -> list[Part]:
    parts: list[Part] = []
    if found.alive:
        count = len(found.alive)
        words: Part = (("● ", "good"), (count_words(count, "engine"), ""))
        is_ours = own_pid in found.alive
        parts.append(
            (*words, (", this dashboard's" if count == 1 else ", one this dashboard's", "good"))
            if is_ours
            else words
        )
    else:
        offer: Part = ((f": {engine_key} starts one", "dim"),) if engine_key else ()
        parts.append(((f"{PROBLEM.letter} no engine", "bad"), *offer))
    if found.stalled:
        parts.append(((f"{WARNING.letter} {found.stalled} stalled", "warn"),))
    if found.gone:
        parts.append(((f"{PROBLEM.letter} {found.gone} gone", "warn"),))
    return parts


class Card(NamedTuple):
    """A way to begin: an action with its key, or a command for the shell."""

    title: str
    words: str
    action: str = ""


CARDS = (
    Card("Add a schedule", "such as: daily at 9 run ./sync.sh", "add"),
    Card("Scan this machine", "jobs of cron and systemd, to adopt", "scan"),
    Card("Import a crontab", "crontab -l | edgecron import crontab -"),
    Card("See a demo", "edgecron demo"),
)
_CARD = 48  # columns
_FRAMED = 4  # lines of a card with its frame
_BESIDE = 3  # columns between two cards


class Cards(TextLine):
    """Ways to begin, while there is nothing to show."""

    app: DatabaseApp

    def lines(self) -> Sequence[Sequence[Span]]:
        """Return the cards, two in a row if there is room, in the middle."""
        width, height = self.size
        across = 2 if width >= 2 * _CARD + _BESIDE + 2 else 1
        room = min(_CARD, width - 2)
        most = (height - 2) * across // len(CARDS)  # lines of a card
        drawn = [self._card(card, room, most=most) for card in CARDS]
        lines: list[list[Span]] = [[("no schedules yet: begin with one", "bold")], []]
        for at in range(0, len(drawn), across):
            for first, *others in zip(*drawn[at : at + across], strict=True):
                beside = [span for part in others for span in ((" " * _BESIDE, ""), *part)]
                lines.append([*first, *beside])
        used = across * room + (across - 1) * _BESIDE
        left = (" " * max(1, (width - used) // 2), "")
        above = max(0, (height - len(lines)) // 3)
        return [*([] for _ in range(above)), *([left, *line] for line in lines)]

    def _card(self, card: Card, width: int, *, most: int) -> list[list[Span]]:
        is_framed = most >= _FRAMED
        key = key_words(self.app.label(card.action)) if card.action else "$"
        target = f"@app.perform('{card.action}')" if card.action else ""
        inner = width - 4 if is_framed else width
        title: list[Span] = [
            (f"{key} ", f"accent{target}"),
            (fit(card.title, inner - len(key) - 1), f"bold{target}"),
        ]
        content = [title, [("  ", ""), (fit(card.words, inner - 2), "dim")]]
        if not is_framed:
            return content[: max(1, most)]
        frame = [[("│ ", "faint"), *line, (" │", "faint")] for line in content]
        edge = "─" * (width - 2)
        return [[(f"╭{edge}╮", "faint")], *frame, [(f"╰{edge}╯", "faint")]]


class StatusLine(TextLine):
    """The line with engines, runs and problems: the same on every screen."""

    app: DatabaseApp

    def __init__(self) -> None:
        super().__init__(id="status")

    def on_mount(self) -> None:
        self.watch(self.app, "overview", self.draw)
        self.set_interval(_REDRAW_S, self.draw)  # The distance of the last failure grows.

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw what was read last; nothing before that."""
        found = self.app.overview
        if found is None:
            return
        parts, right = status_parts(
            found,
            now=self.app.now(),
            own_pid=self.app.engine_pid,
            engine_key=self.app.engine_key,
        )
        shown = whole_parts(parts, self.size.width - 2)
        self.show([(" ", ""), *shown], right=[*right, (" ", "")])


def _short(place: str) -> str:
    """Shorten a path in the home folder with `~`; leave the URL of another machine."""
    with suppress(ValueError, RuntimeError):  # It is elsewhere, or the home folder is unknown.
        return f"~/{Path(place).relative_to(Path.home())}"
    return place


class Banner(TextLine):
    """Show why the database can't be used; hidden while it can.

    It is calm if there is no database yet: the first schedule creates it.
    """

    app: DatabaseApp

    def show_trouble(self) -> None:
        """Show the current trouble, folded to the width of the screen."""
        error = self.app.trouble
        self.display = error is not None
        is_calm = self.app.is_absent and "add" in actions_of(self.screen)
        self.set_class(is_calm, "-calm")
        if error is None:
            return
        words = f"{WARNING.letter} {error_words(error)}"
        if is_calm:
            key = self.app.label("add")
            words = f"{error.message} yet: press {key} to create it with a first schedule"
        lines = list(folded(clean(words), max(1, self.screen.size.width - 2)))[:_MOST_LINES]
        self.styles.height = len(lines)
        self.show(*([(f" {line}", "bold")] for line in lines))


def schedule_detail(client: Client, name: str) -> tuple[Span, ...]:
    """Describe when a schedule runs, and what; nothing if it was removed meanwhile."""
    from edgecron.triggers import describe

    try:
        schedule = client.schedule(name)
    except NotFound:
        return ()
    if schedule.trigger_error is not None:
        return ((f"broken: {clean(schedule.trigger_error)}", "bad"),)
    try:
        words = ", and ".join(describe(trigger) for trigger in client.triggers(schedule))
    except InvalidInput as error:
        return ((clean(error.message), "bad"),)
    return (
        (clean(words), ""),
        ("  ·  ", "faint"),
        (clean(job_words(schedule.spec)), "dim"),
    )


def run_detail(run: Execution, *, zone: tzinfo, now: datetime) -> tuple[Span, ...]:
    """Describe why a run ran and how it ended, or why it did not run."""
    from edgecron.views.run_words import run_sentence  # See `_health_parts`.

    return ((clean(run_sentence(run, zone=zone, now=now)), ""),)


# The actions of each place, and their short names. If there is no room, the last ones are omitted.
_ALWAYS = ("help", "keys")
_EVERYWHERE = (("quit", "quit"), ("palette", "all actions"))
_PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "empty": (("add", "add"), ("scan", "scan")),
    "timeline": (
        ("open", "details"),
        ("tail", "output"),
        ("left", "run before"),
        ("right", "after"),
        ("zoom_in", "zoom in"),
        ("zoom_out", "out"),
        ("earlier", "earlier"),
        ("later", "later"),
        ("run", "run now"),
        ("add", "add"),
        ("filter", "filter"),
    ),
    "schedules": (
        ("open", "details"),
        ("tail", "output"),
        ("run", "run now"),
        ("add", "add"),
        ("edit", "edit"),
        ("pause", "pause"),
        ("filter", "filter"),
        ("sort", "sort"),
    ),
    "upcoming": (
        ("open", "details"),
        ("tail", "output"),
        ("run", "run now"),
        ("reschedule", "move"),
        ("pause", "pause"),
        ("filter", "filter"),
        ("sort", "sort"),
    ),
    "runs": (
        ("open", "output"),
        ("run", "run again"),
        ("cancel", "cancel"),
        ("filter", "filter"),
        ("sort", "sort"),
    ),
    "schedule": (
        ("back", "back"),
        ("run", "run now"),
        ("edit", "edit"),
        ("pause", "pause"),
        ("reschedule", "move"),
        # The headings of these name their keys, too.
        ("changes", "changes"),
        ("fields", "all fields"),
        ("undo", "undo"),
    ),
    "machine": (("back", "back"), ("open", "all facts")),
    "notices": (("back", "back"), ("open", "all facts")),
    "engines": (("back", "back"), ("open", "all facts")),
    "failures": (
        *(("back", "back"), ("open", "output"), ("acknowledge", "acknowledge")),
        *(("run", "run again"), ("mark", "mark")),
    ),
    "graph": (("back", "back"), ("open", "details")),
    "simulation": (("back", "back"), ("open", "all facts"), ("span", "week, month, year")),
    "run": (
        ("back", "back"),
        ("filter", "search"),
        ("follow", "follow"),
        ("cancel", "cancel"),
        ("wrap", "wrap"),
        ("copy", "copy"),
        ("save", "save"),
        ("facts", "facts"),
        ("timestamps", "times"),
        ("pager", "pager"),
        ("run", "run again"),
        ("edit", "edit"),
    ),
}
_GAP = "   "


class KeyLine(TextLine):
    """Show the keys of a place, or the progress of an action."""

    app: DatabaseApp

    def __init__(self) -> None:
        super().__init__(id="keys")
        self._place = ""
        self._without: tuple[str, ...] = ()

    def show_place(self, place: str, *, without: tuple[str, ...] = ()) -> None:
        """Show the keys of another place, except those of some actions."""
        if (place, without) != (self._place, self._without):
            self._place, self._without = place, without
            self.show_keys()

    def on_mount(self) -> None:
        self.watch(self.app, "progress", self.show_keys)

    def on_resize(self) -> None:
        self.show_keys()

    def show_keys(self) -> None:
        """Show the keys that fit, or the progress of an action."""
        if self.app.progress:
            can_stop = any(not stop.is_set() for stop in self.app.stops)
            stop = "   esc stops it" if can_stop else ""
            self.show([(" ", ""), (self.app.progress, "busy"), (stop, "dim")])
        elif self._place:
            labels = self.app.labels
            known = {
                action: labels[action]
                for action in actions_of(self.screen)
                if action not in self._without
            }
            # There is nothing to open while the first screen shows ways to begin.
            place = "empty" if self.screen.has_class("-empty") else self._place
            self.show(footer_spans(place, labels=known, width=self.size.width))


def footer_spans(place: str, *, labels: Mapping[str, tuple[str, ...]], width: int) -> list[Span]:
    """Return the keys of a place that fit as a whole; the help key is always among them."""

    def part(action: str, name: str) -> tuple[Span, ...]:
        target = f"@app.perform('{action}')"
        key = key_words(labels[action][0])
        return (f"{key} ", f"accent{target}"), (name, f"dim{target}")

    entries = (*_PLACES.get(place, ()), *_EVERYWHERE)
    parts = [part(action, name) for action, name in entries if labels.get(action)]
    last = part(*_ALWAYS) if labels.get(_ALWAYS[0]) else ()
    room = width - 1 - sum(display_width(text) for text, _ in last) - 2 * len(_GAP)
    return [(" ", ""), *whole_parts(parts, room), (_GAP, ""), *last]
