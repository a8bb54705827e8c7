"""Check that schedules can be read and run, and that their notices are sent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote

from edgecron.base.clock import SystemClock
from edgecron.base.errors import InvalidInput, Unreadable
from edgecron.base.machine import KernelMachine
from edgecron.base.units import to_ms
from edgecron.base.values import NamedTuple
from edgecron.client import Client
from edgecron.client.calendars import Calendars
from edgecron.client.doctor_machine import Finding, problem, warning, well
from edgecron.client.notice_rules import find_unreadable
from edgecron.client.side_processes import CALENDARS_ERROR, HEARTBEAT_ERROR, NOTICES_ERROR
from edgecron.client.stored_plans import apply_lock
from edgecron.formats.document_tables import APPLY
from edgecron.formats.toml import write_key
from edgecron.model.choices import HealthCause
from edgecron.model.conditions import find_note, find_of_machine, look_at, read_condition
from edgecron.model.listing import Idle, find_idle, standing_of, upstreams
from edgecron.model.machine_conditions import Kind
from edgecron.model.schedule import Schedule
from edgecron.planning.next_fire import fresh_fire
from edgecron.store.sql.outbox import find_broken_rules, find_rules_in_vain
from edgecron.views.schedule_health import Unhealthy, advise, health_words, left_out_words

_MOST_AILING = 5  # schedules named one by one
MOST_READ = 1000  # schedules, of which each is read
_KEPT_KIB = 16_384  # of pages. Four checks look at every schedule: 10,000 of them fill 13 MB.


def check_notices(client: Client, *, command: Callable[[str], str]) -> list[Finding]:
    """Report rules whose last notice could not be sent, and an error of the process that sends."""
    crash = client.state_dir / NOTICES_ERROR
    failed = [
        warning(
            "notices",
            f"the process that sends notices ended with an error: {line}",
            hint=f"notices wait; report this with the file {crash}",
        )
        for line in _lines_of(crash)[-1:]
    ]
    failed += [
        warning("notices", line, hint="correct its address, or mend the network")
        for line in _lines_of(client.state_dir / HEARTBEAT_ERROR)
    ]
    failed += [
        warning(
            "notices",
            f"notices wait, because their rules can't be read: {error}",
            hint=f"edgecron config check {quote(source)}"
            if os.path.lexists(source)
            else f"put it back; to remove its rules instead: touch {quote(source)}",
        )
        for source, error in find_unreadable(client)
    ]
    return failed + [
        warning(
            "notices",
            f"rule {rule} could not send its last notice: {error}",
            hint=f"correct its channel, then try: {command(f'notify test {rule}')}",
        )
        for rule, error in find_broken_rules(client.store)
    ]


def check_schedules(
    client: Client,
    schedules: Sequence[Schedule],
    unreadable: Sequence[tuple[int, Unreadable]],
    *,
    command: Callable[[str], str],
) -> list[Finding]:
    """Report schedules that can't be read, or whose triggers can't be read.

    `schedules` are all schedules, or those that need a check.
    """
    client.store.keep_pages(_KEPT_KIB)
    broken = _check_pending_apply(client, command=command)
    idle = [
        (schedule.name, found)
        for schedule in schedules
        if (found := _judge_idle(client, schedule, command=command)) is not None
    ]
    broken += _shared(
        (schedule.name, _broken(schedule.trigger_error, command=command))
        for schedule in schedules
        if schedule.trigger_error is not None
    )
    broken += [
        problem("schedules", f"number {number}: {error.message}", hint=error.hint)
        for number, error in unreadable
    ]
    broken += _shared(idle)
    broken += _shared(_find_needs_in_vain(client, command=command))
    broken += _shared(_find_rules_in_vain(client, command=command))
    broken += _shared(_find_old_calendars(client, command=command))
    broken += _find_reader_error(client)
    if broken:
        return broken
    count, *_ = client.count_schedules()
    if count > len(schedules):
        words = f"{count}; the {len(schedules)} that need a check are readable"
        return [well("schedules", f"{words}; read all: {command('doctor --deep')}")]
    return [well("schedules", f"{count}, all readable")]


class _Trouble(NamedTuple):
    """A trouble that several schedules can have.

    `words` follow the name and the verb, with `{it}`, `{its}` and `{does}` for one schedule. `hint`
    has `{name}` in the place of the name.
    """

    verb: str
    words: str
    hint: str
    is_problem: bool = False


# By the verb after one name, the verb after several.
_VERBS = {"is": "are", "needs": "need", "names": "name", "excepts": "except", "comes": "come"}
_PRONOUNS = (("{its}", "its", "their"), ("{it}", "it", "them"), ("{does}", "does", "do"))


def _shared(troubles: Iterable[tuple[str, _Trouble]]) -> list[Finding]:
    """Make one finding of each trouble, with the names of its schedules."""
    names_of: dict[_Trouble, list[str]] = {}
    for name, trouble in troubles:
        names_of.setdefault(trouble, []).append(name)
    return [_finding(names, trouble) for trouble, names in names_of.items()]


def _finding(names: Sequence[str], trouble: _Trouble) -> Finding:
    make = problem if trouble.is_problem else warning
    is_one, words = len(names) == 1, trouble.words
    for place, one, several in _PRONOUNS:
        words = words.replace(place, one if is_one else several)
    hint = trouble.hint.replace("{name}", names[0] if is_one else "NAME")
    if is_one:
        return make("schedules", f"{names[0]} {trouble.verb} {words}", hint=hint)
    named = list(names[:_MOST_AILING])
    if len(names) > len(named):
        named.append(f"{len(names) - len(named)} more")
    who = f"{', '.join(named[:-1])} and {named[-1]}"
    return make("schedules", f"{who} {_VERBS[trouble.verb]} {words}", hint=hint)


def _broken(error: str, *, command: Callable[[str], str]) -> _Trouble:
    """Return the trouble of a schedule whose triggers can't be read."""
    return _Trouble(
        "is",
        f"broken, and {{does}} not fire: {error}",
        f"give it another time or zone: {command('edit {name}')} --cron ... --tz ...",
        is_problem=True,
    )


