"""Check a database and its surroundings: what is wrong, and what to do about it.

The checks of engines, supervisors, runs and the clock are here. `doctor_machine` checks the file,
and the disks and processes around it. `doctor_schedules` checks the schedules in the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC
from functools import cache
from pathlib import Path

from edgecron.base.errors import (
    DatabaseUnusable,
    EdgecronError,
    NotFound,
    SupervisorUnavailable,
    Unreadable,
)
from edgecron.base.paths import adoptions_path, is_there
from edgecron.base.units import DAY_MS, format_ms, from_ms
from edgecron.base.values import dataclass
from edgecron.client import Client, doctor_machine, doctor_schedules
from edgecron.client.doctor_machine import CheckStatus, Finding, problem, warning, well
from edgecron.client.engine_health import EngineHealth, EngineState, find_holder
from edgecron.client.sentences import absence_words, missing_words, remedy
from edgecron.engine.other_engines import LocalEngines
from edgecron.engine.state_folder import find_machine
from edgecron.model.choices import COMMAND_QUEUE, Status
from edgecron.model.engine import base_of
from edgecron.model.schedule import Schedule
from edgecron.planning.corrections import ClockState, resolve_margin_ms
from edgecron.store.contract import RunningRow
from edgecron.store.sql.machine_scopes import find_absent_machines
from edgecron.supervisor.control import Control
from edgecron.supervisor.runner import THREADS
from edgecron.supervisor.state_files import lock_path
from edgecron.views.phrases import (
    count_words,
    named_words,
    runner_words,
)
from edgecron.views.schedule_words import behind_words, removal_words
from edgecron.views.times import clock_set_words

__all__ = ["CheckStatus", "Checkup", "Finding", "check_all"]

_ORDER = (
    *(
        "health",
        "database",
        "integrity",
        "files",
        "clock",
        "engines",
        "runs",
        "schedules",
        "notices",
    ),
    *("vanished", "others", "limits", "writes", "space", "supervisors"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The findings of all checks, in their order. `error` says why the database can't be used."""

    findings: tuple[Finding, ...]
    error: EdgecronError | None = None


def check_all(
    client: Client,
    *,
    command: Callable[[str], str],
    is_deep: bool = False,
    write_budget_bytes: int | None = None,
) -> Checkup:
    """Make all checks, without a change.

    The client must not create a database (`must_exist`). `command` turns words into a command line
    that a person can copy. `is_deep` also compares each index with its table, which takes several
    times as long. `write_budget_bytes` is the most that engines write in a day without a warning.
    """
    found: list[Finding] = []
    error: EdgecronError | None = None
    try:
        client.is_there()
    except DatabaseUnusable as unreachable:
        # The files beside it can't be checked either.
        finding = problem("database", unreachable.message, hint=unreachable.hint)
        return Checkup(findings=(finding,), error=unreachable)
    try:
        for check in _checks(client, command=command, is_deep=is_deep, budget=write_budget_bytes):
            try:
                found += check()
            except Unreadable as unreadable:
                # The other checks still work.
                found.append(problem("schedules", unreadable.message, hint=unreadable.hint))
    except NotFound as missing:
        return Checkup(
            findings=(problem("database", missing.message, hint=missing.hint),), error=missing
        )
    except DatabaseUnusable as unusable:
        found.append(problem("database", unusable.message, hint=unusable.hint))
        error = unusable
    if error is None or isinstance(client.location, Path):  # The server names its folder.
        found += doctor_machine.check_files(client.path, client.state_dir)
        found += doctor_machine.check_space(client.path, client.state_dir)
        found += doctor_machine.check_crashes(client.state_dir)
        found += check_moves(client.path, command=command)
    found.sort(key=lambda finding: _ORDER.index(finding.check))
    return Checkup(findings=tuple(found), error=error)


