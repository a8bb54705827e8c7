"""What does it cost to decide a misfire, whether a second or fifty years were missed?

Each case is one `plan_fire` in a new process, which has seen none of the triggers before (cold),
and the same once more (warm); in processor time, since other work on the machine does not count.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgecron.model.choices import CatchUp
from edgecron.planning.next_fire import Due, Timing, next_fire
from edgecron.triggers import combine, parse_trigger
from tests.bench.machine import Setting
from tests.bench.table import Row
from tests.bench.timing import middle_of

SECOND_MS = 1000
YEARS_50_MS = 50 * 365 * 86_400 * SECOND_MS
START_MS = 1_768_867_200_123  # 2026-01-20
SPANS_MS = {"a second": SECOND_MS, "fifty years": YEARS_50_MS}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A schedule: its triggers in the zones, one after the other, and what else it says."""

    texts: tuple[str, ...]
    zones: tuple[str, ...] = ("Europe/Berlin",)
    catch_up: CatchUp = CatchUp.ONCE
    jitter_s: int = 0
    max_late_s: int | None = None
    max_runs: int | None = None
    bounds_ms: tuple[int | None, int | None] = (None, None)

    def timing(self) -> Timing:
        triggers = [
            parse_trigger(text, self.zones[index % len(self.zones)])
            for index, text in enumerate(self.texts)
        ]
        return Timing(
            name="bench",
            times=combine(triggers),
            seed=bytes(16),
            catch_up=self.catch_up,
            max_late_ms=None if self.max_late_s is None else self.max_late_s * 1000,
            jitter_ms=self.jitter_s * 1000,
            max_runs=self.max_runs,
            from_ms=self.bounds_ms[0],
            until_ms=self.bounds_ms[1],
        )


BERLIN, TWO = ("Europe/Berlin",), ("Europe/Berlin", "America/New_York")
EVERY_SECOND = Case(texts=("* * * * * *",))
PAIR = Case(texts=("*/5 * * * * *", "*/7 * * * *"))
FOUR = Case(texts=(*PAIR.texts, "30 2 * * *", "0 9 * * MON-FRI"))
GRIDS = Case(texts=("*/5 * * * * *", "every 90s", "every 37m", "every 41s"))
YEARS_MS = 365 * 86_400 * SECOND_MS
CASES = {
    "every second": EVERY_SECOND,
    "two": PAIR,
    "two in two zones": replace(PAIR, zones=TWO),
    "four": FOUR,
    "four in two zones": replace(FOUR, zones=TWO),
    "one and three grids": GRIDS,
    "every second, all": replace(EVERY_SECOND, catch_up=CatchUp.ALL),
    "every second, all, any grace": replace(
        EVERY_SECOND, catch_up=CatchUp.ALL, max_late_s=YEARS_50_MS // 500
    ),
    "every second, jitter of an hour": replace(EVERY_SECOND, jitter_s=3600),
    "two, all": replace(PAIR, catch_up=CatchUp.ALL),
    "two, all, any grace": replace(PAIR, catch_up=CatchUp.ALL, max_late_s=YEARS_50_MS // 500),
    "two, jitter of a minute": replace(PAIR, jitter_s=60),
    "two, all, jitter of a minute": replace(PAIR, catch_up=CatchUp.ALL, jitter_s=60),
    "two, all, jitter of a day": replace(PAIR, catch_up=CatchUp.ALL, jitter_s=86_400),
    "four, skip, in bounds": replace(
        FOUR,
        catch_up=CatchUp.SKIP,
        bounds_ms=(START_MS + YEARS_MS, START_MS + 40 * YEARS_MS),
    ),
    "four in two zones, all, jitter, bounds, max runs": replace(
        FOUR,
        zones=TWO,
        catch_up=CatchUp.ALL,
        jitter_s=60,
        max_late_s=YEARS_50_MS // 500,
        max_runs=1000,
        bounds_ms=(START_MS + YEARS_MS, START_MS + 40 * YEARS_MS),
    ),
    "one and three grids, all, any grace": replace(
        GRIDS, catch_up=CatchUp.ALL, max_late_s=YEARS_50_MS // 500
    ),
}


def rows(setting: Setting) -> Iterator[Row]:
    names = list(CASES)[:: setting.pick(1, 4)]
    context = multiprocessing.get_context("spawn")
    found: dict[str, dict[str, tuple[float, float, int, int]]] = {}
    for name in names:
        found[name] = {}
        for span, span_ms in SPANS_MS.items():
            with context.Pool(1) as pool:
                found[name][span] = pool.apply(_measure, (name, span_ms))
    long_ms, short_ms = ([one[span][0] for one in found.values()] for span in reversed(SPANS_MS))
    ratios = [long / short for long, short in zip(long_ms, short_ms, strict=True)]
    yield Row(
        bench="catch-up",
        what=f"deciding what fifty years have missed, {len(names)} schedules, in a new process",
        measured=f"{statistics.median(long_ms):.1f} ms, most {max(long_ms):.1f}",
        reference=f"what a second has missed {statistics.median(short_ms):.1f} ms",
        ratio=statistics.median(ratios),
        low=middle_of(ratios)[0],
        high=middle_of(ratios)[1],
        figures={"cold_ms_warm_ms_runs_missed": found},
        note="processor time",
    )


def _measure(name: str, span_ms: int) -> tuple[float, float, int, int]:
    """Milliseconds cold and warm, how many fires are to run, and how many were missed."""
    from edgecron.planning.catch_up import plan_fire

    timing = CASES[name].timing()
    found = next_fire(timing, START_MS)
    assert found is not None
    due = Due(
        schedule_id=1,
        revision=1,
        plan_ms=found.plan_ms,
        due_ms=found.due_ms,
        decided_until_ms=START_MS,
        paused_until_ms=None,
        planned_count=0,
        source=found.source,
    )
    took_ms = []
    for timing_now in (CASES[name].timing(), timing):
        began = time.process_time()
        plan = plan_fire(timing_now, due, now_ms=found.due_ms + span_ms)
        took_ms.append((time.process_time() - began) * 1000)
    return took_ms[0], took_ms[1], len(plan.fires), sum(span.count for span in plan.missed)
