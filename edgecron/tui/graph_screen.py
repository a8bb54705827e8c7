"""The upstream and downstream schedules of one: `after` and `needs` as two trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from edgecron.base.errors import EdgecronError
from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.model.choices import Status
from edgecron.model.conditions import read_needs
from edgecron.model.listing import ScheduleState, standing_of, state_of
from edgecron.model.schedule import Schedule
from edgecron.triggers import AfterTrigger
from edgecron.tui.list_rows import Column, Line, Source
from edgecron.tui.list_view import LineView
from edgecron.tui.queries import FactsScreen, ThrottledQuery
from edgecron.tui.schedule_list import last_spans
from edgecron.tui.text_line import Fact, Row, Span, Title
from edgecron.tui.themes import STATE_GLYPHS
from edgecron.views.phrases import PROBLEM, count_words

_BLOCKED_WORDS = (
    "a path is blocked if the schedule above is paused, broken or gone, or if a success that"
    " another one needs is missing"
)
_NONE = "no other schedule"
_MOST = 200  # schedules that are read
_MOST_DEEP = 20
_STOPPED = (ScheduleState.PAUSED, ScheduleState.BROKEN, ScheduleState.VANISHED)
_NO_SUCCESS = {
    Status.FAILED: "failed",
    Status.INTERRUPTED: "was interrupted",
    Status.CANCELLED: "was cancelled",
    Status.SKIPPED: "was skipped",
}
_COLUMNS = (
    Column("SCHEDULE", 20, 24, share=2),
    Column("RUNS", 18, 24, share=1),
    Column("LAST", 13, 14, drop=1),
    Column("BLOCKED", 20, 24, share=2),
)


class Link(NamedTuple):
    """How one schedule waits for another: `after` its next end, or it `needs` a past success."""

    upstream: str
    downstream: str
    words: str
    needs_success: bool


class Node(NamedTuple):
    """A line of a tree: a schedule, what draws its branch, and its link to the line above.

    `schedule` is None if it does not exist. `blocked` says why the path to it is blocked, '' if it
    is open. `is_repeated`: its own branches stand elsewhere.
    """

    name: str
    branch: str
    words: str
    schedule: Schedule | None
    blocked: str = ""
    is_repeated: bool = False


class Graph(NamedTuple):
    """The trees of a schedule: what it waits for, and what waits for it."""

    upstream: tuple[Node, ...]
    downstream: tuple[Node, ...]
    is_whole: bool


def links_to(client: Client, schedule: Schedule) -> list[Link]:
    """Return the links from a schedule to those that it waits for."""
    found = []
    try:
        triggers = client.triggers(schedule)
    except EdgecronError:  # A broken schedule waits for nothing.
        triggers = []
    for trigger in triggers:
        if isinstance(trigger, AfterTrigger):
            ends = {"success": "succeeds", "failure": "fails", "any": "ends"}[trigger.on]
            # Its next success starts this one, so a failure blocks nothing.
            words = f"after it {ends}"
            found.append(Link(trigger.upstream, schedule.name, words, needs_success=False))
    for condition in read_needs(schedule.spec.policies.needs):
        if condition.schedule is not None:
            age = condition.text.removeprefix(f"success:{condition.schedule}").removeprefix(":")
            words = f"needs success within {age}" if age else "needs its success"
            found.append(Link(condition.schedule, schedule.name, words, needs_success=True))
    return found


def why_blocked(upstream: Schedule | None, link: Link, *, now: datetime) -> str:
    """Say why a link lets nothing start at present; '' if it does."""
    if upstream is None:
        return f"{link.upstream} does not exist"
    state = state_of(standing_of(upstream), now=now)
    if state in _STOPPED:
        return f"{link.upstream} is {state.value}"
    last = upstream.last_status
    if link.needs_success and last is not None and last in _NO_SUCCESS:
        return f"{link.upstream} {_NO_SUCCESS[last]}"
    return ""


class _Reading:
    """Reads the schedules around one, each once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.now = client.now()
        self.is_whole = True
        self._schedules: dict[str, Schedule | None] = {}

    def schedule(self, name: str) -> Schedule | None:
        """Return a schedule; None if it does not exist or can't be read."""
        if name not in self._schedules:
            try:
                self._schedules[name] = self._client.schedule(name)
            except EdgecronError:  # It does not exist, or can't be read.
                self._schedules[name] = None
        return self._schedules[name]

    def above(self, name: str) -> list[tuple[str, Link]]:
        """Return the schedules that one waits for."""
        schedule = self.schedule(name)
        links = [] if schedule is None else links_to(self._client, schedule)
        return [(link.upstream, link) for link in links]

    def below(self, name: str) -> list[tuple[str, Link]]:
        """Return the schedules that wait for one."""
        found = []
        for dependent in self._client.find_dependents(name):
            schedule = self.schedule(dependent)
            links = [] if schedule is None else links_to(self._client, schedule)
            found += [(dependent, link) for link in links if link.upstream == name]
        return found

    def is_full(self) -> bool:
        """Whether enough schedules were read."""
        if len(self._schedules) < _MOST:
            return False
        self.is_whole = False
        return True


def read_graph(client: Client, name: str) -> Graph:
    """Read both trees of a schedule. Raises NotFound."""
    reading = _Reading(client)
    client.schedule(name)
    up = tuple(_grow(reading, name, is_up=True, lead="", blocked="", seen={name}))
    down = tuple(_grow(reading, name, is_up=False, lead="", blocked="", seen={name}))
    return Graph(up, down, reading.is_whole)


