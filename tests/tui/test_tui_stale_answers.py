"""Answers to what is asked no more are not shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgecron.client import Client
from edgecron.model.filters import parse_filter
from edgecron.tui.lanes import TimelineSource
from edgecron.tui.schedule_list import ScheduleSource
from edgecron.tui.upcoming import UpcomingSource
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec
from tests.tui.askers import InTurn


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[InTurn]:
    clock = FakeClock()
    with Client(
        new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms()), clock=clock
    ) as client:
        client.add_all([make_spec(name, "0 2 * * *") for name in ("backup", "rotate")])
        yield InTurn(client, clock)


@pytest.mark.parametrize("kind", [ScheduleSource, UpcomingSource])
def test_an_answer_to_another_filter_is_not_shown(screen: InTurn, kind: Any) -> None:
    shown: list[int] = []
    source: Any = kind(
        screen,
        changed=lambda: shown.append(source.count),
    )
    source.read()
    source.filter_by(parse_filter("nobody"))

    while screen.waiting:
        screen.answer_next()

    assert shown == [0]


def test_lanes_that_were_asked_for_before_a_filter_do_not_end_the_wait_for_it(
    screen: InTurn,
) -> None:
    shown: list[tuple[int, bool]] = []
    source: Any = TimelineSource(
        screen,  # type: ignore[arg-type]
        changed=lambda: shown.append((source.count, source.is_awaited)),
    )
    source.read()
    screen.answer_next()
    source.want(0, 2)
    source.set_cells(40)
    shown.clear()
    source.filter_by(parse_filter("nobody"))

    while screen.waiting:
        screen.answer_next()

    assert shown == [(2, True), (0, False), (0, False)]
