"""The instants of several cron triggers together, as few patterns of a day on many days.

While no offset changes, a trigger's seconds of the day do not depend on the day: the days fall
into classes by which triggers match them, and a class has one pattern.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from edgecron.triggers.crontrigger import CronTrigger
from edgecron.triggers.days import DayRule
from edgecron.triggers.tzif import DAY_S

_CHUNK_S = 36_525 * DAY_S  # of a longer range, at a time: numbers of a bit a day stay short


class Pattern:
    """Seconds of a day as a number: bit k is set where second k is one of them."""

    __slots__ = ("_along", "_text", "total")

    def __init__(self, bits: int) -> None:
        self.total = bits.bit_count()
        self._text = f"{bits:b}"[::-1]
        self._along: dict[tuple[int, int], int] = {}

    def holds(self, second: int) -> bool:
        """Whether a second of the day is one of them."""
        return self._text[second : second + 1] == "1"

    def count_along(self, interval_s: int, phase_s: int) -> int:
        """How many of its seconds are `phase_s` and a multiple of the interval."""
        key = interval_s, phase_s
        found = self._along.get(key)
        if found is None:
            found = self._along[key] = self._text[phase_s::interval_s].count("1")
        return found


class Block:
    """Days with the same pattern.

    Bit n of `days` is set where day `first_day + n` of the wall clock that is `offset_s` ahead of
    UTC is one of them. The first instant of all lies at or after `start_s`.
    """

    __slots__ = ("_days_text", "days", "first_day", "offset_s", "pattern", "start_s")

    def __init__(
        self, *, start_s: int, first_day: int, days: int, offset_s: int, pattern: Pattern
    ) -> None:
        self.start_s = start_s
        self.first_day = first_day
        self.days = days
        self.offset_s = offset_s
        self.pattern = pattern
        self._days_text = ""

    def count(self) -> int:
        """How many instants there are."""
        return self.days.bit_count() * self.pattern.total

    def add(self, other: Block) -> None:
        """Take in the days of a later block of the same pattern and offset."""
        self.days |= other.days << (other.first_day - self.first_day)

    def holds(self, instant_s: int) -> bool:
        """Whether an instant is one of them."""
        day, second = divmod(instant_s + self.offset_s, DAY_S)
        number = day - self.first_day
        return number >= 0 and bool(self.days >> number & 1) and self.pattern.holds(second)

    def count_along(self, interval_s: int, anchor_s: int, *, period_days: int) -> int:
        """How many of the instants lie on a grid, which repeats itself after so many days."""
        if not self._days_text:
            self._days_text = f"{self.days:b}"[::-1]
        text = self._days_text
        origin_s = anchor_s + self.offset_s - self.first_day * DAY_S
        total = 0
        for day in range(min(period_days, len(text))):
            number = text[day::period_days].count("1")
            if number:
                phase_s = (origin_s - day * DAY_S) % interval_s
                total += number * self.pattern.count_along(interval_s, phase_s)
        return total


def cron_blocks(
    triggers: Sequence[CronTrigger], since_s: int, until_s: int, *, cuts_s: Sequence[int] = ()
) -> list[Block]:
    """The distinct plan times of the triggers from `since_s` on and before `until_s`.

    Each is in one block; no block reaches across one of the cuts.
    """
    merged: dict[tuple[int, int, int], Block] = {}
    for start_s in range(since_s, until_s, _CHUNK_S):
        chunk = _Chunk(triggers, start_s, min(start_s + _CHUNK_S, until_s))
        for block in chunk.blocks(cuts_s):
            # Winters are alike, and so are summers. A pattern lives as long as its block.
            key = id(block.pattern), block.offset_s, bisect_right(cuts_s, block.start_s)
            if key in merged:
                merged[key].add(block)
            else:
                merged[key] = block
    return list(merged.values())


class _Chunk:
    """A stretch of at most a hundred years; what its blocks share is made once."""

    def __init__(self, triggers: Sequence[CronTrigger], since_s: int, until_s: int) -> None:
        self._triggers = triggers
        self._since_s = since_s
        self._until_s = until_s
        # No offset is as much as two days.
        self._base_day = since_s // DAY_S - 4
        end_day = until_s // DAY_S + 4
        self._matching: dict[DayRule, int] = {}
        for trigger in triggers:
            rule = trigger.fields.rule
            if rule not in self._matching:
                self._matching[rule] = rule.bits(self._base_day, end_day)
        self._patterns: dict[object, Pattern] = {}

    def blocks(self, cuts_s: Sequence[int]) -> Iterator[Block]:
        for start_s, end_s, offsets in self._constant_stretches(cuts_s):
            if any(offset_s is None for _, offset_s in offsets):
                # A gap is caught up: that instant, and no longer than a second.
                day, second = divmod(start_s, DAY_S)
                pattern = self._pattern((), second, second + 1)
                yield Block(start_s=start_s, first_day=day, days=1, offset_s=0, pattern=pattern)
            elif offsets:
                known = [(number, offset_s) for number, offset_s in offsets if offset_s is not None]
                yield from self._constant(known, start_s, end_s)

    def _constant_stretches(
        self, cuts_s: Sequence[int]
    ) -> Iterator[tuple[int, int, list[tuple[int, int | None]]]]:
        """(start, end, what applies in between: a trigger's number and its offset)."""
        stretches = [list(t.stretches(self._since_s, self._until_s)) for t in self._triggers]
        edges = {self._since_s, self._until_s}
        edges.update(cut for cut in cuts_s if self._since_s < cut < self._until_s)
        for mine in stretches:
            for start_s, end_s, _ in mine:
                edges.update((start_s, end_s))
        at = [0] * len(stretches)
        for start_s, end_s in pairwise(sorted(edges)):
            offsets: list[tuple[int, int | None]] = []
            for number, mine in enumerate(stretches):
                while at[number] < len(mine) and mine[at[number]][1] <= start_s:
                    at[number] += 1
                if at[number] < len(mine) and mine[at[number]][0] <= start_s:
                    offsets.append((number, mine[at[number]][2]))
            yield start_s, end_s, offsets

    def _constant(
        self, offsets: Sequence[tuple[int, int]], start_s: int, end_s: int
    ) -> Iterator[Block]:
        """The blocks of a stretch in which no offset changes, by the first trigger's wall clock."""
        frame_s = offsets[0][1]
        # Where in the day of the frame another trigger's day begins.
        borders = sorted({0, DAY_S, *((frame_s - offset_s) % DAY_S for _, offset_s in offsets)})
        runs = _whole_and_partial(start_s + frame_s, end_s + frame_s)
        for first_day, end_day, low, high in runs:
            for border, next_border in pairwise(borders):
                since, until = max(low, border), min(high, next_border)
                if since >= until:
                    continue
                shifts = [
                    (number, *divmod(since + offset_s - frame_s, DAY_S))
                    for number, offset_s in offsets
                ]
                for days, members in self._classes(shifts, first_day, end_day):
                    # A trigger's second of the day less the frame's is the same all the way.
                    aligned = tuple((number, second - since) for number, second in members)
                    yield Block(
                        start_s=start_s,
                        first_day=first_day,
                        days=days,
                        offset_s=frame_s,
                        pattern=self._pattern(aligned, since, until),
                    )

    def _classes(
        self, shifts: Sequence[tuple[int, int, int]], first_day: int, end_day: int
    ) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
        """The days by which triggers match them; those that none matches are left out."""
        every_day = (1 << (end_day - first_day)) - 1
        classes: list[tuple[int, tuple[tuple[int, int], ...]]] = [(every_day, ())]
        for number, shift, second in shifts:
            matching = self._matching[self._triggers[number].fields.rule]
            mine = (matching >> (first_day + shift - self._base_day)) & every_day
            split = []
            for days, members in classes:
                if days & mine:
                    split.append((days & mine, (*members, (number, second))))
                if days & ~mine:
                    split.append((days & ~mine, members))
            classes = split
        return [(days, members) for days, members in classes if members]

    def _pattern(self, aligned: tuple[tuple[int, int], ...], since: int, until: int) -> Pattern:
        """The seconds in [since, until) of a day of the frame; all of them without a trigger."""
        key = aligned, since, until
        found = self._patterns.get(key)
        if found is None:
            window = (1 << until) - (1 << since)
            bits = 0 if aligned else window
            for number, ahead_s in aligned:
                day = self._triggers[number].fields.day_bits()
                bits |= day >> ahead_s if ahead_s >= 0 else day << -ahead_s
            found = self._patterns[key] = Pattern(bits & window)
        return found


def _whole_and_partial(wall_s: int, end_wall_s: int) -> Iterator[tuple[int, int, int, int]]:
    """(first day, day after the last, from second, to second) of up to three runs of days."""
    day, second = divmod(wall_s, DAY_S)
    end_day, end_second = divmod(end_wall_s, DAY_S)
    if day == end_day:
        yield day, day + 1, second, end_second
        return
    if second:
        yield day, day + 1, second, DAY_S
        day += 1
    if day < end_day:
        yield day, end_day, 0, DAY_S
    if end_second:
        yield end_day, end_day + 1, 0, end_second
