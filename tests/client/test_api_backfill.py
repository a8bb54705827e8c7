"""Backfill: what a schedule has not done of the past, found and queued once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.errors import Conflict, InvalidInput
from edgecron.client import Client
from edgecron.model.choices import Cause, Priority, Status
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec


def at(hour: int, minute: int = 0, *, day: int = 20) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(at(8))


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms()), clock=clock) as made:
        yield made


def hourly(**policies: Any) -> ScheduleSpec:
    return make_spec("job", "0 * * * *", **policies)


def plans(client: Client, ids: list[int]) -> list[datetime]:
    return [run.plan_at for run in runs_of(client, ids)]


def runs_of(client: Client, ids: list[int]) -> list[Execution]:
    return [client.execution(execution_id) for execution_id in ids]


def test_each_decided_time_of_the_range_gets_a_run(client: Client) -> None:
    client.add(hourly(retries=3))

    ids = client.backfill("job", at(3), at(6))

    assert plans(client, ids) == [at(3), at(4), at(5), at(6)]
    for run in runs_of(client, ids):
        assert (run.status, run.cause, run.fire_key) == (
            Status.QUEUED,
            Cause.BACKFILL,
            "backfill:1",
        )
        assert (run.due_at, run.trigger_text, run.max_attempts) == (at(8), "0 * * * *", 4)
        assert run.priority == Priority.LOW


def test_times_that_are_not_decided_are_left_to_the_engine(
    client: Client, clock: FakeClock
) -> None:
    client.add(hourly())
    clock.advance_to(at(10, 30))

    plan = client.plan_backfill("job", at(7), at(12))
    ids = client.backfill("job", at(7), at(12))

    assert plan.undecided_count == 4
    assert plans(client, ids) == [at(7), at(8)]


def test_what_has_an_active_row_is_left_out_and_a_second_backfill_adds_nothing(
    client: Client,
) -> None:
    client.add(hourly())
    client.backfill("job", at(3), at(4))

    plan = client.plan_backfill("job", at(2), at(5))
    ids = client.backfill("job", at(2), at(5))

    assert [fire.plan_at for fire in plan.active] == [at(3), at(4)]
    assert plans(client, ids) == [at(2), at(5)]
    assert client.backfill("job", at(2), at(5)) == []


def test_what_was_withdrawn_or_failed_is_taken_again_under_the_next_key(
    client: Client,
) -> None:
    client.add(hourly())
    for number in (1, 2, 3):
        [execution_id] = client.backfill("job", at(3), at(3))

        assert client.execution(execution_id).fire_key == f"backfill:{number}"
        client.cancel(execution_id)


def test_another_backfill_of_the_same_range_at_the_same_time_queues_nothing_twice(
    client: Client,
) -> None:
    client.add(make_spec("job", "* * * * *"))
    added: list[int] = []

    def interfere(done: int, count: int) -> None:
        if not added:
            added.extend(client.backfill("job", at(3), at(8)))

    ids = client.backfill("job", at(2), at(8), on_progress=interfere)

    everything = client.history("job", limit=1000)
    assert len(ids) + len(added) == len(everything) == 361
    assert len({run.plan_at for run in everything}) == 361


def test_each_scope_is_filled_by_itself(client: Client) -> None:
    scopes = (("device", "a"), ("device", "b"))
    client.add(replace(hourly(), scopes=scopes))
    [first, _] = client.backfill("job", at(3), at(3))
    client.cancel(first)

    again = client.backfill("job", at(3), at(4))

    found = [(run.plan_at, run.scope_id, run.fire_key) for run in runs_of(client, again)]
    assert found == [
        (at(3), "a", "backfill:2"),
        (at(4), "a", "backfill:1"),
        (at(4), "b", "backfill:1"),
    ]


def test_the_bounds_of_a_schedule_bound_its_backfill(client: Client) -> None:
    client.add(replace(hourly(), from_at=at(4, 30), until_at=at(6, 30, day=21)))

    plan = client.plan_backfill("job", at(3), at(6))

    assert [fire.plan_at for fire in plan.wanted] == [at(5), at(6)]
    assert plan.out_of_bounds_count == 2


def test_a_priority_may_be_given_and_is_below_the_schedule_s_own_otherwise(
    client: Client,
) -> None:
    client.add(hourly(priority=Priority.LOW))

    low = client.backfill("job", at(3), at(3))
    high = client.backfill("job", at(4), at(4), priority=5)

    assert [run.priority for run in runs_of(client, [*low, *high])] == [-20, 5]


def test_too_many_are_refused_at_once_with_what_to_do(client: Client) -> None:
    client.add(make_spec("job", "* * * * * *"))

    began_s = time.thread_time()  # of the processor, whoever else needs it
    with pytest.raises(InvalidInput, match="expected at most 10,000") as refused:
        client.backfill("job", at(0) - timedelta(days=50 * 365), at(8))
    took_s = time.thread_time() - began_s

    assert took_s < 10, "to count them all takes hours"
    assert refused.value.hint is not None
    assert "first up to 19" in refused.value.hint


def test_the_part_that_is_advised_is_not_refused(client: Client) -> None:
    client.add(make_spec("job", "* * * * *"))

    with pytest.raises(InvalidInput) as refused:
        client.plan_backfill("job", at(0, day=1), at(8))
    assert refused.value.hint is not None
    end = refused.value.hint.split("up to ")[1].split(" ")[0]
    plan = client.plan_backfill("job", at(0, day=1), datetime.fromisoformat(end))

    assert len(plan.wanted) == 10_000


@pytest.mark.parametrize("trigger", ["on boot", "after other", "every 1h after end"])
def test_a_schedule_without_times_of_its_own_is_refused(client: Client, trigger: str) -> None:
    client.add(make_spec("other", "@daily"))
    client.add(make_spec("job", trigger))

    with pytest.raises(InvalidInput, match=f"no times of its own: it fires {trigger}"):
        client.backfill("job", at(3), at(6))


def test_a_range_that_ends_before_it_begins_is_refused(client: Client) -> None:
    client.add(hourly())

    with pytest.raises(InvalidInput, match="is before its beginning"):
        client.backfill("job", at(6), at(3))


def test_a_paused_schedule_s_runs_are_queued(client: Client, clock: FakeClock) -> None:
    client.add(hourly())
    client.pause("job")
    clock.advance_to(at(9, 30))

    plan = client.plan_backfill("job", at(7), at(9))
    ids = client.backfill("job", at(7), at(9))

    assert plan.undecided_count == 1
    assert plans(client, ids) == [at(7), at(8)]
    assert client.store.next_due_ms(("command",), now_ms=0) is not None


def test_a_change_of_times_meanwhile_stops_it_and_another_change_does_not(
    client: Client,
) -> None:
    client.add(make_spec("job", "* * * * *"))
    told: list[int] = []

    def change(done: int, count: int) -> None:
        told.append(done)
        if len(told) == 1:
            client.edit("job", lambda spec: replace(spec, policies=Policies(retries=1)))
        elif len(told) == 2:
            client.edit("job", lambda spec: replace(spec, triggers=("0 * * * *",)))

    with pytest.raises(Conflict, match="after 500 runs were queued"):
        client.backfill("job", at(20, day=19), at(8), on_progress=change)

    revisions = {run.revision for run in client.history("job", limit=1000)}
    assert revisions == {1, 2}
    assert told == [250, 500]


def test_every_without_an_anchor_is_filled_on_its_grid(client: Client) -> None:
    client.add(make_spec("job", "every 30m"))

    ids = client.backfill("job", at(6, 59), at(8))

    assert plans(client, ids) == [at(7), at(7, 30), at(8)]
