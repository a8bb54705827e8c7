"""Turns: however much of one schedule waits, every other schedule gets its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.base.units import from_ms
from edgecron.base.values import replace
from edgecron.model.choices import CatchUp, JobKind, Overlap, Status
from edgecron.model.job import Job
from edgecron.model.options import Policies
from tests.support.specs import make_spec
from tests.support.story import Story
from tests.support.working import work_of


def _scopes(count: int) -> tuple[tuple[str, str], ...]:
    return tuple(("device", f"d{number}") for number in range(count))


def _crowded(path: Path, count: int, *, lasts_s: int = 3, places: int = 2) -> Story:
    """A schedule of many scopes that was just fired, and more of them wait than have places."""
    story = Story(path, max_running=places)
    story.add("many", "@yearly", lasts_s=lasts_s, scopes=_scopes(count))
    story.add("often", "every 10s", lasts_s=1)
    story.client.run_now("many")
    story.after_s(0)
    return story


def test_a_thousand_scopes_of_one_schedule_keep_no_other_waiting(tmp_path: Path) -> None:
    story = _crowded(tmp_path / "story.db", 1000)

    for _ in range(100):
        story.after_s(1)

    *runs, newest = story.runs("often")
    assert newest.due_at == from_ms(story.world.clock.now_ms())
    assert [run.status for run in runs] == [Status.SUCCESS] * 9
    waits_s = [(run.started_at - run.due_at).total_seconds() for run in runs if run.started_at]
    assert max(waits_s) <= 3  # One run of the other schedule is waited for.


def test_several_schedules_of_many_scopes_all_get_on(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=4)
    for name in ("first", "second", "third"):
        story.add(name, "@yearly", lasts_s=1, scopes=_scopes(100))
        story.client.run_now(name)

    for _ in range(20):
        story.after_s(1)

    assert all(story.bodies(name) >= 15 for name in ("first", "second", "third"))


def test_priority_goes_before_turns(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=2)
    story.add("many", "@yearly", lasts_s=3, scopes=_scopes(20), policies=Policies(priority=10))
    story.add("often", "every 10s", lasts_s=1)
    story.client.run_now("many")
    story.after_s(0)

    for _ in range(20):
        story.after_s(1)

    assert story.bodies("often") == 0


def test_runs_by_hand_of_one_schedule_take_turns_with_others(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=2)
    story.add("asked", "@yearly", lasts_s=3, policies=Policies(overlap=Overlap.ALLOW))
    story.add("often", "every 10s", lasts_s=1)
    for _ in range(60):
        story.client.run_now("asked")
    story.after_s(0)

    for _ in range(45):
        story.after_s(1)

    assert story.bodies("often") == 4


def test_what_an_engine_decides_late_costs_little_more_and_no_more_the_later_it_is(
    tmp_path: Path,
) -> None:
    job = Job(kind=JobKind.COMMAND, argv=("job", "0", "0"))
    spec = replace(make_spec("s", "every 1s"), job=job)

    def cost_of_a_fire(count: int, *, late_s: int) -> float:
        story = Story(tmp_path / f"{count}-{late_s}.db", max_running=count)
        story.client.add_all([replace(spec, name=f"s{number}") for number in range(count)])
        while len(story.world.bodies) < count:
            story.after_s(1 if not story.world.bodies else 0)
        story.after_s(0)
        story.world.clock.advance_ms(late_s * 1000)
        claimed = 0
        with work_of(story.world.engines[story.key][1]) as work:
            while claimed < count:
                claimed += story.engine.step().claimed
        return work.steps / count

    on_time = cost_of_a_fire(100, late_s=1)
    late = cost_of_a_fire(100, late_s=3)

    assert late <= 3 * on_time
    assert cost_of_a_fire(100, late_s=50) <= 1.2 * late
    assert cost_of_a_fire(400, late_s=3) <= 1.5 * late


@pytest.mark.parametrize("kind", ["statements", "steps"])
def test_what_a_place_costs_does_not_grow_with_the_scopes_that_wait(
    tmp_path: Path, kind: str
) -> None:
    def cost(count: int) -> int:
        story = _crowded(tmp_path / f"{count}.db", count)
        story.after_s(3)
        database = story.world.engines[story.key][1]
        before = story.bodies("many")
        with work_of(database) as work:
            for _ in range(5):
                story.after_s(3)
        assert story.bodies("many") - before >= 5
        return int(getattr(work, kind))

    assert cost(2000) <= 1.5 * cost(100)


def test_a_backlog_that_gets_no_place_takes_no_turn_from_others(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=3)
    backlog = Policies(catch_up=CatchUp.ALL, overlap=Overlap.ALLOW)
    story.add("slow", "every 1h", lasts_s=100_000)
    story.add("backlog", "every 10m", lasts_s=400, policies=backlog)
    story.add("many", "@yearly", lasts_s=3, scopes=_scopes(300))
    story.add("often", "every 10s", lasts_s=1)
    story.after_s(5 * 3600)
    for _ in range(10):
        story.after_s(1)

    story.client.run_now("many")
    asked_at = from_ms(story.world.clock.now_ms())
    for _ in range(60):
        story.after_s(1)

    # The one place for late runs is taken: the backlog waits, before all others by due time.
    assert "running" in story.statuses("slow")
    assert story.bodies("backlog") == 0
    runs = [run for run in story.runs("often") if run.due_at > asked_at][:-1]
    assert [run.status for run in runs] == [Status.SUCCESS] * 5
    waits_s = [(run.started_at - run.due_at).total_seconds() for run in runs if run.started_at]
    assert max(waits_s) <= 3