def _checks(
    client: Client, *, command: Callable[[str], str], is_deep: bool, budget: int | None
) -> tuple[Callable[[], list[Finding]], ...]:
    """Return the checks that read the database."""
    states = cache(client.engines)
    most = None if is_deep else doctor_schedules.MOST_READ
    schedules = cache(lambda: client.store.find_each_schedule(most=most))
    return (
        lambda: doctor_machine.check_integrity(client, is_deep=is_deep, command=command),
        lambda: doctor_schedules.check_schedules(client, *schedules(), command=command),
        lambda: doctor_schedules.check_health(client, command=command),
        lambda: check_clock(client, command=command),
        lambda: check_engines(client, states(), schedules()[0], command=command),
        lambda: check_machines(client, command=command),
        lambda: check_zones(states(), command=command),
        lambda: check_pace(client, command=command),
        lambda: doctor_schedules.check_notices(client, command=command),
        lambda: check_runs(client, states(), command=command),
        lambda: check_supervisors(client),
        lambda: doctor_machine.check_demands(client, states(), command=command),
        lambda: doctor_machine.check_writes(states(), budget_bytes=budget),
        lambda: doctor_machine.check_others(client, states()),
        lambda: doctor_machine.check_access(client),
    )


def check_moves(database: Path, *, command: Callable[[str], str]) -> list[Finding]:
    """Report moves of schedules of other programs that were interrupted: nothing runs these."""
    if not is_there(adoptions_path(database)):
        return []
    from edgecron.client.adoption import Book, Phase  # all crontab formats: a tenth of `doctor`

    try:
        adoptions = Book(database).read().values()
    except EdgecronError as error:
        return [problem("schedules", error.message, hint=error.hint)]
    return [
        problem(
            "schedules",
            f"the move of {one.name} was interrupted, and perhaps nothing runs it",
            hint=f"complete it: {command(one.completion)}",
        )
        for one in adoptions
        if one.phase is not Phase.ADOPTED
    ]


Command = Callable[[str], str]
_MOST_NAMED = 5
_AWAY_DAYS = 30
_ANSWER_S = 2.0  # a healthy supervisor answers within milliseconds


def check_engines(
    client: Client,
    states: Sequence[EngineState],
    schedules: Sequence[Schedule],
    *,
    command: Command,
) -> list[Finding]:
    """Check the health of each engine, and that each schedule has one.

    `schedules` are all schedules, or those that need a check.
    """
    found = [_judge(state, states, command=command) for state in states]
    alive = [state.info for state in states if state.is_alive]
    waiting = client.store.count_waiting()
    absent: dict[tuple[str, bool], list[Schedule]] = {}  # by queue, and whether it has vanished
    for schedule in schedules:
        queue = schedule.spec.placed_queue
        if schedule.vanished_at is not None:
            absent.setdefault((queue, True), []).append(schedule)
            continue
        is_waiting = schedule.next_run_at is not None or (
            schedule.enabled and "on boot" in schedule.spec.triggers
        )
        if is_waiting and not any(info.takes(queue, schedule.offer) for info in alive):
            absent.setdefault((queue, False), []).append(schedule)
    for queue, count in sorted(waiting.items()):
        if not any(queue in info.queues for info in alive):
            absent.pop((queue, False), None)  # It would say the same.
            found.append(_none_at_work(states, queue, count, command=command))
    found = found or [well("engines", "no engine is running, and there is nothing to run")]
    return found + [
        _absent(client, schedules, command=command) for _, schedules in sorted(absent.items())
    ]


def check_machines(client: Client, *, command: Command) -> list[Finding]:
    """Check that each machine of schedules with `--on each` still comes."""
    since_ms = client.clock.now_ms() - _AWAY_DAYS * DAY_MS
    return [
        warning(
            "engines",
            f"{machine} has had no engine for {_AWAY_DAYS} days, and still gets runs of"
            f" {count_words(count, 'schedule')} with --on each",
            hint=f"if it does not come back: {command(f'engine forget {machine}')}",
        )
        for machine, count in find_absent_machines(client.store, since_ms=since_ms)
    ]


def check_zones(states: Sequence[EngineState], *, command: Command) -> list[Finding]:
    """Check that all living engines mean the same zone by `local`."""
    pids: dict[str, list[str]] = {}
    for state in states:
        zone = state.info.local_timezone
        if state.is_alive and zone is not None:
            pids.setdefault(zone, []).append(str(state.info.pid))
    if len(pids) < 2:
        return []
    each = [
        f"{zone.partition(':')[0]} for pid {', '.join(named)}"
        for zone, named in sorted(pids.items())
    ]
    return [
        warning(
            "engines",
            f"local time differs between engines: {'; '.join(each)}; schedules with zone local"
            " follow the engine that started last",
            hint="start all with the same TZ, or give each schedule its zone:"
            f" {command('edit NAME --tz ZONE')}",
        )
    ]


