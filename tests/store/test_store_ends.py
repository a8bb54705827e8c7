"""Any store: a run ends once, by whoever holds its token; what never started is queued again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgecron.base.units import from_ms
from edgecron.model.choices import CatchUp, MissedBy, Overlap, Reason, Status
from edgecron.model.run import Outcome, Output, OutputChunk, Stream
from edgecron.store.contract import Ended, Granted
from tests.store.store_bench import Bench, OpenStore, outcome_of
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

MINUTE = 60_000


@pytest.fixture
def granted(bench: Bench) -> Granted:
    bench.add()
    bench.clock.advance_ms(MINUTE)
    [grant] = bench.fire().granted
    return grant


def test_an_end_is_written_with_all_it_says(bench: Bench, granted: Granted) -> None:
    outcome = Outcome(
        execution_id=granted.execution_id,
        lease_token=granted.lease_token,
        status=Status.FAILED,
        reason=Reason.TIMEOUT,
        exit_code=143,
        started_ms=bench.now + 5,
        finished_ms=bench.now + 1005,
        duration_ms=1000,
        error_code="timeout",
        error_msg="it ran longer than 1s",
        flags=("killed",),
        result='{"rows": 3}',
    )

    assert bench.store.finish([outcome], now_ms=bench.now + 1010) == [Ended(reason=Reason.TIMEOUT)]

    [row] = bench.rows()
    assert (row.status, row.reason, row.exit_code) == (Status.FAILED, Reason.TIMEOUT, 143)
    assert (row.started_at, row.finished_at, row.duration_ms) == (
        from_ms(bench.now + 5),
        from_ms(bench.now + 1005),
        1000,
    )
    assert (row.error_code, row.error_msg) == ("timeout", "it ran longer than 1s")
    assert (row.flags, row.result) == (("killed",), '{"rows": 3}')


@pytest.mark.failure(29)
def test_an_end_with_another_token_changes_nothing(bench: Bench, granted: Granted) -> None:
    foreign = outcome_of(granted, bench.now)._replace(lease_token="0" * 16)

    assert bench.store.finish([foreign], now_ms=bench.now) == [None]

    assert bench.statuses() == ["running"]
    assert bench.store.get_schedule("backup").run_count == 0


@pytest.mark.failure(29)
def test_a_late_end_changes_nothing(bench: Bench, granted: Granted) -> None:
    bench.end(granted)
    [before] = bench.rows()
    bench.clock.advance_ms(5000)

    assert bench.end(granted, status=Status.FAILED) == [False]

    assert bench.rows() == [before]
    assert bench.store.get_schedule("backup").run_count == 1


@pytest.mark.failure(29)
def test_a_late_end_takes_no_retry_from_the_end_that_is_true(bench: Bench) -> None:
    bench.add(make_spec(retries=1, retry_delay_s=60.0))
    bench.clock.advance_ms(MINUTE)
    [grant] = bench.fire().granted
    late = outcome_of(grant, bench.now)._replace(lease_token="0" * 16)
    failed = outcome_of(grant, bench.now, Status.FAILED)

    ended = bench.store.finish([late, failed], now_ms=bench.now)

    assert [one is not None for one in ended] == [False, True]
    assert bench.statuses() == ["failed", "queued"]


@pytest.mark.failure(26)
def test_what_failed_before_it_could_be_cancelled_is_not_tried_again(bench: Bench) -> None:
    bench.add(make_spec(retries=1, retry_delay_s=60.0))
    bench.clock.advance_ms(MINUTE)
    [grant] = bench.fire().granted
    assert bench.store.request_cancel(grant.execution_id, now_ms=bench.now) is not None

    bench.end(grant, status=Status.FAILED)

    assert bench.statuses() == ["failed"]
    assert not bench.store.has_queued()


def test_a_batch_of_ends_says_of_each_whether_it_was_ours(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.add(make_spec(name))
    bench.clock.advance_ms(MINUTE)
    one, two, three = bench.fire().granted
    bench.end(two)

    assert bench.end(one, two, three) == [True, False, True]


def test_ends_are_counted_by_status(bench: Bench) -> None:
    bench.add()
    for status in (Status.SUCCESS, Status.FAILED, Status.FAILED, Status.INTERRUPTED):
        bench.clock.advance_ms(MINUTE)
        bench.end(*bench.fire().granted, status=status)

    schedule = bench.store.get_schedule("backup")

    assert schedule.run_count == 4
    assert dict(schedule.counts) == {
        Status.SUCCESS: 1,
        Status.FAILED: 2,
        Status.SKIPPED: 0,
        Status.CANCELLED: 0,
        Status.INTERRUPTED: 1,
    }
    assert schedule.last_status is Status.INTERRUPTED
    assert schedule.last_execution_id == bench.rows()[-1].id
    assert schedule.last_run_at == bench.clock.now()
    assert schedule.last_success_at is not None
    assert schedule.last_success_at < schedule.last_run_at
    assert schedule.last_error == "exit"


def test_a_run_that_its_function_skipped_is_neither_success_nor_failure(bench: Bench) -> None:
    bench.add(make_spec(retries=3))
    for status in (Status.FAILED, Status.SKIPPED):
        bench.clock.advance_ms(MINUTE)
        [grant] = bench.fire().granted
        outcome = outcome_of(grant, bench.clock.now_ms(), status=status)
        if status is Status.FAILED:
            outcome = outcome._replace(flags=("gave_up",))
        else:
            outcome = outcome._replace(reason=Reason.DECLINED, error_msg="no new files")
        bench.store.finish([outcome], now_ms=bench.clock.now_ms())

    schedule, row = bench.store.get_schedule("backup"), bench.rows()[-1]

    assert (row.status, row.reason, row.error_msg) == ("skipped", "declined", "no new files")
    assert (row.started_at, row.duration_ms) == (None, outcome.duration_ms)
    assert row.finished_at == bench.clock.now()
    assert (schedule.run_count, schedule.counts[Status.SKIPPED]) == (2, 1)
    assert (schedule.last_status, schedule.last_success_at) == (Status.FAILED, None)
    assert not bench.store.has_queued()


def test_a_schedule_whose_function_skips_each_run_is_not_suspect(bench: Bench) -> None:
    bench.add()
    bench.clock.advance_ms(MINUTE)
    [grant] = bench.fire().granted
    outcome = outcome_of(grant, bench.clock.now_ms(), status=Status.SKIPPED)
    bench.store.finish([outcome._replace(reason=Reason.DECLINED)], now_ms=bench.clock.now_ms())

    now_ms = bench.clock.now_ms()

    assert bench.store.find_suspects(late_ms=now_ms - MINUTE, now_ms=now_ms) == []


@pytest.mark.parametrize(
    ("changes", "delay_ms"),
    [({}, 60_000), ({"retry_after_ms": 5}, 5), ({"flags": ("gave_up",)}, None)],
)
def test_an_outcome_can_set_the_delay_of_its_retry_or_refuse_it(
    bench: Bench, changes: dict[str, object], delay_ms: int | None
) -> None:
    bench.add(make_spec(retries=1, retry_delay_s=60.0, retry_max_delay_s=60.0))
    bench.clock.advance_ms(MINUTE)
    [grant] = bench.fire().granted
    outcome = outcome_of(grant, bench.clock.now_ms(), status=Status.FAILED)

    bench.store.finish([outcome._replace(**changes)], now_ms=bench.clock.now_ms())  # type: ignore[arg-type]

    first, *retries = bench.rows()
    assert first.finished_at is not None
    delays = [(one.due_at - first.finished_at).total_seconds() * 1000 for one in retries]
    if delay_ms == 60_000:
        assert 54_000 < delays[0] <= 60_000
    else:
        assert delays == ([] if delay_ms is None else [delay_ms])


def test_an_end_frees_the_place_of_its_schedule(bench: Bench, granted: Granted) -> None:
    bench.end(granted)
    bench.clock.advance_ms(MINUTE)

    assert len(bench.fire().granted) == 1


def test_an_end_before_its_claim_is_moved_to_the_claim(bench: Bench, granted: Granted) -> None:
    # The clock went back while it ran.
    outcome = outcome_of(granted, bench.now)._replace(
        started_ms=bench.now - 5000, finished_ms=bench.now - 4000
    )

    bench.store.finish([outcome], now_ms=bench.now - 4000)

    [row] = bench.rows()
    assert row.started_at == row.finished_at == row.claimed_at


def test_output_is_kept_as_it_came(bench: Bench, granted: Granted) -> None:
    output = Output(
        chunks=(
            OutputChunk(stream=Stream.STDOUT, at_ms=bench.now, content=b"\xff\x00 one\n"),
            OutputChunk(stream=Stream.STDERR, at_ms=bench.now + 3, content=b"two" * 400),
        ),
        stdout_bytes=7,
        stderr_bytes=1200,
        dropped_bytes=11,
        dropped_after=1,
    )

    bench.store.finish([outcome_of(granted, bench.now)._replace(output=output)], now_ms=bench.now)

    assert bench.store.find_output(granted.execution_id) == output


def test_no_output_leaves_no_row(bench: Bench, granted: Granted) -> None:
    bench.store.finish([outcome_of(granted, bench.now)._replace(output=Output())], now_ms=bench.now)

    assert bench.store.find_output(granted.execution_id) is None


def test_what_runs_is_found_with_who_runs_it(bench: Bench, granted: Granted) -> None:
    [row] = bench.store.find_running()

    [engine] = bench.store.find_engines()
    assert (row.execution_id, row.lease_token) == (granted.execution_id, granted.lease_token)
    assert (row.engine_id, row.engine_key) == (bench.claimant.engine_id, engine.key)
    assert (row.supervisor_id, row.boot_id, row.schedule) == ("s1", "boot-1", "backup")
    assert (row.kind, row.ok_codes, row.started_ms) == ("command", (0,), bench.now)


def test_what_never_started_is_queued_again_under_another_token(
    bench: Bench, granted: Granted
) -> None:
    [row] = bench.store.find_running()

    assert bench.store.requeue(row.execution_id, row.lease_token, now_ms=bench.now)
    again = bench.fill().granted

    assert [grant.execution_id for grant in again] == [granted.execution_id]
    assert again[0].lease_token != granted.lease_token
    assert again[0].attempt == granted.attempt
    assert bench.end(granted) == [False]
    assert bench.end(*again) == [True]


def test_what_was_claimed_anew_is_not_queued_again_by_who_saw_it_before(
    bench: Bench, granted: Granted
) -> None:
    [before] = bench.store.find_running()
    bench.store.requeue(before.execution_id, before.lease_token, now_ms=bench.now)
    [again] = bench.fill().granted

    assert not bench.store.requeue(before.execution_id, before.lease_token, now_ms=bench.now)

    [row] = bench.store.find_running()
    assert row.lease_token == again.lease_token


def test_queueing_again_what_moved_on_changes_nothing(bench: Bench, granted: Granted) -> None:
    [row] = bench.store.find_running()
    bench.end(granted)

    assert not bench.store.requeue(row.execution_id, row.lease_token, now_ms=bench.now)

    assert bench.statuses() == ["success"]


def test_what_never_started_and_was_replaced_keeps_why_its_time_was_missed(bench: Bench) -> None:
    bench.add(make_spec(catch_up=CatchUp.ONCE, overlap=Overlap.REPLACE))
    bench.clock.advance_ms(60 * MINUTE)
    [decision] = bench.decide(bench.look())
    late = tuple(fire._replace(missed_by=MissedBy.OFF) for fire in decision.plan.fires)
    bench.claim([decision._replace(plan=decision.plan._replace(fires=late))])
    bench.clock.advance_ms(MINUTE)
    bench.fire()
    [row] = bench.store.find_running()

    bench.store.requeue(row.execution_id, row.lease_token, now_ms=bench.now)

    [ended] = [one for one in bench.rows() if one.id == row.execution_id]
    assert (ended.status, ended.reason) == (Status.CANCELLED, Reason.REPLACED)
    assert ended.flags == ("missed:off",)


@pytest.mark.failure(26)
def test_what_never_started_of_a_removed_schedule_is_cancelled(
    bench: Bench, granted: Granted
) -> None:
    [row] = bench.store.find_running()
    schedule = bench.store.get_schedule("backup")
    bench.store.remove_schedule(schedule, missed=(), now_ms=bench.now)

    assert bench.store.requeue(row.execution_id, row.lease_token, now_ms=bench.now)

    [ended] = bench.store.find_executions().runs
    assert (ended.status, ended.reason) == (Status.CANCELLED, Reason.REMOVED)
    assert not bench.store.has_queued()


def test_what_runs_when_its_schedule_is_removed_ends_as_usual(
    bench: Bench, granted: Granted
) -> None:
    schedule = bench.store.get_schedule("backup")
    bench.store.remove_schedule(schedule, missed=(), now_ms=bench.now)

    assert bench.end(granted) == [True]

    [row] = bench.store.find_executions().runs
    assert (row.status, row.schedule) == (Status.SUCCESS, "backup")


def test_engines_are_recorded_until_they_stop(make_store: OpenStore, clock: FakeClock) -> None:
    first, second = Bench(make_store, clock), Bench(make_store, clock)

    first.store.retire_engine(first.claimant.engine_id, now_ms=clock.now_ms())

    [engine] = first.store.find_engines()
    assert engine.id == second.claimant.engine_id
    assert (engine.pid, engine.boot_id, engine.queues) == (1, "boot-1", ("command",))
    assert engine.started_at == clock.now()


def test_an_engine_that_takes_on_nothing_more_is_recorded_without_queues(bench: Bench) -> None:
    [before] = bench.store.find_engines()

    bench.store.close_queues(before.id, now_ms=bench.now)

    [after] = bench.store.find_engines()
    assert before.queues == ("command",)
    assert after == replace(before, queues=(), former_queues=("command",))


def test_an_engine_that_registers_again_is_the_same(bench: Bench) -> None:
    bench.store.retire_engine(bench.claimant.engine_id, now_ms=bench.now)
    [] = bench.store.find_engines()

    again = bench.store.register_engine(
        key=f"engine-{id(bench)}", pid=1, boot_id="boot-1", queues=("command",), now_ms=bench.now
    )

    assert again == bench.claimant.engine_id
    assert [engine.id for engine in bench.store.find_engines()] == [again]
