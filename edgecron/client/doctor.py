"""Looking a database and its surroundings over: what is wrong, and what to do about it.

finding.py   what a check found              places.py    files, modes, space, what crashed
contents.py  what the database holds         engines.py   who runs it, and who should
takeover.py  the end of a stalled engine     clocks.py    whether the clock can be trusted
others.py    copies that run, hosts that drop the locks of their engine
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from edgecron.base.errors import DatabaseUnusable, EdgecronError, NotFound, Unreadable
from edgecron.base.paths import is_there, state_dir
from edgecron.base.values import dataclass
from edgecron.client import Client
from edgecron.client import doctor_clocks as clocks
from edgecron.client import doctor_contents as contents
from edgecron.client import doctor_copies as others
from edgecron.client import doctor_engines as engines
from edgecron.client import doctor_files as places
from edgecron.client.finding import CheckStatus, Finding, problem

__all__ = ["CheckStatus", "Checkup", "Finding", "check_all"]

_ORDER = (
    *("database", "integrity", "files", "clock", "engines", "runs", "schedules"),
    *("vanished", "others", "space", "supervisors"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What all checks found, in their order. `error` says why the database can't be used."""

    findings: tuple[Finding, ...]
    error: EdgecronError | None = None


def check_all(client: Client, *, command: Callable[[str], str], is_deep: bool = False) -> Checkup:
    """Make every check that can be made; nothing is changed, and no database is made.

    The client must be one that makes none either (`must_exist`). `command` turns the words of
    a command line into one that a person can copy. `is_deep` holds each index against its table,
    too, which takes several times as long.
    """
    found: list[Finding] = []
    error: EdgecronError | None = None
    try:
        is_there(client.path)
    except DatabaseUnusable as unreachable:
        # Then nothing beside it can be looked at either.
        finding = problem("database", unreachable.message, hint=unreachable.hint)
        return Checkup(findings=(finding,), error=unreachable)
    try:
        for check in _checks(client, command=command, is_deep=is_deep):
            try:
                found += check()
            except Unreadable as unreadable:
                # The other checks can be made all the same.
                found.append(problem("schedules", unreadable.message, hint=unreadable.hint))
    except NotFound as missing:
        return Checkup(
            findings=(problem("database", missing.message, hint=missing.hint),), error=missing
        )
    except DatabaseUnusable as unusable:
        found.append(problem("database", unusable.message, hint=unusable.hint))
        error = unusable
    folder = state_dir(client.path)
    found += places.check_files(client.path, folder)
    found += places.check_space(client.path, folder)
    found += places.check_crashes(folder)
    found.sort(key=lambda finding: _ORDER.index(finding.check))
    return Checkup(findings=tuple(found), error=error)


def _checks(
    client: Client, *, command: Callable[[str], str], is_deep: bool
) -> tuple[Callable[[], list[Finding]], ...]:
    """The checks that read the database."""
    states = cache(client.engines)
    most = None if is_deep else contents.MOST_READ
    schedules = cache(lambda: client.store.find_each_schedule(most=most))
    return (
        lambda: contents.check_integrity(client, is_deep=is_deep, command=command),
        lambda: contents.check_schedules(client, *schedules(), command=command),
        lambda: contents.check_outcomes(client, command=command),
        lambda: clocks.check_clock(client, command=command),
        lambda: engines.check_engines(client, states(), schedules()[0], command=command),
        lambda: engines.check_zones(states(), command=command),
        lambda: engines.check_pace(client, command=command),
        lambda: engines.check_runs(client, states(), command=command),
        lambda: engines.check_supervisors(client),
        lambda: others.check_others(client, states()),
        lambda: contents.check_access(client),
    )
