"""croniter parses every cron text when it is written, and agrees with our arithmetic."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from croniter import croniter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgecron.triggers import parse_trigger
from edgecron.triggers.gate import gate
from tests.triggers.test_triggers_oracle import HOURS, MINUTES, MONTHS, items
from tests.triggers.triggers_oracle import zone

# Where one day field is `*`, cron, croniter and edgecron agree on what both together mean.
DAYS = items(1, 28, [1, 15, 28]).filter(lambda text: not text.startswith("*/"))
SPECIAL_DAYS = st.sampled_from(["L", "15W", "1W", "L,15"])
WEEKDAYS = st.one_of(
    items(0, 6, [0, 6]).filter(lambda text: not text.startswith("*/")),
    st.sampled_from(["5-7", "FRI-SUN", "MON-MON", "L5", "1#2", "SUN#4"]),
)
DAY_FIELDS = st.one_of(
    st.just("* *"),
    st.one_of(DAYS, SPECIAL_DAYS).map(lambda day: f"{day} *"),
    WEEKDAYS.map(lambda weekday: f"* {weekday}"),
    st.tuples(DAYS, items(0, 6, [0, 6]))
    .filter(lambda both: "*" not in "".join(both))
    .map(" ".join),
)
TEXTS = st.tuples(MINUTES, HOURS, DAY_FIELDS, MONTHS).map(
    lambda parts: " ".join([parts[0], parts[1], parts[2].split()[0], parts[3], parts[2].split()[1]])
)
FAST = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
YEAR = timedelta(days=365)


def times_of_croniter(text: str, start: datetime, count: int) -> list[datetime]:
    # The gate's words mean the same and avoid what croniter takes otherwise, such as FRI-SUN.
    read = croniter(" ".join(gate(text).fields), start, second_at_beginning=True)
    return [read.get_next(datetime) for _ in range(count)]


@FAST
@given(TEXTS, st.integers(0, 20 * 365 * 86_400))
def test_next_times_are_those_of_croniter_in_utc(text: str, offset_s: int) -> None:
    start = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=offset_s)

    expected = times_of_croniter(text, start, 5)

    trigger = parse_trigger(text)
    assert trigger.next_after(start) == expected[0]
    for before, after in pairwise(expected):
        assert trigger.next_after(before) == after


@FAST
@given(TEXTS, st.sampled_from(["Europe/Berlin", "America/New_York"]), st.integers(0, 90 * 86_400))
def test_next_times_are_those_of_croniter_away_from_clock_changes(
    text: str, name: str, offset_s: int
) -> None:
    start = datetime(2026, 11, 10, tzinfo=UTC) + timedelta(seconds=offset_s)
    until = datetime(2027, 3, 10, tzinfo=UTC)  # both zones change their clocks after it

    expected = times_of_croniter(text, start.astimezone(zone(name)), 3)

    trigger = parse_trigger(text, name)
    at: datetime | None = start
    for instant in (one.astimezone(UTC) for one in expected if one < until):
        assert at is not None
        at = trigger.next_after(at)
        assert at == instant


@pytest.mark.parametrize("text", ["0 2 * * *", "*/15 8-18/2 1,15 * 1-5", "0 0 L * *", "@daily"])
def test_croniter_parses_every_text_that_is_written(text: str) -> None:
    code = f"import sys; from edgecron import cron; cron({text!r}); print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "croniter" in loaded.stdout.split()


def test_a_program_without_cron_texts_never_loads_croniter() -> None:
    code = "import sys; from edgecron import every; every('15m'); print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert "croniter" not in loaded.stdout.split()
