"""The package against the brute-force oracle: all zones, around clock changes and at random.

The fast form is stable (derandomized). The long form: pytest -m slow tests/triggers
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from edgecron.base.errors import InvalidTrigger
from edgecron.triggers import Trigger, parse_trigger
from tests.support.debian import CRONTABS
from tests.support.forms import tried
from tests.triggers.triggers_oracle import all_zones, plan_times, scan, transitions

FAST = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
_PARTS = tried(2, 8)  # of the zones, in the short form
LONG = settings(FAST, derandomize=False)
DAY_S = 86_400
YEAR_S = 31_556_952
# Offsets are whole minutes from here on (Liberia was the last).
SINCE_S = 3 * YEAR_S
UNTIL_S = 75 * YEAR_S


def items(least: int, most: int, likely: list[int]) -> st.SearchStrategy[str]:
    """A field: a value, list, range or step; `likely` values more often than others."""
    value = st.one_of(st.sampled_from(likely), st.integers(least, most))
    pair = st.tuples(value, value).map(sorted)
    step = st.integers(1, most)
    return st.one_of(
        value.map(str),
        st.lists(value, min_size=2, max_size=4).map(lambda many: ",".join(map(str, many))),
        pair.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.tuples(pair, step).map(lambda got: f"{got[0][0]}-{got[0][1]}/{got[1]}"),
        st.tuples(value, step).map(lambda got: f"{got[0]}/{got[1]}"),
        step.map(lambda n: f"*/{n}"),
        st.just("*"),
    )


SECONDS = items(0, 59, [0, 30, 59])
MINUTES = items(0, 59, [0, 1, 15, 30, 45, 59])
HOURS = items(0, 23, [0, 1, 2, 3, 4, 23])
DAYS = st.one_of(
    st.just("*"),
    items(1, 31, [1, 25, 29, 30, 31]),
    st.sampled_from(["L", "15,L", "1W", "15W", "31W"]),
)
MONTHS = st.one_of(st.just("*"), items(1, 12, [3, 10]), st.just("MAR-OCT"))
WEEKDAYS = st.one_of(
    st.just("*"),
    items(0, 6, [0, 6]),
    st.sampled_from(["5-7", "FRI-SUN", "MON-MON", "L7", "L0,L5", "0#1", "SUN#4", "1#5,5#2", "7"]),
)
MINUTE_TEXTS = st.tuples(MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS).map(" ".join)
SECOND_TEXTS = st.tuples(SECONDS, MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS).map(" ".join)
ZONES = st.sampled_from(all_zones())
# Of half an hour, of two hours, of a day; at midnight; backwards in summer.
ODD_ZONES = ("Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", "Asia/Beirut",
             "Europe/Dublin", "Africa/Casablanca", "America/Scoresbysund")  # fmt: skip


def parse_or_skip(text: str, zone: str) -> Trigger:
    try:
        return parse_trigger(text, zone)
    except InvalidTrigger as error:
        assume("can never fire" not in error.message)
        raise


def check_range(text: str, zone: str, *, since_s: int, until_s: int, step_s: int) -> None:
    """next, count and last over a range, and over parts of it, say what the oracle says."""
    trigger = parse_or_skip(text, zone)
    expected = list(plan_times(text, zone, since_s=since_s, until_s=until_s, step_s=step_s))

    found: list[int] = []
    at_ms = trigger.next_after_ms(since_s * 1000 - 1)
    while at_ms is not None and at_ms < until_s * 1000 and len(found) < 5000:
        found.append(at_ms // 1000)
        at_ms = trigger.next_after_ms(at_ms)

    assert found == expected[:5000], (text, zone)
    check_parts(trigger, expected, since_s=since_s, until_s=until_s)


def check_parts(trigger: Trigger, expected: list[int], *, since_s: int, until_s: int) -> None:
    chance = random.Random(trigger.text)
    for _ in range(8):
        after, until = sorted(chance.randrange(since_s, until_s) for _ in range(2))
        if expected and chance.random() < 0.5:
            after = chance.choice(expected) - chance.randrange(2)
            until = max(until, after)
        part = [at for at in expected if after < at <= until]
        following = next((at * 1000 for at in expected if at > after), None)

        assert trigger.count_ms(after * 1000, until * 1000) == len(part)
        assert trigger.list_ms(after * 1000, until * 1000) == [at * 1000 for at in part]
        assert trigger.last_ms(after * 1000, until * 1000) == (part[-1] * 1000 if part else None)
        if following is not None:
            assert trigger.next_after_ms(after * 1000) == following


def check_around_a_change(zone: str, *, text: str, chance: random.Random) -> None:
    changes = transitions(zone, since_s=SINCE_S, until_s=UNTIL_S, step_s=10 * DAY_S)
    if not changes:
        return
    change = chance.choice(changes)
    since_s = (change - 2 * DAY_S) // 60 * 60 - chance.randrange(600) * 60
    check_range(text, zone, since_s=since_s, until_s=change + 2 * DAY_S, step_s=60)


@pytest.mark.failure(1)
@pytest.mark.failure(2)
@pytest.mark.parametrize(
    "part",
    [*range(_PARTS), *(pytest.param(n, marks=pytest.mark.slow) for n in range(_PARTS, 8))],
)
def test_every_zone_agrees_with_the_oracle_around_one_of_its_changes(part: int) -> None:
    texts = ["30 2 * * *", "0 0 * * *", "15,45 0-3 * * *", "*/20 * * * *", "59 23 * * 6",
             "5 * * * *", "0 */3 * * *", "10-40/10 1,2 * * *"]  # fmt: skip
    for zone in all_zones()[part::8]:
        chance = random.Random(zone)
        check_around_a_change(zone, text=chance.choice(texts), chance=chance)
        scan.cache_clear()


def test_the_lines_of_debians_packages_agree_with_the_oracle_around_changes() -> None:
    lines = [
        " ".join(line.split()[:5])
        for files in CRONTABS.values()
        for path, content in files.items()
        for line in content.splitlines()
        if line and line[0] in "*0123456789" and "anacrontab" not in path
    ]

    assert len(lines) > 20
    for zone in ("Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo"):
        for text in sorted(set(lines)):
            check_around_a_change(zone, text=text, chance=random.Random(zone))
    scan.cache_clear()


@settings(FAST, max_examples=tried(40, 120))
@given(text=MINUTE_TEXTS, zone=ZONES, chance=st.randoms(use_true_random=False))
def test_random_texts_agree_with_the_oracle_around_changes(
    text: str, zone: str, chance: random.Random
) -> None:
    check_around_a_change(zone, text=text, chance=chance)


@pytest.mark.failure(1)
@pytest.mark.failure(2)
@settings(FAST, max_examples=tried(30, 60))
@given(
    text=MINUTE_TEXTS,
    zone=st.sampled_from(ODD_ZONES),
    chance=st.randoms(use_true_random=False),
)
def test_random_texts_agree_with_the_oracle_where_changes_are_odd(
    text: str, zone: str, chance: random.Random
) -> None:
    check_around_a_change(zone, text=text, chance=chance)


@settings(FAST, max_examples=tried(30, 60))
@given(text=MINUTE_TEXTS, zone=ZONES, at_s=st.integers(SINCE_S, UNTIL_S))
def test_random_texts_agree_with_the_oracle_at_random_times(
    text: str, zone: str, at_s: int
) -> None:
    since_s = at_s // 60 * 60

    check_range(text, zone, since_s=since_s, until_s=since_s + 8 * DAY_S, step_s=60)


@settings(FAST, max_examples=tried(15, 40))
@given(text=SECOND_TEXTS, zone=ZONES, chance=st.randoms(use_true_random=False))
def test_random_texts_with_seconds_agree_with_the_oracle(
    text: str, zone: str, chance: random.Random
) -> None:
    changes = transitions(zone, since_s=SINCE_S, until_s=UNTIL_S, step_s=10 * DAY_S)
    assume(changes)
    change = chance.choice(changes)

    check_range(text, zone, since_s=change - 5400, until_s=change + 9000, step_s=1)


@pytest.mark.slow
@pytest.mark.parametrize("zone", all_zones())
def test_all_changes_of_a_zone_agree_with_the_oracle(zone: str) -> None:
    chance = random.Random(f"long {zone}")
    fields = [["0", "30", "*/30", "59", "0,15,45", "*"],
              ["2", "0", "*", "0-4", "1,2,3", "*/2", "23"],
              ["*", "*", "1-31/2", "L", "15W", "*/2"], ["*"],
              ["*", "*", "0", "5-7", "L0", "0#1", "*/2"]]  # fmt: skip
    for change in transitions(zone, since_s=SINCE_S, until_s=UNTIL_S, step_s=DAY_S):
        since_s = change - 2 * DAY_S
        for _ in range(3):
            text = " ".join(chance.choice(field) for field in fields)
            check_range(text, zone, since_s=since_s, until_s=change + 2 * DAY_S, step_s=60)


@pytest.mark.slow
@settings(LONG, max_examples=4000)
@given(text=MINUTE_TEXTS, zone=ZONES, chance=st.randoms(use_true_random=False))
def test_many_random_texts_agree_with_the_oracle(
    text: str, zone: str, chance: random.Random
) -> None:
    check_around_a_change(zone, text=text, chance=chance)


@pytest.mark.slow
@settings(LONG, max_examples=1000)
@given(text=SECOND_TEXTS, zone=ZONES, chance=st.randoms(use_true_random=False))
def test_many_random_texts_with_seconds_agree_with_the_oracle(
    text: str, zone: str, chance: random.Random
) -> None:
    changes = transitions(zone, since_s=SINCE_S, until_s=UNTIL_S, step_s=10 * DAY_S)
    assume(changes)
    change = chance.choice(changes)

    check_range(text, zone, since_s=change - 5400, until_s=change + 9000, step_s=1)
