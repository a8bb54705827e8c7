"""Two versions of a program can declare a job in different ways: the declaration made last counts.

The old version of the program has `backup` as a function, the new one in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgecron.client import Client, declaring
from edgecron.formats.document_tables import Wanted
from edgecron.model.choices import JobKind, Reason, Status
from edgecron.model.job import Job
from edgecron.model.run import Outcome
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.store.contract import Claimant
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
    places = {"backup": "plant.py:1"}
    declaring.declare(client, [wanted], queue=QUEUE, origin="program plant", places=places)


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
    claimant = Claimant(
        engine_id=engine_id,
        supervisor_id="s1",
        queues=("command", QUEUE),
        max_running=10,
        offers=frozenset(offers),
    )
    batch = client.store.claim_queued(claimant=claimant, now_ms=client.clock.now_ms())
    loaded = client.store.load_schedules([(one.schedule_id, one.revision) for one in batch.granted])
    return [one.spec.job for one in loaded]


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
    else:
        assert client.store.requeue(row.execution_id, row.lease_token, now_ms=now_ms) is not None

    assert taken(client, other, offers[1]) == [second]


def test_what_was_queued_of_a_command_is_run_as_it_was_asked_for(client: Client) -> None:
    client.add(replace(spec_of(PROCESS), queue="command"))
    client.run_now("backup")

    client.edit("backup", lambda spec: replace(spec, job=Job(kind=JobKind.SHELL, argv=("true",))))

    assert taken(client, come(client)) == [PROCESS]


def test_what_runs_keeps_the_kind_that_it_was_claimed_with(client: Client) -> None:
    declare(client, FUNCTION)
    old = come(client, OLD)
    client.run_now("backup")
    taken(client, old, OLD)

    declare(client, PROCESS)

    [row] = client.store.find_running()
    assert row.kind == JobKind.CALLABLE


def test_what_one_version_declared_waits_for_it_until_another_declares_it_again(
    client: Client,
) -> None:
    declare(client, FUNCTION)
    old = come(client, OLD)
    declare(client, PROCESS)
    new = come(client, NEW)
    client.run_now("backup")

    go(client, new)
    while_it_waits = taken(client, old, OLD)
    declare(client, FUNCTION)

    assert while_it_waits == []
    assert taken(client, old, OLD) == [FUNCTION]
