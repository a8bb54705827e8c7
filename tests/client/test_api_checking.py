"""Changes that are checked as they would be applied, and not made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgecron.base.errors import AlreadyExists, Conflict, InvalidInput, InvalidTrigger
from edgecron.base.units import from_ms, to_ms
from edgecron.client import Client
from edgecron.formats.document_tables import Step, Wanted, compare_one
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import next_fires
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec

NOW = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms()), clock=clock) as made:
        yield made


def made(spec: ScheduleSpec) -> Step:
    return compare_one(Wanted(spec=spec), None)


def changed(client: Client, name: str, spec: ScheduleSpec) -> Step:
    return compare_one(Wanted(spec=spec), client.schedule(name))


def test_what_is_checked_is_not_written(client: Client) -> None:
    compiled = client.check(made(make_spec("backup", "@daily")))

    assert compiled is not None
    assert compiled.spec.triggers == ("@daily",)
    assert client.schedules() == []


def test_what_changes_nothing_needs_no_check(client: Client) -> None:
    spec = client.add(make_spec("backup")).spec

    assert client.check(changed(client, "backup", spec)) is None


def test_what_could_not_be_applied_is_refused(client: Client) -> None:
    client.add(make_spec("backup"))
    client.add(make_spec("other"))
    client.add(make_spec("verify", "after backup"))

    with pytest.raises(AlreadyExists, match="'backup' exists already"):
        client.check(made(make_spec("backup")))
    with pytest.raises(AlreadyExists, match="'other' exists already"):
        client.check(changed(client, "backup", make_spec("other")))
    with pytest.raises(Conflict, match=r"follow or need '[^']+': verify"):
        client.check(changed(client, "backup", make_spec("renamed")))
    with pytest.raises(InvalidTrigger, match="nobody"):
        client.check(made(make_spec("late", "after nobody")))
    with pytest.raises(InvalidInput, match="nobody"):
        client.check(made(make_spec("late", needs=("success:nobody",))))


def test_a_change_beside_the_times_keeps_the_grid_they_count_from(
    client: Client, clock: FakeClock
) -> None:
    schedule = client.add(make_spec("poll", "every 15m"))
    clock.advance_ms(60_000)

    compiled = client.compile_change(schedule, replace(schedule.spec, max_runs=3))

    fires = [from_ms(fire.due_ms) for fire in next_fires(compiled.timing, to_ms(clock.now()))]
    assert fires == [datetime(2026, 11, 20, 8, minute, tzinfo=UTC) for minute in (15, 30, 45)]
    assert client.schedule("poll") == schedule
