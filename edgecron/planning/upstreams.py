"""Schedules that come after others: what they may follow. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from edgecron.base.errors import InvalidTrigger


def check_upstreams(
    wanted: Mapping[str, Collection[str]],
    *,
    known: Iterable[tuple[str, str]],
    names: Collection[str],
) -> None:
    """Check what schedules that are being written come after.

    `wanted` are their upstreams by name, `known` the (schedule, upstream) pairs that there are,
    `names` all schedules that there are. Raises InvalidTrigger for an upstream that is not there,
    and for a circle, whose runs would never end.
    """
    for name, upstreams in wanted.items():
        for upstream in upstreams:
            if upstream not in names and upstream not in wanted:
                raise _missing(name, upstream, names)
    graph: dict[str, set[str]] = {}
    for name, upstream in known:
        if name not in wanted:
            graph.setdefault(name, set()).add(upstream)
    graph |= {name: set(upstreams) for name, upstreams in wanted.items()}
    for name in wanted:
        circle = _circle(graph, name)
        if circle:
            raise InvalidTrigger(
                f"schedule {name!r} would come after itself: {' after '.join(circle)}"
            )


def _missing(name: str, upstream: str, names: Collection[str]) -> InvalidTrigger:
    from difflib import get_close_matches  # seldom needed, and heavy

    close = get_close_matches(upstream, names, n=1)
    return InvalidTrigger(
        f"schedule {name!r} comes after {upstream!r}, which is not there",
        hint=f"did you mean {close[0]!r}?" if close else "see: edgecron list",
    )


def _circle(graph: Mapping[str, Collection[str]], start: str) -> list[str]:
    """The way from a schedule along its upstreams back to itself, or nothing."""
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for upstream in sorted(graph.get(way[-1], ())):
            if upstream == start:
                return [*way, start]
            if upstream not in seen:
                seen.add(upstream)
                ways.append([*way, upstream])
    return []
