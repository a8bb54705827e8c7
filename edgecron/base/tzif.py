"""A zone's history as spans of constant offset, from the bytes of a TZif file (RFC 8536).

The explicit transitions come from the file's 64-bit block, those after the last one from the POSIX
rule in its footer. So a search is integer arithmetic and never asks a tzinfo object.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from datetime import date

EPOCH_ORDINAL = 719_163  # date(1970, 1, 1).toordinal()
DAY_S = 86_400
# The datetime range less two days, so that adding any offset stays inside it.
LAST_S = 253_402_300_799 - 2 * DAY_S
_BEGINNING_S = -(10**12)
_RULE_FROM_YEAR = 1900  # a file without any transition follows its rule from here
_LAST_RULE_YEAR = 9998

_NAMED = re.compile(r"(<[^>,]{3,}>|[A-Za-z]{3,})([\d:+-]*)", re.ASCII)
_MONTH_DAY = re.compile(r"M(\d{1,2})\.([1-5])\.([0-6])", re.ASCII)


class Rule:
    """A POSIX zone rule: one offset for every year, or two and when they change.

    `changes`: there are two.
    """

    __slots__ = ("changes", "dst_s", "end", "end_time_s", "start", "start_time_s", "std_s")

    def __init__(self, text: str) -> None:
        """Read a rule. Raises ValueError if the text is not a POSIX zone rule."""
        head, *days = text.split(",")
        named = _NAMED.findall(head)
        if "".join(name + offset for name, offset in named) != head or (
            (len(named), len(days)) not in ((1, 0), (2, 2)) or not named[0][1]
        ):
            raise ValueError(f"zone rule {text!r} is not understood")
        # POSIX counts hours to the west of Greenwich. Everything else counts to the east.
        self.std_s = -_seconds(named[0][1])
        self.dst_s = self.std_s + 3600
        self.changes = len(named) == 2
        self.start, self.start_time_s = "", 0
        self.end, self.end_time_s = "", 0
        if self.changes:
            if named[1][1]:
                self.dst_s = -_seconds(named[1][1])
            self.start, self.start_time_s = _day_and_time(days[0])
            self.end, self.end_time_s = _day_and_time(days[1])
            self.transitions(2000)

    def transitions(self, year: int) -> list[tuple[int, int]]:
        """List (instant in seconds since 1970, offset from then on), in order of time."""
        start_s = _day(self.start, year) * DAY_S + self.start_time_s - self.std_s
        end_s = _day(self.end, year) * DAY_S + self.end_time_s - self.dst_s
        return sorted([(start_s, self.dst_s), (end_s, self.std_s)])


class Spans:
    """Spans of constant offset, in order. Immutable; all in whole seconds.

    `starts[i]` is the instant at which a span begins. `offsets[i]` is wall time minus UTC.
    `marks[i]` is the highest wall time that an earlier span reached: below the span's first wall
    time there is a gap, above it a repeated stretch. The spans are complete up to `until`.
    """

    __slots__ = ("marks", "offsets", "starts", "until")

    def __init__(self, changes: list[tuple[int, int]], until: int) -> None:
        self.starts: list[int] = []
        self.offsets: list[int] = []
        self.marks: list[int] = []
        self.until = until
        for start, offset in changes:
            if self.starts and start == self.starts[-1]:
                self._drop_last()
            if self.offsets and offset == self.offsets[-1]:
                continue
            wall_before = start + (self.offsets[-1] if self.offsets else offset)
            self.marks.append(max(self.marks[-1], wall_before) if self.marks else wall_before)
            self.starts.append(start)
            self.offsets.append(offset)

    def _drop_last(self) -> None:
        self.starts.pop()
        self.offsets.pop()
        self.marks.pop()

    def index_at(self, instant_s: int) -> int:
        """The index of the span that holds an instant."""
        return bisect_right(self.starts, instant_s, 1) - 1

    def end(self, index: int) -> int:
        """The instant at which a span ends: the next one's start, or `until`."""
        return self.starts[index + 1] if index + 1 < len(self.starts) else self.until


