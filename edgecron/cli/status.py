"""Show engines and active runs.

    edgecron status
    edgecron status --json

Schedules that need you come first. status also shows the next run and the last failure.
Commands that only read, such as status, also work on a full disk.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import NotFound
from edgecron.base.units import format_ms, from_ms
from edgecron.cli.output import paint
from edgecron.cli.session import Session
from edgecron.client.engine_health import EngineHealth, EngineState
from edgecron.model.choices import COMMAND_QUEUE, HealthState, Status
from edgecron.model.listing import RunChoice
from edgecron.views.json_objects import execution_object, fire_object, instant, late_object
from edgecron.views.phrases import (
    count_words,
    disk_words,
    failure_words,
    is_overdue,
    late_words,
    note_words,
    progress_words,
    runner_words,
    size_words,
    status_words,
)
from edgecron.views.schedule_health import (
    STATE_WORDS,
    advise,
    health_object,
    health_words,
    left_out_words,
)
from edgecron.views.times import clock_set_words, distance, near_time

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.planning.forecast import UpcomingFire

_MOST_RUNS = 20


def add_arguments(parser: ArgumentParser) -> None:
    """Add nothing: the global options are enough."""


def run(cli: Session, args: Namespace) -> int:
    client = cli.reading_client()
    if cli.is_json:
        cli.put_json([_object(cli, client)])
    else:
        _put(cli, client)
    return 0


# (label, text, style)
_Line = tuple[str, str, str | None]


def _put(cli: Session, client: Client) -> None:
    states = client.engines()
    fire = _next_fire(client)
    # All lines, or none if the database can't be read.
    lines: list[_Line] = [
        *_health_lines(cli, client),
        ("database", f"{client.place}, {size_words(sum(client.database_sizes()))}", None),
        *_engine_lines(cli, client, states),
        *_write_lines(cli, states),
        *_clock_lines(cli, client),
        *_schedule_lines(cli, client),
        *_run_lines(cli, client, states),
        *_next_lines(cli, client, fire),
        *_failure_lines(client),
    ]
    is_colored = cli.use_color(sys.stdout)
    for label, text, style in lines:
        shown = paint(text, style, is_on=is_colored)
        cli.put(f"{paint(f'{label:<13}', 'dim', is_on=is_colored)}{shown}")
    if not any(_takes_runs(state) or _is_drained(state) for state in states):
        cli.say(_start_words(cli, client, fire))


def _health_lines(cli: Session, client: Client) -> Iterator[_Line]:
    health = client.schedule_health()
    if health is None:
        return
    now = client.now()
    for one in health.worst:
        style = "red" if one.state is HealthState.FAILING else "yellow"
        yield STATE_WORDS[one.state], health_words(one, now=now), style
        for step in advise(one, command=cli.command):
            yield "", step, None
    for words in left_out_words(health, command=cli.command):
        yield "", words, "yellow"


def _takes_runs(state: EngineState) -> bool:
    return bool(state.is_alive and state.info.queues)


def _is_drained(state: EngineState) -> bool:
    return state.is_alive and state.info.drained_at is not None


def _engine_lines(cli: Session, client: Client, states: list[EngineState]) -> Iterator[_Line]:
    now, zone = client.now(), cli.zone()
    label, see = "engines", f"see {cli.command('doctor')}"
    if not any(_takes_runs(state) for state in states):
        is_ending = any(state.is_alive for state in states)
        is_drained = any(_is_drained(state) for state in states)
        ending = "all engines are drained or stopping" if is_drained else "all engines are stopping"
        words = ending if is_ending else "no engine is running"
        yield label, words, "red"
        label = ""
    has_machines = len({state.info.host for state in states}) > 1
    for state in sorted(states, key=lambda state: not _takes_runs(state)):
        since = f"since {near_time(state.info.started_at, zone=zone, now=now)}"
        if has_machines and state.seen_at is not None:
            since += f", {state.load} running, seen {distance(state.seen_at, now)}"
        if state.polls_s is not None:
            since += f", looks for changes every {state.polls_s:g} s"
        yield label, *_engine_words(cli, state, since=since)
        label = ""
    for copy in client.other_databases():
        where = copy.path or "at an unknown path"
        words = f"pid {copy.pid} runs a copy of this database, {where}"
        yield "copies", f"{words}: each schedule fires in both; {see}", "red"


def _write_lines(cli: Session, states: list[EngineState]) -> Iterator[_Line]:
    if all(one.info.written_bytes is None for one in states):
        return
    from edgecron.client.doctor_machine import written_per_day  # Not for each start of `status`.

    per_day, budget = written_per_day(states), cli.setting("limits.write_budget")
    if per_day is None:
        return
    words = f"engines write {size_words(per_day)} a day to disks"
    if budget is not None and per_day > budget:
        over = f"over the budget of {size_words(budget)}"
        yield "written", f"{words}, {over}; see: edgecron help flash", "yellow"
    else:
        yield "written", words, None


def _clock_lines(cli: Session, client: Client) -> Iterator[_Line]:
    now, zone, clock = client.now(), cli.zone(), client.clock_state()
    if not clock.is_trusted:
        known = near_time(from_ms(clock.mark_ms), zone=zone, now=now)
        words = f"can't be trusted: the last known time is {known}"
        see = f"see {cli.command('doctor')}"
        yield "clock", f"{words}: cron and `at` times are held; {see}", "red"
    if clock.set_at_ms is not None and clock.set_by_ms is not None:
        was_set = clock_set_words(from_ms(clock.set_at_ms), clock.set_by_ms, zone=zone, now=now)
        if was_set is not None:
            yield "clock", was_set, "yellow"


def _schedule_lines(cli: Session, client: Client) -> Iterator[_Line]:
    count, broken, vanished = client.count_schedules()
    wrong = [f"{broken} broken"] if broken else []
    wrong += [f"{vanished} vanished, which no program runs"] if vanished else []
    more = f", {', '.join(wrong)}: see {cli.command('doctor')}" if wrong else ""
    style = "red" if broken else "yellow" if vanished else None
    yield "schedules", count_words(count, "schedule") + more, style


def _run_lines(cli: Session, client: Client, states: list[EngineState]) -> Iterator[_Line]:
    now, zone = client.now(), cli.zone()
    counts = client.active_counts()
    running, queued = counts.get(Status.RUNNING, 0), counts.get(Status.QUEUED, 0)
    yield "runs", f"{running} running, {queued} queued", "cyan" if running else None
    for run in _running(client):
        start = near_time(run.started_at or run.plan_at, zone=zone, now=now)
        far = f", {progress_words(run.progress)}" if run.progress else ""
        left = _left_words(client, run, states)
        yield "", f"{run.schedule}, run {run.id}, since {start}{far}{left}", None
    for run in client.waiting_runs(limit=_MOST_RUNS):
        yield "", f"{run.schedule}, run {run.id}, {note_words(run, zone=zone, now=now)}", None
    late = client.late_places()
    if late.held_by or late.waiting:
        yield "late runs", late_words(late), None


def _next_lines(cli: Session, client: Client, fire: UpcomingFire | None) -> Iterator[_Line]:
    now = client.now()
    if fire is None:
        yield "next", "nothing to come", None
        return
    time = near_time(fire.due_at, zone=cli.zone(), now=now)
    is_late = is_overdue(fire.due_at, now)
    if client.is_clock_trusted():
        word = "overdue since" if is_late else "at"
        yield "next", f"{fire.schedule} {word} {time}, {distance(fire.due_at, now)}", None
    else:
        yield "next", f"{fire.schedule} at {time}, held: the clock can't be trusted", None
    full = client.disk_problem() if is_late else None
    if full is not None:
        yield "disk", disk_words(full), "red"


def _failure_lines(client: Client) -> Iterator[_Line]:
    failure = client.last_failure()
    if failure is not None:
        when = distance(failure.finished_at or failure.plan_at, client.now())
        more = f": {failure_words(failure)}" if failure.error_msg else ""
        words = f"{failure.schedule}, run {failure.id}, {when}, {status_words(failure)}{more}"
        yield "last failure", words, "red"


def _start_words(cli: Session, client: Client, fire: UpcomingFire | None) -> str:
    """Say what to start if no engine runs: one for commands, and the program of the next fire."""
    daemon = cli.command("daemon")
    queue = COMMAND_QUEUE
    if fire is not None:
        with suppress(NotFound):  # It was removed meanwhile.
            queue = client.schedule(fire.schedule).spec.queue
    if queue == COMMAND_QUEUE:
        return f"start an engine: {daemon}"
    return f"start {runner_words(queue)}, and for commands an engine: {daemon}"


def _engine_words(cli: Session, state: EngineState, *, since: str) -> tuple[str, str]:
    """Say how an engine is doing, and its style."""
    info, see = state.info, f"see {cli.command('doctor')}"
    pid = f"pid {info.pid} on {info.host}" if info.host else f"pid {info.pid}"
    if state.health is EngineHealth.STALLED:
        return f"{pid} is stalled: {state.why}; its runs continue; {see}", "yellow"
    if state.health is EngineHealth.GONE and info.is_stale:
        return f"{pid} is out of reach; other engines record its runs as interrupted", "yellow"
    if state.health is EngineHealth.GONE:
        is_idle = state.running == 0
        left = "it left no active run" if is_idle else "the next engine recovers its runs"
        return f"{pid} has died; {left}", "yellow"
    more = f"; {state.why}" if state.why else ""
    labels = f", labels {', '.join(info.labels)}" if info.labels else ""
    since = f"{since}{labels}"
    if info.drained_at is not None:
        resume = cli.command(f"engine resume {info.name or info.pid}")
        words = f"is drained and takes no new runs; to undo: {resume}"
        return f"{pid}, version {info.version}, {since}, {words}{more}", "yellow"
    if not info.queues:
        # One that is stopping, or of `run --wait`.
        words = "takes no new runs, and stops when its runs end"
        return f"{pid}, version {info.version}, {since}, {words}{more}", "yellow"
    return f"{pid}, version {info.version}, {since}{more}", "green"


def _left_words(client: Client, execution: Execution, states: list[EngineState]) -> str:
    """Say what happens to a run whose engine does not watch it now."""
    if any(state.is_stalled and state.info.id == execution.engine_id for state in states):
        return "; its engine is stalled"
    if any(state.is_alive for state in states):
        return ""
    if client.is_supervised(execution):
        return "; its engine has gone, and the next one adopts it"
    return (
        "; its engine and supervisor have gone:"
        " the next engine records its end, or ends its remaining processes"
    )


def _object(cli: Session, client: Client) -> dict[str, Any]:
    counts = client.active_counts()
    fire, failure = _next_fire(client), client.last_failure()
    count, broken, vanished = client.count_schedules()
    clock, health = client.clock_state(), client.schedule_health()
    counted = {} if health is None else health.counts
    now = client.now()
    return {
        "database": client.place,
        "exists": True,
        "size_bytes": sum(client.database_sizes()),
        "engines": [engine_object(state) for state in client.engines()],
        "copies": [
            {"pid": copy.pid, "database": None if copy.path is None else str(copy.path)}
            for copy in client.other_databases()
        ],
        "clock_trusted": clock.is_trusted,
        "clock_set_at": None if clock.set_at_ms is None else format_ms(clock.set_at_ms),
        "clock_set_by_s": None if clock.set_by_ms is None else clock.set_by_ms / 1000,
        "schedules": count,
        "broken": broken,
        "vanished": vanished,
        **{state.value: counted.get(state, 0) for state in HealthState},
        "unhealthy": [
            health_object(one, command=cli.command, now=now)
            for one in (health.worst if health is not None else ())
        ],
        "running": counts.get(Status.RUNNING, 0),
        "queued": counts.get(Status.QUEUED, 0),
        "runs": [execution_object(execution) for execution in _running(client)],
        "waiting": [execution_object(run) for run in client.waiting_runs(limit=_MOST_RUNS)],
        "late_places": late_object(client.late_places()),
        "disk_problem": client.disk_problem(),
        "next": None if fire is None else fire_object(fire),
        "last_failure": None if failure is None else execution_object(failure),
    }


def engine_object(state: EngineState) -> dict[str, Any]:
    """Return an engine as JSON has it."""
    return {
        "id": state.info.id,
        "pid": state.info.pid,
        "version": state.info.version,
        "queues": list(state.info.base_queues),
        "machine": state.info.name,
        "max_running": state.info.max_running,
        "labels": list(state.info.labels),
        "drained_at": instant(state.info.drained_at),
        "started_at": instant(state.info.started_at),
        "state": state.word,
        "running": state.running,
        "seen_at": instant(state.seen_at),
        "polls_s": state.polls_s,
        "alive": state.is_alive,
        "stalled": state.is_stalled,
        "written_bytes": state.info.written_bytes,
        "written_per_day_bytes": state.info.written_per_day,
    }


def _running(client: Client) -> list[Execution]:
    return client.history(choice=RunChoice(statuses=(Status.RUNNING,)), limit=_MOST_RUNS)


def _next_fire(client: Client) -> UpcomingFire | None:
    return next(iter(client.next_fires()), None)
