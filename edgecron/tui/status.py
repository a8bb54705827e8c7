"""Lines around the lists: status, banner, filter, details of the line under the cursor, keys."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.timer import Timer
from textual.widgets import Input

from edgecron.base.errors import InvalidInput, NotFound
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.model.choices import HealthState
from edgecron.tui.keys import actions_of, bindings
from edgecron.tui.list_view import LineView
from edgecron.tui.text_line import LineInput, Span, TextLine, whole_parts
from edgecron.tui.themes import STATUS_GLYPHS
from edgecron.views.phrases import (
    PROBLEM,
    UNKNOWN,
    WARNING,
    count_words,
    display_width,
    error_words,
    folded,
    job_words,
    size_words,
)
from edgecron.views.run_words import run_sentence
from edgecron.views.schedule_health import STATE_WORDS
from edgecron.views.times import short_distance

if TYPE_CHECKING:
    from edgecron.model.filters import Filter
    from edgecron.model.run import Execution
    from edgecron.tui.database_app import DatabaseApp


_MOST_OWED = 1000
Part = tuple[Span, ...]  # of a line: shown as a whole, or left out
_MOST_LINES = 3


class Engines(NamedTuple):
    """Process ids of engines that start due runs, and how many are stalled or gone."""

    alive: tuple[int, ...]
    stalled: int
    gone: int
    is_clock_trusted: bool


class Overview(NamedTuple):
    """The content of the status line; `owed` of the queued runs wait for a condition."""

    place: str
    engines: Engines
    schedules: int
    broken: int
    vanished: int
    health: Mapping[HealthState, int]
    running: int
    queued: int
    owed: int
    last_failure: Execution | None
    database_bytes: int
    wal_bytes: int


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
        when = short_distance(failure.finished_at or failure.plan_at, now)
        glyph, style = STATUS_GLYPHS[failure.status.value]
        parts.append(((f"{glyph} ", style), (f"{clean(failure.schedule)} {when}", "dim")))
    size = size_words(found.database_bytes + found.wal_bytes)
    return parts, ((f"{clean(_short(found.place))}  {size}", "dim"),)


def _health_parts(counts: Mapping[HealthState, int]) -> list[Part]:
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
    return ((clean(run_sentence(run, zone=zone, now=now)), ""),)


# The actions of each place, and their short names. If there is no room, the last ones are omitted.
_ALWAYS = ("help", "keys")
_EVERYWHERE = (("quit", "quit"), ("palette", "all actions"))
_PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "schedules": (
        ("open", "details"),
        ("run", "run now"),
        ("add", "add"),
        ("edit", "edit"),
        ("pause", "pause"),
        ("filter", "filter"),
        ("sort", "sort"),
    ),
    "upcoming": (
        ("open", "details"),
        ("run", "run now"),
        ("reschedule", "move"),
        ("pause", "pause"),
        ("filter", "filter"),
    ),
    "runs": (
        ("open", "output"),
        ("run", "run again"),
        ("cancel", "cancel"),
        ("filter", "filter"),
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
    "simulation": (("back", "back"), ("open", "all facts"), ("span", "week, month, year")),
    "run": (
        ("back", "back"),
        ("filter", "search"),
        ("follow", "follow"),
        ("wrap", "wrap"),
        ("copy", "copy"),
        ("save", "save"),
        ("facts", "facts"),
        ("timestamps", "times"),
        ("pager", "pager"),
        ("run", "run again"),
        ("cancel", "cancel"),
    ),
}
_GLYPHS = {"enter": "⏎", "space": "␣"}
_GAP = "   "


class KeyLine(TextLine):
    """Show the keys of a place, or the progress of an action."""

    app: DatabaseApp

    def __init__(self) -> None:
        super().__init__(id="keys")
        self._place = ""

    def show_place(self, place: str) -> None:
        """Show the keys of another place."""
        self._place = place
        self.show_keys()

    def on_mount(self) -> None:
        self.watch(self.app, "progress", self.show_keys)

    def on_resize(self) -> None:
        self.show_keys()

    def show_keys(self) -> None:
        """Show the keys that fit, or the progress of an action."""
        if self.app.progress:
            self.show([(" ", ""), (self.app.progress, "busy")])
        elif self._place:
            labels = self.app.labels
            known = {action: labels[action] for action in actions_of(self.screen)}
            self.show(footer_spans(self._place, labels=known, width=self.size.width))


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


def key_words(label: str) -> str:
    """Return the label of a key, or a glyph for it."""
    return _GLYPHS.get(label, label)


_PAUSE_S = 0.12  # after the last letter, before the list is filtered
_LEAST_INPUT = 12  # columns


class FilterLine(Horizontal):
    """Edit the filter of a list; hidden if there is no filter, mark or trouble.

    Enter keeps the filter, the key for going back removes it.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("back")
    DEFAULT_CSS = """
    FilterLine { height: 1; background: $surface; display: none; }
    FilterLine .sign { width: 3; }
    FilterLine LineInput { width: 1fr; }
    FilterLine .said { width: 1fr; }
    """

    def __init__(self, view: LineView, *, id: str) -> None:
        super().__init__(id=id)
        self._view = view
        self._source = view.source
        self._empty = view.empty
        self._problem = ""
        self._is_searching = False
        self._is_writing = False
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield TextLine([(" / ", "accent")], classes="sign")
        yield LineInput(compact=True, select_on_focus=False)
        yield TextLine(classes="said")

    @property
    def _input(self) -> LineInput:
        return self.query_one(LineInput)

    def write(self) -> None:
        """Open the filter for typing."""
        self._is_writing = self.display = True
        self.show()
        self.screen.set_focus(self._input)  # Immediately: the next key is meant for it.

    def clear(self) -> bool:
        """Remove the filter; return whether there was one."""
        was_there = self._source.filter is not None or bool(self._problem)
        with self._input.prevent(Input.Changed):
            self._input.value = ""
        self._apply("")
        return was_there

    def found(self) -> None:
        """Show the count of a list that was read again, and drop marks of lines that are gone."""
        self._is_searching = False
        gone = self._source.gone_of(self._view.marked)
        if gone:
            self._view.mark(self._view.marked - gone)
        self.show()

    def show(self) -> None:
        """Show how many lines match and are marked, or what is wrong with the filter."""
        is_filtered = self._source.filter is not None or bool(self._problem)
        shows_line = is_filtered or self._is_writing
        self.display = shows_line or bool(self._view.marked or self._source.trouble)
        self.query_one(".sign", TextLine).display = shows_line
        self._input.display = shows_line
        spans = self._spans()
        said = self.query_one(".said", TextLine)
        if shows_line:
            width = sum(display_width(text) for text, _ in spans)
            said.styles.width = max(1, min(width, self._view.size.width - 3 - _LEAST_INPUT))
            said.show(spans)
        else:
            said.styles.width = "1fr"
            said.show([(" ", ""), *spans])

    def _spans(self) -> list[Span]:
        spans: list[Span] = []
        if self._problem:
            spans.append((f" {PROBLEM.letter} {clean(self._problem)} ", "bad"))
        elif self._source.filter is not None:
            spans += self._count_spans(self._source.filter)
        if self._view.marked:
            spans.append((f" ▌{len(self._view.marked):,} marked ", "accent"))
        if self._source.trouble:
            spans.append((f" {WARNING.letter} {clean(self._source.trouble)} ", "warn"))
        return spans

    def _count_spans(self, wanted: Filter) -> list[Span]:
        unused = self._source.unused_keys(wanted)
        spans: list[Span] = []
        if unused:
            spans.append((f" {WARNING.letter} {', '.join(unused)} has no effect here ", "warn"))
        if self._is_searching:
            return [*spans, (" searching ... ", "dim")]
        count = self._source.count
        if self._source.is_counted:
            return [*spans, (f" {count:,} {'match' if count == 1 else 'matches'} ", "dim")]
        return [*spans, (f" over {count:,} matches ", "dim")]

    def on_input_changed(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_PAUSE_S, self._read_filter)

    def on_input_submitted(self) -> None:
        self._read_filter()
        self.screen.set_focus(self._view)

    def on_descendant_blur(self) -> None:
        self._is_writing = False
        self.show()

    def action_back(self) -> None:
        self.clear()
        self.screen.set_focus(self._view)

    def _read_filter(self) -> None:
        self._apply(self._input.value.strip())

    def _apply(self, text: str) -> None:
        from edgecron.model.filters import parse_filter

        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        try:
            wanted = parse_filter(text) if text else None
        except InvalidInput as error:
            self._problem = error_words(error)
            self.show()
            return
        self._problem = ""
        is_same = (wanted and wanted.terms) == (self._source.filter and self._source.filter.terms)
        if not is_same:
            self._is_searching = True
            self._view.empty = self._empty if wanted is None else "nothing matches"
            self._source.filter_by(wanted)
        self.show()
