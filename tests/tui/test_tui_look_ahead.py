"""Lines that are read before a key needs them, and what is drawn for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgecron.client import Client
from edgecron.tui.lanes import TimelineSource
from edgecron.tui.schedule_list import ScheduleSource
from tests.support.clock import PacedClock
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec
from tests.tui.askers import AtOnce

COUNT = 400
PAGE = 20


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[AtOnce]:
    clock = PacedClock()
    path = new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms())
    with Client(path, clock=clock) as client:
        client.add_all([make_spec(f"job-{n:03}", "30 * * * *") for n in range(COUNT)])
        yield AtOnce(client, clock)


class Shown:
    """A source of a kind at its first lines, and how often it said that something changed."""

    def __init__(self, kind: Any, screen: AtOnce) -> None:
        self.changes = 0
        self.source = kind(screen, changed=self.note)
        self.source.read()
        self.source.want(0, PAGE)
        if kind is TimelineSource:
            self.source.set_cells(40)
        self.changes = 0

    def note(self) -> None:
        self.changes += 1

    def drawn(self, first: int, last: int) -> list[Any]:
        return [self.source.line(index) for index in range(first, last)]


KINDS = pytest.mark.parametrize("kind", [ScheduleSource, TimelineSource])


@KINDS
def test_a_page_down_finds_its_lines_read(screen: AtOnce, kind: Any) -> None:
    shown = Shown(kind, screen)

    for first in range(PAGE, COUNT - PAGE, PAGE):
        before = shown.drawn(first, first + PAGE)
        shown.source.want(first, first + PAGE)
        assert None not in before
        assert shown.drawn(first, first + PAGE) == before

    assert shown.changes == 0  # Nothing had to be drawn anew.


@KINDS
def test_lines_that_were_scrolled_away_are_read_again_after_a_change(
    screen: AtOnce, kind: Any
) -> None:
    shown = Shown(kind, screen)
    before = shown.drawn(0, PAGE)
    shown.source.want(300, 300 + PAGE)

    screen.client.pause("job-003")
    shown.source.read()
    shown.source.want(0, PAGE)

    changed = [index for index, line in enumerate(shown.drawn(0, PAGE)) if line != before[index]]
    assert changed == [3]


@KINDS
def test_a_jump_draws_the_visible_lines_once(screen: AtOnce, kind: Any) -> None:
    shown = Shown(kind, screen)

    shown.source.want(300, 300 + PAGE)

    assert None not in shown.drawn(300, 300 + PAGE)
    assert shown.changes == (1 if kind is ScheduleSource else 2)  # the lines, then the lanes


def test_lanes_that_are_read_late_are_those_of_the_lines_that_are_visible_then(
    screen: AtOnce, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Shown(TimelineSource, screen)
    timers: list[Callable[[], None]] = []
    monkeypatch.setattr(screen, "set_timer", lambda _, callback: timers.append(callback))
    monkeypatch.setattr(screen.clock, "pace_ms", 1)  # Each question takes time.
    shown.source.read()
    shown.source.read()  # This one waits.

    shown.source.want(300, 300 + PAGE)
    before = shown.drawn(300, 300 + PAGE)
    for callback in timers:
        callback()

    assert len(timers) > 1
    assert shown.drawn(300, 300 + PAGE) == before
