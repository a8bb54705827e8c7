"""The list of runs, newest first: a window on millions of rows, read by keyset pages.

In another order it has the first 1,000 runs of that order.

Ids tell how many rows lie before and after the window. If rows were removed, that is an estimate,
which is corrected when an end is reached.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence, Set
from datetime import datetime, tzinfo
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.model.choices import ACTIVE
from edgecron.model.filters import RunQuestion
from edgecron.model.listing import MOST_SORTED, RunBounds, RunPage, RunSort
from edgecron.tui.list_rows import Column, Line, Targets
from edgecron.tui.queries import DatabaseSource, QueryScreen
from edgecron.tui.text_line import Span
from edgecron.tui.themes import STATUS_GLYPHS
from edgecron.views.phrases import note_words, percent_words, took_ms, unreadable_words
from edgecron.views.times import near_time, short_duration

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.filters import Filter
    from edgecron.model.run import Execution

    _Found = tuple[RunPage, RunBounds]
    _Ask = Callable[[Callable[[Client], _Found], Callable[[_Found], None]], None]

_PAGE = 120
_BESIDE = 30  # lines read beside the visible ones
_MOST_KEPT = 1600
_PAGES = "pages of runs"
MOST_MARKED = 5000  # at once


COLUMNS = (
    Column("", 1, 1),
    Column("STATUS", 11, 11, drop=4),
    Column("SCHEDULE", 16, 26),
    Column("STARTED", 12, 12),
    Column("DURATION", 8, 9, drop=1, is_right=True),
    Column("NOTE", 12, 30, share=1, drop=3),
    Column("RUN", 4, 9, drop=2, is_right=True),
)
# The order of each column. The glyph shows an order only if no room is left for the word.
SORTED_BY = {
    1: RunSort.STATUS, 0: RunSort.STATUS, 2: RunSort.SCHEDULE, 3: RunSort.STARTED,
    4: RunSort.DURATION, 5: RunSort.NOTE, 6: RunSort.RUN,
}  # fmt: skip
_NAME = 2  # the column left out in the list of one schedule
_NOTE = 5
HISTORY_SORTED_BY = {at - (at > _NAME): sort for at, sort in SORTED_BY.items() if at != _NAME}
# Room for `attempt 2, exit…`: in a narrow list the glyph shows the status, without its word.
HISTORY_COLUMNS = (
    *COLUMNS[:_NAME],
    *COLUMNS[_NAME + 1 : _NOTE],
    COLUMNS[_NOTE]._replace(least=16),
    *COLUMNS[_NOTE + 1 :],
)


class RunSource(DatabaseSource["_Found"]):
    """The source of runs, newest first.

    With `schedule_id`, only the runs of that schedule, without its name.
    """

    topic = "runs"
    filter_example = "letters of a name, or status:failed took:>5m since:yesterday"
    sorts = tuple(RunSort)
    sorted_by = SORTED_BY
    descending = frozenset({RunSort.RUN, RunSort.DURATION, RunSort.STARTED})

    def __init__(
        self,
        screen: QueryScreen[Any],
        *,
        changed: Callable[[], None],
        schedule_id: int | None = None,
    ) -> None:
        super().__init__(screen, changed=changed)
        self._schedule_id = schedule_id
        self._rows: list[Execution] = []
        self._first = 0  # the index of the first row of the window
        self._count = 0
        self._is_newest = self._is_oldest = False  # does the window reach this end
        self._newest: list[Execution] = []  # the rows of each end, as they were last shown
        self._oldest: list[Execution] = []
        self._bounds = RunBounds(0, 0)
        self._question = RunQuestion()
        self._version = 0  # of the window
        self._is_paging = False  # is a page outside the window being read
        self._is_outdated = False  # by a new filter
        self._visible = range(0)
        self._is_stale = False  # are these the rows of an end as they were
        self._unreadable: set[int] = set()  # ids found so far
        self.sort = RunSort.RUN
        self.is_descending = True
        if schedule_id is not None:
            self.sorts = tuple(sort for sort in RunSort if sort is not RunSort.SCHEDULE)
            self.sorted_by = HISTORY_SORTED_BY

    @property
    def count(self) -> int:
        return self._count

    @property
    def is_counted(self) -> bool:
        return self._is_oldest and not self.is_cut

    @property
    def is_cut(self) -> bool:
        """Whether an order has only its first runs."""
        return self._is_sorted and self._count >= MOST_SORTED

    @property
    def order_note(self) -> str:
        is_long = self._count > MOST_SORTED
        return f"shows the first {MOST_SORTED:,} of all runs in this order" if is_long else ""

    @property
    def _is_sorted(self) -> bool:
        """Whether the order is another one than newest first."""
        return self.sort is not RunSort.RUN or not self.is_descending

    def sort_by(self, sort: RunSort, *, is_descending: bool) -> None:
        self.sort, self.is_descending = sort, is_descending
        self._outdate()
        self.read_at_once()

    @property
    def trouble(self) -> str:
        """The runs that are missing because their rows can't be read."""
        return unreadable_words("run", [str(one) for one in sorted(self._unreadable)])

    def filter_by(self, wanted: Filter | None) -> None:
        self._question = RunQuestion() if wanted is None else wanted.run_question()
        self._outdate()
        super().filter_by(wanted)

    def _outdate(self) -> None:
        """Keep the lines only until there are new ones."""
        self._unreadable.clear()
        self._newest, self._oldest = [], []
        self._is_outdated = True
        self._version += 1
        self._screen.interrupt(_PAGES)

    def unused_keys(self, wanted: Filter) -> Sequence[str]:
        return wanted.unused_on_runs

    def gone_of(self, keys: Set[int]) -> Set[int]:
        """Return nothing: outside the window it is unknown."""
        return frozenset()

    def line(self, index: int) -> Line | None:
        at = index - self._first
        return self._line_of(self._rows[at]) if 0 <= at < len(self._rows) else None

    def execution(self, key: int) -> Execution | None:
        """Return a run of the window; None outside it."""
        index = self.index_of(key)
        return None if index is None else self._rows[index - self._first]

    def schedule_of(self, key: int) -> str | None:
        run = self.execution(key)
        return None if run is None else run.schedule

    def targets(self, keys: Sequence[int]) -> Targets:
        return Targets(run_ids=tuple(keys))

    def index_of(self, key: int) -> int | None:
        if self._is_sorted:
            return next((at for at, run in enumerate(self._rows) if run.id == key), None)
        # Ids decrease from line to line.
        at = bisect_left(self._rows, -key, key=lambda run: -run.id)
        is_there = at < len(self._rows) and self._rows[at].id == key
        return self._first + at if is_there else None

    def ask_keys(self, take: Callable[[Sequence[int]], None]) -> None:
        if self._is_sorted:
            take([run.id for run in self._rows])
            return
        page = self._page()

        def found(ids: list[int]) -> None:
            if page.question is self._question:
                take(ids)

        def find(client: Client) -> list[int]:
            ids: list[int] = []
            while len(ids) < MOST_MARKED:
                before_id = ids[-1] if ids else None
                runs = _find(client, page._replace(before_id=before_id)).runs
                ids += (run.id for run in runs)
                if len(runs) < _PAGE:
                    break
            return ids[:MOST_MARKED]

        self._screen.ask("run ids", find, found)

    def nearest_s(self, first: int, last: int) -> float:
        seen = self._rows[max(0, first - self._first) : max(0, last - self._first)]
        return 0.0 if any(run.status in ACTIVE for run in seen) else inf

    # The window.

    def read(self) -> None:
        """Read the rows of the window again."""
        limit = max(_PAGE, min(len(self._rows), _MOST_KEPT))
        before_id = None if self._first == 0 or not self._rows else self._rows[0].id + 1
        if self._is_outdated:
            limit, before_id = _PAGE, None
        if self._is_sorted:
            limit, before_id = MOST_SORTED, None
        page = self._page(before_id=before_id, limit=limit)

        def show(rows: list[Execution]) -> None:
            if self._is_outdated:
                self._count, self._is_outdated = 0, False
            self._replace(rows, page, first=self._first)

        self._is_paging = False  # A page being read may have been refused or interrupted.
        self._is_stale = False
        self._ask(self._query.ask, page, show, otherwise=self.read)

    def want(self, first: int, last: int) -> None:
        if self._is_paging or self._is_outdated or not self._rows:
            return
        self._visible = range(first, last)
        end = self._first + len(self._rows)
        if last < self._first - _PAGE or first > end + _PAGE:
            self._jump(first, last)
        elif first < self._first or last > end:
            self._extend()
        elif self._is_stale or self._next_page() is not None:
            self._look_ahead_soon(self._look_ahead)

    def _look_ahead(self) -> None:
        if self._is_stale:
            self._query.skip_wait()
            self.read()
        else:
            self._extend()

    def _next_page(self) -> tuple[_Page, Callable[[list[Execution]], None]] | None:
        """Return the page before or after the window if its end is near, and what takes it."""
        if self._is_paging or self._is_outdated or not self._rows:
            return None
        first, last = self._visible.start, self._visible.stop
        beside = last - first
        if last + beside > self._first + len(self._rows) and not self._is_oldest:
            return self._page(before_id=self._rows[-1].id), self._append
        if first - beside < self._first and not self._is_newest:
            return self._page(after_id=self._rows[0].id), self._prepend
        return None

    def _extend(self) -> None:
        found = self._next_page()
        if found is not None:
            self._ask_page(*found)

    def _page(
        self, *, before_id: int | None = None, after_id: int | None = None, limit: int = _PAGE
    ) -> _Page:
        sort = self.sort if self._is_sorted else None
        return _Page(
            *(self._question, self._schedule_id, before_id, after_id, limit),
            *(sort, self.is_descending),
        )

    def _append(self, rows: list[Execution]) -> None:
        self._is_oldest = len(rows) < _PAGE
        self._rows += rows
        surplus = max(0, len(self._rows) - _MOST_KEPT)
        del self._rows[:surplus]
        self._first += surplus
        self._is_newest = self._is_newest and not surplus

    def _prepend(self, rows: list[Execution]) -> None:
        self._is_newest = len(rows) < _PAGE
        self._rows[:0] = rows
        self._first = 0 if self._is_newest else max(1, self._first - len(rows))
        self._is_oldest = self._is_oldest and len(self._rows) <= _MOST_KEPT
        del self._rows[_MOST_KEPT:]

    def _replace(self, rows: list[Execution], page: _Page, *, first: int) -> None:
        """Make these rows the window; it begins at `first` unless it reaches the newest."""
        self._rows = rows
        self._is_oldest = len(rows) < page.limit or page.sort is not None
        reaches_newest = bool(rows) and rows[0].id >= self._bounds.last_id
        self._is_newest = page.before_id is None or reaches_newest
        self._first = 0 if self._is_newest else max(1, first)

    def _jump(self, index: int, last: int) -> None:
        """Show rows far from the window: those of an end as they were, until they are read again.

        Elsewhere, read rows around the index, by an estimated id.
        """
        if self._is_newest:
            self._newest = self._rows[:_PAGE]
        if self._is_oldest:
            self._oldest = self._rows[1 - _PAGE :]  # fewer than a page: nothing is older
        oldest_at = self._count - len(self._oldest)
        is_newest, is_oldest = last <= len(self._newest), oldest_at <= index < self._count
        if is_newest or is_oldest:
            self._rows = list(self._newest if is_newest else self._oldest)
            self._first = 0 if is_newest else oldest_at
            self._is_newest, self._is_oldest = is_newest, is_oldest
            self._version += 1
            self._is_stale = True
            self._look_ahead_soon(self._look_ahead)
            return
        span = self._bounds.last_id - self._bounds.first_id
        share = index / max(1, self._count - 1)
        page = self._page(before_id=self._bounds.last_id - round(span * share) + _BESIDE)

        def show(rows: list[Execution]) -> None:
            self._replace(rows, page, first=index - _BESIDE)
            if self._is_oldest:
                self._first = max(self._first, self._count - len(rows))

        self._ask_page(page, show)

    def _ask_page(self, page: _Page, show: Callable[[list[Execution]], None]) -> None:
        """Read a page of visible rows; read no other page until it is there."""

        def shown(rows: list[Execution]) -> None:
            self._is_paging = False
            show(rows)

        def dropped() -> None:
            self._is_paging = False
            self._changed()  # The list asks again for what is missing.

        def refused() -> None:
            self._is_paging = False

        self._is_paging = True
        ask = partial(self._screen.ask, _PAGES, refused=refused)
        self._ask(ask, page, shown, otherwise=dropped)

    def _ask(
        self,
        ask: _Ask,
        page: _Page,
        show: Callable[[list[Execution]], None],
        *,
        otherwise: Callable[[], None],
    ) -> None:
        """Read a page for the current window.

        If the window changes meanwhile, the page would leave a gap: call `otherwise` instead.
        """
        version = self._version

        def read(client: Client) -> _Found:
            bounds = client.run_bounds()
            return _find(client, page), bounds

        def answered(found: _Found) -> None:
            asked = self._page()
            if (page.question, *page[-2:]) != (asked.question, *asked[-2:]):
                return  # The new filter or order is being read already.
            if version != self._version:
                otherwise()
                return
            self._version += 1
            self.is_awaited = False
            runs, self._bounds = found
            self._unreadable.update(runs.unreadable)
            show(runs.runs)
            self._count = self._counted()
            self._changed()

        ask(read, answered)

    def _counted(self) -> int:
        """Return the number of lines, by what is known now."""
        end = self._first + len(self._rows)
        if self._is_oldest or not self._rows:
            return end
        if self.filter is not None or self._schedule_id is not None:
            return max(self._count, end + _PAGE)
        return end + max(1, self._rows[-1].id - self._bounds.first_id)

    def _line_of(self, run: Execution) -> Line:
        now, zone = self._now(), self._zone
        glyph, style = STATUS_GLYPHS[run.status.value]
        began = run.started_at or run.plan_at
        took = took_ms(run, now=now)
        cells: tuple[tuple[Span, ...], ...] = (
            ((glyph, style),),
            ((run.status.value, style),),
            ((clean(run.schedule), "bold"),),
            ((near_time(began, zone=zone, now=now), ""),),
            (("" if took is None else short_duration(took), style if style == "busy" else ""),),
            _note(run, now=now, zone=zone),
            ((str(run.id), "dim"),),
        )
        if self._schedule_id is not None:
            cells = cells[:_NAME] + cells[_NAME + 1 :]
        return Line(key=run.id, cells=cells, style="failed" if style == "bad" else "")