def check_health(client: Client, *, command: Callable[[str], str]) -> list[Finding]:
    """Report schedules that fail, are overdue, or never succeeded, the worst first."""
    now, health = client.now(), client.schedule_health()
    found = [
        warning(
            "health",
            health_words(one, now=now),
            hint=_advice(client, one, command=command),
        )
        for one in health.worst
    ]
    found += [warning("health", words) for words in left_out_words(health, command=command)]
    return found or [well("health", "no schedule is failing or overdue")]


def _advice(client: Client, one: Unhealthy, *, command: Callable[[str], str]) -> str:
    """Return what to do about a schedule, a step per line."""
    is_missing = one.cause in (HealthCause.COMMAND_MISSING, HealthCause.SHELL_COMMAND_MISSING)
    if is_missing and one.run_id is not None:
        from edgecron.client.job_environment import find_gap_of_run  # It loads the supervisor.

        gap = find_gap_of_run(client, client.execution(one.run_id))
        if gap is not None:
            return f"{gap.words}; fix it: {command(gap.fix(one.schedule))}"
    return "\n".join(advise(one, command=command))


def _check_pending_apply(client: Client, *, command: Callable[[str], str]) -> list[Finding]:
    """Find an apply that was killed before its end."""
    pending = client.store.find_pending_apply()
    if pending is None:
        return []
    with apply_lock(client.path) as is_free:
        if not is_free:
            return []  # It is running.
    return [
        warning(
            "schedules",
            f"an apply was interrupted, and some of its schedules are not written yet:"
            f" {pending.origin.removeprefix(APPLY)}",
            hint=f"a daemon finishes it when it starts, and so does {command('apply FILE')}",
        )
    ]


def _judge_idle(
    client: Client, schedule: Schedule, *, command: Callable[[str], str]
) -> _Trouble | None:
    """Find a schedule without its next time, or that nothing can start; None if it is fine."""
    standing = standing_of(schedule)
    idle = find_idle(standing, now=client.now())
    if idle is Idle.NO_NEXT and _has_times_to_come(client, schedule):
        return _Trouble(
            "is",
            "enabled, and {its} next time is missing (next_run_at is NULL): an engine computes it"
            " within a minute",
            f"if no engine is running, start one: {command('daemon')}; to wake engines after"
            f" an edit by SQL: {_wake_line(client)}",
        )
    if not schedule.gone_upstreams or not schedule.enabled:
        return None
    gone = " and ".join(schedule.gone_upstreams)
    after = f"after {gone}, which {'is' if len(schedule.gone_upstreams) == 1 else 'are'} gone"
    has_others = "on boot" in schedule.spec.triggers or not set(upstreams(standing)) <= set(
        schedule.gone_upstreams
    )
    is_stranded = idle is Idle.UPSTREAM and not has_others
    nothing = ": nothing starts {it}" if is_stranded else ""
    return _Trouble(
        "comes",
        f"{after}{nothing}",
        f"let it come after another one: {command('edit {name}')} --after NAME;"
        f" or remove it: {command('rm {name}')}",
    )


