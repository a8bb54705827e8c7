"""The list of runs, newest first: a window on millions of rows, read by keyset pages.

Ids tell how many rows lie before and after the window. If rows were removed, that is an estimate,
which is corrected when an end is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from datetime import datetime, tzinfo
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from edgecron.base.safetext import clean
from edgecron.base.values import NamedTuple
from edgecron.client.protocol import Client
from edgecron.model.listing import RunBounds, RunPage
from edgecron.tui.list_model import Column, Line, Span
from edgecron.tui.queries import QueryScreen, ThrottledQuery
from edgecron.tui.themes import STATUS_GLYPHS
from edgecron.views.phrases import note_words, percent_words, unreadable_words
from edgecron.views.times import near_time, short_duration

if TYPE_CHECKING:
    from edgecron.model.filters import Filter, RunQuestion
    from edgecron.model.run import Execution

    _Found = tuple[RunPage, RunBounds]
    _Ask = Callable[[Callable[[Client], _Found], Callable[[_Found], None]], None]

_PAGE = 120
_BESIDE = 30  # lines read beside the visible ones
_MOST_KEPT = 1600
_TOPIC, _OLDER, _NEWER = "runs", "older runs", "newer runs"
MOST_MARKED = 5000  # at once


COLUMNS = (
    Column("", 1, 1),
    Column("STATUS", 8, 11, drop=4),
    Column("SCHEDULE", 12, 26, share=2),
    Column("STARTED", 12, 12),
    Column("TOOK", 9, 12, drop=1, is_right=True),
    Column("NOTE", 12, 30, share=3, drop=3),
    Column("RUN", 5, 9, drop=2, is_right=True),
)
_NAME = 2  # the column left out in the list of one schedule
HISTORY_COLUMNS = COLUMNS[:_NAME] + COLUMNS[_NAME + 1 :]


class RunSource:
    """The source of runs, newest first; calls `changed` when there is something new to show.

    With `schedule_id`, only the runs of that schedule, without its name.
    """

    def __init__(
        self,
        screen: QueryScreen[Any],
        *,
        now: Callable[[], datetime],
        zone: tzinfo,
        changed: Callable[[], None],
        schedule_id: int | None = None,
    ) -> None:
        self._schedule_id = schedule_id
        self._query_screen = screen
        self._paced: ThrottledQuery[_Found] = ThrottledQuery(screen, _TOPIC)
        self._now = now
        self._zone = zone
        self._changed = changed
        self._rows: list[Execution] = []
        self._first = 0  # the index of the first row of the window
        self._count = 0
        self._is_newest = self._is_oldest = False  # does the window reach this end
        self._bounds = RunBounds(0, 0)
        self._question: RunQuestion | None = None
        self._moves = 0  # how often the window changed
        self._is_paging = False  # is a page outside the window being read
        self._is_outdated = False  # by a new filter
        self._unreadable: set[int] = set()  # ids found so far

    @property
    def count(self) -> int:
        return self._count

    def filter_by(self, wanted: Filter | None) -> None:
        """Show only runs that match a filter; None shows all."""
        self._question = None if wanted is None else wanted.run_question()
        self._unreadable.clear()
        # Keep the old lines until there are new ones.
        self._is_outdated = True
        self._moves += 1
        for topic in (_TOPIC, _OLDER, _NEWER):
            self._query_screen.interrupt(topic)
        self._paced.skip_wait()
        self.read()

    @property
    def is_counted(self) -> bool:
        return self._is_oldest

    @property
    def trouble(self) -> str:
        """The runs that are missing because their rows can't be read."""
        return unreadable_words("run", [str(one) for one in sorted(self._unreadable)])

    def unused_keys(self, wanted: Filter) -> tuple[str, ...]:
        """Return the keys of a filter that do not apply to runs."""
        return wanted.unused_on_runs

    def gone_of(self, keys: Set[int]) -> Set[int]:
        """Return nothing: outside the window it is unknown."""
        return frozenset()

    def read(self) -> None:
        """Read the rows of the window again."""
        limit = max(_PAGE, min(len(self._rows), _MOST_KEPT))
        before = None if self._first == 0 or not self._rows else self._rows[0].id + 1
        if self._is_outdated:
            limit, before = _PAGE, None

        def show(rows: list[Execution], bounds: RunBounds) -> None:
            if self._is_outdated:
                self._first, self._count, self._is_outdated = 0, 0, False
            self._rows, self._bounds = rows, bounds
            self._is_newest = before is None or (bool(rows) and rows[0].id >= bounds.last_id)
            self._is_oldest = len(rows) < limit
            self._settle()

        self._is_paging = False  # A page being read may have been refused or interrupted.
        self._ask(self._paced.ask, show, otherwise=self.read, before_id=before, limit=limit)

    def line(self, index: int) -> Line | None:
        at = index - self._first
        return self._line_of(self._rows[at]) if 0 <= at < len(self._rows) else None

    def execution(self, key: int) -> Execution | None:
        """Return a run of the window; None outside it."""
        index = self.index_of(key)
        return None if index is None else self._rows[index - self._first]

    def index_of(self, key: int) -> int | None:
        low, high = 0, len(self._rows)
        while low < high:  # Ids decrease from line to line.
            middle = (low + high) // 2
            if self._rows[middle].id > key:
                low = middle + 1
            else:
                high = middle
        is_there = low < len(self._rows) and self._rows[low].id == key
        return self._first + low if is_there else None

    def ask_keys(self, take: Callable[[Sequence[int]], None]) -> None:
        question, schedule_id = self._question, self._schedule_id

        def found(ids: list[int]) -> None:
            if question is self._question:
                take(ids)

        def find(client: Client) -> list[int]:
            ids: list[int] = []
            while len(ids) < MOST_MARKED:
                page = _Page(
                    question,
                    schedule_id=schedule_id,
                    before_id=ids[-1] if ids else None,
                    limit=_PAGE,
                )
                found = _find(client, page).runs
                ids += (run.id for run in found)
                if len(found) < _PAGE:
                    break
            return ids[:MOST_MARKED]

        self._query_screen.ask("run ids", find, found)

    def nearest_s(self, first: int, last: int) -> float:
        from edgecron.model.choices import ACTIVE

        seen = self._rows[max(0, first - self._first) : max(0, last - self._first)]
        return 0.0 if any(run.status in ACTIVE for run in seen) else inf

    def want(self, first: int, last: int) -> None:
        if self._is_paging or self._is_outdated or not self._rows:
            return
        end = self._first + len(self._rows)
        if last < self._first - _PAGE or first > end + _PAGE:
            self._jump(first)
        elif last + _BESIDE > end and not self._is_oldest:
            self._ask_page(_OLDER, self._append, before_id=self._rows[-1].id)
        elif first - _BESIDE < self._first and not self._is_newest:
            self._ask_page(_NEWER, self._prepend, after_id=self._rows[0].id)

    def _append(self, rows: list[Execution], bounds: RunBounds) -> None:
        self._bounds = bounds
        self._is_oldest = len(rows) < _PAGE
        self._rows += rows
        surplus = len(self._rows) - _MOST_KEPT
        if surplus > 0:
            del self._rows[:surplus]
            self._first += surplus
            self._is_newest = False
        self._settle()

    def _prepend(self, rows: list[Execution], bounds: RunBounds) -> None:
        self._bounds = bounds
        self._is_newest = len(rows) < _PAGE
        self._rows[:0] = rows
        self._first = 0 if self._is_newest else max(1, self._first - len(rows))
        if len(self._rows) > _MOST_KEPT:
            del self._rows[_MOST_KEPT:]
            self._is_oldest = False
        self._settle()

    def _jump(self, index: int) -> None:
        """Read rows around an index far from the window, by an estimated id."""
        span = self._bounds.last_id - self._bounds.first_id
        share = index / max(1, self._count - 1)
        before_id = self._bounds.last_id - round(span * share) + _BESIDE

        def show(rows: list[Execution], bounds: RunBounds) -> None:
            self._rows, self._bounds = rows, bounds
            self._is_oldest = len(rows) < _PAGE
            self._is_newest = bool(rows) and rows[0].id >= bounds.last_id
            self._first = 0 if self._is_newest else max(1, index - _BESIDE)
            if self._is_oldest:
                self._first = max(self._first, self._count - len(rows))
            self._settle()

        self._ask_page(_TOPIC, show, before_id=before_id)

    def _settle(self) -> None:
        """Update the count by what is known now."""
        end = self._first + len(self._rows)
        if self._is_oldest or not self._rows:
            self._count = end
        elif self._question is not None or self._schedule_id is not None:
            self._count = max(self._count, end + _PAGE)
        else:
            older = self._rows[-1].id - self._bounds.first_id
            self._count = end + max(1, older)
        self._changed()

    def _ask_page(
        self,
        topic: str,
        show: Callable[[list[Execution], RunBounds], None],
        *,
        before_id: int | None = None,
        after_id: int | None = None,
    ) -> None:
        """Read a page of visible rows; read no other page until it is there."""

        def shown(rows: list[Execution], bounds: RunBounds) -> None:
            self._is_paging = False
            show(rows, bounds)

        def dropped() -> None:
            self._is_paging = False
            self._changed()  # The list asks again for what is missing.

        self._is_paging = True
        self._ask(
            partial(self._query_screen.ask, topic),
            shown,
            otherwise=dropped,
            before_id=before_id,
            after_id=after_id,
            limit=_PAGE,
        )

    def _ask(
        self,
        ask: _Ask,
        show: Callable[[list[Execution], RunBounds], None],
        *,
        otherwise: Callable[[], None],
        before_id: int | None = None,
        after_id: int | None = None,
        limit: int,
    ) -> None:
        """Read a page for the current window.

        If the window changes meanwhile, the page would leave a gap: call `otherwise` instead.
        """
        question, moves = self._question, self._moves
        page = _Page(
            question,
            schedule_id=self._schedule_id,
            before_id=before_id,
            after_id=after_id,
            limit=limit,
        )

        def read(client: Client) -> _Found:
            bounds = client.run_bounds()
            return _find(client, page), bounds

        def answered(found: _Found) -> None:
            if question is not self._question:
                return  # The new filter is being read already.
            if moves != self._moves:
                otherwise()
                return
            self._moves += 1
            page, bounds = found
            self._unreadable.update(page.unreadable)
            show(page.runs, bounds)

        ask(read, answered)

    def _line_of(self, run: Execution) -> Line:
        from edgecron.model.choices import Status

        now, zone = self._now(), self._zone
        glyph, style = STATUS_GLYPHS[run.status.value]
        began = run.started_at or run.plan_at
        took = run.duration_ms
        if run.status is Status.RUNNING and run.started_at is not None:
            took = max(0, round((now - run.started_at).total_seconds() * 1000))
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
        return Line(key=run.id, cells=cells)


