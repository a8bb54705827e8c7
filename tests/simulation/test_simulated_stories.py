"""At every point of the core stories something happens: a kill, a fault, a stall, a clock set.

By default at some points of each; with `-m slow`, or by `python -m tests.simulation --stories`, at
all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.simulation.points import Fault, Hit
from tests.simulation.stories import STORIES, count_points, points_for, tell_once
from tests.support.forms import tried

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

_STRIDE = 120  # from one point to the next; each kind of hit begins at another one
_MOST = tried(1, 100)  # strides in a long story, so that it takes no longer than others


@pytest.mark.failure(15)
@pytest.mark.failure(17)
@pytest.mark.failure(19)
@pytest.mark.failure(36)
@pytest.mark.parametrize("name", STORIES)
def test_whatever_happens_at_a_point_of_a_story_it_ends_well(name: str) -> None:
    points = count_points(name)
    stride = max(_STRIDE, points // _MOST)
    shift = tried(list(STORIES).index(name) * 7, 0)  # so that stories are hit at other points
    hits = 0

    for offset, kind in enumerate(Hit):
        for number in range(1 + shift + offset * stride // len(Hit), points + 1, stride):
            machine = tell_once(name, hit=(number, kind))
            hits += machine.hit is None

    assert hits >= 2


@pytest.mark.needs_package("psycopg")
@pytest.mark.failure(82)
@pytest.mark.parametrize("name", STORIES)
def test_whatever_happens_at_a_point_of_a_story_on_a_server_it_ends_well(
    postgres: PostgresServer, name: str
) -> None:
    number, kinds = list(STORIES).index(name), list(Hit)

    for kind in tried(kinds[number % len(kinds) :][:1], kinds):
        hit = 20 + 4 * number, kind
        machine = tell_once(name, hit=hit, url=postgres.create_database())
        assert machine.hit is None
        assert machine.bodies


@pytest.mark.slow
@pytest.mark.needs_package("psycopg")
@pytest.mark.parametrize("kind", Hit)
@pytest.mark.parametrize("name", STORIES)
def test_whatever_happens_at_any_point_of_a_story_on_a_server_it_ends_well(
    postgres: PostgresServer, name: str, kind: Hit
) -> None:
    for number in range(1, count_points(name, url=postgres.create_database()) + 1):
        tell_once(name, hit=(number, kind), url=postgres.create_database())
        postgres.drop_databases()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in (*Hit, *Fault) if kind is not Hit.FAULT])
@pytest.mark.parametrize("name", STORIES)
def test_whatever_happens_at_any_point_of_a_story_it_ends_well(
    name: str, kind: Hit | Fault
) -> None:
    for number in points_for(kind, name):
        tell_once(name, hit=(number, kind))


def test_a_story_in_which_nothing_happens_has_runs_at_its_points(tmp_path: Path) -> None:
    told = {name: tell_once(name) for name in STORIES}

    assert all(machine.bodies for machine in told.values())
    assert all(machine.told > 50 for machine in told.values())
    assert not any(machine.kills for name, machine in told.items() if name == "fire")
