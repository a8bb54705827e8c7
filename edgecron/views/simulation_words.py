"""Say what a simulation has found: its busiest minute, pile-ups, groups and clock changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from edgecron.planning.simulation import Simulation
from edgecron.views.phrases import count_words


def busiest_words(found: Simulation, places: int | None, *, zone: tzinfo) -> str:
    """Return the busiest minute; `places` are those of the engines, if known."""
    at = f"{found.most_active_at.astimezone(zone):%a %Y-%m-%d %H:%M}"
    words = f"{count_words(found.most_active, 'active run')}, {at}"
    if places is not None and found.most_active > places:
        return f"{words}; the engine has {count_words(places, 'place')}, so some runs can wait"
    return words


def sections(found: Simulation, *, zone: tzinfo) -> list[tuple[str, list[str]]]:
    """Return headings and the lines below each."""
    return [
        (
            "start in the same minute:",
            [
                f"{one.at.astimezone(zone):%a %Y-%m-%d %H:%M}: {_names(one.schedules, one.names)}"
                + (f" (on {one.days} days)" if one.days > 1 else "")
                for one in found.pile_ups
            ],
        ),
        (
            "groups with more runs than their limit allows, so runs wait:",
            [
                f"{one.name}: {one.most_active} active runs for a limit of {one.max_running},"
                f" on {one.most_active_at.astimezone(zone):%a %Y-%m-%d %H:%M}"
                for one in found.groups
                if one.most_active > one.max_running
            ],
        ),
        (
            "clock changes:",
            [f"{one.text} ({_names(one.schedules, one.names)})" for one in found.clock_changes],
        ),
        ("not simulated:", [f"{one.name}: {one.why}" for one in found.left_out]),
    ]


def _names(count: int, names: Sequence[str]) -> str:
    more = count - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
