"""How fast is a compiled trigger, against croniter 7 asked the same question?

Ten expressions in a zone with clock changes, 50 starts each; croniter gets a new object and an
aware datetime, as a scheduler would ask it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from edgecron.base.zones import load_zone
from edgecron.triggers import parse_trigger
from tests.bench.machine import Setting
from tests.bench.table import Row, at_least

ZONE = "Europe/Berlin"
TEXTS = ("*/5 * * * *", "0 2 * * *", "30 9 * * MON-FRI", "0 0 1 * *", "0 0 1 1 *", "0 0 29 2 *",
         "15 10,14 * * 1", "0 12 L * *", "0 9 * * 5#2", "*/15 9-17 * * 1-5")  # fmt: skip


def rows(setting: Setting) -> Iterator[Row]:
    starts = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=37 * n) for n in range(50)]
    found = {text: _measure(text, starts, setting.pick(10, 3)) for text in TEXTS}
    ratios = {text: theirs_s / ours_s for text, (ours_s, theirs_s) in found.items()}
    slowest = min(ratios, key=lambda text: ratios[text])
    ours_s = statistics.mean(ours for ours, _ in found.values())
    theirs_s = statistics.mean(theirs for _, theirs in found.values())
    yield Row(
        bench="next",
        what="next time of a cron trigger, Europe/Berlin, ten expressions",
        measured=f"{ours_s * 1e6:.1f} us",
        reference=f"croniter 7: {theirs_s * 1e6:.0f} us",
        ratio=statistics.geometric_mean(ratios.values()),
        low=min(ratios.values()),
        high=max(ratios.values()),
        reach=at_least(15),
        figures={text: round(ratio, 1) for text, ratio in ratios.items()},
        note="times as fast, geometric mean of ten, in brackets the least and the most;"
        f" least for '{slowest}'",
    )


def _measure(text: str, starts: list[datetime], times: int) -> tuple[float, float]:
    """Seconds for a next time, ours and croniter's: the mean over the starts of the best."""
    from croniter import croniter

    zone = load_zone(ZONE)
    trigger = parse_trigger(text, ZONE)

    def ask_croniter(start: datetime) -> object:
        return croniter(text, start).get_next(datetime)

    ours, theirs = [], []
    for start in starts:
        local = start.astimezone(zone)
        took = [(_took(trigger.next_after, start), _took(ask_croniter, local))
                for _ in range(times)]  # fmt: skip
        ours.append(min(ours_s for ours_s, _ in took))
        theirs.append(min(theirs_s for _, theirs_s in took))
    return statistics.mean(ours), statistics.mean(theirs)


def _took(ask: Callable[[datetime], object], start: datetime) -> float:
    began = time.perf_counter()
    ask(start)
    return time.perf_counter() - began
