"""The window of the list of runs: pages that are read as one comes near them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from edgecron.client import Client
from edgecron.model.choices import JobKind
from edgecron.model.filters import parse_filter
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.tui.run_list import RunSource
from tests.support.clock import FakeClock
from tests.tui.askers import AtOnce, InTurn

COUNT = 5_000
REMOVED = range(1_001, 1_801)  # of the ids, by retention


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "edge.db"
    with Client(path, clock=FakeClock()) as client:
        for name in ("backup", "rotate"):
            job = Job(kind=JobKind.COMMAND, argv=("true",))
            client.add(ScheduleSpec(name=name, triggers=("@daily",), job=job))
    connection = apsw.Connection(str(path))
    add_runs(connection, first=1, last=COUNT)
    connection.execute("DELETE FROM executions WHERE id BETWEEN ? AND ?", (REMOVED[0], REMOVED[-1]))
    connection.close()
    return path


def add_runs(connection: apsw.Connection, *, first: int, last: int) -> None:
    """Runs of two schedules by turns; one in a hundred has failed."""
    connection.execute(
        """WITH RECURSIVE n (id) AS (SELECT :first UNION ALL SELECT id + 1 FROM n WHERE id < :last)
           INSERT INTO executions (id, schedule_id, revision, plan_at, cause, due_at, queue,
               status, reason, claimed_at, started_at, finished_at, duration_ms, exit_code)
           SELECT id, 1 + id % 2, 1, id * 1000, 'schedule', id * 1000, 'command',
               iif(id % 100, 'success', 'failed'), iif(id % 100, NULL, 'exit'),
               id * 1000, id * 1000, id * 1000 + 5, 5, id % 100 = 0
           FROM n""",
        {"first": first, "last": last},
    )


@pytest.fixture
def screen(database: Path) -> Iterator[AtOnce]:
    clock = FakeClock()
    with Client(database, clock=clock) as client:
        yield AtOnce(client, clock)


@pytest.fixture
def source(screen: AtOnce) -> RunSource:
    source = RunSource(
        screen,  # type: ignore[arg-type]
        changed=lambda: None,
    )
    source.read()
    return source


def id_at(source: RunSource, index: int) -> int | None:
    line = source.line(index)
    return None if line is None else line.key


def walk(source: RunSource, indexes: Iterator[int] | range) -> list[int | None]:
    """The ids of lines, each looked at as a screen of twenty does."""
    found = []
    for index in indexes:
        source.want(index, index + 20)
        found.append(id_at(source, index))
    return found


def test_the_newest_comes_first_and_only_a_page_is_read(source: RunSource) -> None:
    assert id_at(source, 0) == COUNT
    assert id_at(source, 119) == COUNT - 119
    assert id_at(source, 120) is None
    assert source.count == COUNT  # by the ids, of which some were removed


def test_going_down_shows_every_run_once(source: RunSource) -> None:
    found = walk(source, range(COUNT - len(REMOVED)))

    assert found == [number for number in range(COUNT, 0, -1) if number not in REMOVED]
    assert source.count == COUNT - len(REMOVED)  # the end was seen


def test_going_down_and_up_again_comes_back_to_the_newest(source: RunSource) -> None:
    walk(source, range(0, 4_000, 10))

    found = walk(source, range(3_999, -1, -1))

    assert found[-1] == COUNT
    assert None not in found


def test_the_window_stays_small(source: RunSource) -> None:
    walk(source, range(4_000))

    kept = [index for index in range(source.count) if source.line(index) is not None]
    assert len(kept) <= 1_600 + 200


def test_a_jump_reads_what_is_there_and_not_what_lies_between(
    source: RunSource, screen: AtOnce
) -> None:
    before = screen.asked

    source.want(2_500, 2_520)

    assert screen.asked == before + 1
    assert abs((id_at(source, 2_500) or 0) - (COUNT - 2_500)) <= 120
    assert None not in walk(source, range(2_500, 2_520))


def test_a_jump_to_the_end_shows_the_oldest_as_the_last_line(source: RunSource) -> None:
    last = source.count - 1
    source.want(last - 20, last)

    assert id_at(source, source.count - 1) == 1


def test_an_end_that_was_seen_is_shown_without_a_wait_and_read_again(
    database: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copy.db"
    with Client(database) as client:
        client.backup(copied)
    clock = FakeClock()
    with Client(copied, clock=clock) as client:
        screen = InTurn(client, clock)
        source = RunSource(
            screen,  # type: ignore[arg-type]
            changed=lambda: None,
        )
        source.read()
        screen.answer_next()
        last = source.count - 1
        source.want(last - 20, last + 1)
        screen.answer_next()
        connection = apsw.Connection(str(copied))
        connection.execute("DELETE FROM executions WHERE id IN (1, ?)", (COUNT,))
        connection.close()

        source.want(0, 20)
        assert id_at(source, 0) == COUNT
        screen.answer_next()
        assert id_at(source, 0) == COUNT - 1

        last = source.count - 1
        source.want(last - 20, last + 1)
        assert id_at(source, last) == 1
        screen.answer_next()
        assert not screen.waiting
        assert [id_at(source, source.count - up) for up in range(1, 21)] == list(range(2, 22))


def test_a_filter_forgets_the_ends_that_were_seen(source: RunSource, screen: AtOnce) -> None:
    last = source.count - 1
    source.want(last - 20, last + 1)
    source.filter_by(parse_filter("status:failed"))

    walk(source, range(source.count))
    source.want(0, 20)

    assert id_at(source, 0) == COUNT


def test_after_a_jump_to_the_end_going_up_reaches_the_newest_as_the_first_line(
    source: RunSource,
) -> None:
    last = source.count - 1
    source.want(last - 20, last)
    index = source.count - 1
    seen: list[int | None] = []

    while index >= 0:
        key = id_at(source, index)
        assert key is not None
        seen.append(key)
        source.want(max(0, index - 10), index + 10)
        # Where the lines before it were fewer than thought, it has moved; the cursor goes with it.
        moved = source.index_of(key)
        assert moved is not None
        index = moved - 1

    assert seen == [number for number in range(1, COUNT + 1) if number not in REMOVED]


def test_new_runs_come_on_top_while_one_looks_at_the_top(
    source: RunSource, database: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copy.db"
    with Client(database) as client:
        client.backup(copied)
    clock = FakeClock()
    with Client(copied, clock=clock) as client:
        source = RunSource(
            AtOnce(client, clock),  # type: ignore[arg-type]
            changed=lambda: None,
        )
        source.read()
        connection = apsw.Connection(str(copied))
        add_runs(connection, first=COUNT + 1, last=COUNT + 3)
        connection.close()
        clock.advance_ms(60_000)

        source.read()

        assert [id_at(source, index) for index in range(4)] == [5_003, 5_002, 5_001, 5_000]
        assert source.count == COUNT + 3


def test_a_page_that_comes_after_the_window_was_read_anew_leaves_no_gap(database: Path) -> None:
    clock = FakeClock()
    with Client(database, clock=clock) as client:
        screen = InTurn(client, clock)
        source: RunSource
        source = RunSource(
            screen,  # type: ignore[arg-type]
            changed=lambda: source.want(220, 240),
        )
        source.read()
        screen.answer_next()

        source.read()  # somebody has changed something, while a page is on its way
        while screen.waiting:
            screen.answer_next()

        assert [id_at(source, index) for index in range(240)] == list(range(COUNT, COUNT - 240, -1))


def test_a_page_is_read_while_what_was_changed_must_wait(database: Path) -> None:
    clock = FakeClock()
    with Client(database, clock=clock) as client:
        screen = InTurn(client, clock)
        source: RunSource
        source = RunSource(
            screen,  # type: ignore[arg-type]
            changed=lambda: None,
        )
        source.read()
        screen.answer_next()
        source.read()
        screen.waiting.clear()  # as if it had to wait, or were refused

        source.want(100, 120)
        screen.answer_next()

        assert id_at(source, 239) == COUNT - 239


def test_what_is_to_be_marked_is_not_where_the_filter_is_another_one_by_then(
    database: Path,
) -> None:
    clock = FakeClock()
    told: list[object] = []
    with Client(database, clock=clock) as client:
        screen = InTurn(client, clock)
        source: RunSource
        source = RunSource(
            screen,  # type: ignore[arg-type]
            changed=lambda: None,
        )
        source.ask_keys(told.append)
        source.filter_by(parse_filter("status:failed"))
        while screen.waiting:
            screen.answer_next()

    assert told == []


def test_a_filter_shows_what_it_lets_through_to_its_end(source: RunSource) -> None:
    source.filter_by(parse_filter("status:failed"))

    found = walk(source, range(40))

    assert [number for number in found if number] == [
        number for number in range(COUNT, 0, -100) if number not in REMOVED
    ][:40]
    walk(source, range(source.count))
    assert source.count == 50 - 8


def test_a_filter_by_a_name_that_none_has_shows_nothing(source: RunSource) -> None:
    source.filter_by(parse_filter("job:nobody"))

    assert source.count == 0


def test_without_a_filter_all_are_back(source: RunSource) -> None:
    source.filter_by(parse_filter("job:rotate"))
    assert {line.key % 2 for index in range(20) if (line := source.line(index))} == {1}

    source.filter_by(None)

    assert source.count == COUNT


def test_all_that_match_can_be_marked_beyond_the_window(source: RunSource) -> None:
    told: list[list[int]] = []
    source.ask_keys(lambda keys: told.append(list(keys)))
    source.filter_by(parse_filter("status:failed"))
    source.ask_keys(lambda keys: told.append(list(keys)))

    everything, failed = told

    assert everything == [number for number in range(COUNT, 0, -1) if number not in REMOVED]
    assert failed == [number for number in everything if number % 100 == 0]


def test_a_page_that_could_not_be_read_is_asked_for_again(database: Path) -> None:
    clock = FakeClock()
    with Client(database, clock=clock) as client:
        screen = InTurn(client, clock)
        source = RunSource(
            screen,  # type: ignore[arg-type]
            changed=lambda: None,
        )
        source.read()
        screen.answer_next()
        source.want(110, 130)
        screen.refuse_next()

        source.want(110, 130)
        screen.answer_next()

        assert id_at(source, 125) == COUNT - 125
