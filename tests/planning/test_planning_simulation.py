"""Simulated days against a brute-force count: every fire one by one, every minute one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from edgecron.base.units import DAY_MS, MINUTE_MS, from_ms, to_ms
from edgecron.model.choices import CatchUp, Overlap
from edgecron.planning.catch_up import plan_fire
from edgecron.planning.next_fire import Due, Timing, next_fires
from edgecron.planning.simulation import Simulated, Simulation, simulate
from edgecron.planning.windows import find_windows
from edgecron.triggers import combine, parse_trigger
from tests.support.specs import make_timing, ms

START = ms("2026-03-27T07:31:00Z")  # two days before clocks change in Berlin
TEXTS = [
    *("* * * * *", "*/5 * * * *", "*/20 1-4 * * *", "30 2 * * *", "0 3 * * SUN", "15 0 28 * *"),
    *("every 7m", "every 90m", "every 5h", "every 45s", "at 2026-03-29T02:15:00Z", "0 0 * * *"),
]
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe"]


def make(
    name: str, *texts: str, zone: str = "UTC", jitter_s: float = 0, **more: object
) -> Simulated:
    times = combine([parse_trigger(text, zone, name) for text in texts])
    timing = replace(make_timing("on boot", name=name, jitter_s=jitter_s), times=times)
    fields = {"name": name, "timing": timing, "times": times, "after_ms": START - 1}
    return Simulated(**(fields | more))  # type: ignore[arg-type]


def test_fires_outside_of_windows_are_counted_and_do_not_run() -> None:
    windows = find_windows(["22:00-04:00 MON-FRI"], [], ["2026-03-30"], "Europe/Berlin")
    schedule = make("a", "*/30 * * * *", zone="Europe/Berlin")
    schedule = replace(schedule, timing=replace(schedule.timing, windows=windows))

    (found,) = run_all([schedule], days=5).schedules

    fires = schedule.times.list_ms(START - 1, START + 5 * DAY_MS - 1)
    inside = [at for at in fires if windows is not None and windows.is_open(at)]
    assert (found.runs, found.excluded) == (len(inside), len(fires) - len(inside))
    assert found.first_at == from_ms(inside[0])


def run_all(schedules: list[Simulated], *, days: float) -> Simulation:
    until_ms = START + round(days * DAY_MS)
    *slices, found = simulate(schedules, since_ms=START, until_ms=until_ms)
    assert slices == [None] * -(-round(days * DAY_MS) // DAY_MS)
    assert found is not None
    return found


@dataclass
class Counted:
    """What the brute force finds of one schedule: its runs as [start, end), and its counts."""

    runs: list[list[int]] = field(default_factory=list)
    skipped: int = 0
    delayed: int = 0
    replaced: int = 0
    ended_early: list[list[int]] = field(default_factory=list)


def count_one(schedule: Simulated, due: list[int], *, until_ms: int) -> Counted:
    """Decide one fire after another, looking at all runs before it each time."""
    took = schedule.duration_ms or 0
    allow = schedule.overlap is Overlap.ALLOW
    limit = schedule.max_running or (10**9 if allow else 1)
    found = Counted()
    alive: list[list[int]] = []
    for at in sorted(one for one in due if one < until_ms):
        alive = active = sorted((run for run in alive if run[1] > at), key=lambda run: run[1])
        if len(active) < limit:
            found.runs.append([at, at + took])
        elif schedule.overlap is Overlap.SKIP or (
            schedule.overlap is Overlap.QUEUE and any(run[0] > at for run in active)
        ):
            found.skipped += 1
        elif schedule.overlap is Overlap.REPLACE:
            active[0][1] = at
            found.replaced += 1
            found.ended_early.append(active[0])
            found.runs.append([at, at + took])
        else:
            start = active[len(active) - limit][1]
            found.delayed += 1
            found.runs.append([start, start + took])
        if found.runs and found.runs[-1] not in alive:
            alive.append(found.runs[-1])
    return found


def count_all(schedules: list[Simulated], *, until_ms: int) -> dict[str, Counted]:
    found: dict[str, Counted] = {}
    for schedule in schedules:  # those that follow others come last
        due = [
            fire.due_ms for fire in _until(next_fires(schedule.timing, schedule.after_ms), until_ms)
        ]
        for upstream, on in schedule.upstreams:
            if on != "failure":
                early = found[upstream].ended_early
                due += [run[1] for run in found[upstream].runs if run not in early]
        found[schedule.name] = count_one(schedule, due, until_ms=until_ms)
    return found


def _until(fires: Iterator, until_ms: int) -> Iterator:  # type: ignore[type-arg]
    for fire in fires:
        if fire.plan_ms >= until_ms:
            return
        yield fire


def count_minutes(found: dict[str, Counted]) -> Counter[int]:
    """How many runs are active in each minute."""
    minutes: Counter[int] = Counter()
    for counted in found.values():
        for start, end in counted.runs:
            last = max(end - 1, start) // MINUTE_MS
            minutes.update(range(start // MINUTE_MS, last + 1))
    return minutes


def check(schedules: list[Simulated], *, days: float) -> None:
    until_ms = START + round(days * DAY_MS)
    found = run_all(schedules, days=days)
    expected = count_all(schedules, until_ms=until_ms)

    for one in found.schedules:
        wanted = expected[one.name]
        starts = sorted(run[0] for run in wanted.runs)
        assert (one.runs, one.skipped, one.delayed, one.replaced) == (
            len(starts), wanted.skipped, wanted.delayed, wanted.replaced,
        ), one  # fmt: skip
        assert one.first_at == (from_ms(starts[0]) if starts else None)
        assert one.last_at == (from_ms(starts[-1]) if starts else None)
    assert found.runs == sum(len(one.runs) for one in expected.values())
    minutes = count_minutes(expected)
    for day in found.days:
        first = to_ms(day.from_at) // MINUTE_MS
        counts = [minutes[minute] for minute in range(first, first + 1440)]
        assert day.most_active == max(counts), day
        if day.most_active:
            at = to_ms(day.most_active_at) // MINUTE_MS
            assert at == first + counts.index(max(counts))


@pytest.mark.parametrize("seed", range(10))
def test_a_simulation_agrees_with_a_brute_force_count(seed: int) -> None:
    chance = random.Random(seed)
    schedules = []
    for number in range(6):
        overlap = chance.choice(list(Overlap))
        schedules.append(
            make(
                f"s{number}",
                *chance.sample(TEXTS, chance.choice([1, 1, 1, 2])),
                zone=chance.choice(ZONES),
                overlap=overlap,
                max_running=chance.choice([None, None, 1, 2]),
                duration_ms=chance.choice([None, 500, 59_000, 60_000, 400_000, 7_200_000]),
                jitter_s=chance.choice([0, 0, 0, 600]),
            )
        )
    upstream = schedules[chance.randrange(6)].name
    schedules.append(make("z-after", "on boot", upstreams=((upstream, "success"),),
                          duration_ms=90_000, overlap=Overlap.QUEUE))  # fmt: skip

    check(schedules, days=2.4)


def test_long_runs_reach_into_later_days_and_replaced_ones_do_not() -> None:
    long_ms = 3 * DAY_MS + 1

    check([make("a", "30 2 * * *", duration_ms=long_ms, overlap=Overlap.ALLOW)], days=6)
    check([make("a", "30 2 * * *", duration_ms=long_ms, overlap=Overlap.REPLACE)], days=6)
    check([make("a", "30 2 * * *", duration_ms=long_ms, overlap=Overlap.QUEUE)], days=6)


def test_each_scope_runs_and_bounds_hold() -> None:
    scoped = make("a", "0 * * * *", scopes=3, duration_ms=60_000)
    timing = replace(scoped.timing, until_ms=START + 6 * 3_600_000)

    found = run_all([replace(scoped, timing=timing, runs_left=4)], days=1)

    assert (found.runs, found.most_active) == (12, 3)
    assert found.schedules[0].busy_ms == 12 * 60_000


def test_a_moved_fire_runs_once_at_its_new_time() -> None:
    moved_ms = START + 90 * MINUTE_MS

    found = run_all([make("a", "*/30 * * * *", first_due_ms=moved_ms)], days=0.1)

    assert found.schedules[0].first_at == from_ms(moved_ms)
    assert found.schedules[0].runs == 2  # 07:31 plus 90 min, and 09:30 counts as passed


@pytest.mark.parametrize(
    ("moved_days", "runs"),
    [
        (2.5, 4),  # past three of its times, of several days
        (-1.5, 6),
        (20, 0),  # beyond the end
    ],
)
def test_times_that_a_fire_was_moved_past_are_not_counted(moved_days: float, runs: int) -> None:
    own_ms = ms("2026-03-30T00:00:00Z")
    moved_ms = own_ms + round(moved_days * DAY_MS)
    schedule = make("a", "0 0 * * *", after_ms=own_ms - 1, first_due_ms=moved_ms)

    [found] = run_all([schedule], days=8).schedules

    assert found.runs == runs
    assert found.first_at == (from_ms(moved_ms) if runs else None)


@pytest.mark.parametrize("catch_up", list(CatchUp))
@pytest.mark.parametrize("moved_minutes", [-20, 30, 45, 200, 60 * 60])
@pytest.mark.parametrize("jitter_s", [0, 1_500])
@pytest.mark.parametrize("max_runs", [None, 3])
def test_a_moved_fire_has_as_many_runs_as_an_engine_starts(
    catch_up: CatchUp, moved_minutes: int, jitter_s: float, max_runs: int | None
) -> None:
    own_ms = ms("2026-03-27T08:00:00Z")
    moved_ms = own_ms + moved_minutes * MINUTE_MS
    schedule = make(
        *("a", "*/30 * * * *"), jitter_s=jitter_s, after_ms=own_ms - 1, first_due_ms=moved_ms
    )
    timing = replace(schedule.timing, catch_up=catch_up, max_runs=max_runs)
    schedule = replace(schedule, timing=timing, runs_left=max_runs)

    [found] = run_all([schedule], days=4).schedules

    assert found.runs == count_started(timing, own_ms, moved_ms, until_ms=START + 4 * DAY_MS)


def count_started(timing: Timing, plan_ms: int, due_ms: int, *, until_ms: int) -> int:
    """Let an engine that is always on time decide; count the runs that start before an instant."""
    count = 0
    due = Due(1, 1, plan_ms, due_ms, plan_ms - 1, None, 0, "*/30 * * * *")
    while due.due_ms < until_ms:
        plan = plan_fire(timing, due, now_ms=due.due_ms)
        count += len(plan.fires)
        if plan.next is None:
            break
        due = due._replace(
            plan_ms=plan.next.plan_ms,
            due_ms=plan.next.due_ms,
            decided_until_ms=plan.decided_until_ms,
            planned_count=count,
        )
    return count


def test_runs_of_a_moved_fire_follow_one_another() -> None:
    own_ms = ms("2026-03-27T08:00:00Z")
    moved_ms = own_ms + 100 * MINUTE_MS
    schedule = make("a", "*/30 * * * *", after_ms=own_ms - 1, first_due_ms=moved_ms)
    timing = replace(schedule.timing, catch_up=CatchUp.ALL)

    [found] = run_all(
        [replace(schedule, timing=timing, duration_ms=10 * MINUTE_MS)], days=0.12
    ).schedules

    # Those of 08:00 to 09:30 run from 09:40 to 10:20. That of 10:00 meets one of them.
    assert (found.runs, found.skipped) == (4, 1)
    assert found.last_at == from_ms(moved_ms + 30 * MINUTE_MS)


def test_followers_of_failures_do_not_run_and_others_run_at_the_end() -> None:
    found = run_all(
        [
            make("c", "on boot", upstreams=(("b", "any"),)),
            make("b", "on boot", upstreams=(("a", "success"),), duration_ms=60_000),
            make("a", "0 12 * * *", duration_ms=3_600_000),
            make("d", "on boot", upstreams=(("a", "failure"), ("gone", "success"))),
        ],
        days=1,
    )

    by_name = {one.name: one for one in found.schedules}
    assert by_name["c"].first_at == from_ms(ms("2026-03-27T13:01:00Z"))
    assert (by_name["b"].runs, by_name["d"].runs) == (1, 0)


def test_pile_ups_name_schedules_and_count_days() -> None:
    schedules = [make(name, "0 3 * * *", duration_ms=1000) for name in "abc"]
    schedules += [make("d", "0 4 * * *"), make("e", "0 4 * * *")]

    found = run_all(schedules, days=5)

    (pile_up,) = found.pile_ups
    assert (pile_up.names, pile_up.schedules, pile_up.days) == (("a", "b", "c"), 3, 5)
    assert pile_up.at == from_ms(ms("2026-03-28T03:00:00Z"))


def test_groups_tell_how_many_runs_their_limit_keeps_waiting() -> None:
    schedules = [
        make(name, "0 3 * * *", duration_ms=120_000, group="disk", group_max_running=2)
        for name in "abc"
    ]
    schedules.append(make("free", "0 3 * * *", duration_ms=120_000, group="none"))

    (group,) = run_all(schedules, days=1).groups

    assert (group.name, group.max_running, group.most_active) == ("disk", 2, 3)
    assert group.most_active_at == from_ms(ms("2026-03-28T03:00:00Z"))


def test_nothing_to_simulate_is_a_quiet_time() -> None:
    found = run_all([], days=2)

    assert (found.runs, found.most_active, len(found.days)) == (0, 0, 2)
    assert found.most_active_at == from_ms(START)
