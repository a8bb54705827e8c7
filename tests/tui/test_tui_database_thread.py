"""The thread that asks the database for the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from queue import Empty, Queue
from threading import Event

import pytest

from edgecron.base.errors import DatabaseDamaged, EdgecronError, NotFound
from edgecron.client import Client
from edgecron.client.protocol import Client as AnyClient
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.tui.actions import Actions, act_on_each
from edgecron.tui.database_thread import DatabaseThread

BOUND_S = 20.0


class Screen:
    """Takes what a thread delivers, and does it when it is told to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.delivered: Queue[Callable[[], None]] = Queue()
        self.told: list[object] = []
        self.troubles: list[str | None] = []
        self.thread = DatabaseThread(
            lambda: Client(path, must_exist=True),
            deliver=self.delivered.put,
            name="test-reader",
            changed=lambda: self.told.append("changed"),
            troubled=self._note,
        )
        self.thread.start()

    def _note(self, error: EdgecronError | None) -> None:
        self.troubles.append(None if error is None else error.message)

    def ask(self, topic: str, question: Callable[[AnyClient], object]) -> None:
        self.thread.ask(topic, question, answer=self.told.append, refused=self.told.append)

    def next(self) -> object:
        """What was told next."""
        while not self.told:
            self.delivered.get(timeout=BOUND_S)()
        return self.told.pop(0)


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Screen]:
    screen = Screen(tmp_path / "edge.db")
    yield screen
    screen.thread.close()


def add(path: Path, name: str) -> None:
    spec = ScheduleSpec(
        name=name, triggers=("@daily",), job=Job(kind=JobKind.COMMAND, argv=("true",))
    )
    with Client(path) as client:
        client.add(spec)


def names(client: AnyClient) -> list[str]:
    return [schedule.name for schedule in client.schedules()]


def test_a_question_is_answered_on_the_thread_that_takes_deliveries(screen: Screen) -> None:
    add(screen.path, "backup")

    screen.ask("names", names)

    assert screen.next() == ["backup"]


def test_what_others_commit_is_told_without_being_asked_for(screen: Screen) -> None:
    add(screen.path, "backup")
    screen.ask("names", names)
    screen.next()

    add(screen.path, "rotate")

    assert screen.next() == "changed"
    screen.ask("names", names)
    assert screen.next() == ["backup", "rotate"]


def answered(number: int) -> Callable[[AnyClient], int]:
    """A question with this answer."""
    return lambda _: number


def test_a_question_of_the_same_topic_takes_the_place_of_one_not_begun(screen: Screen) -> None:
    add(screen.path, "backup")
    has_begun, go_on = Event(), Event()

    def slow(client: AnyClient) -> str:
        has_begun.set()
        assert go_on.wait(BOUND_S)
        return "slow"

    screen.ask("slow", slow)
    assert has_begun.wait(BOUND_S)
    for number in range(5):
        screen.ask("number", answered(number))
    go_on.set()

    assert [screen.next(), screen.next()] == ["slow", 4]
    with pytest.raises(Empty):
        screen.delivered.get_nowait()


def test_a_database_that_is_not_there_is_told_and_found_when_it_comes(screen: Screen) -> None:
    screen.ask("names", names)
    error = screen.next()
    assert isinstance(error, EdgecronError)

    add(screen.path, "backup")
    screen.ask("names", names)

    assert screen.next() == ["backup"]


def test_a_database_that_was_replaced_is_opened_anew(screen: Screen, tmp_path: Path) -> None:
    add(screen.path, "backup")
    screen.ask("names", names)
    screen.next()
    other = tmp_path / "other.db"
    add(other, "restored")

    for suffix in ("-wal", "-shm"):
        screen.path.with_name(screen.path.name + suffix).unlink(missing_ok=True)
    other.replace(screen.path)

    seen: object = None
    while seen != ["restored"]:
        screen.ask("names", names)
        seen = screen.next()


