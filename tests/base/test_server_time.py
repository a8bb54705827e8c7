"""The time of a server, by what its answers show."""

from __future__ import annotations

from edgecron.base.clock import ServerTime, instant_by
from tests.support.clock import FakeClock


def test_until_the_first_answer_a_machine_has_its_own_time() -> None:
    own = FakeClock(1_000)
    own.synchronised = None
    time = ServerTime(own)

    assert not time.is_known
    assert time.now_ms() == 1_000
    assert time.is_synchronised() is None


def test_the_time_is_never_ahead_of_the_servers_and_changes_only_if_it_must() -> None:
    own = FakeClock(1_000)
    time = ServerTime(own)
    asked_ms = own.boottime_ms()
    own.advance_ms(20)  # The answer took so long, and the server read its clock within.

    time.note(500_000, asked_ms=asked_ms)
    first = time.now_ms()
    own.advance_ms(100)
    time.note(500_110, asked_ms=own.boottime_ms() - 30)
    same = time.now_ms()
    time.note(500_118, asked_ms=own.boottime_ms() - 1)
    better = time.now_ms()

    assert (first, same, better) == (500_000, 500_110, 500_118)
    assert time.is_synchronised() is True


def test_a_servers_clock_that_is_set_is_followed_and_this_machines_is_not() -> None:
    own = FakeClock(1_000)
    time = ServerTime(own)
    time.note(500_000)

    own.step_ms(3_600_000)
    unmoved = time.now_ms()
    time.note(400_000, asked_ms=own.boottime_ms() - 5)

    assert unmoved == 500_000
    assert time.now_ms() == 400_005
    assert time.own_ms(400_105) == own.now_ms() + 100


def test_an_instant_of_this_machines_wall_clock_is_one_of_the_servers() -> None:
    own = FakeClock(1_000)
    time = ServerTime(own)
    time.note(500_000)
    own.advance_ms(50)

    assert instant_by(time, 1_020) == 500_020
    assert instant_by(own, 1_020) == 1_020
    assert instant_by(None, 1_020) == 1_020