def _grow(
    reading: _Reading, name: str, *, is_up: bool, lead: str, blocked: str, seen: set[str]
) -> Iterator[Node]:
    """Yield the branches of a schedule, depth first. Behind a blocked link, all are blocked."""
    if len(lead) > 3 * _MOST_DEEP or reading.is_full():
        return
    branches = reading.above(name) if is_up else reading.below(name)
    for number, (other, link) in enumerate(branches):
        is_last = number == len(branches) - 1
        why = why_blocked(reading.schedule(link.upstream), link, now=reading.now)
        why = why or ("" if is_up else blocked)
        is_repeated = other in seen
        branch = f"{lead}{'└─ ' if is_last else '├─ '}"
        yield Node(other, branch, link.words, reading.schedule(other), why, is_repeated)
        if not is_repeated:
            seen.add(other)
            more = lead + ("   " if is_last else "│  ")
            yield from _grow(reading, other, is_up=is_up, lead=more, blocked=why, seen=seen)


class _GraphSource(Source):
    """The lines of both trees; headings and the schedule itself are lines, too."""

    def __init__(self) -> None:
        self.nodes: Sequence[Node | tuple[str, str]] = ()
        self.now: datetime | None = None

    def show(self, graph: Graph, *, now: datetime) -> None:
        """Show these trees."""
        self.now = now
        self.nodes = [
            ("it waits for", "" if graph.upstream else _NONE),
            *graph.upstream,
            ("waiting for it", "" if graph.downstream else _NONE),
            *graph.downstream,
        ]
        self.keys = list(range(len(self.nodes)))

    def line(self, index: int) -> Line | None:
        node, now = self.nodes[index], self.now
        if now is None:
            return None
        if not isinstance(node, Node):
            words, note = node
            return Line(index, (((words, "bold"),), ((note, "dim"),), (), ()))
        return Line(index, (_name_spans(node, now), *_other_cells(node, now)))


def _name_spans(node: Node, now: datetime) -> tuple[Span, ...]:
    style = "bad" if node.blocked else "faint"
    if node.schedule is None:
        return (node.branch, style), (f"? {clean(node.name)}", "bad")
    glyph, glyph_style = STATE_GLYPHS[state_of(standing_of(node.schedule), now=now)]
    more = ((" (see above)", "dim"),) if node.is_repeated else ()
    return (node.branch, style), (f"{glyph} ", glyph_style), (clean(node.name), ""), *more


def _other_cells(node: Node, now: datetime) -> tuple[tuple[Span, ...], ...]:
    status = None if node.schedule is None else node.schedule.last_status
    at = None if node.schedule is None else node.schedule.last_run_at
    blocked = ((f"{PROBLEM.letter} {clean(node.blocked)}", "bad"),) if node.blocked else ()
    return (
        ((clean(node.words), "dim"),),
        last_spans(None if status is None else status.value, at, now=now),
        blocked,
    )


class GraphScreen(FactsScreen):
    """The schedules around one; Enter opens the one under the cursor."""

    PLACE = "graph"

    def __init__(self, name: str) -> None:
        super().__init__()
        self._schedule = name
        self._query: ThrottledQuery[Graph] = ThrottledQuery(self, "graph")

    def make_list(self) -> LineView:
        self._source = _GraphSource()
        return LineView(self._source, _COLUMNS, id="graph", empty="reading ...")

    def begin(self) -> None:
        self.show_title(f"graph of {clean(self._schedule)}")
        self._read()

    def on_changed(self) -> None:
        self._read()

    def _read(self) -> None:
        name = self._schedule
        self._query.ask(lambda client: read_graph(client, name), self._show)

    def _show(self, graph: Graph) -> None:
        view, is_first = self.query_one(LineView), not self._source.count
        self._source.show(graph, now=self.app.now())
        view.source_changed()
        if is_first:  # Begin at a schedule, not at the heading above it.
            kinds = [isinstance(node, Node) for node in self._source.nodes]
            view.cursor = kinds.index(True) if any(kinds) else 0
        nodes = (*graph.upstream, *graph.downstream)
        blocked = sum(bool(node.blocked) for node in nodes)
        names = {node.name for node in nodes}
        words = f"{count_words(len(names), 'schedule')}, {count_words(blocked, 'path')} blocked"
        cut = "" if graph.is_whole else f"; only {_MOST} schedules are shown"
        style = "bad" if blocked else "dim"
        self.show_summary((f"{words}{cut}", style))
        self.show_facts()

    def _node(self) -> Node | None:
        nodes, cursor = self._source.nodes, self.query_one(LineView).cursor
        node = nodes[cursor] if cursor < len(nodes) else None
        return node if isinstance(node, Node) else None

    def rows(self) -> list[Row]:
        node = self._node()
        if node is None:
            return [Fact("", _BLOCKED_WORDS, "dim")]
        rows: list[Row] = [Title(clean(node.name)), Fact("runs", node.words)]
        if node.blocked:
            rows.append(Fact("blocked", node.blocked, "bad"))
        if node.schedule is not None:
            rows.append(Fact("triggers", ", ".join(node.schedule.spec.triggers)))
            rows.append(Fact("needs", ", ".join(node.schedule.spec.policies.needs) or "nothing"))
        return rows

    def on_line_view_opened(self) -> None:
        node = self._node()
        if self.app.screen is self and node is not None and node.schedule is not None:
            self.app.open_schedule(node.name)
