"""Browsing: orders, lines and pages of whatever there is, for a screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import QueryInterrupted, Unreadable
from edgecron.base.units import to_ms
from edgecron.client import Client
from edgecron.client.schedules import FirstLines
from edgecron.model.choices import Overlap, Status
from edgecron.model.filters import parse_filter
from edgecron.model.listing import (
    Recent,
    RunBounds,
    RunChoice,
    ScheduleKeys,
    ScheduleState,
    SortBy,
    standing_of,
    state_of,
)
from edgecron.store.sql.schedule_lists import find_order_of
from edgecron.store.sqlite.connection import Database
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.offering import let_vanish
from tests.support.specs import make_spec

NOW = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
NOT_UTF_8 = "CAST(x'61c32862' AS TEXT)"
_ENDED = """INSERT INTO executions (schedule_id, revision, plan_at, cause, due_at, queue, status,
        reason, claimed_at, started_at, finished_at, duration_ms, engine_id, lease_token)
    VALUES (:schedule, 1, :at, 'schedule', :at, 'command', :status,
        CASE :status WHEN 'success' THEN NULL WHEN 'skipped' THEN 'overlap' ELSE 'exit' END,
        iif(:status = 'skipped', NULL, :at), iif(:status = 'skipped', NULL, :at), :at, :took,
        1, 'token')"""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms()), clock=clock) as made:
        yield made


def write(client: Client, sql: str, **params: object) -> None:
    """As somebody does who switches the checks off."""
    connection = apsw.Connection(str(client.path))
    connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
    connection.execute(sql, params)
    connection.close()


def end(client: Client, schedule_id: int, *statuses: Status, took: int | None = 5) -> None:
    """Have runs of a schedule behind it."""
    for status in statuses:
        at = to_ms(NOW) - 1000 + client.run_bounds().last_id
        write(client, _ENDED, schedule=schedule_id, at=at, status=status.value, took=took)


def names(client: Client, sort: SortBy | None = None, *, is_descending: bool = False) -> str:
    """The names of all schedules in an order."""
    order = client.schedule_order(sort, is_descending=is_descending)
    return " ".join(line.standing.name for line in client.schedule_lines(order))


def test_a_schedule_order_is_by_name(client: Client) -> None:
    for name in ("b", "a", "C", "a-2"):
        client.add(make_spec(name))

    order = client.schedule_order()

    assert order.typecode == "q"
    assert list(order) == [3, 2, 4, 1]
    assert list(client.schedule_order(is_descending=True)) == [1, 4, 2, 3]


@pytest.mark.parametrize(
    ("sort", "upwards", "downwards"),
    [
        (SortBy.NAME, "a b c d", "d c b a"),
        (SortBy.WHEN, "b a c d", "d a c b"),
        (SortBy.NEXT, "b a c d", "a c b d"),
        (SortBy.LAST, "c a b d", "a c b d"),
        (SortBy.STATUS, "c a b d", "a c b d"),
        (SortBy.RUNS, "b d a c", "c a b d"),
    ],
)
def test_what_has_nothing_to_be_sorted_by_is_last_and_equals_go_by_name(
    client: Client, sort: SortBy, upwards: str, downwards: str
) -> None:
    for name, trigger in (("c", "@daily"), ("b", "*/5 * * * *"), ("a", "@daily"), ("d", "after c")):
        client.add(make_spec(name, trigger))
    write(client, "UPDATE schedules SET run_count = 2, last_run_at = 1 WHERE name = 'c'")
    write(client, "UPDATE schedules SET run_count = 1, last_run_at = 2 WHERE name = 'a'")
    write(client, "UPDATE schedules SET last_status = 'failed' WHERE name = 'c'")
    write(client, "UPDATE schedules SET last_status = 'success' WHERE name = 'a'")

    assert names(client, sort) == upwards
    assert names(client, sort, is_descending=True) == downwards


def test_triggers_are_in_order_of_how_often_they_fire_and_then_of_their_words(
    client: Client,
) -> None:
    wanted = (
        "every 30s", "every 5m", "*/10 * * * *", "0 * * * *", "30 9,17 * * *", "0 2 * * *",
        "30 10 * * *", "every 1d", "0 9 * * MON", "once in 21:00-05:00 FRI", "0 0 1 * *",
        "0 0 29 2 *", "at 2030-01-01", "on boot", "on demand",
    )  # fmt: skip
    names = [f"job-{number}" for number in range(len(wanted), 0, -1)]
    client.add_all([make_spec(*pair) for pair in zip(names, wanted, strict=True)])
    client.add(make_spec("a-broken"))
    write(client, "UPDATE schedules SET compiled = '[{}]' WHERE name = 'a-broken'")

    found = client.schedule_order(SortBy.WHEN)
    backwards = client.schedule_order(SortBy.WHEN, is_descending=True)

    assert [line.standing.name for line in client.schedule_lines(found)] == [*names, "a-broken"]
    shown = [line.standing.name for line in client.schedule_lines(backwards)]
    assert shown == [*reversed(names), "a-broken"]


@pytest.mark.parametrize("sort", list(SortBy))
def test_an_order_holds_what_matches(client: Client, sort: SortBy) -> None:
    seen: dict[str, ScheduleKeys] = {}
    for name in ("on", "off", "until", "broken", "had", "boot", "after", "gone"):
        trigger = {"boot": "on boot", "after": "after on"}.get(name, "@daily")
        client.add(make_spec(name, trigger, group="disk", max_runs=1 if name == "had" else None))
    client.add(make_spec("ghost", "@daily", group="disk", queue="py:app"))
    let_vanish(client, "ghost")
    client.pause("off")
    client.pause("until", until=NOW + timedelta(days=3))
    client.remove("gone")
    write(
        client,
        """UPDATE schedules SET planned_count = 1, next_run_at = NULL, next_plan_at = NULL,
               last_status = 'failed' WHERE name = 'had'""",
    )
    write(
        client,
        """UPDATE schedules SET trigger_error = 'no such zone', next_run_at = NULL,
               next_plan_at = NULL WHERE name = 'broken'""",
    )

    def is_active(keys: ScheduleKeys) -> bool:
        seen[keys.name] = keys
        return keys.state == "active"

    found = find_order_of(
        client.store, sort, is_descending=False, matches=is_active, now=client.now()
    )

    assert {line.standing.name for line in client.schedule_lines(found)} == {
        *("on", "boot", "after"),
    }
    assert {name: str(keys.state) for name, keys in seen.items()} == {
        **dict.fromkeys(("on", "boot", "after"), "active"),
        **dict.fromkeys(("off", "until"), "paused"),
        "broken": "broken",
        "ghost": "vanished",
        "had": "done",
    }
    assert (seen["had"].last_status, seen["had"].group, seen["had"].id) == ("failed", "disk", 5)
    everything = list(client.schedule_order(sort))
    assert list(found) == [each for each in everything if each in set(found)]


def test_the_state_of_a_pause_that_is_over_is_active(client: Client) -> None:
    client.add(make_spec("backup", "@daily"))
    client.pause("backup", until=NOW + timedelta(hours=1))
    standing = standing_of(client.schedule("backup"))

    assert state_of(standing, now=NOW) is ScheduleState.PAUSED
    assert state_of(standing, now=NOW + timedelta(hours=1)) is ScheduleState.ACTIVE


def test_a_line_tells_all_that_a_list_shows(client: Client) -> None:
    made = client.add(make_spec("backup", "@daily", timezone="Europe/Paris", group="disk"))
    write(client, "UPDATE schedules SET last_status = 'failed', run_count = 3")
    end(client, made.id, Status.SUCCESS, Status.SKIPPED, Status.FAILED)
    client.run_now("backup")

    [line] = client.schedule_lines([made.id])

    assert line.standing == standing_of(client.schedule("backup"))
    assert (line.id, line.timezone, line.group) == (made.id, "Europe/Paris", "disk")
    assert line.recent == (Recent("success", 5), Recent("failed", 5))
    assert line.active == 1


def test_the_recent_runs_of_a_line_are_twenty_and_the_oldest_comes_first(
    client: Client,
) -> None:
    made = client.add(make_spec("backup", "@daily"))
    end(client, made.id, *[Status.FAILED] * 3, *[Status.SUCCESS] * 17, Status.INTERRUPTED)

    [line] = client.schedule_lines([made.id])

    assert [recent.status for recent in line.recent] == [
        *["failed"] * 2,
        *["success"] * 17,
        "interrupted",
    ]


def test_lines_come_as_they_are_asked_for_without_those_that_are_gone(
    client: Client,
) -> None:
    for name in ("a", "b", "c"):
        client.add(make_spec(name))
    client.remove("b")

    lines = client.schedule_lines([3, 2, 99, 1])

    assert [line.id for line in lines] == [3, 1]
    assert client.schedule_lines([]) == []


def test_the_first_lines_are_those_of_the_order_by_name(client: Client) -> None:
    for name in ("c", "a", "d", "b"):
        client.add(make_spec(name))
    client.remove("a")

    lines = client.first_schedule_lines(2)

    assert lines == client.schedule_lines(client.schedule_order()[:2])
    assert [line.standing.name for line in lines] == ["b", "c"]


def test_the_first_lines_of_the_timeline_have_their_times_as_written(client: Client) -> None:
    client.add(make_spec("b", "0 3 * * *"))
    described = client.first_schedule_lines(9)

    with FirstLines(client.path, clock=client.clock, must_exist=True) as reader:
        lines = reader.first_schedule_lines(9)

    assert [line.when for line in described] == ["03:00 every day"]
    assert lines == [described[0]._replace(when="0 3 * * *")]


@pytest.mark.failure(66)
@pytest.mark.parametrize(
    ("damage", "name", "told"),
    [
        ("triggers = '{}'", "bad", "can't be read"),
        ("triggers = '{'", "bad", "can't be read"),
        (f"triggers = {NOT_UTF_8}", "bad", "can't be read"),
        (f"last_run_at = {2**62}", "bad", "can't be read"),
        (f"next_run_at = {2**62}", "bad", "can't be read"),
        (f"name = {NOT_UTF_8}", "a\ufffd(b", "None"),
        (f"group_name = {NOT_UTF_8}", "bad", "None"),
        (f"last_status = {NOT_UTF_8}", "bad", "None"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_shown_and_hides_no_other(
    client: Client, damage: str, name: str, told: str
) -> None:
    client.add(make_spec("good"))
    client.add(make_spec("bad"))
    good = client.first_schedule_lines(9)[-1]
    write(client, f"UPDATE schedules SET {damage} WHERE name = 'bad'")

    for sort in SortBy:
        order = client.schedule_order(sort, matches=parse_filter("!job:\x1b"))
        assert sorted(order) == sorted(client.schedule_order(sort)) == [1, 2]
    lines = {line.id: line for line in client.schedule_lines([1, 2])}
    assert lines[1] == good
    assert lines[2].standing.name == name
    assert {line.id: line for line in client.first_schedule_lines(9)} == lines
    assert dict(client.schedule_names()) == {1: "good", 2: name}
    assert told in str(lines[2].standing.trigger_error)


def test_a_run_page_goes_both_ways(client: Client) -> None:
    made = client.add(make_spec("backup"))
    end(client, made.id, *[Status.SUCCESS, Status.FAILED] * 5)

    newest = client.run_page(limit=4).runs
    older = client.run_page(before_id=newest[-1].id, limit=4).runs
    back = client.run_page(after_id=older[0].id, limit=4).runs

    assert [run.id for run in newest + older] == [10, 9, 8, 7, 6, 5, 4, 3]
    assert back == newest
    assert [run.id for run in client.run_page(after_id=3, limit=2).runs] == [5, 4]
    assert client.run_bounds() == RunBounds(1, 10)


@pytest.mark.failure(66)
@pytest.mark.parametrize("damage", ["reason = 'rocket'", "flags = '7'", f"error_msg = {NOT_UTF_8}"])
def test_a_run_that_can_not_be_read_is_named_and_the_page_is_full(
    client: Client, damage: str
) -> None:
    made = client.add(make_spec("backup"))
    end(client, made.id, *[Status.FAILED] * 9)
    write(client, "DROP TRIGGER executions_final")
    write(client, f"UPDATE executions SET {damage} WHERE id IN (3, 6, 7)")

    page = client.history_page(limit=4)
    assert [run.id for run in page.runs] == [9, 8, 5, 4]
    assert page.unreadable == [7, 6]
    assert client.run_page(limit=4) == page
    assert client.history_page("backup", limit=9).unreadable == [7, 6, 3]
    assert [run.id for run in client.history("backup", choice=RunChoice(before_id=4))] == [2, 1]
    with pytest.raises(Unreadable, match="run 3"):
        client.execution(3)
    assert [run.id for run in client.run_page(before_id=4, limit=4).runs] == [2, 1]
    assert [run.id for run in client.run_page(after_id=1, limit=4).runs] == [8, 5, 4, 2]
    assert [run.id for run in client.run_page(statuses=(Status.FAILED,)).runs] == [9, 8, 5, 4, 2, 1]


def test_the_last_failure_is_the_newest_that_failed_or_was_interrupted(
    client: Client,
) -> None:
    made = client.add(make_spec("backup"))
    none = client.last_failure()
    end(client, made.id, Status.INTERRUPTED, Status.FAILED, Status.CANCELLED, Status.SUCCESS)

    last = client.last_failure()

    assert none is None
    assert last is not None
    assert last.id == 2


def test_names_are_those_of_removed_schedules_too(client: Client) -> None:
    for name in ("backup", "report", "back-office"):
        client.add(make_spec(name))
    client.remove("backup")
    client.add(make_spec("backup"))

    assert sorted(client.schedule_names()) == [
        *((1, "backup"), (2, "report"), (3, "back-office"), (4, "backup")),
    ]
    found = client.schedule_ids_named(parse_filter("back"))
    assert sorted(found) == [1, 3, 4]


def test_of_the_names_of_schedules_those_of_least_rank_are_found(client: Client) -> None:
    for name in ("backup", "report", "b", "bb", "big"):
        client.add(make_spec(name))
    client.remove("big")

    assert client.nearest_names("b", limit=2) == ["b", "bb"]
    assert client.nearest_names("b", limit=9) == ["b", "bb", "backup"]
    assert client.nearest_names("", limit=9) == ["b", "backup", "bb", "report"]


def test_the_change_mark_is_another_one_when_somebody_else_has_committed(
    client: Client, tmp_path: Path
) -> None:
    client.add(make_spec("own"))
    mark = client.change_mark()
    again = client.change_mark()

    with Client(tmp_path / "edgecron.db") as other:
        other.add(make_spec("foreign"))

    assert again == mark
    assert client.change_mark() != mark


def test_an_interrupt_ends_the_question_that_is_being_answered(client: Client) -> None:
    client.add_all([make_spec(f"s{number}") for number in range(50)])

    def interrupt() -> bool:
        client.interrupt()
        return False

    connection = client.file_store("a handler", instead="").connection
    connection.set_progress_handler(interrupt, 10)
    with pytest.raises(QueryInterrupted, match="was interrupted"):
        find_order_of(
            client.store,
            SortBy.RUNS,
            is_descending=False,
            matches=lambda keys: True,
            now=client.now(),
        )
    connection.set_progress_handler(None)

    assert len(client.schedule_order()) == 50


def test_an_interrupt_ends_nothing_that_begins_after_it(tmp_path: Path) -> None:
    client = Client(tmp_path / "edgecron.db")
    client.interrupt()
    client.add(make_spec("backup"))
    client.interrupt()

    assert len(client.schedule_order()) == 1

    database = client.store
    client.close()
    client.interrupt()
    database.interrupt()


def test_a_filter_that_raises_leaves_the_database_usable(client: Client) -> None:
    client.add_all([make_spec(f"s{number}") for number in range(5)])

    with pytest.raises(ZeroDivisionError):
        find_order_of(
            client.store,
            SortBy.NAME,
            is_descending=False,
            matches=lambda keys: 1 / 0 > 1,
            now=client.now(),
        )

    client.remove("s3")
    assert len(client.schedule_order()) == 4


def test_the_sizes_of_a_database_are_those_of_its_files(tmp_path: Path) -> None:
    with Client(tmp_path / "edgecron.db") as client:
        before = client.database_sizes()
        client.add(replace(make_spec("backup", overlap=Overlap.ALLOW), description="x" * 4000))
        file, log = client.database_sizes()

        assert before == (0, 0)
        assert file + log > 4000
        assert file == client.path.stat().st_size


def test_what_is_read_one_by_one_is_let_go_of_when_it_is_not_read_to_its_end(
    client: Client,
) -> None:
    client.add_all([make_spec(f"s{number}") for number in range(5)])
    database = Database(client.path)
    rows = database.each("SELECT id FROM schedules ORDER BY id")

    first = next(rows)
    rows.close()  # type: ignore[attr-defined]

    assert first == (1,)
    database.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert client.database_sizes()[1] == 0
    database.close()


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        ("0 2 * * *", "02:00 every day"),
        ("30 3 * * SUN", "03:30, Sunday"),
        ("@hourly", "every hour"),
        ("*/15 9-17 * * *", "every 15 minutes from 09:00 to 17:45"),
        ("every 5m", "every 5 minutes"),
        ("every 1h after end", "1 hour after its end"),
        ("on boot", "at boot"),
        ("at 2030-01-01T00:00:00Z", "once"),
    ],
)
def test_a_line_says_when_in_a_few_words(client: Client, trigger: str, words: str) -> None:
    client.add(make_spec("backup", trigger))

    [line] = client.first_schedule_lines(1)

    assert line.when == words


def test_a_line_whose_triggers_can_not_be_read_has_their_texts(client: Client) -> None:
    client.add(make_spec("backup", "0 2 * * *"))
    write(client, """UPDATE schedules SET compiled = '["no"]'""")

    [line] = client.first_schedule_lines(1)

    assert line.when == "0 2 * * *"
