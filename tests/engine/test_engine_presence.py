"""Why a time was missed: asleep, off or killed, stopped by somebody, stalled, a wrong clock."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from edgecron.base.errors import DatabaseBusy
from edgecron.model.choices import CatchUp, MissedBy, Overlap, Reason
from edgecron.model.options import Policies
from edgecron.views.run_words import run_sentence
from tests.support.story import Story

HOUR_MS = 3_600_000
HELSINKI = ZoneInfo("Europe/Helsinki")
NEVER = Policies(catch_up=CatchUp.SKIP)


def missed(story: Story, name: str = "hourly") -> list[tuple[str | None, int | None]]:
    return [
        (run.error_code, run.missed_count)
        for run in story.runs(name)
        if run.reason is Reason.MISFIRE
    ]


def why(story: Story, name: str) -> str:
    """The last run of a schedule in words."""
    return run_sentence(story.runs(name)[-1], zone=HELSINKI, now=story.client.now())


@pytest.fixture
def at_work(story: Story) -> Story:
    """An engine that runs one schedule on time, and never one that it missed; and a second one,
    which it catches up once."""
    story.add("hourly", "0 * * * *", policies=NEVER)
    story.add("once", "30 * * * *")
    for _ in range(9):
        story.after_s(600)
    return story


def restart(story: Story, *, after_ms: int) -> None:
    story.world.clock.advance_ms(after_ms)
    story.key = story.world.start_engine()
    story.after_s(0)
    story.after_s(1)


def test_a_machine_that_slept(at_work: Story) -> None:
    at_work.world.clock.suspend_ms(5 * HOUR_MS)
    at_work.after_s(1)
    at_work.after_s(1)

    assert missed(at_work) == [("asleep", 5)]
    assert "the machine was asleep, and the catch-up policy skipped them" in why(at_work, "hourly")
    caught_up = why(at_work, "once")
    assert "it catches up the missed time 04:30:00" in caught_up
    assert "(the machine was asleep); it succeeded" in caught_up


def test_an_engine_that_somebody_stopped(at_work: Story) -> None:
    at_work.engine.retire()
    at_work.world.lose_engine(at_work.key)
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [("stopped", 5)]
    assert "the last one was stopped at Mar 08 23:30," in why(at_work, "hourly")
    assert "(no engine was running: the last one was stopped)" in why(at_work, "once")


def test_an_engine_that_was_drained_and_resumed(at_work: Story) -> None:
    [state] = at_work.client.engines()
    at_work.client.drain_engine(state.info.id)
    at_work.after_s(1)
    at_work.after_s(5 * HOUR_MS // 1000)
    at_work.client.resume_engine(state.info.id)
    at_work.after_s(1)
    at_work.after_s(1)

    assert missed(at_work) == [("stopped", 5)]
    assert "the engine was drained, and the catch-up policy skipped them" in why(at_work, "hourly")


def test_engines_that_each_ran_one_run_hide_no_other(at_work: Story) -> None:
    at_work.engine.retire()
    at_work.world.lose_engine(at_work.key)
    store, now_ms = at_work.client.store, at_work.world.clock.now_ms()
    for number in range(60):
        engine_id = store.register_engine(
            key=f"{number:016x}", pid=1, boot_id="b", queues=(), now_ms=now_ms
        )
        store.close_queues(engine_id, now_ms=now_ms + HOUR_MS)
        store.retire_engine(engine_id, now_ms=now_ms)
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [("stopped", 5)]


def test_an_engine_that_was_told_to_stop_and_left_runs(at_work: Story) -> None:
    at_work.engine.note_draining()
    at_work.engine.retire()
    at_work.world.lose_engine(at_work.key)
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [("stopped", 5)]


@pytest.mark.parametrize(
    ("queues", "missed_by"),
    [(("py:shop",), MissedBy.OFF), (("py:shop", "command"), MissedBy.STOPPED)],
)
def test_an_engine_of_a_program_explains_only_what_it_took(
    at_work: Story, queues: tuple[str, ...], missed_by: MissedBy
) -> None:
    store, clock = at_work.client.store, at_work.world.clock
    program = store.register_engine(
        key="f" * 16, pid=1, boot_id=clock.boot_id(), queues=queues, now_ms=clock.now_ms()
    )
    at_work.world.kill_engine(at_work.key)
    for _ in range(2):  # as after a commit whose outcome was unknown
        store.close_queues(program, now_ms=clock.now_ms())
    store.retire_engine(program, now_ms=clock.now_ms())
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [(missed_by, 5)]


def test_an_engine_that_was_killed(at_work: Story) -> None:
    at_work.world.kill_engine(at_work.key)
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [("off", 5)]
    assert "the last one was killed; it was last seen at Mar 08 23:" in why(at_work, "hourly")


def test_a_machine_that_was_off(at_work: Story) -> None:
    at_work.world.reboot()
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [("off", 5)]
    assert "the machine was off or restarted" in why(at_work, "hourly")


def test_who_was_killed_is_told_from_who_was_stopped_after_another_has_cleared_up(
    at_work: Story,
) -> None:
    at_work.world.kill_engine(at_work.key)
    other = at_work.world.start_engine()
    at_work.world.engines[other][0].step()
    at_work.world.clock.advance_ms(61_000)
    at_work.world.engines[other][0].step()
    at_work.world.kill_engine(other)
    restart(at_work, after_ms=5 * HOUR_MS)

    assert [code for code, _ in missed(at_work)] == ["off"]


def test_an_engine_that_was_stalled(at_work: Story) -> None:
    at_work.after_s(5 * 3600)
    at_work.after_s(1)

    assert missed(at_work) == [("stalled", 5)]
    assert "an engine was running, but did not start it in time" in why(at_work, "hourly")


def test_a_database_that_could_not_be_used(at_work: Story) -> None:
    at_work.world.fault_chance = 1.0
    with pytest.raises(DatabaseBusy):
        at_work.after_s(5 * 3600)
    at_work.world.fault_chance = 0.0
    at_work.after_s(1)
    at_work.after_s(1)
    caught_up = why(at_work, "once")
    at_work.after_s(2 * 3600)
    at_work.after_s(1)

    assert missed(at_work) == [("database", 5), ("stalled", 2)]
    [first, _] = [run for run in at_work.runs("hourly") if run.reason is Reason.MISFIRE]
    assert first.error_msg == "the engine could not use the database"
    assert "(the engine could not use the database)" in caught_up


def test_a_clock_that_was_set_forward(at_work: Story) -> None:
    at_work.world.clock.step_ms(5 * HOUR_MS)
    at_work.after_s(1)

    assert missed(at_work) == [("clock", 5)]
    assert "the clock was set forward past it" in why(at_work, "hourly")


def test_a_clock_that_could_not_be_trusted(at_work: Story) -> None:
    right_ms = at_work.world.clock.now_ms()
    at_work.world.clock.synchronised = False
    at_work.world.clock.set_ms(0)
    at_work.after_s(1)
    at_work.after_s(5 * 3600)
    at_work.world.clock.set_ms(right_ms + 5 * HOUR_MS)
    at_work.world.clock.synchronised = True
    at_work.after_s(1)
    at_work.after_s(1)

    assert missed(at_work) == [("clock", 5)]
    assert "the clock could not be trusted" in why(at_work, "hourly")


def distrust(story: Story, *, clock_ms: int = 0) -> None:
    """Let the clock be wrong, as on a machine without a battery, until `trust`."""
    story.world.clock.synchronised = False
    story.world.clock.set_ms(clock_ms)


def trust(story: Story, now_ms: int) -> None:
    story.world.clock.set_ms(now_ms)
    story.world.clock.synchronised = True
    story.after_s(1)
    story.after_s(1)


@pytest.mark.parametrize("is_stopped", [True, False])
def test_an_engine_that_was_started_again_before_the_clock_could_be_trusted(
    at_work: Story, is_stopped: bool
) -> None:
    right_ms = at_work.world.clock.now_ms()
    distrust(at_work)
    at_work.after_s(1)
    at_work.after_s(2 * 3600)
    if is_stopped:
        at_work.engine.note_draining()
        at_work.engine.retire()
        at_work.world.lose_engine(at_work.key)
    else:
        at_work.world.kill_engine(at_work.key)
    restart(at_work, after_ms=60_000)
    at_work.after_s(3 * 3600)
    trust(at_work, right_ms + 5 * HOUR_MS)

    assert missed(at_work) == [("clock", 5)]
    assert "the clock could not be trusted" in why(at_work, "hourly")
    assert [run.flags for run in at_work.runs("once") if run.flags] == [("missed:clock",)]


def test_an_engine_that_was_stopped_with_a_clock_that_could_not_be_trusted(
    at_work: Story,
) -> None:
    right_ms = at_work.world.clock.now_ms()
    distrust(at_work)
    at_work.after_s(1)
    at_work.after_s(600)
    at_work.engine.retire()
    at_work.world.lose_engine(at_work.key)
    at_work.world.clock.set_ms(right_ms + 600_000)
    at_work.world.clock.synchronised = True
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [("stopped", 5)]
    assert "the last one was stopped at Mar 08 23:40," in why(at_work, "hourly")


def test_a_machine_that_was_off_and_then_had_a_wrong_clock(at_work: Story) -> None:
    right_ms = at_work.world.clock.now_ms()
    at_work.world.reboot()
    distrust(at_work)
    restart(at_work, after_ms=0)
    at_work.after_s(3 * 3600)
    trust(at_work, right_ms + 5 * HOUR_MS)

    assert missed(at_work) == [("off", 2), ("clock", 3)]
    [caught_up] = [run for run in at_work.runs("once") if run.flags]
    assert caught_up.flags == ("missed:clock",)


def test_a_wrong_clock_until_the_machine_was_switched_off(at_work: Story) -> None:
    right_ms = at_work.world.clock.now_ms()
    at_work.world.reboot()
    distrust(at_work)
    restart(at_work, after_ms=0)
    at_work.after_s(3 * 3600)
    at_work.world.reboot()
    at_work.world.clock.set_ms(right_ms + 5 * HOUR_MS)
    at_work.world.clock.synchronised = True
    restart(at_work, after_ms=0)

    assert missed(at_work) == [("clock", 5)]
    assert "an engine ran, and could not trust its clock; before, the machine was off" in why(
        at_work, "hourly"
    )


def test_an_engine_that_started_with_a_clock_in_the_future_is_known_afterwards(
    at_work: Story,
) -> None:
    right_ms = at_work.world.clock.now_ms()
    at_work.engine.retire()
    at_work.world.lose_engine(at_work.key)
    distrust(at_work, clock_ms=right_ms + 3 * 366 * 24 * HOUR_MS)
    restart(at_work, after_ms=0)
    trust(at_work, right_ms + 60_000)
    at_work.world.reboot()
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [("off", 5)]


def test_an_engine_was_last_seen_no_earlier_than_a_run_that_it_started(at_work: Story) -> None:
    at_work.add("long", "at 2026-03-08T21:38:00Z", lasts_s=90_000)
    at_work.after_s(480)
    at_work.world.kill_engine(at_work.key)
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [("off", 5)]
    assert "it was last seen at Mar 08 23:38," in why(at_work, "hourly")


def test_a_run_that_another_engine_adopted_counts_for_the_one_that_started_it(
    at_work: Story,
) -> None:
    at_work.add("long", "at 2026-03-08T21:38:00Z", lasts_s=90_000)
    at_work.after_s(480)
    claimed_ms = at_work.world.clock.now_ms()
    at_work.world.kill_engine(at_work.key)
    restart(at_work, after_ms=5 * HOUR_MS)

    [_, first] = at_work.client.store.find_presence(("command",), but=0)
    assert (first.has_died, first.seen_ms) == (True, claimed_ms)


def test_an_engine_was_last_seen_no_earlier_than_the_end_of_a_run(at_work: Story) -> None:
    at_work.add("short", "at 2026-03-08T21:33:00Z", lasts_s=60)
    at_work.after_s(180)
    at_work.after_s(61)
    at_work.world.kill_engine(at_work.key)
    restart(at_work, after_ms=5 * HOUR_MS)

    assert missed(at_work) == [("off", 5)]
    assert "it was last seen at Mar 08 23:34" in why(at_work, "hourly")


def test_the_end_of_a_run_that_outlived_its_engine_does_not_count_as_its_last_time(
    at_work: Story,
) -> None:
    at_work.add("outlives", "at 2026-03-08T21:33:00Z", lasts_s=60)
    at_work.after_s(180)
    at_work.world.kill_engine(at_work.key)
    restart(at_work, after_ms=5 * HOUR_MS)

    assert "it was last seen at Mar 08 23:33," in why(at_work, "hourly")


def test_no_engine_before_the_first(story: Story) -> None:
    story.add("hourly", "0 * * * *", policies=NEVER)
    story.world.kill_engine(story.key)
    restart(story, after_ms=5 * HOUR_MS)

    assert missed(story) == [("off", 5)]


def test_ranges_of_other_causes_are_rows_of_their_own(at_work: Story) -> None:
    at_work.world.clock.suspend_ms(2 * HOUR_MS)
    at_work.after_s(1)
    at_work.after_s(2 * 3600)
    at_work.after_s(1)

    assert missed(at_work) == [("asleep", 2), ("stalled", 2)]


@pytest.mark.of_file
def test_an_idle_engine_records_no_presence(story: Story) -> None:
    story.add("yearly", "0 0 1 1 *")
    story.after_s(60)
    story.after_s(60)
    log = story.world.path.with_name(story.world.path.name + "-wal")
    before = log.read_bytes()

    for _ in range(20):
        story.after_s(3600)

    assert log.read_bytes() == before


def test_a_run_that_catches_up_keeps_the_cause_as_a_flag_after_its_end(at_work: Story) -> None:
    at_work.world.clock.suspend_ms(5 * HOUR_MS)
    at_work.after_s(1)
    at_work.after_s(1)

    [run] = [one for one in at_work.runs("once") if one.flags]
    assert (run.status, run.flags) == ("success", (f"missed:{MissedBy.ASLEEP}",))


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.REPLACE])
def test_a_run_that_catches_up_keeps_the_cause_if_its_end_was_requested(
    story: Story, overlap: Overlap
) -> None:
    story.add("long", "30 * * * *", lasts_s=90_000, policies=Policies(overlap=overlap))
    story.after_s(1)
    story.world.clock.suspend_ms(5 * HOUR_MS)
    story.after_s(1)
    running = story.runs("long")[-1]

    if overlap is Overlap.SKIP:
        story.client.store.request_cancel(running.id, now_ms=story.world.clock.now_ms())
    for _ in range(12):  # a newer run replaces the other one
        story.after_s(600)

    [ended] = [run for run in story.runs("long") if run.id == running.id]
    reason = Reason.REQUEST if overlap is Overlap.SKIP else Reason.REPLACED
    assert (running.status, running.flags) == ("running", (f"missed:{MissedBy.ASLEEP}",))
    assert (ended.status, ended.reason, ended.flags) == ("cancelled", reason, running.flags)


def test_a_catch_up_that_is_cancelled_before_it_starts_keeps_the_cause(story: Story) -> None:
    for number in range(8):
        story.add(f"full{number}", "at 2026-03-08T20:00:30Z", lasts_s=90_000)
    story.add("once", "30 * * * *")
    story.after_s(60)
    story.world.clock.suspend_ms(5 * HOUR_MS)
    story.after_s(1)
    waiting = story.runs("once")[-1]

    story.client.cancel(waiting.id)

    [ended] = [run for run in story.runs("once") if run.id == waiting.id]
    assert (waiting.status, waiting.flags) == ("queued", (f"missed:{MissedBy.ASLEEP}",))
    assert (ended.status, ended.reason) == ("cancelled", Reason.REQUEST)
    assert ended.flags == waiting.flags


def test_an_engine_that_does_not_take_a_schedule_does_not_count(story: Story) -> None:
    story.add("hourly", "0 * * * *", policies=Policies(catch_up=CatchUp.SKIP, on="web1"))
    story.after_s(1)
    story.after_s(5 * HOUR_MS // 1000)
    bystander = story.key

    story.key = story.world.start_engine(machine="web1")
    story.after_s(1)

    assert bystander in story.world.engines
    assert missed(story) == [("off", 5)]
    assert "no engine was running" in why(story, "hourly")
