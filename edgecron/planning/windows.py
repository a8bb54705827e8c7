"""Decide whether a run can start: windows and excluded days, read in a zone. Pure.

An instant is in a window if the clock on the wall then shows a time of the window. So a repeated
hour counts in both passes. Instants are milliseconds since 1970.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache

from edgecron.base.errors import InvalidInput, UnknownTimezone
from edgecron.base.tzif import DAY_S
from edgecron.base.values import NamedTuple
from edgecron.base.window_texts import (
    WEEK_S,
    is_unread,
    parse_except,
    split_once_in,
    week_of,
)
from edgecron.base.zones import trigger_spans
from edgecron.model.choices import ON_TIME_MS, Cause
from edgecron.model.options import Policies

_MONDAY_S = 3 * DAY_S  # 1970-01-01 is a Thursday
_FAR_MS = 1 << 62  # later than any instant
MOST_STEPS = 5_000  # windows that a search looks at: of each day, those of six years


class Span(NamedTuple):
    """A span in which runs can start throughout, or can't. The spans beside it can be alike."""

    is_open: bool
    start_ms: int
    end_ms: int


class Windows:
    """The times at which runs of a schedule can start."""

    def __init__(
        self,
        between: tuple[str, ...],
        not_between: tuple[str, ...],
        except_days: tuple[str, ...],
        timezone: str | None,
    ) -> None:
        week = week_of(between, not_between)
        self._timezone = timezone
        self._edges = [at_s for at_s, _ in week]
        self._is_open = [is_open for _, is_open in week]
        for text in filter(is_unread, except_days):
            raise InvalidInput(
                f"calendar {text!r} has not been read", hint="write the schedule again"
            )
        excepted = [parse_except(text) for text in except_days]
        self._days = _merged(one for each in excepted for one in each.days)
        self._spans = _merged(one for each in excepted for one in each.spans)

    def span_at(self, at_ms: int) -> Span:
        """Find the span that holds an instant."""
        at_s = at_ms // 1000
        zone = trigger_spans(self._timezone, until_s=at_s + WEEK_S)
        index = zone.index_at(at_s)
        offset_s = zone.offsets[index]
        wall_s = at_s + offset_s
        week_s = (wall_s + _MONDAY_S) % WEEK_S
        monday_s = wall_s - week_s
        place = bisect_right(self._edges, week_s) - 1
        is_open = self._is_open[place]
        start_s = monday_s + self._edges[place]
        end_s = monday_s + (self._edges[place + 1] if place + 1 < len(self._edges) else WEEK_S)
        if self._days and is_open:
            day = wall_s // DAY_S
            is_open = not self._is_excepted(day)
            start_s, end_s = max(start_s, day * DAY_S), min(end_s, (day + 1) * DAY_S)
        # A clock change ends a span, because the wall clock jumps there.
        if index:
            start_s = max(start_s, zone.starts[index] + offset_s)
        if index + 1 < len(zone.starts):
            end_s = min(end_s, zone.starts[index + 1] + offset_s)
        start_ms, end_ms = (start_s - offset_s) * 1000, (end_s - offset_s) * 1000
        if is_open and self._spans:
            return self._cut(Span(is_open, start_ms, end_ms), at_ms)
        return Span(is_open, start_ms, end_ms)

    def _cut(self, span: Span, at_ms: int) -> Span:
        """The part of an open span that holds an instant, inside or outside of excepted times."""
        place = bisect_right(self._spans, (at_ms, _FAR_MS)) - 1
        start_ms, end_ms = span.start_ms, span.end_ms
        if place >= 0:
            first_ms, last_ms = self._spans[place]
            if at_ms < last_ms:
                return Span(False, max(start_ms, first_ms), min(end_ms, last_ms))
            start_ms = max(start_ms, last_ms)
        if place + 1 < len(self._spans):
            end_ms = min(end_ms, self._spans[place + 1][0])
        return Span(True, start_ms, end_ms)

    def is_open(self, at_ms: int) -> bool:
        """Whether runs can start at an instant."""
        return self.span_at(at_ms).is_open

    def open_spans(self, from_ms: int, *, until_ms: int) -> list[Span]:
        """List the parts of a time in which runs can start."""
        found: list[Span] = []
        while from_ms < until_ms:
            span = self.span_at(from_ms)
            if span.is_open:
                found.append(Span(True, from_ms, min(span.end_ms, until_ms)))
            from_ms = span.end_ms
        return found

    def next_open_ms(self, at_ms: int) -> int | None:
        """Find the first instant from this one on at which runs can start.

        None: there is none within MOST_STEPS spans.
        """
        for _ in range(MOST_STEPS):
            span = self.span_at(at_ms)
            if span.is_open:
                return at_ms
            at_ms = span.end_ms
        return None

    def closes_ms(self, at_ms: int, *, before_ms: int) -> int | None:
        """Find the first instant in [at, before) at which runs can't start; None: there is none."""
        while at_ms < before_ms:
            span = self.span_at(at_ms)
            if not span.is_open:
                return at_ms
            at_ms = span.end_ms
        return None

    def may_start(self, due_ms: int, *, now_ms: int) -> bool:
        """Whether a run can start now. One that came due in time can be late by a minute."""
        if self.is_open(now_ms):
            return True
        return due_ms <= now_ms and self.is_open(max(due_ms, now_ms - ON_TIME_MS))

    def last_due_ms(self, plan_ms: int, latest_ms: int) -> int:
        """The latest instant up to `latest_ms` to which jitter can delay a plan time."""
        return max(plan_ms, min(latest_ms, self.span_at(plan_ms).end_ms - 1))

    def _is_excepted(self, day: int) -> bool:
        place = bisect_right(self._days, (day, _FAR_MS)) - 1
        return place >= 0 and day <= self._days[place][1]


