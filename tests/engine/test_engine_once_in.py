"""The trigger `once in`, told as stories: what starts in a window, what waits, what is missed."""

from __future__ import annotations

from datetime import UTC, timedelta
from pathlib import Path

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.base.units import from_ms, to_ms
from edgecron.model.options import Policies
from edgecron.views.outlook import Verdict
from edgecron.views.run_words import run_sentence
from tests.support.laptop import Laptop
from tests.support.story import START_MS

HOUR_S = 3600
NIGHT = "once in 21:00-05:00 when ac-power"  # The story begins at 20:00.
OPENS = from_ms(START_MS + HOUR_S * 1000)
CLOSES = OPENS + timedelta(hours=8)


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


def sleep_s(laptop: Laptop, seconds: float) -> None:
    """Let time pass as the engine sleeps and wakes."""
    until_ms = laptop.clock.now_ms() + round(seconds * 1000)
    while laptop.clock.now_ms() < until_ms:
        laptop.wake_after_s((until_ms - laptop.clock.now_ms()) / 1000)


def test_a_run_starts_at_the_opening_if_its_condition_holds(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT)

    sleep_s(laptop, 26 * HOUR_S)

    first, second = laptop.story.runs("backup")
    assert (first.started_at, second.started_at) == (OPENS, OPENS + timedelta(days=1))


def test_a_run_waits_in_its_window_until_its_conditions_hold(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT)
    laptop.machine.set_on_mains(False)

    sleep_s(laptop, 3 * HOUR_S)
    waiting = laptop.shown("backup")
    laptop.machine.set_on_mains(True)
    laptop.report()
    laptop.story.after_s(0)

    assert waiting == ["waits for ac-power"]
    [run] = laptop.story.runs("backup")
    assert run.started_at == OPENS + timedelta(hours=2)


def test_conditions_of_the_schedule_count_too(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT, policies=Policies(needs=("online",)))
    laptop.machine.set_routes()

    sleep_s(laptop, 2 * HOUR_S)

    assert laptop.shown("backup") == ["waits for online"]


def test_the_wait_ends_early_enough_for_a_usual_run(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT, lasts_s=HOUR_S)
    sleep_s(laptop, 12 * HOUR_S)
    laptop.machine.set_on_mains(False)

    sleep_s(laptop, 14 * HOUR_S)
    waiting = laptop.story.runs("backup")[-1]
    sleep_s(laptop, 8 * HOUR_S)

    assert waiting.wait_until == CLOSES + timedelta(days=1) - timedelta(hours=1)
    given_up = laptop.story.runs("backup")[-1]
    assert (given_up.status, given_up.reason) == ("skipped", "condition")
    assert given_up.error_msg == "needed AC power, which was not true within 7h"
    assert given_up.finished_at == waiting.wait_until


def test_a_machine_that_wakes_within_the_window_runs_the_job(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT)

    laptop.clock.advance_ms(6 * HOUR_S * 1000)
    laptop.story.after_s(0)

    [run] = laptop.story.runs("backup")
    assert (run.plan_at, run.started_at) == (OPENS, from_ms(laptop.clock.now_ms()))
    assert run.status == "success"


def test_what_is_unknown_after_the_deadline_is_awaited_for_a_moment(laptop: Laptop) -> None:
    late = Policies(needs_deadline_s=60)
    command = "once in 21:00-05:00 when command:job 4 0"
    laptop.story.add("mains", NIGHT, policies=late)
    laptop.story.add("battery", NIGHT.replace("when ", "when not:"), policies=late)
    laptop.story.add("command", command, policies=late)

    laptop.clock.suspend_ms(6 * HOUR_S * 1000)
    sleep_s(laptop, 60)

    # The machine is distrusted for 10 s, and the command takes 4 s.
    for name in ("mains", "command"):
        [run] = laptop.story.runs(name)
        assert run.started_at is not None, name
        assert run.status == "success", name
    assert laptop.shown("battery") == ["skipped:condition"]


