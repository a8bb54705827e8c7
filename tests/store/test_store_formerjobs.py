"""What two versions of a program run in different ways is run as one that lives knows it.

The old version of the program has `backup` as a function, the new one in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgecron.client import Client, declaring
from edgecron.formats.document_values import Wanted
from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.claim import Outcome
from edgecron.model.options import Job
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.planning.times import load_timing
from edgecron.store.contract import Seat
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

QUEUE = "py:plant"
FUNCTION = Job(kind=JobKind.CALLABLE, argv=("backup",))
PROCESS = Job(kind=JobKind.COMMAND, argv=("python", "-P", "child.py", "app:backup"))
OLD, NEW = "callable backup", "command backup"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(tmp_path / "plant.db", clock=clock) as client:
        yield client


def spec_of(job: Job, **more: Any) -> ScheduleSpec:
    return replace(make_spec("backup", "every 1h", queue=QUEUE, **more), job=job)


def declare(client: Client, job: Job, **more: Any) -> None:
    wanted = Wanted(spec=spec_of(job, **more), is_declared=True)
    declaring.declare(client, [wanted], queue=QUEUE, origin="program plant")


def come(client: Client, *offers: str) -> int:
    """An engine of the program starts; its id."""
    return client.store.register_engine(
        key=os.urandom(8).hex(),
        pid=1,
        boot_id="boot-1",
        queues=("command", QUEUE),
        now_ms=client.clock.now_ms(),
        offers=frozenset(offers),
    )


def go(client: Client, engine_id: int) -> None:
    client.store.retire_engine(engine_id, now_ms=client.clock.now_ms())


def backup(client: Client) -> Schedule:
    return client.schedule("backup")


def taken(client: Client, engine_id: int, *offers: str) -> list[Job]:
    """What an engine with these offers is granted of what is queued, as it is to be run."""
    seat = Seat(
        engine_id=engine_id,
        supervisor_id="s1",
        queues=("command", QUEUE),
        max_running=10,
        offers=frozenset(offers),
    )
    batch = client.store.claim_queued(seat=seat, now_ms=client.clock.now_ms())
    loaded = client.store.load_schedules([(one.schedule_id, one.revision) for one in batch.granted])
    return [one.spec.job for one in loaded]


@pytest.mark.parametrize(
    ("first", "second", "offers"),
    [(FUNCTION, PROCESS, (OLD, NEW)), (PROCESS, FUNCTION, (NEW, OLD))],
)
def test_a_version_that_lives_runs_what_one_that_left_ran_in_another_way(
    client: Client, clock: FakeClock, first: Job, second: Job, offers: tuple[str, str]
) -> None:
    declare(client, first)
    old = come(client, offers[0])
    declare(client, second, retries=3)
    new = come(client, offers[1])
    by_both = backup(client)
    clock.advance_ms(60_000)

    go(client, new)
    after = backup(client)
    client.run_now("backup")

    assert by_both.spec.job == second
    assert after.spec == replace(by_both.spec, job=first)
    assert after.revision == by_both.revision + 1
    assert after.vanished_at is None
    assert after.next_plan_at == by_both.next_plan_at
    assert taken(client, old, offers[0]) == [first]


def test_it_may_come_and_go_and_its_times_stay(client: Client, clock: FakeClock) -> None:
    declare(client, FUNCTION)
    come(client, OLD)
    at = backup(client).next_plan_at

    jobs = []
    for _ in range(3):
        declare(client, PROCESS)
        new = come(client, NEW)
        jobs.append(backup(client).spec.job)
        clock.advance_ms(60_000)
        client.store.close_queues(new, now_ms=clock.now_ms())
        jobs.append(backup(client).spec.job)
        go(client, new)

    assert jobs == [PROCESS, FUNCTION] * 3
    assert at == backup(client).next_plan_at == datetime(2026, 11, 20, 9, tzinfo=UTC)
    assert client.store.find_origins() == {"backup": "program plant"}


def test_what_was_queued_is_run_in_that_way_too(client: Client) -> None:
    declare(client, FUNCTION)
    old = come(client, OLD)
    declare(client, PROCESS)
    new = come(client, NEW)
    client.run_now("backup")

    by_old = taken(client, old, OLD)
    go(client, new)

    assert by_old == []
    assert taken(client, old, OLD) == [FUNCTION]


@pytest.mark.parametrize(
    ("first", "second", "offer"), [(FUNCTION, PROCESS, NEW), (PROCESS, FUNCTION, OLD)]
)
def test_what_was_queued_of_another_version_is_run_in_the_way_that_is_declared_now(
    client: Client, first: Job, second: Job, offer: str
) -> None:
    declare(client, first)
    client.run_now("backup", payload="[1]")

    declare(client, second)

    assert taken(client, come(client, offer), offer) == [second]


@pytest.mark.parametrize("is_begun", [True, False], ids=["retried", "never started"])
@pytest.mark.parametrize(
    ("first", "second", "offers"),
    [(FUNCTION, PROCESS, (OLD, NEW)), (PROCESS, FUNCTION, (NEW, OLD))],
)
def test_what_ran_while_it_was_declared_anew_is_run_again_in_the_new_way(
    client: Client, first: Job, second: Job, offers: tuple[str, str], is_begun: bool
) -> None:
    declare(client, first, retries=2, retry_delay_s=0)
    one = come(client, offers[0])
    client.run_now("backup")
    taken(client, one, offers[0])

    declare(client, second, retries=2, retry_delay_s=0)
    other = come(client, offers[1])
    [row] = client.store.find_running()
    now_ms = client.clock.now_ms()
    if is_begun:
        failed = Outcome(
            execution_id=row.execution_id,
            lease_token=row.lease_token,
            status=Status.FAILED,
            reason=Reason.EXIT,
            started_ms=now_ms,
            finished_ms=now_ms,
        )
        [ended] = client.store.finish([failed], now_ms=now_ms)
        assert ended is not None
        [decided] = ended.decided
    else:
        queued = client.store.requeue(row, now_ms=now_ms)
        assert queued is not None
        decided = queued.decided

    assert decided.revision == backup(client).revision
    assert taken(client, other, offers[1]) == [second]


def test_what_was_queued_of_a_command_is_run_as_it_was_asked_for(client: Client) -> None:
    client.add(replace(spec_of(PROCESS), queue="command"))
    client.run_now("backup")

    client.edit("backup", lambda spec: replace(spec, job=Job(kind=JobKind.SHELL, argv=("true",))))

    assert taken(client, come(client)) == [PROCESS]


def test_what_runs_is_judged_by_what_it_was_when_it_was_claimed(client: Client) -> None:
    declare(client, FUNCTION)
    come(client, OLD)
    declare(client, PROCESS)
    new = come(client, NEW)
    client.run_now("backup")
    taken(client, new, NEW)

    go(client, new)

    [row] = client.store.find_running()
    assert backup(client).spec.job == FUNCTION
    assert row.kind == JobKind.COMMAND


def test_what_people_changed_since_stays_and_what_they_removed(client: Client) -> None:
    declare(client, FUNCTION)
    come(client, OLD)
    declare(client, PROCESS)
    new = come(client, NEW)
    client.edit("backup", lambda spec: replace(spec, triggers=("every 2h",), description="all"))
    edited = backup(client)

    go(client, new)
    after = backup(client)
    client.remove("backup")
    come(client, OLD)

    assert after.spec == replace(edited.spec, job=FUNCTION)
    assert after.next_plan_at == edited.next_plan_at
    assert client.schedules() == []


def test_the_new_times_can_be_read_from_the_revision_that_it_made(client: Client) -> None:
    declare(client, FUNCTION)
    come(client, OLD)
    declare(client, PROCESS)
    go(client, come(client, NEW))
    now = backup(client)

    [stored] = client.store.load_schedules([(now.id, now.revision)])

    assert stored.spec == now.spec
    assert load_timing(stored.spec, stored.compiled, seed=client.store.seed)


def test_while_a_version_lives_that_runs_it_so_nothing_is_taken_back(client: Client) -> None:
    declare(client, FUNCTION)
    come(client, OLD)
    declare(client, PROCESS)
    one, _another = come(client, NEW), come(client, NEW)

    go(client, one)

    assert backup(client).spec.job == PROCESS


def test_where_nobody_is_left_who_knows_it_in_any_way_it_stays(client: Client) -> None:
    declare(client, FUNCTION)
    old = come(client, OLD)
    come(client, "callable other")
    declare(client, PROCESS)
    new = come(client, NEW)

    go(client, old)
    go(client, new)

    assert backup(client).spec.job == PROCESS
    assert backup(client).vanished_at is None  # The version that started last is to come back.


def test_an_engine_that_takes_whatever_there_is_takes_it_as_it_is(client: Client) -> None:
    declare(client, FUNCTION)
    come(client, OLD)
    client.store.register_engine(
        key="whatever", pid=1, boot_id="boot-1", queues=(QUEUE,), now_ms=client.clock.now_ms()
    )
    declare(client, PROCESS)

    go(client, come(client, NEW))

    assert backup(client).spec.job == PROCESS


def test_what_the_program_never_said_is_not_made_its_job(client: Client) -> None:
    client.add(spec_of(FUNCTION))
    client.edit("backup", lambda spec: replace(spec, job=PROCESS))

    come(client, OLD)

    assert backup(client).spec.job == PROCESS