def test_trouble_is_told_once_and_over_when_what_failed_is_answered(screen: Screen) -> None:
    add(screen.path, "backup")
    is_damaged = True

    def ask(client: AnyClient) -> list[str]:
        if is_damaged:
            raise DatabaseDamaged("a page is damaged")
        return names(client)

    for _ in range(3):
        screen.ask("what fails", ask)
        assert isinstance(screen.next(), DatabaseDamaged)
        screen.ask("names", names)  # What can be answered is no proof that the other one can.
        assert screen.next() == ["backup"]
    is_damaged = False
    troubles = list(screen.troubles)
    screen.ask("what fails", ask)
    while screen.next() != ["backup"]:
        pass

    assert troubles == ["a page is damaged"]
    assert screen.troubles == ["a page is damaged", None]


def test_what_can_t_be_found_is_no_trouble_of_the_database(screen: Screen) -> None:
    add(screen.path, "backup")

    screen.ask("names", lambda client: client.schedule("other"))

    assert isinstance(screen.next(), NotFound)
    assert screen.troubles == []


def test_a_database_that_comes_is_found_without_being_asked_for(screen: Screen) -> None:
    screen.ask("names", names)
    assert isinstance(screen.next(), NotFound)

    add(screen.path, "backup")

    assert screen.next() == "changed"
    assert screen.troubles == [f"database {screen.path} does not exist", None]


def test_a_question_that_is_broken_off_is_not_answered_and_others_are(screen: Screen) -> None:
    add(screen.path, "backup")
    screen.ask("names", names)
    screen.next()
    has_begun, has_ended = Event(), Event()

    def slow(client: AnyClient) -> object:
        assert isinstance(client, Client)
        has_begun.set()
        try:
            return client.store.rows(
                """WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                   SELECT count(*) FROM n"""
            )
        finally:
            has_ended.set()

    screen.ask("search", slow)
    assert has_begun.wait(BOUND_S)
    screen.thread.interrupt("other")
    assert not has_ended.is_set()
    while not has_ended.wait(0.01):
        screen.thread.interrupt("search")
    screen.ask("names", names)

    assert screen.next() == ["backup"]


def test_closing_does_not_wait_for_an_answer_that_nobody_needs(screen: Screen) -> None:
    add(screen.path, "backup")
    has_begun = Event()

    def endless(client: AnyClient) -> object:
        assert isinstance(client, Client)
        has_begun.set()
        return client.store.rows(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        )

    screen.ask("endless", endless)
    assert has_begun.wait(BOUND_S)

    screen.thread.close()

    assert not screen.thread.is_alive


def test_closing_does_not_wait_for_all_that_is_to_be_done_to_many(screen: Screen) -> None:
    add(screen.path, "backup")
    has_begun = Event()

    def act(client: AnyClient) -> object:
        return act_on_each(
            client,
            [1] * 1_000_000,
            Actions.cancel,
            zone=UTC,
            progress=lambda done, count: has_begun.set(),
        )

    screen.ask("act", act)
    assert has_begun.wait(BOUND_S)

    screen.thread.close()

    assert not screen.thread.is_alive


def test_changes_that_nobody_takes_do_not_pile_up(screen: Screen) -> None:
    add(screen.path, "backup")
    screen.ask("names", names)
    screen.next()
    add(screen.path, "rotate")
    change = screen.delivered.get(timeout=BOUND_S)

    add(screen.path, "prune")
    screen.ask("names", names)  # Before it is answered it is looked whether anything has changed.
    answer = screen.delivered.get(timeout=BOUND_S)
    answer()
    change()
    add(screen.path, "report")

    assert screen.told == [["backup", "prune", "rotate"], "changed"]
    screen.told.clear()
    assert screen.next() == "changed"


def test_a_defect_is_raised_on_the_screen_s_thread_wherever_it_shows(tmp_path: Path) -> None:
    delivered: Queue[Callable[[], None]] = Queue()

    class Odd(Client):
        def change_mark(self) -> int:
            raise LookupError("a defect")

    add(tmp_path / "edge.db", "backup")
    thread = DatabaseThread(
        lambda: Odd(tmp_path / "edge.db"),
        deliver=delivered.put,
        name="test-reader",
        changed=lambda: None,
    )
    thread.start()
    thread.ask("names", names, answer=lambda _: None, refused=lambda _: None)

    with pytest.raises(LookupError, match="a defect"):
        delivered.get(timeout=BOUND_S)()
    thread.close()
    assert not thread.is_alive