def _find_needs_in_vain(
    client: Client, *, command: Callable[[str], str]
) -> Iterator[tuple[str, _Trouble]]:
    """Find schedules that need what can't become true, or can't be known on this machine."""
    machine = KernelMachine(SystemClock())
    all_needs = list(client.store.find_needs())
    texts = [text for _, needs in all_needs for text in needs]
    known = look_at(machine, texts)
    notes = {text: find_note(machine, text) for text in texts}
    machine.forget_bus()
    for name, needs in all_needs:
        for text in needs:
            condition = read_condition(text)
            needed = f"{command('edit {name}')} --needs none"
            # The result of a command is unknown until an engine runs it.
            unknown_kinds = {one.kind for one in find_of_machine((text,)) - known.keys()}
            if unknown_kinds - {Kind.COMMAND}:
                note = notes[text]
                unknown = "which is unknown here" if note is None else f"and {note}"
                words = f"{text!a}, {unknown}: {{its}} runs will be skipped"
                hint = f"change what is needed: {needed}; see: edgecron help conditions"
                yield name, _Trouble("needs", words, hint)
            if condition.schedule is None:
                continue
            if client.store.find_id(condition.schedule) is None:
                gone = f"a success of {condition.schedule}, which is gone"
                undo = command(f"undo {condition.schedule}")
                hint = f"restore it: {undo}; or change what is needed: {needed}"
                yield name, _Trouble("needs", f"{gone}: {{its}} runs will be skipped", hint)


def _find_rules_in_vain(
    client: Client, *, command: Callable[[str], str]
) -> Iterator[tuple[str, _Trouble]]:
    """Find schedules that name a rule for notices that no configuration has."""
    for name, rule in find_rules_in_vain(client.store):
        hint = (
            f"add [{write_key('notify', rule)}] to the configuration, then:"
            f" {command('notify list')}; or change it: {command('edit {name}')} --notify none"
        )
        yield name, _Trouble("names", f"the rule {rule} for notices, which is unknown", hint)


def _find_old_calendars(
    client: Client, *, command: Callable[[str], str]
) -> Iterator[tuple[str, _Trouble]]:
    """Find schedules whose calendars can't be read any more, or have changed since."""
    calendars = Calendars(client.now())
    for name in client.store.find_calendar_users():
        schedule = client.store.get_schedule(name)
        try:
            is_same = calendars.read(schedule.spec) == schedule.spec
            what = "a calendar that has changed; a running engine reads it within an hour"
            hint = f"an engine must be running: {command('daemon')}"
        except InvalidInput as error:
            is_same = False
            what = f"a calendar: {error.message}; the days that were read before still apply"
            change = f"or except other days: {command('edit {name}')} --except DAYS"
            hint = f"{error.hint}; {change}" if error.hint else f"put the file back; {change}"
        if not is_same:
            yield name, _Trouble("excepts", what, hint)


def _find_reader_error(client: Client) -> list[Finding]:
    """Report an error of the process that reads calendars."""
    crash = client.state_dir / CALENDARS_ERROR
    return [
        warning(
            "schedules",
            f"the process that reads calendars ended with an error: {line}",
            hint=f"the days that were read before apply; report this with the file {crash}",
        )
        for line in _lines_of(crash)[-1:]
    ]


def _lines_of(path: Path) -> list[str]:
    """Return the lines of a file that a process leaves if it fails; none if it is missing.

    None, too, if its folder is closed: doctor reports that by itself.
    """
    try:
        return path.read_text(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def _wake_line(client: Client) -> str:
    """Return a shell line that wakes every engine, for people who edit the database by SQL."""
    bells = f"{quote(str(client.state_dir))}/engine-*.fifo"
    return f'for f in {bells}; do [ -p "$f" ] && printf . 1<>"$f"; done'


def _has_times_to_come(client: Client, schedule: Schedule) -> bool:
    """Whether the definition of a schedule has a time to come."""
    try:
        timing = client.timing(schedule)
    except InvalidInput:
        return False  # An engine marks it as broken.
    return fresh_fire(timing, to_ms(client.now()), planned_count=schedule.planned_count) is not None
