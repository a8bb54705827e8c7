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


def tell_all(name: str) -> tuple[str, dict[str, int], list[str]]:
    """A story with each kind of thing at each of its points: how many of each, and what broke."""
    from simulation.points import Hit
    from simulation.seeds import Violation
    from simulation.stories import count_points, tell_once

    counts: dict[str, int] = {}
    violations = []
    for kind in Hit:
        for number in range(1, count_points(name) + 1):
            try:
                tell_once(name, hit=(number, kind))
            except Violation as violation:
                violations.append(str(violation))
            counts[kind] = counts.get(kind, 0) + 1
    return name, counts, violations
