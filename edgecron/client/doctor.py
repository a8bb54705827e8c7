"""Check a database and its surroundings: what is wrong, and what to do about it.

doctor_database   what the file holds, and whether it can be written
doctor_engines    engines, supervisors, runs and the clock
doctor_files      files, modes, space, crashes, copies that also run
doctor_findings   the values that checks return
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from edgecron.base.errors import DatabaseUnusable, EdgecronError, NotFound, Unreadable
from edgecron.base.paths import is_there, state_dir
from edgecron.base.values import dataclass
from edgecron.client import Client, doctor_database, doctor_engines, doctor_files
from edgecron.client.doctor_findings import CheckStatus, Finding, problem

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
    found += doctor_files.check_files(client.path, folder)
    found += doctor_files.check_space(client.path, folder)
    found += doctor_files.check_crashes(folder)
    found.sort(key=lambda finding: _ORDER.index(finding.check))
    return Checkup(findings=tuple(found), error=error)


def _checks(
    client: Client, *, command: Callable[[str], str], is_deep: bool
) -> tuple[Callable[[], list[Finding]], ...]:
    """The checks that read the database."""
    states = cache(client.engines)
    most = None if is_deep else doctor_database.MOST_READ
    schedules = cache(lambda: client.store.find_each_schedule(most=most))
    return (
        lambda: doctor_database.check_integrity(client, is_deep=is_deep, command=command),
        lambda: doctor_database.check_schedules(client, *schedules(), command=command),
        lambda: doctor_database.check_outcomes(client, command=command),
        lambda: doctor_engines.check_clock(client, command=command),
        lambda: doctor_engines.check_engines(client, states(), schedules()[0], command=command),
        lambda: doctor_engines.check_zones(states(), command=command),
        lambda: doctor_engines.check_pace(client, command=command),
        lambda: doctor_engines.check_runs(client, states(), command=command),
        lambda: doctor_engines.check_supervisors(client),
        lambda: doctor_files.check_others(client, states()),
        lambda: doctor_database.check_access(client),
    )
