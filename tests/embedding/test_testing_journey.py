"""edgecron.embedding.testing: a Scheduler in a time of its own, which its test moves."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from edgecron import RunContext, RunEvent, Scheduler, every
from edgecron.base.errors import Conflict, InvalidInput
from edgecron.embedding.testing import Journey, travel

START = datetime(2026, 3, 28, tzinfo=UTC)  # the day before clocks go forward in Berlin
BOUND_S = 20.0


def at(hour: int, minute: int = 0, second: float = 0, *, day: int = 28) -> datetime:
    return datetime(2026, 3, day, tzinfo=UTC) + timedelta(
        hours=hour, minutes=minute, seconds=second
    )


def statuses(journey: Journey, name: str) -> list[str]:
    return [f"{run.status} {run.reason or ''}".strip() for run in journey.runs(name)]


@pytest.fixture
def scheduler(tmp_path: Path) -> Scheduler:
    return Scheduler(tmp_path / "app.db")


def test_a_day_has_every_fire_at_its_time_and_its_result(scheduler: Scheduler) -> None:
    counted = []

    @scheduler.job(every("5m"))
    def poll(host: str = "plc1") -> int:
        counted.append(host)
        return len(counted)

    @scheduler.job("30 2 * * *", timezone="Europe/Berlin")
    def backup() -> None: ...

    with travel(scheduler, START) as journey:
        journey.advance(days=1)

        assert journey.now == at(0, day=29)
        assert journey.fired(poll) == [at(0, 5 * count) for count in range(1, 289)]
        assert [run.result for run in journey.runs(poll)] == list(range(1, 289))
        assert journey.fired("backup") == [at(1, 30)]
    assert counted == ["plc1"] * 288


def test_what_runs_at_one_instant_runs_in_order_at_that_instant(scheduler: Scheduler) -> None:
    called: list[tuple[str, datetime]] = []

    @scheduler.job("@hourly")
    def first() -> None:
        called.append(("first", journey.now))

    @scheduler.job("after first")
    def second() -> None:
        called.append(("second", journey.now))

    with travel(scheduler, START) as journey:
        journey.advance(hours=2)

    assert called == [
        ("first", at(1)),
        ("second", at(1)),
        ("first", at(2)),
        ("second", at(2)),
    ]


def test_the_night_that_clocks_go_forward_has_the_backup_once(scheduler: Scheduler) -> None:
    @scheduler.job("30 2 * * *", timezone="Europe/Berlin")
    def backup() -> None: ...

    with travel(scheduler, START) as journey:
        journey.advance(days=3)

        assert journey.fired(backup) == [at(1, 30), at(1, day=29), at(0, 30, day=30)]


def test_nothing_is_touched_but_a_database_of_its_own(scheduler: Scheduler) -> None:
    @scheduler.job("@hourly")
    def poll() -> int:
        return 4

    before = threading.active_count()
    with travel(scheduler, START) as journey:
        journey.advance(hours=1)
        inside = (scheduler.path, threading.active_count())

    assert not scheduler.path.exists()
    assert not inside[0].exists()
    assert inside[1] == before
    with scheduler:
        assert poll.run_now().wait(BOUND_S).result == 4
    assert len(poll.history()) == 1


def test_a_retry_comes_after_its_delay(scheduler: Scheduler) -> None:
    @scheduler.job("@hourly", retries=2, retry_delay="1m")
    def poll(run: RunContext) -> int:
        if not run.is_last_attempt:
            raise TimeoutError("plc1 is silent")
        return run.attempt

    with travel(scheduler, START) as journey:
        journey.advance(hours=1, minutes=30)

        runs = journey.runs(poll)
        assert statuses(journey, "poll") == ["failed exception", "failed exception", "success"]
        assert runs[-1].result == 3
        assert journey.fired(poll) == [at(1)]
        delays = [run.started_at for run in runs]
        assert delays[0] == at(1)
        assert delays[1] is not None
        assert delays[2] is not None
        assert timedelta(minutes=1) <= delays[1] - at(1) <= timedelta(minutes=2)
        assert delays[2] > delays[1]


def test_a_coroutine_sleeps_in_the_time_of_the_journey_and_others_go_on(
    scheduler: Scheduler,
) -> None:
    called: list[tuple[str, datetime]] = []

    @scheduler.job("0 * * * *")
    async def slow() -> str:
        await asyncio.sleep(1800)
        called.append(("slow", journey.now))
        return await asyncio.to_thread(lambda: "slept")

    @scheduler.job("10 * * * *")
    async def quick() -> None:
        called.append(("quick", journey.now))

    with travel(scheduler, START) as journey:
        journey.advance(hours=2)

        assert called == [("quick", at(0, 10)), ("quick", at(1, 10)), ("slow", at(1, 30))]
        done, going_on = journey.runs(slow)
        assert (done.result, done.execution.duration_ms) == ("slept", 1_800_000)
        assert going_on.is_active


def test_a_coroutine_is_cancelled_at_its_timeout(scheduler: Scheduler) -> None:
    @scheduler.job("@hourly", timeout="30s")
    async def slow() -> None:
        await asyncio.sleep(3600)

    with travel(scheduler, START) as journey:
        journey.advance(hours=1, minutes=1)

        [run] = journey.runs(slow)
        assert (run.status, run.reason, run.finished_at) == ("failed", "timeout", at(1, 0, 30))


def test_a_function_that_lets_time_pass_can_be_over_its_timeout(scheduler: Scheduler) -> None:
    @scheduler.job("@hourly", timeout="30s")
    def slow() -> None:
        journey.clock.advance_ms(31_000)

    with travel(scheduler, START) as journey:
        journey.advance(hours=1)

        assert statuses(journey, "slow") == ["failed timeout"]
        assert journey.now == at(1, 0, 31)


def test_what_lasts_overlaps_what_comes_meanwhile(scheduler: Scheduler) -> None:
    @scheduler.job(every("5m"))
    def poll() -> datetime | str:
        return journey.now.isoformat()

    with travel(scheduler, START) as journey:
        journey.lasts(poll, minutes=7)
        journey.advance(minutes=21)

        assert statuses(journey, "poll") == [
            "success",
            "skipped overlap",
            "running",
            "skipped overlap",
        ]
        run = journey.runs(poll)[0]
        assert (run.started_at, run.finished_at) == (at(0, 5), at(0, 12))
        assert run.result == at(0, 12).isoformat()


def test_a_run_by_hand_runs_when_the_journey_settles_or_it_is_waited_for(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("@daily", retries=1, retry_delay="10m")
    def poll(run: RunContext, host: str = "plc1") -> str:
        if run.attempt == 1 and host == "plc3":
            raise TimeoutError(host)
        return host

    with travel(scheduler, START) as journey:
        first = poll.run_now("plc2")
        journey.settle()
        assert first.refresh().result == "plc2"
        assert journey.now == START

        second = poll.run_now("plc3").wait()
        assert (second.result, second.attempt) == ("plc3", 2)
        assert journey.now >= START + timedelta(minutes=10)

        journey.lasts(poll, hours=1)
        third = poll.run_now()
        with pytest.raises(TimeoutError, match=r"is running at .* no later event ends it"):
            third.wait(60)


def test_a_program_that_was_used_before_enqueues_in_the_journey_and_afterwards_not(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("@daily")
    def poll() -> int:
        return 7

    before = poll.run_now()
    with travel(scheduler, START) as journey:
        assert poll.run_now().get() == 7
        assert len(journey.runs(poll)) == 1
    after = poll.run_now()

    assert [one.id for one in poll.history()] == [after.id, before.id]


def test_to_wait_for_a_run_that_ends_now_takes_no_time(scheduler: Scheduler) -> None:
    @scheduler.job("@hourly", retries=1, retry_delay=0)
    def poll(run: RunContext) -> int:
        if run.attempt == 1:
            raise OSError("no plc")
        return run.attempt

    with travel(scheduler, START) as journey:
        assert poll.run_now().get() == 2
        assert journey.now == START
        assert [run.attempt for run in journey.runs(poll)] == [1, 2]


def test_a_run_is_awaited_and_coroutines_run_where_a_loop_runs_already(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("@daily")
    async def poll() -> int:
        await asyncio.sleep(60)
        return 4

    async def main() -> int | None:
        with travel(scheduler, START) as journey:
            run = await poll.run_now()
            assert journey.now == START + timedelta(seconds=60)
            return run.result

    assert asyncio.run(main()) == 4


def test_a_pause_holds_and_a_resume_leaves_one_row(scheduler: Scheduler) -> None:
    @scheduler.job("@hourly")
    def poll() -> None: ...

    with travel(scheduler, START) as journey:
        poll.pause()
        journey.advance(hours=3, minutes=30)
        poll.resume()
        journey.advance(hours=1)

        skipped, run = journey.runs(poll)
        assert (skipped.reason, skipped.execution.missed_count) == ("paused", 3)
        assert run.plan_at == at(4)


def test_a_machine_that_slept_catches_up_once(scheduler: Scheduler) -> None:
    @scheduler.job(every("1h"))
    def poll() -> None: ...

    with travel(scheduler, START) as journey:
        journey.sleep(hours=5, minutes=30)

        assert statuses(journey, "poll") == ["skipped misfire", "success"]
        skipped, run = journey.runs(poll)
        assert skipped.execution.missed_count == 4
        assert (run.plan_at, run.started_at) == (at(5), at(5, 30))


def test_after_a_crash_what_ran_is_interrupted_and_after_a_boot_what_is_to_runs(
    scheduler: Scheduler,
) -> None:
    @scheduler.job(every("1h"))
    def poll() -> None: ...

    @scheduler.job("every 1h")
    async def follow() -> None:
        await asyncio.sleep(600)

    @scheduler.job("on boot")
    def greet() -> None: ...

    with travel(scheduler, START) as journey:
        journey.lasts(poll, minutes=10)
        journey.advance(hours=1, minutes=5)
        journey.crash(minutes=1)
        journey.advance(minutes=30)

        assert statuses(journey, "poll") == ["interrupted lost"]
        assert statuses(journey, "follow") == ["interrupted lost"]
        assert journey.fired(greet) == []

        journey.reboot(minutes=1)

        assert journey.fired(greet) == [journey.now]


def test_what_is_owed_waits_for_its_condition_or_its_deadline(scheduler: Scheduler) -> None:
    @scheduler.job("@yearly")
    def backup() -> None: ...

    @scheduler.job("@hourly", needs="success:backup:1h", needs_deadline="30m")
    def report() -> None: ...

    with travel(scheduler, START) as journey:
        journey.advance(hours=1, minutes=10)
        backup.run_now()
        journey.advance(hours=2)

        told = [
            (one.kind, one.at, one.waiting_for)
            for one in journey.events("started", "owed", "skipped", job=report)
        ]
        assert told == [
            ("owed", at(1), "success:backup:1h"),
            ("started", at(1, 10), None),
            ("started", at(2), None),
            ("owed", at(3), "success:backup:1h"),
        ]
        journey.advance(minutes=20)
        assert statuses(journey, "report")[-1] == "skipped condition"


def test_a_run_that_goes_on_can_be_cancelled(scheduler: Scheduler) -> None:
    @scheduler.job("@hourly")
    def poll() -> None: ...

    scheduler.add("rotate", "@hourly", command=["logrotate"])

    with travel(scheduler, START) as journey:
        journey.lasts(poll, minutes=10)
        journey.lasts("rotate", minutes=10)
        journey.advance(hours=1, minutes=1)
        for run in journey.runs():
            run.cancel()
        journey.settle()

        assert statuses(journey, "poll") == ["cancelled request"]
        assert statuses(journey, "rotate") == ["cancelled request"]


def test_commands_are_not_started_unless_that_is_asked_for(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    scheduler.add("rotate", "@hourly", command=["touch", str(trace)])
    scheduler.add("say", "@hourly", shell="echo $EDGECRON_SCHEDULE $X; exit 3", env={"X": "y"})

    with travel(scheduler, START) as journey:
        journey.advance(hours=1)
        assert statuses(journey, "rotate") == ["success"]
        assert not trace.exists()

    seen: list[tuple[str, ...]] = []

    def fail(argv: object) -> int:
        seen.append(tuple(argv))  # type: ignore[arg-type]
        return 7

    with travel(scheduler, START, commands=fail) as journey:
        journey.advance(hours=1)
        assert statuses(journey, "rotate") == ["failed exit"]
        assert [run.exit_code for run in journey.runs()] == [7, 7]
    assert sorted(seen) == [
        ("/bin/sh", "-c", "echo $EDGECRON_SCHEDULE $X; exit 3"),
        ("touch", str(trace)),
    ]

    with travel(scheduler, START, commands="run") as journey:
        journey.advance(hours=1)
        assert trace.exists()
        [said] = journey.runs("say")
        assert (said.exit_code, said.reason, said.output) == (3, "exit", "say y\n")

    with pytest.raises(InvalidInput, match="expected 'skip', 'run' or a function"):
        travel(scheduler, START, commands="runn").__enter__()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"command": ["/does/not/exist"]}, "spawn"),
        ({"command": ["true"], "cwd": "/nope"}, "spawn"),
        ({"command": ["true"], "env_file": "/nope"}, "spawn"),
        ({"shell": "echo begun; exec sleep 60", "timeout": "100ms"}, "timeout"),
    ],
)
def test_a_command_that_can_not_run_is_a_failed_run(
    scheduler: Scheduler, how: dict[str, Any], reason: str
) -> None:
    scheduler.add("bad", "@hourly", **how)

    with travel(scheduler, START, commands="run") as journey:
        journey.advance(hours=1)
        [bad] = journey.runs("bad")

    assert (bad.status, bad.reason, bad.exit_code) == ("failed", reason, None)
    assert bad.error


def test_a_command_leaves_a_result_and_what_can_not_be_kept_is_flagged(
    scheduler: Scheduler,
) -> None:
    leave = 'echo {} > "$EDGECRON_RESULT"'
    scheduler.add("count", "@hourly", shell=leave.format("'{\"files\": 42}'"))
    scheduler.add("words", "@hourly", shell=leave.format("no JSON"))
    scheduler.add("none", "@hourly", command=["true"])

    with travel(scheduler, START, commands="run") as journey:
        journey.advance(hours=1)
        [count], [words], [none] = (journey.runs(name) for name in ("count", "words", "none"))

    assert (count.status, count.result) == ("success", {"files": 42})
    assert (words.status, words.result, words.flags) == ("success", None, ("result_invalid",))
    assert (none.result, none.flags) == (None, ())


def test_a_command_that_lasts_is_ended_at_its_timeout(scheduler: Scheduler) -> None:
    scheduler.add("rotate", "@hourly", command=["logrotate"], timeout="1m")

    with travel(scheduler, START) as journey:
        journey.lasts("rotate", minutes=5)
        journey.advance(hours=1, minutes=3)

        [run] = journey.runs("rotate")
        assert (run.status, run.reason, run.finished_at) == ("failed", "timeout", at(1, 1))


def in_a_process(run: RunContext, host: str = "plc1") -> str:
    run.progress(0.5, "half")
    run.state["host"] = host
    return f"{run.schedule} {host}"


async def slow_in_a_process() -> None:
    await asyncio.sleep(600)


def test_a_function_with_a_process_of_its_own_is_called_here(scheduler: Scheduler) -> None:
    job = scheduler.job("@hourly", process=True, name="poll")(in_a_process)
    slow = scheduler.job("@hourly", process=True, name="slow")(slow_in_a_process)

    with travel(scheduler, START) as journey:
        journey.advance(hours=1, minutes=5)
        journey.runs(slow)[0].cancel()
        journey.settle()

        [run] = journey.runs(job)
        assert (run.status, run.result) == ("success", "poll plc1")
        assert job.state() == {"host": "plc1"}
        assert statuses(journey, "slow") == ["cancelled request"]


def test_jitter_is_the_same_on_each_journey(scheduler: Scheduler) -> None:
    @scheduler.job("@hourly", jitter="30m")
    def poll() -> None: ...

    @scheduler.job("H H * * *")
    def backup() -> None: ...

    seen = []
    for _ in range(2):
        with travel(scheduler, START) as journey:
            journey.advance(days=1, hours=1)
            seen.append([run.started_at for run in journey.runs()])

    assert seen[0] == seen[1]
    assert any(one is not None and one.minute for one in seen[0])


def test_subscribers_are_told_in_the_thread_of_the_test(scheduler: Scheduler) -> None:
    told: list[tuple[str, datetime, str]] = []

    def tell(event: RunEvent) -> None:
        told.append((event.kind, event.at, threading.current_thread().name))

    @scheduler.job("@hourly")
    def poll() -> None: ...

    main = threading.current_thread().name
    with scheduler.subscribe(tell), travel(scheduler, START) as journey:
        journey.advance(hours=1)

    assert told == [("started", at(1), main), ("finished", at(1), main)]


def test_an_assertion_of_a_job_is_its_failure_and_what_ends_a_test_ends_it(
    scheduler: Scheduler,
) -> None:
    @scheduler.job("@hourly")
    def check() -> None:
        raise AssertionError("1 != 2")

    @scheduler.job("@daily")
    def end() -> None:
        raise KeyboardInterrupt

    @scheduler.job("@monthly")
    async def fail() -> None:
        pytest.fail("not here")

    with travel(scheduler, START) as journey:
        journey.advance(hours=1)
        assert journey.runs(check)[0].error == "AssertionError: 1 != 2"
        with pytest.raises(KeyboardInterrupt):
            journey.advance(days=1)
        journey.settle()
        assert statuses(journey, "end") == ["failed exception"]
    with travel(scheduler, START), pytest.raises(pytest.fail.Exception, match="not here"):
        fail.run_now().wait()


def test_a_job_that_runs_itself_without_end_is_told_of(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgecron.embedding.travel_engine.MOST_PASSES", 20)

    @scheduler.job("@hourly", overlap="allow")
    def poll() -> None:
        poll.run_now()

    with (
        travel(scheduler, START) as journey,
        pytest.raises(Conflict, match="due runs never end at 2026-03-28 01:00") as told,
    ):
        journey.advance(hours=1)

    assert "runs itself" in str(told.value.hint)


def test_a_job_does_not_move_the_journey_that_it_is_part_of(scheduler: Scheduler) -> None:
    @scheduler.job("@hourly")
    def poll() -> None:
        journey.advance(hours=1)

    with travel(scheduler, START) as journey:
        journey.advance(hours=1)

        assert "a job can't move the journey" in str(journey.runs(poll)[0].error)


def test_where_a_scheduler_runs_nobody_travels_and_on_a_journey_nobody_starts_it(
    scheduler: Scheduler,
) -> None:
    with scheduler, pytest.raises(Conflict, match="runs in this process"):
        travel(scheduler, START).__enter__()

    with travel(scheduler, START) as journey:
        with pytest.raises(Conflict, match="runs already"):
            scheduler.start()

        @scheduler.job("@hourly")
        def late() -> None: ...

        journey.advance(hours=1)
        assert journey.fired(late) == [at(1)]
    assert not scheduler.is_running
    with pytest.raises(Conflict, match="the journey is over"):
        journey.advance(hours=1)


def test_a_time_without_a_zone_or_before_now_is_refused(scheduler: Scheduler) -> None:
    with pytest.raises(InvalidInput, match="with an offset"):
        travel(scheduler, datetime(2026, 3, 28)).__enter__()  # noqa: DTZ001

    with travel(scheduler, START) as journey:
        journey.advance_to(at(1))
        assert journey.now == at(1)
        with pytest.raises(InvalidInput, match="is in the past"):
            journey.advance_to(at(0))