def check_pace(client: Client, *, command: Command) -> list[Finding]:
    """Report schedules that working engines can't keep up with."""
    now = client.now()
    return [
        warning(
            "engines",
            f"engines can't keep up with {one.schedule}: {behind_words(one, now=now)}",
            hint=f"see: {command(f'why {one.schedule}')}",
        )
        for one in client.behind(limit=_MOST_NAMED)
    ]


def _judge(state: EngineState, states: Sequence[EngineState], *, command: Command) -> Finding:
    pid = state.info.pid
    if state.health is EngineHealth.STALLED:
        hint = f"end it: {command(f'doctor --take-over {pid}')}"
        if state.is_stopped:
            hint = f"let it continue: kill -CONT {pid}; or {hint}"
        return problem(
            "engines", f"pid {pid} is stalled: {state.why}; its runs continue", hint=hint
        )
    if state.health is EngineHealth.SILENT:
        hint = f"run doctor again; if the engine is still silent, stop it: kill -TERM {pid}"
        return warning("engines", f"pid {pid} is running but silent: {state.why}", hint=hint)
    if state.health is EngineHealth.GONE:
        if state.running == 0:
            return well("engines", f"pid {pid} has died and left no active run")
        return warning(
            "engines",
            f"pid {pid} has died, and its runs are not recovered yet",
            hint=_who_clears_up(states, command=command),
        )
    if state.info.drained_at is not None:
        resume = command(f"engine resume {state.info.name or pid}")
        return warning(
            "engines", f"pid {pid} is drained and takes no new runs", hint=f"to undo: {resume}"
        )
    more = "" if state.info.queues else "; it takes no new runs, and stops when its runs end"
    return well("engines", f"pid {pid} is running{more}")


def _none_at_work(
    states: Sequence[EngineState], queue: str, count: int, *, command: Command
) -> Finding:
    wait = f"{count} schedule waits" if count == 1 else f"{count} schedules wait"
    if base_of(queue) == COMMAND_QUEUE:
        none = missing_words(states, queue)
        alive = [state.info for state in states if state.is_alive]
        if queue == COMMAND_QUEUE and alive and all(info.drained_at is None for info in alive):
            none = "all engines are stopping"
        return warning(
            "engines", f"{none}, and {wait}", hint=remedy(states, queue, command=command)
        )
    return warning(
        "engines",
        f"{runner_words(queue)} is not running, and {wait}",
        hint="start that program",
    )


def _absent(client: Client, schedules: list[Schedule], *, command: Command) -> Finding:
    """Report schedules of a program that no running version of the program takes."""
    first, is_one = schedules[0], len(schedules) == 1
    named = named_words([one.name for one in schedules])
    words = absence_words(client, first, them="it" if is_one else "them")
    if first.vanished_at is None:
        return warning("engines", f"{named}: {words}", hint="start that version")
    hint = removal_words(first.name if is_one else "NAME", command=command)
    return warning("vanished", f"{named}: {words}", hint=hint)


def _who_clears_up(states: Sequence[EngineState], *, command: Command) -> str:
    if any(state.is_working for state in states):
        return "a running engine recovers them within a minute"
    return f"the next engine recovers them; start one: {command('daemon')}"


def check_runs(client: Client, states: Sequence[EngineState], *, command: Command) -> list[Finding]:
    """Report running runs without a living engine and supervisor."""
    others = _others(client)
    lost = [
        row for row in _orphans(client, others) if not others.supervisor_is_alive(row.supervisor_id)
    ]
    if lost:
        named = named_words([f"run {row.execution_id} of {row.schedule}" for row in lost])
        return [
            warning(
                "runs",
                f"engine and supervisor are gone: {named}",
                hint=_who_clears_up(states, command=command),
            )
        ]
    counts = client.active_counts()
    running, queued = counts.get(Status.RUNNING, 0), counts.get(Status.QUEUED, 0)
    return [well("runs", f"{running} running, {queued} queued")]