def closing_ms(
    source: str | None, plan_ms: int, *, fire_key: str, timezone: str | None
) -> int | None:
    """When the window of a fire closes, by the text of its trigger; None if it has no window.

    Only planned fires have one: a manual run or a backfill can start at any time.
    """
    if source is None or fire_key or split_once_in(source) is None:
        return None
    from edgecron.triggers.kinds import make_once_in  # Most commands read no trigger.

    return make_once_in(source, timezone).closes_ms(plan_ms)


def has_closed(
    windows: Windows | None,
    closes_ms: int | None,
    *,
    plan_ms: int,
    due_ms: int,
    cause: Cause,
    now_ms: int,
) -> bool:
    """Whether the window in which a queued run can start has closed, so that it can't run.

    The window of its trigger closes at `closes_ms`. A run that could not start in the `windows` of
    its schedule waits for the next one, and for no other after that.
    """
    if closes_ms is not None and closes_ms <= now_ms:
        return True
    if windows is None or cause is Cause.MANUAL or due_ms > now_ms:
        return False
    if windows.may_start(due_ms, now_ms=now_ms):
        return False
    has_waited = (
        due_ms != plan_ms
        and windows.span_at(due_ms).start_ms == due_ms
        and cause is not Cause.RETRY
    )
    return has_waited or windows.next_open_ms(now_ms) is None


def _merged(parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Parts in order; those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(parts):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def windows_of(policies: Policies, timezone: str | None) -> Windows | None:
    """The windows of a schedule; None if it can start at any time."""
    return find_windows(policies.between, policies.not_between, policies.except_days, timezone)


def excludes(policies: Policies, timezone: str | None, at_ms: int) -> bool:
    """Whether the windows of a schedule exclude an instant. An unknown zone excludes nothing."""
    with suppress(UnknownTimezone):
        windows = windows_of(policies, timezone)
        return windows is not None and not windows.is_open(at_ms)
    return False


def find_windows(
    between: Sequence[str],
    not_between: Sequence[str],
    except_days: Sequence[str],
    timezone: str | None,
) -> Windows | None:
    """The windows of these texts; None if there are none. Raises InvalidInput."""
    if not between and not not_between and not except_days:
        return None
    return _windows(tuple(between), tuple(not_between), tuple(except_days), timezone)


_windows = lru_cache(maxsize=256)(Windows)
