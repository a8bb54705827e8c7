"""What a cron text means, by brute force: a scan over real instants through zoneinfo.

It shares no code with the package, so that an error there can't hide here. It reads plain
fields (names, lists, ranges, steps, L, W, #), and steps through time in seconds or minutes.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from zoneinfo import ZoneInfo

import tzdata

FOLDER = Path(tzdata.__file__).parent
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = {name.lower(): n for n, name in enumerate(calendar.month_abbr) if name}
NAMES |= {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
BOUNDS = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


@lru_cache(maxsize=1)
def all_zones() -> tuple[str, ...]:
    """One name for each distinct zone of the tzdata package."""
    by_content: dict[bytes, str] = {}
    for name in sorted((FOLDER / "zones").read_text().split()):
        by_content.setdefault((FOLDER / "zoneinfo" / name).read_bytes(), name)
    return tuple(by_content.values())


@lru_cache(maxsize=700)
def zone(name: str) -> ZoneInfo:
    with (FOLDER / "zoneinfo" / name).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def offset_s(name: str, instant_s: int) -> int:
    offset = (EPOCH + timedelta(seconds=instant_s)).astimezone(zone(name)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


def transitions(name: str, *, since_s: int, until_s: int, step_s: int = 21_600) -> list[int]:
    """Instants at which the offset changes, found by steps and halving."""
    found: list[int] = []
    before = offset_s(name, since_s)
    for at in range(since_s + step_s, until_s, step_s):
        now = offset_s(name, at)
        if now != before:
            low, high = at - step_s, at
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_s(name, middle) == before else (low, middle)
            found.append(high)
        before = now
    return found


class Expression:
    """A cron text, read anew here."""

    def __init__(self, text: str) -> None:
        words = text.lower().split()
        self.words = words if len(words) == 6 else ["0", *words]
        self.is_fixed = not (self.words[1].startswith("*") or self.words[2].startswith("*"))
        self.is_ored = not (self.words[3].startswith("*") or self.words[5].startswith("*"))
        self.second, self.minute, self.hour, _, self.month, _ = (
            self._values(n) if n not in (3, 5) else set() for n in range(6)
        )

    def _values(self, place: int, word: str | None = None) -> set[int]:
        least, most = BOUNDS[place]
        values: set[int] = set()
        for item in (word or self.words[place]).split(","):
            span, _, step = item.partition("/")
            low, dash, high = span.partition("-")
            if low == "*":
                first, last = least, most
            else:
                first = NAMES[low] if low in NAMES else int(low)
                last = first if not step else most
                if dash:
                    last = NAMES[high] if high in NAMES else int(high)
                if place == 5 and last < first:
                    last += 7
            values.update(range(first, last + 1, int(step or 1)))
        return {value % 7 for value in values} if place == 5 else values

    @lru_cache(maxsize=20_000)  # noqa: B019
    def is_day(self, year: int, month: int, day: int) -> bool:
        if month not in self.month:
            return False
        by_day = any(self._is_day_item(item, year, month, day) for item in self.words[3].split(","))
        by_weekday = any(
            self._is_weekday_item(item, year, month, day) for item in self.words[5].split(",")
        )
        return (by_day or by_weekday) if self.is_ored else (by_day and by_weekday)

    def _is_day_item(self, item: str, year: int, month: int, day: int) -> bool:
        length = calendar.monthrange(year, month)[1]
        if item == "l":
            return day == length
        if item.endswith("w"):
            wanted = min(int(item[:-1]), length)
            near = sorted(
                (d for d in range(1, length + 1) if calendar.weekday(year, month, d) < 5),
                key=lambda d: abs(d - wanted),
            )
            return day == near[0]
        return day in self._values(3, item)

    def _is_weekday_item(self, item: str, year: int, month: int, day: int) -> bool:
        weekday = (calendar.weekday(year, month, day) + 1) % 7
        if item.startswith("l"):
            is_last = day + 7 > calendar.monthrange(year, month)[1]
            return is_last and weekday == int(item[1:]) % 7
        if "#" in item:
            name, nth = item.split("#")
            wanted = NAMES[name] if name in NAMES else int(name) % 7
            return weekday == wanted and (day + 6) // 7 == int(nth)
        return weekday in self._values(5, item)

    def matches(self, wall: datetime) -> bool:
        return (
            wall.second in self.second
            and wall.minute in self.minute
            and wall.hour in self.hour
            and self.is_day(wall.year, wall.month, wall.day)
        )


@lru_cache(maxsize=64)
def scan(name: str, since_s: int, until_s: int, step_s: int) -> tuple[tuple[int, datetime], ...]:
    """(instant in seconds, naive wall time) of each step of a range."""
    tz = zone(name)
    return tuple(
        (at, (EPOCH + timedelta(seconds=at)).astimezone(tz).replace(tzinfo=None))
        for at in range(since_s, until_s, step_s)
    )


def plan_times(text: str, name: str, *, since_s: int, until_s: int, step_s: int) -> Iterator[int]:
    """Every instant from `since_s` on and before `until_s` at which the text fires, in order.

    A wildcard: each real instant whose wall time matches. A fixed one: the first time that the
    wall clock shows, or has jumped over, a matching time.
    """
    expression = Expression(text)
    step = timedelta(seconds=step_s)
    warm_up = scan(name, since_s - 3 * 86_400, since_s, 60)
    highest = max(wall for _, wall in warm_up) + timedelta(seconds=60) - step
    for at, wall in scan(name, since_s, until_s, step_s):
        if not expression.is_fixed:
            if expression.matches(wall):
                yield at
            continue
        is_due = False
        while highest < wall:
            highest += step
            is_due = is_due or expression.matches(highest)
        if is_due:
            yield at
