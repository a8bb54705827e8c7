"""What the processes of `python -m tests.simulation` do. Nothing is imported before it is asked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def begin() -> None:
    """Ignore this machine's configuration."""
    os.environ["EDGECRON_CONFIG"] = "none"


@contextmanager
def databases(*, on_server: bool) -> Iterator[Callable[[], str | None]]:
    """What makes an empty database on a private server; its URL. None: a file takes its place."""
    if not on_server:
        yield lambda: None
        return
    from tests.support.postgres import private_server  # its driver is an extra

    with private_server() as server:

        def make() -> str:
            server.drop_databases()
            return server.create_database()

        yield make


def live(seed: int, on_server: bool) -> object:
    """The figures of a seed's life, or the violation in it."""
    from tests.simulation.seeds import Violation, live_once

    try:
        with databases(on_server=on_server) as make:
            return live_once(seed, url=make())
    except Violation as violation:
        return violation


def tell_all(kind: str, name: str, on_server: bool) -> tuple[int, list[tuple[str, str]]]:
    """A story with one kind of thing at each point where that may happen.

    How many those are; of what broke how it is replayed, and why.
    """
    from tests.simulation.seeds import Violation
    from tests.simulation.stories import kind_of, points_for, tell_once

    violations = []
    with databases(on_server=on_server) as make:
        points = points_for(kind_of(kind), name, url=make())
        for number in points:
            try:
                tell_once(name, hit=(number, kind_of(kind)), url=make())
            except Violation as violation:
                violations.append((f"{name}:{kind}:{number}", str(violation)))
    return len(points), violations
