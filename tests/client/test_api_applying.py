"""Several schedules at once: their times, what they missed, and all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgecron.base.errors import AlreadyExists, Conflict, InvalidDocument, InvalidTrigger
from edgecron.client import Client
from edgecron.formats.document import read_document
from edgecron.formats.document_tables import Action
from edgecron.model.choices import Reason, Status
from edgecron.model.schedule import Schedule
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec

ORIGIN = "apply /etc/schedules.toml"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 11, 20, 8, tzinfo=UTC))


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(new_database(tmp_path / "a.db", now_ms=clock.now_ms()), clock=clock) as opened:
        yield opened


def apply(
    client: Client, *tables: str, is_pruned: bool = False
) -> tuple[list[Action], list[Schedule]]:
    """What was done to each schedule, and those that were made or changed."""
    text = "\n".join(f'[schedules.{table}\nshell = "date"\ntimezone = "UTC"' for table in tables)
    document = read_document(text.encode())
    steps = client.plan_document(document, origin=ORIGIN, is_pruned=is_pruned)
    changed = client.apply(steps, origin=ORIGIN)
    return [step.action for step in steps], changed


def instant(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, 20, hour, minute, tzinfo=UTC)


@pytest.mark.failure(13)
def test_new_times_record_what_the_old_ones_missed_and_fire_for_nothing_past(
    client: Client, clock: FakeClock
) -> None:
    apply(client, 'x]\ncron = "0 * * * *"')
    clock.advance_to(instant(11, 30))

    _, [changed] = apply(client, 'x]\ncron = "15 * * * *"')

    assert changed.next_plan_at == instant(12, 15)
    [row] = client.history("x")
    assert (row.status, row.reason, row.missed_count) == (Status.SKIPPED, Reason.EDITED, 3)


def test_other_changes_leave_the_next_time_and_what_is_due(
    client: Client, clock: FakeClock
) -> None:
    apply(client, 'x]\ncron = "0 * * * *"')
    clock.advance_to(instant(11, 30))

    actions, [changed] = apply(client, 'x]\ncron = "0 * * * *"\nretries = 3')

    assert actions == [Action.CHANGE]
    assert changed.next_plan_at == instant(9)
    assert client.history("x") == []


def test_what_passed_in_a_pause_that_the_file_ends_is_one_range(
    client: Client, clock: FakeClock
) -> None:
    apply(client, 'x]\ncron = "0 * * * *"\nenabled = false')
    clock.advance_to(instant(11, 30))

    _, [changed] = apply(client, 'x]\ncron = "0 * * * *"\nretries = 1\nenabled = true')

    assert changed.enabled
    assert changed.next_plan_at == instant(12)
    assert changed.spec.policies.retries == 1
    [row] = client.history("x")
    assert (row.status, row.reason, row.missed_count) == (Status.SKIPPED, Reason.PAUSED, 3)


def test_what_is_pruned_is_removed_as_by_a_person(client: Client, clock: FakeClock) -> None:
    apply(client, 'x]\ncron = "0 * * * *"', 'y]\ncron = "0 * * * *"')
    clock.advance_to(instant(10, 30))

    actions, changed = apply(client, 'y]\ncron = "0 * * * *"', is_pruned=True)

    assert actions == [Action.KEEP, Action.REMOVE]
    assert changed == []
    assert [one.name for one in client.schedules()] == ["y"]
    [row] = client.history("x")
    assert (row.status, row.reason, row.missed_count) == (Status.SKIPPED, Reason.REMOVED, 2)


def test_a_name_that_was_pruned_may_come_back(client: Client) -> None:
    apply(client, 'x]\ncron = "0 * * * *"')
    apply(client, 'y]\ncron = "0 * * * *"', is_pruned=True)

    actions, _ = apply(client, 'x]\nafter = "y"', 'y]\ncron = "0 * * * *"')

    assert actions == [Action.CREATE, Action.KEEP]


def test_what_follows_may_be_changed_with_what_it_followed(client: Client) -> None:
    apply(client, 'x]\ncron = "0 * * * *"', 'y]\nafter = "x"')

    actions, _ = apply(client, 'y]\ncron = "5 * * * *"', is_pruned=True)

    assert actions == [Action.CHANGE, Action.REMOVE]
    assert [one.name for one in client.schedules()] == ["y"]


def test_what_others_follow_is_not_pruned_from_under_them(client: Client) -> None:
    apply(client, 'x]\ncron = "0 * * * *"')
    client.add(make_spec("y", "after x"))

    with pytest.raises(Conflict, match="other schedules follow or need 'x': y"):
        apply(client, 'z]\ncron = "0 * * * *"', is_pruned=True)

    assert [one.name for one in client.schedules()] == ["x", "y"]


def test_a_document_can_t_follow_what_it_prunes(client: Client) -> None:
    apply(client, 'x]\ncron = "0 * * * *"', 'y]\nafter = "x"')

    with pytest.raises(InvalidTrigger, match="runs after 'x', and there is no schedule"):
        apply(client, 'y]\nafter = "x"\nretries = 1', is_pruned=True)


@pytest.mark.failure(59)
def test_a_failure_within_the_transaction_undoes_all_of_it(client: Client, tmp_path: Path) -> None:
    apply(client, 'a]\ncron = "0 * * * *"', 'gone]\ncron = "0 * * * *"')
    document = read_document(
        b'[schedules.a]\ncron = "5 * * * *"\nshell = "date"\ngroup = "disk:2"\nenabled = false\n'
        b'[schedules.b]\nevery = "1h"\nshell = "date"\n[schedules.z]\nevery = "1h"\nshell = "x"\n'
    )
    steps = client.plan_document(document, origin=ORIGIN, is_pruned=True)
    client.add(make_spec("z"))
    before = client.schedules()

    with pytest.raises(AlreadyExists):
        client.apply(steps, origin=ORIGIN)

    assert client.schedules() == before
    # And the connection is as before: what follows is a transaction of its own.
    client.add(make_spec("later"))
    with Client(tmp_path / "a.db") as other:
        assert "later" in [one.name for one in other.schedules()]


def test_all_that_can_t_be_kept_is_told_at_once(client: Client) -> None:
    tables = ['x]\nat = "2001-01-01"', 'y]\nafter = "y"', 'z]\nevery = "1h"']

    with pytest.raises(InvalidDocument) as raised:
        apply(client, *tables)

    assert [problem["schedule"] for problem in raised.value.problems] == ["x", "y"]
    assert client.schedules() == []