def test_a_machine_that_wakes_after_the_window_misses_it(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT)

    laptop.clock.advance_ms(9 * HOUR_S * 1000)
    laptop.story.after_s(0)

    assert laptop.shown("backup") == ["skipped:misfire"]
    [run] = laptop.story.runs("backup")
    spec = laptop.story.client.schedule("backup").spec
    words = run_sentence(run, zone=UTC, now=from_ms(laptop.clock.now_ms()), spec=spec)
    assert words.endswith(", and its window has closed.")


def test_a_restart_within_the_window_runs_the_job_only_once(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT)
    sleep_s(laptop, 2 * HOUR_S)

    laptop.story.world.kill_engine(laptop.story.key)
    laptop.story.key = laptop.story.world.start_engine()
    sleep_s(laptop, 2 * HOUR_S)

    assert laptop.story.bodies("backup") == 1


def test_a_clock_that_is_set_back_over_the_opening_runs_the_job_only_once(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT)
    sleep_s(laptop, 1.5 * HOUR_S)

    laptop.clock.set_ms(laptop.clock.now_ms() - HOUR_S * 1000)
    sleep_s(laptop, 3 * HOUR_S)

    assert laptop.story.bodies("backup") == 1


def test_no_retry_starts_after_the_window(laptop: Laptop) -> None:
    policies = Policies(retries=3, retry_delay_s=5 * HOUR_S, retry_max_delay_s=5 * HOUR_S)
    laptop.story.add("backup", NIGHT, code=1, policies=policies)

    sleep_s(laptop, 14 * HOUR_S)

    *failed, last = laptop.story.runs("backup")
    assert [run.status for run in failed] == ["failed", "failed"]
    assert (last.status, last.reason) == ("skipped", "excluded")
    assert last.error_msg == "it could not start before its window closed"


def test_a_manual_run_needs_no_window(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT)
    laptop.machine.set_on_mains(False)

    laptop.story.client.run_now("backup")
    laptop.story.after_s(0)

    assert laptop.shown("backup") == ["success"]


def test_a_run_can_be_moved_only_within_its_window(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT)
    client = laptop.story.client

    for hours in (-0.5, 8):
        with pytest.raises(InvalidInput, match="outside of the window"):
            client.reschedule("backup", OPENS + timedelta(hours=hours))
    client.reschedule("backup", OPENS + timedelta(hours=7))
    sleep_s(laptop, 9 * HOUR_S)

    [run] = laptop.story.runs("backup")
    assert run.started_at == OPENS + timedelta(hours=7)


def test_why_explains_each_time_of_a_window(laptop: Laptop) -> None:
    laptop.story.add("backup", NIGHT)
    client = laptop.story.client
    coming = client.explain("backup", OPENS + timedelta(hours=3))
    outside = client.explain("backup", OPENS + timedelta(hours=9))
    laptop.machine.set_on_mains(False)
    sleep_s(laptop, 2 * HOUR_S)

    waiting = client.explain("backup", OPENS + timedelta(hours=3))

    assert (coming.verdict, coming.plan_at) == (Verdict.COMING, OPENS)
    assert outside.verdict is Verdict.NO_TIME
    assert (waiting.verdict, waiting.runs[0].waiting_for) == (Verdict.RECORDED, "ac-power")


def test_without_conditions_each_schedule_starts_at_its_own_time_of_the_window(
    laptop: Laptop,
) -> None:
    laptop.story.add_many(8, "tidy", "once in 21:00-05:00")
    coming = {f"tidy{each}": laptop.story.client.schedule(f"tidy{each}") for each in range(8)}

    sleep_s(laptop, 12 * HOUR_S)

    starts = set()
    for name, schedule in coming.items():
        [run] = laptop.story.runs(name)
        assert run.started_at is not None
        assert run.started_at == schedule.next_run_at
        assert to_ms(OPENS) <= to_ms(run.started_at) <= to_ms(OPENS) + 4 * HOUR_S * 1000
        starts.add(run.started_at)
    assert len(starts) == 8