class History:
    """All spans of one zone, computed as far as they are needed."""

    __slots__ = ("_changes", "_rule", "_spans")

    def __init__(self, changes: list[tuple[int, int]], rule: Rule | None) -> None:
        self._changes = changes
        self._rule = rule if rule is not None and rule.changes else None
        self._spans = Spans([], _BEGINNING_S)

    def spans(self, until_s: int) -> Spans:
        """Return spans that are complete up to an instant (at most the year 9998)."""
        spans = self._spans
        if until_s > spans.until:
            # Assigned once when complete: if two threads build, both build the same.
            spans = self._spans = self._build(until_s)
        return spans

    def _build(self, until_s: int) -> Spans:
        changes = list(self._changes)
        rule = self._rule
        if rule is None:
            return Spans(changes, LAST_S + 2 * DAY_S)
        last_s = changes[-1][0]
        first_year = _RULE_FROM_YEAR if last_s == _BEGINNING_S else _year(last_s)
        # Twenty years more than needed, so that passing time rarely causes another build.
        last_year = min(_year(min(until_s, LAST_S)) + 20, _LAST_RULE_YEAR)
        ruled = [
            change
            for year in range(first_year, last_year + 1)
            for change in rule.transitions(year)
            if change[0] > last_s
        ]
        changes += sorted(ruled, key=_instant)
        if last_year == _LAST_RULE_YEAR:
            return Spans(changes, LAST_S + 2 * DAY_S)
        return Spans(changes, (date(last_year + 1, 1, 1).toordinal() - EPOCH_ORDINAL - 3) * DAY_S)


def read_history(content: bytes) -> History:
    """Read a TZif file's bytes. Raises ValueError if they are damaged."""
    try:
        return _read(content)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"zone file is damaged: {error}") from None


def rule_content(rule_text: str) -> bytes:
    """Write a TZif file that holds only a POSIX rule. Raises ValueError for a bad rule."""
    offset_s = Rule(rule_text).std_s
    header = struct.pack(">4sc15x6l", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    block = struct.pack(">lBB4s", offset_s, 0, 0, b"STD\0")
    return header + block + header + block + b"\n" + rule_text.encode("ascii") + b"\n"


def _read(content: bytes) -> History:
    if content[:4] != b"TZif":
        raise ValueError("zone file does not begin with TZif")
    position, width = 0, 4
    if content[4:5] >= b"2":
        utc_count, std_count, leap, times, types, letters = struct.unpack_from(">6l", content, 20)
        position = 44 + times * 5 + types * 6 + letters + leap * 8 + std_count + utc_count
        width = 8
    counts = struct.unpack_from(">6l", content, position + 20)
    utc_count, std_count, leap, times, types, letters = counts
    position += 44
    instants = struct.unpack_from(f">{times}{'q' if width == 8 else 'l'}", content, position)
    position += times * width
    kinds = content[position : position + times]
    position += times
    offsets = [struct.unpack_from(">l", content, position + 6 * n)[0] for n in range(types)]
    position += types * 6 + letters + leap * (width + 4) + std_count + utc_count
    rule_text = content[position:].strip(b"\n").decode("ascii") if width == 8 else ""
    changes = [(_BEGINNING_S, offsets[0])]
    changes += [(at, offsets[kind]) for at, kind in zip(instants, kinds, strict=True)]
    return History(changes, Rule(rule_text) if rule_text else None)


def _day_and_time(text: str) -> tuple[str, int]:
    """Split into the day of a rule and its time (default: 02:00)."""
    day, _, time = text.partition("/")
    return day, _seconds(time or "2")


def _seconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))


def _day(text: str, year: int) -> int:
    """Count the days since 1970 of a rule's day: `Mm.w.d`, `Jn` (without 29 February) or `n`."""
    found = _MONTH_DAY.fullmatch(text)
    if found is not None:
        month, week, weekday = (int(part) for part in found.groups())
        first = date(year, month, 1).toordinal()
        day = first + (weekday - first) % 7 + 7 * (week - 1)
        following = date(year + month // 12, month % 12 + 1, 1).toordinal()
        return (day if day < following else day - 7) - EPOCH_ORDINAL
    january_1 = date(year, 1, 1).toordinal() - EPOCH_ORDINAL
    if text.startswith("J"):
        number = int(text[1:])
        is_leap = date(year, 3, 1).toordinal() - date(year, 2, 1).toordinal() == 29
        return january_1 + number - 1 + (is_leap and number >= 60)
    return january_1 + int(text)


def _year(instant_s: int) -> int:
    return date.fromordinal(instant_s // DAY_S + EPOCH_ORDINAL).year


def _instant(change: tuple[int, int]) -> int:
    return change[0]
