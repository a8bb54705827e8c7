"""What the processes of `python -m tests.simulation` do. Nothing is imported before it is asked."""

from __future__ import annotations

import os


def begin() -> None:
    """Ignore this machine's configuration."""
    os.environ["EDGECRON_CONFIG"] = "none"


def live(seed: int) -> object:
    """The figures of a seed's life, or the violation in it."""
    from tests.simulation.seeds import Violation, live_once

    try:
        return live_once(seed)
    except Violation as violation:
        return violation


def tell_all(kind: str, name: str) -> tuple[int, list[tuple[str, str]]]:
    """A story with one kind of thing at each point where that may happen.

    How many those are; of what broke how it is replayed, and why.
    """
    from tests.simulation.seeds import Violation
    from tests.simulation.stories import kind_of, points_for, tell_once

    points = points_for(kind_of(kind), name)
    violations = []
    for number in points:
        try:
            tell_once(name, hit=(number, kind_of(kind)))
        except Violation as violation:
            violations.append((f"{name}:{kind}:{number}", str(violation)))
    return len(points), violations
