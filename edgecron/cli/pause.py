"""Hold schedules and runs back: pause, resume, reschedule the next run, and cancel runs."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from edgecron.base.errors import (
    Conflict,
    EdgecronError,
    NotFound,
    SupervisorUnavailable,
    Unreadable,
    UsageError,
)
from edgecron.base.value_texts import read_time
from edgecron.cli.parser import Parser
from edgecron.cli.session import Session
from edgecron.formats.option_texts import read_run_number
from edgecron.model.listing import ACTIVE_RUNS, Choice
from edgecron.views.changes import (
    cancelled_words,
    closed_words,
    is_held,
    paused_words,
    rescheduled_words,
    resumed_words,
)
from edgecron.views.json_objects import execution_object, schedule_object

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule

_PAGE = 500  # active runs that are read together


class PauseCommand:
    """Pause schedules.

        edgecron pause nightly
        edgecron pause nightly weekly --until "tomorrow 09:00"
        edgecron pause --group night
        edgecron pause --all

    Scheduled runs stop until `resume`, or until the time of --until. Running jobs continue, and
    `edgecron run` still works. With --group or --all, --until leaves longer pauses as they are.
    """

    USAGE = "NAME...|--group G|--all [--until TIME]"

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        _add_choice_arguments(parser)
        parser.add("--until TIME", "resume at this time")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        client = cli.client(must_exist=True)
        names = _chosen_names(cli, args)
        until = None
        if args.until is not None:
            until = read_time(args.until, what="--until", timezone="local", now=client.now())
        zone, now, is_trusted = cli.zone(), client.now(), client.is_clock_trusted()

        def pause(name: str) -> tuple[Schedule, str]:
            before = client.schedule(name)
            if before.is_paused_beyond(until) and not args.names:
                return before, f"{name} stays paused for longer"
            after = client.pause(name, until=until)
            return after, paused_words(
                before, after, zone=zone, now=now, is_clock_trusted=is_trusted
            )

        _put_changed(cli, [pause(name) for name in names])
        return 0


def _add_choice_arguments(parser: Parser) -> None:
    """Add the arguments that choose schedules: names, a group or all."""
    parser.add("[NAME...]", "the schedules", dest="names")
    parser.add("--group G", "every schedule of this group")
    parser.add("--all", "every schedule")


def _chosen_names(cli: Session, args: Namespace) -> list[str]:
    """Return the names of the chosen schedules, each once.

    Raises UsageError unless exactly one of names, group and all is given, and NotFound for an
    unknown name or group.
    """
    client = cli.client()
    if (bool(args.names), args.group is not None, args.all).count(True) != 1:
        raise UsageError(
            "expected one of NAME, --group and --all",
            hint=f"such as: {cli.command(f'{cli.command_name} nightly')}",
        )
    if args.names:
        names = list(dict.fromkeys(args.names))
        need_all(client, names)
        return names
    found = client.standings(choice=Choice(group=args.group))
    if args.group is not None and not found:
        raise NotFound(
            f"no schedule is in group {args.group!r}", hint=f"see: {cli.command('list --groups')}"
        )
    if not found:
        cli.say("there is no schedule")
    return [standing.name for standing in found]


def need_all(client: Client, names: list[str]) -> None:
    """Raise NotFound for the first name that no schedule has, before any is changed."""
    for name in names:
        try:
            client.schedule(name)
        except Unreadable:
            continue  # It is there; changing it reports what is wrong.
        except NotFound as error:
            if len(names) == 1:
                raise
            message = f"{error.message}; nothing was changed"
            raise NotFound(message, hint=error.hint) from None


def _put_changed(cli: Session, changed: list[tuple[Schedule, str]]) -> None:
    """Print what was done to each schedule."""
    if cli.is_json:
        cli.put_json(schedule_object(schedule) for schedule, _ in changed)
        return
    for _, words in changed:
        cli.put(words)


class ResumeCommand:
    """Resume paused schedules.

        edgecron resume nightly
        edgecron resume nightly --now   and run it once, immediately
        edgecron resume --group night
        edgecron resume --all

    Scheduled runs continue from now on. Times that passed during the pause are not caught up: the
    history shows them as one skipped row. --now also runs a schedule that was not paused.
    """

    USAGE = "NAME...|--group G|--all [--now]"

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        _add_choice_arguments(parser)
        parser.add("--now", "also run it once, immediately")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        client = cli.client(must_exist=True)
        changed, is_trusted = [], client.is_clock_trusted()
        for name in _chosen_names(cli, args):
            now = client.now()
            was_held = is_held(client.schedule(name), now)
            if not args.names and not was_held:
                continue  # A group or all means the paused ones.
            schedule = client.resume(name)
            words = resumed_words(
                schedule, was_held=was_held, zone=cli.zone(), now=now, is_clock_trusted=is_trusted
            )
            changed.append((schedule, words))
        if not changed:
            cli.say("no schedule was paused")
        if not args.now:
            _put_changed(cli, changed)
            return 0
        return _fire_resumed(cli, changed)


def _fire_resumed(cli: Session, changed: list[tuple[Schedule, str]]) -> int:
    """Run each schedule once, and print that it was resumed and its run."""
    # Only for --now: with it, the others would take a fifth longer to start.
    from edgecron.cli.run_ import fire_now, put_fired, tell_fired

    fired = [fire_now(cli, schedule.name) for schedule, _ in changed]
    if cli.is_json:
        cli.put_json(
            schedule_object(schedule) | {"runs": [execution_object(run) for run in runs]}
            for (schedule, _), runs in zip(changed, fired, strict=True)
        )
    else:
        _put_changed(cli, changed)
        put_fired(cli, [run for runs in fired for run in runs])
    return max((tell_fired(cli, runs) for runs in fired), default=0)


class RescheduleCommand:
    """Move the next run to another time.

        edgecron reschedule nightly "in 20m"
        edgecron reschedule nightly "tomorrow 09:00"
        edgecron reschedule nightly 2026-12-24T18:00:00Z

    Later runs follow the trigger as before. If you move a run past other planned times, only the
    latest of them runs; the others become one skipped row. A run that you move out of its windows
    waits for the next window. A run of `--once` can move only within its window. A change of times
    or a pause cancels the move. `undo` takes a move back. If the old time has passed, the run
    starts at the next time of its trigger.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("NAME", "the schedule")
        parser.add("TIME", "the new time: 'in 20m', 'tomorrow 09:00', RFC 3339")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        client = cli.client(must_exist=True)
        before = client.schedule(args.name)
        instant = read_time(args.time, what="TIME", timezone="local", now=client.now())
        schedule = client.reschedule(args.name, instant)
        if cli.is_json:
            cli.put_json([schedule_object(schedule)])
        else:
            zone, now = cli.zone(), client.now()
            is_trusted = client.is_clock_trusted()
            cli.put(
                rescheduled_words(before, schedule, zone=zone, now=now, is_clock_trusted=is_trusted)
            )
        closed = closed_words(schedule, zone=cli.zone())
        if closed is not None:
            cli.warn(closed)
        cli.warn_without_engine(client, schedule)
        return 0