def check_supervisors(client: Client) -> list[Finding]:
    """Report supervisors that do not answer, and those that continue without their engine.

    The latter are healthy.
    """
    others = _others(client)
    running = client.store.find_running()
    counts = Counter(row.supervisor_id for row in running if row.supervisor_id != THREADS)
    alone = {row.supervisor_id for row in _orphans(client, others)}
    found = []
    for supervisor_id, count in sorted(counts.items()):
        try:
            is_ours = _is_of_our_version(client.state_dir, supervisor_id)
        except SupervisorUnavailable as error:
            # If it is dead, `check_runs` reports its runs.
            if others.supervisor_is_alive(supervisor_id):
                found.append(_silent(client.state_dir, supervisor_id, error.message))
            continue
        if supervisor_id in alone:
            words = f"{supervisor_id} continues without an engine, with {count_words(count, 'run')}"
            more = (
                ""
                if is_ours
                else "; another version of edgecron started it, so this one can't adopt it"
            )
            found.append(well("supervisors", words + more))
    return found or [well("supervisors", "every supervisor has its engine")]


def _is_of_our_version(folder: Path, supervisor_id: str) -> bool:
    """Raise SupervisorUnavailable if the supervisor does not answer."""
    with Control(folder, supervisor_id, timeout_s=_ANSWER_S) as control:
        control.status()
        return control.is_of_our_version


def _silent(folder: Path, supervisor_id: str, why: str) -> Finding:
    pid = find_holder(lock_path(folder, supervisor_id))
    hint = f"if it is stopped, let it continue: kill -CONT {pid}" if pid else None
    words = f"{why}; its runs have no timeout and can't be cancelled until it continues"
    return problem("supervisors", words, hint=hint)


def _orphans(client: Client, others: LocalEngines) -> list[RunningRow]:
    """Return the running rows whose engine is dead.

    Its lock is free; on another machine, which can't be seen from here, its lease has ended.
    """
    here = find_machine(client.state_dir)
    return [
        row
        for row in client.store.find_running()
        if (
            row.is_stale
            if row.machine not in (None, here)
            else row.engine_key is None or not others.engine_is_alive(row.engine_key)
        )
    ]


def _others(client: Client) -> LocalEngines:
    return LocalEngines(client.state_dir, boot_id=client.clock.boot_id())


TRUST = "doctor --trust-clock"
_FEW_DAYS = 60


def check_clock(client: Client, *, command: Callable[[str], str]) -> list[Finding]:
    """Check whether engines trust the clock."""
    state = client.clock_state()
    found = _judge_set(state)
    if state.is_synchronised:
        return [*found, well("clock", "synchronised, as the kernel reports")]
    margin_days = resolve_margin_ms(state.now_ms, mark_ms=state.mark_ms) // DAY_MS
    if state.is_trusted and margin_days < _FEW_DAYS:
        return [
            *found,
            warning(
                "clock",
                f"nothing synchronises it; after {margin_days} more days without an engine, "
                "edgecron no longer trusts it",
                hint=f"synchronise it (NTP); if it is right: {command(TRUST)}",
            ),
        ]
    if state.is_trusted:
        kept = "is not" if state.is_synchronised is False else "might not be"
        return [*found, well("clock", f"plausible; it {kept} synchronised")]
    return [
        *found,
        problem(
            "clock",
            f"it says {format_ms(state.now_ms)} and can't be trusted: the last known time is"
            f" {format_ms(state.mark_ms)}: cron and `at` times are held",
            hint=f"set it, or synchronise it (NTP); if it is right: {command(TRUST)}",
        ),
    ]


def _judge_set(state: ClockState) -> list[Finding]:
    """Report for a day that the clock was set, and the effect."""
    if state.set_at_ms is None or state.set_by_ms is None:
        return []
    words = clock_set_words(
        from_ms(state.set_at_ms), state.set_by_ms, zone=UTC, now=from_ms(state.now_ms)
    )
    if words is None:
        return []
    hint = "if you did not set it, let NTP keep it right"
    return [warning("clock", f"it {words} (times in UTC)", hint=hint)]
