"""Changes that are checked as they would be applied, and not made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgecron import Scheduler
from edgecron.documents.comparing import Step, compare_one
from edgecron.documents.document import Wanted
from edgecron.errors import AlreadyExists, Conflict, InvalidInput, InvalidTrigger
from edgecron.model import ScheduleSpec
from edgecron.planning import next_fires
from edgecron.timetext import from_ms, to_ms
from support.clock import FakeClock
from support.specs import make_spec

NOW = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def scheduler(tmp_path: Path, clock: FakeClock) -> Iterator[Scheduler]:
    with Scheduler(tmp_path / "edgecron.db", clock=clock) as made:
        yield made


def made(spec: ScheduleSpec) -> Step:
    return compare_one(Wanted(spec=spec), None)


def changed(scheduler: Scheduler, name: str, spec: ScheduleSpec) -> Step:
    return compare_one(Wanted(spec=spec), scheduler.schedule(name))


def test_what_is_checked_is_not_written(scheduler: Scheduler) -> None:
    compiled = scheduler.check(made(make_spec("backup", "@daily")))

    assert compiled is not None
    assert compiled.spec.triggers == ("@daily",)
    assert scheduler.schedules() == []


def test_what_changes_nothing_needs_no_check(scheduler: Scheduler) -> None:
    spec = scheduler.add(make_spec("backup")).spec

    assert scheduler.check(changed(scheduler, "backup", spec)) is None


def test_what_could_not_be_applied_is_refused(scheduler: Scheduler) -> None:
    scheduler.add(make_spec("backup"))
    scheduler.add(make_spec("other"))
    scheduler.add(make_spec("verify", "after backup"))

    with pytest.raises(AlreadyExists, match="'backup' exists already"):
        scheduler.check(made(make_spec("backup")))
    with pytest.raises(AlreadyExists, match="'other' exists already"):
        scheduler.check(changed(scheduler, "backup", make_spec("other")))
    with pytest.raises(Conflict, match="named by others: verify"):
        scheduler.check(changed(scheduler, "backup", make_spec("renamed")))
    with pytest.raises(InvalidTrigger, match="nobody"):
        scheduler.check(made(make_spec("late", "after nobody")))
    with pytest.raises(InvalidInput, match="nobody"):
        scheduler.check(made(make_spec("late", needs=("success:nobody",))))


def test_a_change_beside_the_times_keeps_the_grid_they_count_from(
    scheduler: Scheduler, clock: FakeClock
) -> None:
    schedule = scheduler.add(make_spec("poll", "every 15m"))
    clock.advance_ms(60_000)

    compiled = scheduler.compile_change(schedule, replace(schedule.spec, max_runs=3))

    fires = [from_ms(fire.due_ms) for fire in next_fires(compiled.timing, to_ms(clock.now()))]
    assert fires == [datetime(2026, 11, 20, 8, minute, tzinfo=UTC) for minute in (15, 30, 45)]
    assert scheduler.schedule("poll") == schedule
