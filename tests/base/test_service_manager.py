"""What a service manager is told of an engine, and when: over a real socket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.base.errors import DatabaseUnusable
from edgecron.base.service_manager import (
    ServiceManager,
    ServiceWatchdog,
    find_manager,
    take_manager,
)
from tests.support.clock import FakeClock
from tests.support.servicemanager import NotifySocket

MINUTE = 60_000
NEXT = ("backup", 1_773_000_000_000)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[NotifySocket]:
    notify = NotifySocket(tmp_path / "notify")
    yield notify
    notify.close()


def feed_of(
    address: str, clock: FakeClock, *, watchdog_ms: int | None = 5 * MINUTE, warned: list[str]
) -> ServiceWatchdog:
    manager = ServiceManager(address=address, watchdog_ms=watchdog_ms)
    return ServiceWatchdog(manager, clock=clock, main_pid=41, warn=warned.append)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def warned() -> list[str]:
    return []


@pytest.fixture
def feed(listening: NotifySocket, clock: FakeClock, warned: list[str]) -> ServiceWatchdog:
    return feed_of(listening.address, clock, warned=warned)


def look(feed: ServiceWatchdog, *, running: int = 0, coming: tuple[str, int] | None = NEXT) -> None:
    feed.note_alive(running=running, find_next=lambda: coming)


def test_the_first_look_says_ready_and_what_comes(
    feed: ServiceWatchdog, listening: NotifySocket
) -> None:
    look(feed, running=3)

    assert listening.take_all() == [
        {
            "READY": "1",
            "MAINPID": "41",
            "STATUS": "3 running; next: backup at 2026-03-08T20:00:00Z",
        }
    ]


def test_an_engine_that_looks_every_45_s_feeds_in_time_and_seldom(
    feed: ServiceWatchdog, listening: NotifySocket, clock: FakeClock
) -> None:
    fed_s = []
    for number in range(80):
        look(feed)
        if any("WATCHDOG" in told for told in listening.take_all()):
            fed_s.append(number * 45)
        clock.advance_ms(45_000)

    assert fed_s == list(range(135, 3600, 135))


def test_a_short_watchdog_is_fed_at_each_half_of_it(
    listening: NotifySocket, clock: FakeClock, warned: list[str]
) -> None:
    feed = feed_of(listening.address, clock, watchdog_ms=30_000, warned=warned)

    assert feed.every_ms == 15_000
    look(feed)
    clock.advance_ms(15_000)
    look(feed)
    assert [sorted(told) for told in listening.take_all()][1:] == [["WATCHDOG"]]


def test_without_a_watchdog_nothing_is_fed_and_the_engine_may_look_when_it_likes(
    listening: NotifySocket, clock: FakeClock, warned: list[str]
) -> None:
    feed = feed_of(listening.address, clock, watchdog_ms=None, warned=warned)

    look(feed)
    clock.advance_ms(60 * MINUTE)
    look(feed)

    assert feed.every_ms is None
    assert len(listening.take_all()) == 1


def test_a_new_status_is_told_at_most_every_ten_seconds_and_the_last_one_is(
    feed: ServiceWatchdog, listening: NotifySocket, clock: FakeClock
) -> None:
    for running in range(25):
        look(feed, running=running, coming=None)
        clock.advance_ms(1_000)
    clock.advance_ms(45_000)
    look(feed)

    statuses = [told["STATUS"] for told in listening.take_all() if "STATUS" in told]
    assert [text.split(";")[0] for text in statuses] == [
        *("0 running", "10 running", "20 running", "0 running")
    ]
    assert statuses[0] == "0 running; nothing to come"


def test_an_engine_in_trouble_is_fed_and_says_so_but_is_not_ready(
    feed: ServiceWatchdog, listening: NotifySocket, clock: FakeClock
) -> None:
    for _ in range(200):
        feed.note_trouble(DatabaseUnusable("database x is locked\nby another"))
        clock.advance_ms(2_000)

    told = listening.take_all()
    assert told[0] == {"STATUS": "in trouble: database x is locked by another"}
    assert all(each == {"WATCHDOG": "1"} for each in told[1:])
    assert 2 <= len(told) - 1 <= 4
    look(feed)
    assert "READY" in listening.wait()


def test_what_stops_says_so_at_once_and_that_it_may_take_time(
    feed: ServiceWatchdog, listening: NotifySocket, clock: FakeClock
) -> None:
    for _ in range(60):
        feed.note_stopping(running=2)
        clock.advance_ms(1_000)

    assert (
        listening.take_all()
        == [
            {
                "STOPPING": "1",
                "EXTEND_TIMEOUT_USEC": "60000000",
                "WATCHDOG": "1",
                "STATUS": "stopping, 2 running",
            }
        ]
        * 2
    )


def test_who_does_not_listen_is_told_again_and_a_person_once(
    tmp_path: Path, clock: FakeClock, warned: list[str]
) -> None:
    place = tmp_path / "late"
    feed = feed_of(str(place), clock, warned=warned)

    look(feed)
    look(feed)
    listening = NotifySocket(place)
    look(feed)

    assert "READY" in listening.wait()
    assert len(warned) == 1
    assert str(place) in warned[0]
    listening.close()


def test_a_socket_that_nobody_reads_holds_up_nobody(
    feed: ServiceWatchdog, listening: NotifySocket, clock: FakeClock, warned: list[str]
) -> None:
    for _ in range(2_000):  # its queue is of some hundreds at most
        look(feed)
        clock.advance_ms(3 * MINUTE)

    assert 0 < len(listening.take_all()) < 2_000
    assert warned == []


def test_abstract_names_paths_and_no_others_are_sockets() -> None:
    for address in ("/run/systemd/notify", "@/org/freedesktop/systemd1/notify/1"):
        found = find_manager({"NOTIFY_SOCKET": address}, pid=1)
        assert found is not None
        assert found.address == address
    for address in ("", "@", "/", "notify", "vsock:2:1234"):
        assert find_manager({"NOTIFY_SOCKET": address}, pid=1) is None


@pytest.mark.parametrize(
    ("variables", "watchdog_ms"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "300000000"}, 300_000),
        ({"WATCHDOG_USEC": "300000000", "WATCHDOG_PID": "7"}, 300_000),
        ({"WATCHDOG_USEC": "300000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "5min"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-3"}, None),
    ],
)
def test_a_watchdog_is_fed_where_this_process_is_meant(
    variables: dict[str, str], watchdog_ms: int | None
) -> None:
    found = find_manager({"NOTIFY_SOCKET": "/n", **variables}, pid=7)

    assert found is not None
    assert found.watchdog_ms == watchdog_ms


def test_what_was_taken_is_seen_by_nobody_else() -> None:
    environ = {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "9", "WATCHDOG_PID": "1", "HOME": "/"}

    assert take_manager(environ, pid=os.getpid()) is not None

    assert environ == {"HOME": "/"}
