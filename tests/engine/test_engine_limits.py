"""Limits of schedule, scope, group and engine, on every way to `running`, and all at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from edgecron.model.choices import CatchUp, Cause, Overlap, Status
from edgecron.model.listing import RunChoice
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from edgecron.store.sqlite.connection import Database
from tests.support.forms import tried
from tests.support.story import Story

_MOST = tried(1, 6)
HOUR_S = 3600


def running(story: Story) -> list[Execution]:
    return story.client.history(choice=RunChoice(statuses=(Status.RUNNING,)), limit=1000)


def settle(story: Story) -> None:
    for _ in range(3):
        story.after_s(0)


# Each way to `running`, with a group that has one place left, which somebody takes first.


def plan(story: Story) -> None:
    for name in ("a", "b"):
        story.add(name, "@hourly", lasts_s=600, group="disk")
    story.after_s(HOUR_S)


def come_late(story: Story) -> None:
    for name in ("a", "b"):
        story.add(name, "@daily", lasts_s=600, group="disk")
    story.after_s(5 * HOUR_S)


def run_by_hand(story: Story) -> None:
    for name in ("a", "b"):
        story.add(name, "@yearly", lasts_s=600, group="disk")
        story.client.run_now(name)
    story.after_s(0)


def try_again(story: Story) -> None:
    for name in ("a", "b"):
        policies = Policies(retries=5, retry_delay_s=60, retry_factor=1)
        story.add(name, "@yearly", lasts_s=10, code=1, policies=policies)
        story.client.run_now(name)
    story.after_s(0)
    story.after_s(10)
    for name in ("a", "b"):
        story.client.edit(name, in_group)
    story.after_s(70)


def come_after(story: Story) -> None:
    story.add("first", "@hourly")
    for name in ("a", "b"):
        story.add(name, "after first", lasts_s=600, group="disk")
    story.after_s(HOUR_S)


def come_at_boot(story: Story) -> None:
    for name in ("a", "b"):
        story.add(name, "on boot", lasts_s=600, group="disk")
    story.world.reboot()
    story.key = story.world.start_engine()
    story.after_s(0)


def replace_another(story: Story) -> None:
    for name in ("a", "b"):
        policies = Policies(overlap=Overlap.REPLACE)
        story.add(name, "* * * * *", lasts_s=600, group="disk", policies=policies)
    story.after_s(60)
    settle(story)
    story.after_s(60)


def be_woken(story: Story) -> None:
    story.add("first", "@hourly")
    story.add("second", "@hourly", lasts_s=60)
    for name in ("a", "b"):
        policies = Policies(needs=("success:second:1h",))
        story.add(name, "@hourly", lasts_s=600, group="disk", policies=policies)
    story.after_s(HOUR_S)
    story.after_s(60)


def in_group(spec: ScheduleSpec) -> ScheduleSpec:
    return replace(spec, group="disk")


WAYS: list[Callable[[Story], None]] = [
    plan, come_late, run_by_hand, try_again, come_after, come_at_boot, replace_another, be_woken,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_group_s_limit_holds_on_every_way(story: Story, way: Callable[[Story], None]) -> None:
    story.client.limit_group("disk", 1)

    way(story)
    settle(story)

    assert [run.schedule for run in running(story) if run.schedule in "ab"] in (["a"], ["b"])
    waiting = story.client.history(choice=RunChoice(statuses=(Status.QUEUED,)))
    assert len({run.schedule for run in waiting} & {"a", "b"}) == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_engine_s_limit_holds_on_every_way(tmp_path: Path, way: Callable[[Story], None]) -> None:
    story = Story(tmp_path / "story.db", max_running=1)

    way(story)
    for _ in range(8):
        story.after_s(0)
        assert len(running(story)) <= story.engine.settings.places

    assert story.world.bodies


def test_a_place_that_comes_free_in_a_group_goes_to_the_one_of_most_priority(
    story: Story,
) -> None:
    story.client.limit_group("disk", 1)
    story.add("first", "@hourly", lasts_s=60, group="disk", policies=Policies(priority=20))
    for name, priority in (("low", -10), ("high", 10), ("plain", 0)):
        policies = Policies(priority=priority)
        story.add(name, "@hourly", lasts_s=60, group="disk", policies=policies)

    story.after_s(HOUR_S)
    for _ in range(4):
        story.after_s(60)

    assert [body.schedule for body in story.world.bodies] == ["first", "high", "plain", "low"]


def test_a_limit_that_is_raised_gives_places_at_once(story: Story) -> None:
    story.client.limit_group("disk", 1)
    plan(story)

    story.client.limit_group("disk", None)
    story.after_s(0)

    assert len(running(story)) == 2


def test_a_full_group_keeps_nothing_else_back(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=4)
    story.client.limit_group("disk", 1)
    for number in range(60):
        policies = Policies(priority=10)
        story.add(f"disk{number}", "@hourly", lasts_s=60, group="disk", policies=policies)
    story.add("other", "@hourly", lasts_s=60, policies=Policies(priority=-10))

    story.after_s(HOUR_S)

    assert {run.schedule for run in running(story)} == {"disk0", "other"}


# All at once.


@pytest.mark.parametrize(
    "seed", [*range(_MOST), *(pytest.param(n, marks=pytest.mark.slow) for n in range(_MOST, 12))]
)
def test_no_limit_is_ever_passed_whatever_comes_together(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    story = Story(tmp_path / "story.db", max_running=5, burst=random.choice((None, 2)))
    story.world.start_engine(max_running=3)
    limits = {"disk": 2, "net": 1}
    for group, most in limits.items():
        story.client.limit_group(group, most)
    story.add("source", "*/2 * * * *")
    specs: dict[str, tuple[Policies, str | None]] = {}
    for number in range(14):
        name = f"s{number}"
        policies = Policies(
            overlap=random.choice(list(Overlap)),
            max_running=random.choice((None, 1, 2)),
            catch_up=random.choice(list(CatchUp)),
            retries=random.choice((0, 2)),
            retry_delay_s=20,
            priority=random.choice((-10, 0, 10)),
            needs=random.choice(((), (), ("success:source:3m",))),
        )
        own = random.choice((None, *limits))
        scopes = random.choice(((("global", ""),), (("device", "a"), ("device", "b"))))
        trigger = random.choice(("* * * * *", "after source:any", "*/3 * * * *"))
        code = random.choice((0, 0, 1))
        story.add(name, trigger, lasts_s=random.choice((5, 90, 200)), code=code,
                  policies=policies, group=own, scopes=scopes)  # fmt: skip
        specs[name] = (policies, own)

    for _ in range(60):
        story.world.clock.advance_ms(random.choice((5_000, 20_000, 60_000, 240_000)))
        if random.random() < 0.4:
            story.client.run_now(random.choice(list(specs)))
        for key in random.sample(list(story.world.engines), k=2):
            story.world.step(key)
        check(story, specs, limits)


def check(
    story: Story, specs: dict[str, tuple[Policies, str | None]], limits: dict[str, int]
) -> None:
    now = running(story)
    scopes = Counter((run.schedule, run.scope_id) for run in now)
    for (name, _), count in scopes.items():
        if name in specs:
            policies, _group = specs[name]
            default = None if policies.overlap is Overlap.ALLOW else 1
            most = policies.max_running or default
            assert most is None or count <= most, (name, count)
    groups = Counter(specs[run.schedule][1] for run in now if run.schedule in specs)
    for group, most in limits.items():
        assert groups[group] <= most, group
    late = (Cause.CATCH_UP, Cause.BACKFILL)
    for engine, _ in story.world.engines.values():
        mine = [run for run in now if run.engine_id == engine.engine_id]
        assert len(mine) <= engine.settings.places
        assert sum(run.cause in late for run in mine) <= max(1, engine.settings.places // 4)


def test_any_number_of_queued_runs_that_can_not_be_read_is_ended(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=1)
    story.add("many", "@yearly", policies=Policies(overlap=Overlap.ALLOW))
    story.add("one", "@yearly")
    story.client.run_now("one")
    story.engine.step()
    for _ in range(2):
        story.client.enqueue("many", [None] * 600)
    database = Database(story.world.path)
    with database.transaction():
        database.change("UPDATE schedule_revisions SET snapshot = '{}'")
        database.change("UPDATE schedules SET job = '{' WHERE name = 'many'")
    database.close()

    settle(story)

    counts = Counter(run.status for run in story.client.history(limit=2_000))
    assert counts == {Status.SUCCESS: 1, Status.FAILED: 1_200}
