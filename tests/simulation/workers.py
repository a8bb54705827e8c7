"""What the processes of `python -m tests.simulation` do. Nothing is imported before it is asked."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def begin() -> None:
    """Find the simulation, and nothing of this machine's configuration."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    os.environ["EDGECRON_CONFIG"] = "none"


def live(seed: int) -> object:
    """The figures of a seed's life, or the violation in it."""
    from simulation.seeds import Violation, live_once

    try:
        return live_once(seed)
    except Violation as violation:
        return violation


def tell_all(kind: str, name: str) -> tuple[int, list[str]]:
    """A story with one kind of thing at each of its points: how many those are, and what broke."""
    from simulation.points import Hit
    from simulation.seeds import Violation
    from simulation.stories import count_points, tell_once

    points = count_points(name)
    violations = []
    for number in range(1, points + 1):
        try:
            tell_once(name, hit=(number, Hit(kind)))
        except Violation as violation:
            violations.append(str(violation))
    return points, violations
