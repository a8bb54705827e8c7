"""How it stands: engines alive, runs in progress, what comes next, what failed last.

edgecron status
edgecron status --json
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import NotFound
from edgecron.base.units import format_ms, from_ms
from edgecron.cli.screen import paint
from edgecron.cli.session import Session
from edgecron.engine.health import EngineHealth
from edgecron.model.choices import COMMAND_QUEUE, Status
from edgecron.views.json_objects import execution_object, fire_object, instant, late_object
from edgecron.views.phrases import (
    count_words,
    disk_words,
    failure_words,
    is_overdue,
    note_words,
    progress_words,
    size_words,
    status_words,
)
from edgecron.views.schedule_words import late_words, runner_words
from edgecron.views.times import clock_set_words, distance, near_time

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.engine.health import EngineState
    from edgecron.model.run import Execution
    from edgecron.planning.forecast import UpcomingFire

USAGE = "[--json]"
_MOST_RUNS = 20


def add_arguments(parser: ArgumentParser) -> None:
    """No options but the global ones."""


def run(cli: Session, args: Namespace) -> int:
    client = cli.find_client()
    if client is None:
        path = cli.database_path()
        if cli.is_json:
            cli.put_json([_absent_object(path)])
            return 0
        cli.put(f"database  {path}, which does not exist yet")
        cli.say("edgecron add makes it; to see it work: edgecron demo")
        return 0
    if cli.is_json:
        cli.put_json([_object(client)])
        return 0
    _put(cli, client)
    return 0


def _put(cli: Session, client: Client) -> None:
    now, zone = client.now(), cli.zone()
    is_colored = cli.use_color(sys.stdout)
    lines: list[str] = []  # all of it, or nothing where the database can't be read

    def line(label: str, text: str, style: str | None = None) -> None:
        shown = paint(text, style, is_on=is_colored)
        lines.append(f"{paint(f'{label:<13}', 'dim', is_on=is_colored)}{shown}")

    line("database", f"{client.place}, {size_words(sum(client.database_sizes()))}")
    states = client.engines()
    alive = [state for state in states if state.is_alive and state.info.queues]
    if not alive:
        has_ending = any(state.is_alive for state in states)
        words = "none takes on what is due" if has_ending else "none alive: nothing is started"
        line("engines", words, "red")
    for number, state in enumerate(sorted(states, key=lambda state: state not in alive)):
        since = f"since {near_time(state.info.started_at, zone=zone, now=now)}"
        text, style = _engine_words(cli, state, since=since)
        line("engines" if alive and number == 0 else "", text, style)
    for twin in client.other_databases():
        where = twin.path or "which is not seen here"
        line(
            "copies",
            f"pid {twin.pid} runs a copy of this database, {where}: each schedule fires in both;"
            f" see {cli.command('doctor')}",
            "red",
        )
    clock = client.clock_state()
    if not clock.is_trusted:
        known = near_time(from_ms(clock.mark_ms), zone=zone, now=now)
        line(
            "clock",
            f"can't be trusted, for the last time known is {known}: cron and `at` times are held;"
            f" see {cli.command('doctor')}",
            "red",
        )
    if clock.set_at_ms is not None and clock.set_by_ms is not None:
        set_words = clock_set_words(from_ms(clock.set_at_ms), clock.set_by_ms, zone=zone, now=now)
        if set_words is not None:
            line("clock", set_words, "yellow")
    count, broken, vanished = client.count_schedules()
    wrong = [f"{broken} broken"] if broken else []
    wrong += [f"{vanished} vanished, which nobody runs"] if vanished else []
    more = f", {', '.join(wrong)}: see {cli.command('doctor')}" if wrong else ""
    look = "red" if broken else "yellow" if vanished else None
    line("schedules", count_words(count, "schedule") + more, look)
    counts = client.active_counts()
    running, queued = counts.get(Status.RUNNING, 0), counts.get(Status.QUEUED, 0)
    line("runs", f"{running} running, {queued} queued", "cyan" if running else None)
    for execution in _running(client):
        start = near_time(execution.started_at or execution.plan_at, zone=zone, now=now)
        left = _left_words(client, execution, states)
        far = f", {progress_words(execution.progress)}" if execution.progress else ""
        line("", f"{execution.schedule}, run {execution.id}, since {start}{far}{left}")
    for execution in client.waiting_runs(limit=_MOST_RUNS):
        words = note_words(execution, zone=zone, now=now)
        line("", f"{execution.schedule}, run {execution.id}, {words}")
    late = client.late_places()
    if late.held_by or late.waiting:
        line("late places", late_words(late))
    fire = _next_fire(client)
    coming, is_late = "nothing to come", False
    if fire is not None:
        time = near_time(fire.due_at, zone=zone, now=now)
        is_late = is_overdue(fire.due_at, now)
        word = "overdue since" if is_late else "at"
        coming = f"{fire.schedule} {word} {time}, {distance(fire.due_at, now)}"
        if not clock.is_trusted:
            coming = f"{fire.schedule} at {time}, held: the clock can't be trusted"
    line("next", coming)
    full = client.disk_problem() if is_late else None
    if full is not None:
        line("disk", disk_words(full), "red")
    failure = _last_failure(client)
    if failure is not None:
        when = distance(failure.finished_at or failure.plan_at, now)
        more = f": {failure_words(failure)}" if failure.error_msg else ""
        line(
            "last failure",
            f"{failure.schedule}, run {failure.id}, {when}, {status_words(failure)}{more}",
            "red",
        )
    for text in lines:
        cli.put(text)
    if not alive:
        cli.say(_start_words(cli, client, fire))


def _start_words(cli: Session, client: Client, fire: UpcomingFire | None) -> str:
    """What to start, as nobody is alive: an engine, and the program whose function comes next."""
    daemon = cli.command("daemon")
    queue = COMMAND_QUEUE
    if fire is not None:
        with suppress(NotFound):  # It was removed meanwhile.
            queue = client.schedule(fire.schedule).spec.queue
    if queue == COMMAND_QUEUE:
        return f"start an engine: {daemon}"
    return f"start {runner_words(queue)}, and for commands an engine: {daemon}"


def _engine_words(cli: Session, state: EngineState, *, since: str) -> tuple[str, str]:
    """How an engine does, and its style."""
    info, see = state.info, f"see {cli.command('doctor')}"
    if state.health is EngineHealth.STALLED:
        return f"pid {info.pid} is stalled: {state.why}; its runs go on; {see}", "yellow"
    if state.health is EngineHealth.GONE:
        return f"pid {info.pid} has died; the next engine clears up", "yellow"
    more = f"; {state.why}" if state.why else ""
    if not info.queues:
        # One that is stopping, or of `run --wait`.
        words = "takes on nothing more, and ends with what it runs"
        return f"pid {info.pid}, version {info.version}, {since}, {words}{more}", "yellow"
    return f"pid {info.pid}, version {info.version}, {since}{more}", "green"


def _left_words(client: Client, execution: Execution, states: list[EngineState]) -> str:
    """What is to be said of a run whose engine does not look after it now."""
    if any(state.is_stalled and state.info.id == execution.engine_id for state in states):
        return "; its engine is stalled"
    if any(state.is_alive for state in states):
        return ""
    if client.is_supervised(execution):
        return "; its engine has gone, and the next one adopts it"
    return (
        "; its engine and supervisor have gone:"
        " the next engine puts its end on record, or ends what is left of it"
    )


def _object(client: Client) -> dict[str, Any]:
    counts = client.active_counts()
    fire, failure = _next_fire(client), _last_failure(client)
    count, broken, vanished = client.count_schedules()
    clock = client.clock_state()
    return {
        "database": client.place,
        "exists": True,
        "size_bytes": sum(client.database_sizes()),
        "engines": [_engine_object(state) for state in client.engines()],
        "copies": [
            {"pid": twin.pid, "database": None if twin.path is None else str(twin.path)}
            for twin in client.other_databases()
        ],
        "clock_trusted": clock.is_trusted,
        "clock_set_at": None if clock.set_at_ms is None else format_ms(clock.set_at_ms),
        "clock_set_by_s": None if clock.set_by_ms is None else clock.set_by_ms / 1000,
        "schedules": count,
        "broken": broken,
        "vanished": vanished,
        "running": counts.get(Status.RUNNING, 0),
        "queued": counts.get(Status.QUEUED, 0),
        "runs": [execution_object(execution) for execution in _running(client)],
        "waiting": [execution_object(run) for run in client.waiting_runs(limit=_MOST_RUNS)],
        "late_places": late_object(client.late_places()),
        "disk_problem": client.disk_problem(),
        "next": None if fire is None else fire_object(fire),
        "last_failure": None if failure is None else execution_object(failure),
    }


def _absent_object(path: Path) -> dict[str, Any]:
    return {
        "database": str(path),
        "exists": False,
        "size_bytes": 0,
        "engines": [],
        "copies": [],
        "clock_trusted": None,
        "clock_set_at": None,
        "clock_set_by_s": None,
        "schedules": 0,
        "broken": 0,
        "vanished": 0,
        "running": 0,
        "queued": 0,
        "runs": [],
        "waiting": [],
        "late_places": None,
        "disk_problem": None,
        "next": None,
        "last_failure": None,
    }


def _engine_object(state: EngineState) -> dict[str, Any]:
    return {
        "id": state.info.id,
        "pid": state.info.pid,
        "version": state.info.version,
        "queues": list(state.info.queues),
        "started_at": instant(state.info.started_at),
        "alive": state.is_alive,
        "stalled": state.is_stalled,
    }


def _running(client: Client) -> list[Execution]:
    return client.history(statuses=(Status.RUNNING,), limit=_MOST_RUNS)


def _next_fire(client: Client) -> UpcomingFire | None:
    return next(iter(client.next_fires()), None)


def _last_failure(client: Client) -> Execution | None:
    found = client.history(statuses=(Status.FAILED, Status.INTERRUPTED), limit=1)
    return found[0] if found else None
