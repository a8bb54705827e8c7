"""What was changed of schedules, by whom and from where; and how a change is undone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from edgecron.base.errors import Conflict, NotFound
from edgecron.base.values import replace
from edgecron.client import Client
from edgecron.formats.document import read_document
from edgecron.model.options import Policies
from edgecron.model.schedule import Act, Author, Change
from edgecron.planning.retention import Retention
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec

BEGIN = datetime(2026, 11, 20, 8, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(BEGIN)


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(
        new_database(tmp_path / "a.db", now_ms=clock.now_ms()), clock=clock, origin="cli"
    ) as opened:
        opened.author = Author("cli", "anna")
        yield opened


def change(client: Client, **fields: Any) -> None:
    client.edit("backup", lambda spec: replace(spec, **fields), origin="cli")


def last(client: Client, name: str = "backup") -> Change:
    return client.changes(name, limit=1)[0]


def fields(found: Change) -> dict[str, tuple[object, object]]:
    return {one.field: (one.old, one.new) for one in found.changes}


def test_each_change_says_who_made_it_from_where_and_what_differs(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("backup", "0 * * * *"), origin="cli")
    clock.advance_to(BEGIN + timedelta(minutes=1))
    change(client, description="nightly copy", policies=Policies(timeout_s=60))
    client.pause("backup")
    client.resume("backup")
    client.reschedule("backup", BEGIN + timedelta(hours=5))
    client.remove("backup")

    found = client.changes("backup")

    assert [(one.act, one.revision) for one in found] == [
        (Act.REMOVE, 6),
        (Act.RESCHEDULE, 5),
        (Act.RESUME, 4),
        (Act.PAUSE, 3),
        (Act.EDIT, 2),
        (Act.ADD, 1),
    ]
    assert {(one.origin, one.user) for one in found} == {("cli", "anna")}
    assert [fields(one) for one in found[:5]] == [
        {"removed": (False, True)},
        {"next_run_at": ("2026-11-20T09:00:00Z", "2026-11-20T13:00:00Z")},
        {"enabled": (False, True)},
        {"enabled": (True, False)},
        {"description": (None, "nightly copy"), "timeout": (None, "1m")},
    ]
    assert fields(found[5])["cron"] == (None, "0 * * * *")
    assert found[4].at == BEGIN + timedelta(minutes=1)
    assert all(one.is_complete for one in found)


def test_changes_come_page_by_page(client: Client) -> None:
    client.add(make_spec("backup"), origin="cli")
    for number in range(5):
        change(client, description=f"number {number}")

    first = client.changes("backup", limit=4)
    second = client.changes("backup", before=first[-1].revision, limit=4)

    assert [one.revision for one in (*first, *second)] == [6, 5, 4, 3, 2, 1]
    with pytest.raises(NotFound):
        client.changes("nobody")


def test_a_change_by_sql_is_recorded_without_a_user(client: Client, tmp_path: Path) -> None:
    client.add(make_spec("backup"), origin="cli")
    client.close()
    with apsw.Connection(str(tmp_path / "a.db")) as connection:
        connection.execute("UPDATE schedules SET timeout_s = 90")
        connection.execute("UPDATE schedules SET enabled = 0")

    paused, edited = client.changes("backup", limit=2)

    assert (paused.act, paused.origin, paused.user) == (Act.PAUSE, "sql", None)
    assert fields(paused) == {"enabled": (True, False)}
    assert (edited.act, edited.origin, edited.user) == (Act.EDIT, "sql", None)
    assert fields(edited) == {"timeout": (None, "1m30s")}


def test_an_apply_that_edits_and_pauses_is_one_change(client: Client) -> None:
    client.add(make_spec("backup", "every 1h"), origin="cli")
    document = read_document(
        b'[schedules.backup]\nevery = "2h"\nshell = "x"\nenabled = false\ntimezone = "UTC"\n'
    )
    steps = client.plan_document(document, origin="apply /x.toml")
    client.apply(steps, origin="apply /x.toml")

    edited = last(client)
    undone = client.undo("backup")

    assert (edited.act, edited.origin) == (Act.EDIT, "apply /x.toml")
    assert {"enabled", "every"} <= fields(edited).keys()
    schedule = client.schedule("backup")
    assert schedule.enabled
    assert schedule.spec.triggers == ("every 1h",)
    assert undone.undone == edited
    assert client.store.find_origins()["backup"] == "cli"


def test_an_undo_is_a_change_that_can_be_undone(client: Client) -> None:
    client.add(make_spec("backup"), origin="cli")
    change(client, description="new words")

    client.undo("backup")
    undone = client.schedule("backup").spec.description
    client.undo("backup")
    redone = client.schedule("backup").spec.description

    assert (undone, redone) == (None, "new words")
    assert [one.act for one in client.changes("backup")] == [
        Act.UNDO, Act.UNDO, Act.EDIT, Act.ADD
    ]  # fmt: skip


@pytest.mark.parametrize("until", [None, BEGIN + timedelta(hours=3)])
def test_a_pause_and_a_resume_are_undone(client: Client, until: datetime | None) -> None:
    client.add(make_spec("backup", "0 * * * *"), origin="cli")
    client.pause("backup", until=until)
    paused = client.schedule("backup")

    client.undo("backup")
    resumed = client.schedule("backup")
    client.undo("backup")
    again = client.schedule("backup")

    assert (resumed.enabled, resumed.paused_until) == (True, None)
    assert resumed.next_run_at == BEGIN + timedelta(hours=1)
    assert (again.enabled, again.paused_until) == (paused.enabled, paused.paused_until)
    assert again.next_run_at == paused.next_run_at


def test_a_pause_that_would_be_over_is_not_put_back(client: Client, clock: FakeClock) -> None:
    client.add(make_spec("backup", "0 * * * *"), origin="cli")
    client.pause("backup", until=BEGIN + timedelta(minutes=30))
    client.resume("backup")
    clock.advance_to(BEGIN + timedelta(minutes=31))

    with pytest.raises(Conflict, match="nothing to undo: the former pause of schedule 'backup'"):
        client.undo("backup")


def test_a_moved_run_goes_back_while_its_time_is_to_come(client: Client) -> None:
    client.add(make_spec("backup", "0 * * * *"), origin="cli")
    client.reschedule("backup", BEGIN + timedelta(hours=4))

    done = client.undo("backup")

    assert done.next_before[0] == BEGIN + timedelta(hours=4)
    assert done.next_after[0] == BEGIN + timedelta(hours=1)


def test_a_run_whose_former_time_passed_goes_back_to_the_next_regular_time(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("backup", "0 * * * *"), origin="cli")
    client.reschedule("backup", BEGIN + timedelta(hours=4))
    clock.advance_to(BEGIN + timedelta(hours=2))

    done = client.undo("backup")

    assert done.next_after[0] == BEGIN + timedelta(hours=3)


def test_a_moved_run_stays_if_the_next_regular_time_is_later(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("backup", "0 9 * * *"), origin="cli")
    client.reschedule("backup", BEGIN + timedelta(hours=4))
    clock.advance_to(BEGIN + timedelta(hours=2))

    with pytest.raises(Conflict, match="its former time has passed"):
        client.undo("backup")


def test_an_earlier_change_is_undone_once_all_later_ones_are(client: Client) -> None:
    client.add(make_spec("backup", "0 2 * * *"))
    client.edit("backup", lambda spec: replace(spec, description="first"))
    first = client.schedule("backup").revision
    client.edit("backup", lambda spec: replace(spec, description="second"))

    with pytest.raises(Conflict, match="was changed after revision"):
        client.undo("backup", change=first)
    client.undo("backup")
    client.undo("backup", change=first)

    assert client.schedule("backup").spec.description is None
    with pytest.raises(NotFound, match="no recorded change with revision 99"):
        client.undo("backup", change=99)


def test_an_earlier_removal_is_not_undone_while_the_schedule_exists(client: Client) -> None:
    client.add(make_spec("backup", "0 2 * * *"))
    removal = client.remove("backup").revision + 1
    client.undo("backup")

    with pytest.raises(Conflict, match="was changed after revision"):
        client.undo("backup", change=removal)


def test_the_undo_of_an_addition_removes_and_its_undo_restores(client: Client) -> None:
    client.add(make_spec("backup"), origin="cli")

    removed = client.undo("backup")
    restored = client.undo("backup")

    assert removed.is_removed
    assert {one.field for one in removed.changes} == {"removed"}
    assert not restored.is_removed
    assert client.schedule("backup").enabled


def test_an_addition_that_others_follow_is_not_undone(client: Client) -> None:
    client.add(make_spec("backup"), origin="cli")
    client.add(make_spec("report", "after backup"), origin="cli")

    with pytest.raises(Conflict, match="other schedules follow or need it: report"):
        client.undo("backup")

    assert client.schedule("backup").revision == 1


def test_a_removed_schedule_comes_back_with_its_pause(client: Client) -> None:
    client.add(make_spec("backup"), origin="cli")
    client.pause("backup")
    client.remove("backup")

    client.undo("backup")

    assert not client.schedule("backup").enabled


def test_a_new_name_and_the_scopes_are_undone(client: Client) -> None:
    client.add(make_spec("backup"), origin="cli")
    change(client, scopes=(("device", "a"), ("device", "b")))
    change(client, name="nightly")

    first = client.undo("nightly")
    client.undo("backup", 1)

    assert (first.schedule, [tuple(one) for one in first.changes]) == (
        "backup",
        [("name", "nightly", "backup")],
    )
    assert client.schedule("backup").spec.scopes == (("global", ""),)


def test_a_revision_brings_back_its_definition_but_no_pause(client: Client) -> None:
    client.add(make_spec("backup", "every 1h", retries=1), origin="cli")
    client.pause("backup")
    change(client, triggers=("every 2h",))
    change(client, policies=Policies(retries=5))

    done = client.undo("backup", 1)

    schedule = client.schedule("backup")
    assert (schedule.spec.triggers, schedule.spec.policies.retries) == (("every 1h",), 1)
    assert not schedule.enabled
    assert done.undone is None
    assert {one.field for one in done.changes} == {"every", "retries"}
    with pytest.raises(Conflict, match="already has the definition of revision 1"):
        client.undo("backup", 1)
    with pytest.raises(NotFound, match="has no revision 17: its last one is 5"):
        client.undo("backup", 17)


def test_a_removed_schedule_returns_to_a_revision(client: Client) -> None:
    client.add(make_spec("backup"), origin="cli")
    change(client, description="new words")
    client.remove("backup")

    client.undo("backup", 1)

    assert client.schedule("backup").spec.description is None
    assert last(client).act is Act.UNDO
    assert {"removed", "description"} == fields(last(client)).keys()


def test_a_plan_changes_nothing_and_shows_the_next_times(client: Client) -> None:
    client.add(make_spec("backup", "0 * * * *"), origin="cli")
    change(client, triggers=("30 * * * *",))
    before = client.schedule("backup")

    planned = client.plan_undo("backup")

    assert client.schedule("backup") == before
    assert planned.next_before[0] == BEGIN + timedelta(minutes=30)
    assert planned.next_after[0] == BEGIN + timedelta(hours=1)
    assert [tuple(one) for one in planned.changes] == [("cron", "30 * * * *", "0 * * * *")]
    client.undo("backup", seen=planned.seen)
    with pytest.raises(Conflict, match="was changed in the meantime"):
        client.undo("backup", seen=planned.seen)


def test_an_interval_keeps_its_former_grid(client: Client, clock: FakeClock) -> None:
    client.add(make_spec("backup", "every 1h"), origin="cli")
    clock.advance_to(BEGIN + timedelta(minutes=10))
    change(client, triggers=("every 3h",))
    clock.advance_to(BEGIN + timedelta(minutes=20))

    client.undo("backup")

    assert client.schedule("backup").next_run_at == BEGIN + timedelta(hours=1)


def test_definitions_that_retention_removed_are_named(client: Client, clock: FakeClock) -> None:
    client.add(make_spec("backup"), origin="cli")
    for number in range(30):
        change(client, description=f"number {number}")
    client.prune(retention=Retention())

    with pytest.raises(NotFound, match="of revision 3 is gone: retention removed it") as caught:
        client.undo("backup", 3)

    assert caught.value.hint is not None
    assert "you can return to revisions 30, 29, 28" in caught.value.hint
    found = {one.revision: one for one in client.changes("backup", limit=40)}
    assert not found[3].is_complete
    assert found[3].user == "anna"
    assert found[31].is_complete
    client.undo("backup", 12)
    assert client.schedule("backup").spec.description == "number 10"


def test_retention_keeps_a_former_definition_for_thirty_days(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("backup"), origin="cli")
    change(client, description="new words")
    clock.advance_to(BEGIN + timedelta(days=29))
    client.prune(retention=Retention())
    kept = client.plan_undo("backup")
    clock.advance_to(BEGIN + timedelta(days=31))
    client.prune(retention=Retention())

    assert kept.changes
    with pytest.raises(NotFound, match="before revision 2 is gone") as caught:
        client.undo("backup")
    assert caught.value.hint == ("no earlier definition is left; change it: edgecron edit backup")


def test_the_last_change_names_all_schedules_of_its_transaction(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("other"), origin="cli")
    clock.advance_to(BEGIN + timedelta(minutes=1))
    client.add_all([make_spec("one"), make_spec("two")], origin="cli")

    assert client.last_changed() == ["one", "two"]


def test_a_change_by_an_older_edgecron_is_not_guessed(client: Client, tmp_path: Path) -> None:
    client.add(make_spec("backup"), origin="cli")
    client.pause("backup")
    client.close()
    with apsw.Connection(str(tmp_path / "a.db")) as connection:
        connection.execute("DELETE FROM schedule_changes WHERE revision = 2")

    with pytest.raises(Conflict, match="is unknown: an older edgecron made it"):
        client.undo("backup")
