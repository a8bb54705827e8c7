"""A virtual world over the store that a test names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pytest

from tests.simulation.test_simulation import START_MS
from tests.simulation.world import World
from tests.support.stores import ServerClock, ServerStores


@pytest.fixture
def make_world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], World]]:
    """Makes the world of a seed, over a file or a PostgreSQL server, as its parameter says."""
    with ExitStack() as stack:

        def make(seed: int) -> World:
            clock, stores = None, None
            if request.param == "postgres":
                monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
                clock = stack.enter_context(closing(ServerClock(START_MS)))
                url = request.getfixturevalue("postgres").create_database()
                stores = stack.enter_context(closing(ServerStores(url, clock=clock)))
            world = World(
                tmp_path / "sim.db",
                random=Random(seed),
                start_ms=START_MS,
                clock=clock,
                stores=stores,
            )
            stack.callback(world.close)
            world.fix_seed()
            return world

        yield make