class _Page(NamedTuple):
    """A page of runs to read."""

    question: RunQuestion
    schedule_id: int | None
    before_id: int | None
    after_id: int | None
    limit: int
    sort: RunSort | None  # if None, newest first
    is_descending: bool


def _find(client: Client, page: _Page) -> RunPage:
    question = page.question
    ids: Sequence[int] | None = None if page.schedule_id is None else [page.schedule_id]
    if question.names is not None:
        ids = client.schedule_ids_named(question.names)
    if question.is_impossible or (ids is not None and not ids):
        return RunPage([], [])
    return client.run_page(
        before_id=page.before_id,
        after_id=page.after_id,
        limit=page.limit,
        statuses=question.statuses,
        schedule_ids=ids,
        causes=question.causes,
        reasons=question.reasons,
        since=question.since,
        until=question.until,
        least_ms=question.least_ms,
        most_ms=question.most_ms,
        sort=page.sort,
        is_descending=page.is_descending,
    )


def _note(run: Execution, *, now: datetime, zone: tzinfo) -> tuple[Span, ...]:
    known = ("exit", "signal")  # The status and the exit code say so.
    reason = "" if run.reason is None or run.reason.value in known else run.reason.value
    notes = note_words(run, zone=zone, now=now)
    text = clean(", ".join(filter(None, (reason, notes))))
    percent = "" if run.progress is None else percent_words(run.progress)
    if percent and text.startswith(percent):
        return (percent, "busy"), (text.removeprefix(percent), "dim")
    return ((text, "dim"),)
