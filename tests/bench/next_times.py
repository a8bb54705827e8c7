"""How fast is a compiled trigger, against croniter 7 asked the same question?

    python -m tests.bench.next_times

Ten expressions in a zone with clock changes, 50 starts each; croniter gets a new object and an
aware datetime, as a scheduler would ask it. Prints a ratio for each. A measurement, not a test.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from croniter import croniter

from edgecron.triggers import load_zone, parse_trigger

ZONE = "Europe/Berlin"
TEXTS = ["*/5 * * * *", "0 2 * * *", "30 9 * * MON-FRI", "0 0 1 * *", "0 0 1 1 *", "0 0 29 2 *",
         "15 10,14 * * 1", "0 12 L * *", "0 9 * * 5#2", "*/15 9-17 * * 1-5"]  # fmt: skip


def best_s(ask: Callable[[datetime], object], starts: list[datetime]) -> float:
    """The mean over the starts of the best of ten: what else the machine does does not count."""
    total = 0.0
    for start in starts:
        best = 1.0
        for _ in range(10):
            began = time.perf_counter()
            ask(start)
            best = min(best, time.perf_counter() - began)
        total += best
    return total / len(starts)


def measure(text: str, starts: list[datetime]) -> tuple[float, float]:
    """Seconds for a next time: croniter's and ours."""
    zone = load_zone(ZONE)
    trigger = parse_trigger(text, ZONE)

    def ask_croniter(start: datetime) -> object:
        return croniter(text, start).get_next(datetime)

    local = [start.astimezone(zone) for start in starts]
    return best_s(ask_croniter, local), best_s(trigger.next_after, starts)


def main() -> None:
    starts = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=37 * n) for n in range(50)]
    ratios = []
    for text in TEXTS:
        theirs_s, ours_s = measure(text, starts)
        ratios.append(theirs_s / ours_s)
        print(
            f"{text:<20} croniter {theirs_s * 1e6:6.1f} us   edgecron {ours_s * 1e6:5.1f} us"
            f"   {ratios[-1]:5.1f} times faster"
        )
    print(f"mean of the ratios: {sum(ratios) / len(ratios):.1f}")


if __name__ == "__main__":
    main()