class CancelCommand:
    """Cancel queued and running runs.

        edgecron cancel 41 42
        edgecron cancel nightly      every active run of this schedule

    Queued runs do not start, and running ones end. A command gets TERM, and KILL after --kill-grace
    (default: 10s), with all processes of its session. If no engine is running, the next one records
    the end. If a run has ended already, cancel exits with 1; if a schedule has no active run, with
    3.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("RUN|NAME...", "a run's number (see history), or a schedule", dest="runs")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        client = cli.client(must_exist=True)
        refused: list[EdgecronError] = []
        found = {word: _find_numbers(cli, word) for word in args.runs}
        for name, active in found.items():
            if not active:
                refused.append(
                    NotFound(
                        f"schedule {name!r} has no active run",
                        hint=f"see its past runs: {cli.command(f'history {name}')}",
                    )
                )
        numbers = list(dict.fromkeys(one for active in found.values() for one in active))
        for number in numbers:
            client.execution(number)
        cancelled: list[Execution] = []
        for number in numbers:
            try:
                cancelled.append(client.cancel(number))
            except (Conflict, SupervisorUnavailable) as error:
                refused.append(error)  # Cancel the others first.
        if cli.is_json and (cancelled or not refused):
            cli.put_json(execution_object(execution) for execution in cancelled)
        elif not cli.is_json:
            for execution in cancelled:
                cli.put(cancelled_words(execution))
        if not refused:
            return 0
        *before, last = refused
        for one in before:
            cli.report(f"error: {one.message}")
        raise last


def _find_numbers(cli: Session, word: str) -> list[int]:
    """Return one run by its number, or the active runs of a schedule. Raises NotFound."""
    if word.isascii() and word.isdigit():  # No name is digits alone.
        return [read_run_number(word)]
    client = cli.client()
    client.schedule(word)
    found: list[int] = []
    choice = ACTIVE_RUNS
    while page := client.history(word, choice=choice, limit=_PAGE):
        found += [run.id for run in page]
        choice = choice._replace(before_id=found[-1])
    return found