class _Page(NamedTuple):
    question: RunQuestion | None
    schedule_id: int | None
    before_id: int | None
    limit: int
    after_id: int | None = None


def _find(client: Client, page: _Page) -> RunPage:
    from edgecron.model.filters import RunQuestion

    question = page.question or RunQuestion()
    if question.is_impossible:
        return RunPage([], [])
    ids: Sequence[int] | None = None if page.schedule_id is None else [page.schedule_id]
    if question.names is not None:
        ids = client.schedule_ids_named(question.names)
        if not ids:
            return RunPage([], [])
    return client.run_page(
        before_id=page.before_id,
        after_id=page.after_id,
        limit=page.limit,
        statuses=question.statuses,
        schedule_ids=ids,
        causes=question.causes,
        reasons=question.reasons,
    )


def _note(run: Execution, *, now: datetime, zone: tzinfo) -> tuple[Span, ...]:
    text = clean(_note_words(run, now=now, zone=zone))
    percent = "" if run.progress is None else percent_words(run.progress)
    if percent and text.startswith(percent):
        return (percent, "busy"), (text.removeprefix(percent), "dim")
    return ((text, "dim"),)


def _note_words(run: Execution, *, now: datetime, zone: tzinfo) -> str:
    reason = ""
    if run.reason is not None and run.reason.value not in ("exit", "signal"):
        reason = run.reason.value
    notes = note_words(run, zone=zone, now=now)
    return f"{reason}, {notes}" if reason and notes else reason or notes
