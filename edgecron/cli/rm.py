"""Remove schedules, and undo changes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.base.errors import NotFound, Unreadable, UsageError
from edgecron.base.paths import adoptions_path, is_there
from edgecron.base.value_texts import read_count
from edgecron.cli.parser import Parser
from edgecron.cli.pause import need_all
from edgecron.cli.plans import put_lines
from edgecron.cli.session import Session
from edgecron.views.changes import (
    REMOVED_FIELD,
    act_words,
    author_words,
    difference_lines,
    mask,
    undo_object,
    undone_words,
)
from edgecron.views.json_objects import schedule_object
from edgecron.views.schedule_words import reverting_words
from edgecron.views.times import near_time

if TYPE_CHECKING:
    from edgecron.client.protocol import Client
    from edgecron.model.schedule import Undo


class RmCommand:
    """Remove schedules.

        edgecron rm nightly
        edgecron rm nightly weekly
        edgecron undo nightly         restore it

    edgecron cancels queued runs, lets running ones finish, and keeps the history.

    On a terminal, edgecron asks first if other schedules follow or need a removed one.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add("NAME...", "the schedules to remove", dest="names")
        parser.add("-y --yes", "do not ask")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        client = cli.client(must_exist=True)
        need_all(client, args.names)
        if not args.yes and not _agrees_to_remove(cli, args.names):
            cli.say("nothing was removed")
            return 1
        removed = []
        for name in dict.fromkeys(args.names):
            try:
                removed.append(client.remove(name))
            except Unreadable as error:
                if not client.remove_unreadable(name):
                    raise
                cli.warn(f"removed {name}, which was not readable: {error.message}")
        for schedule in removed:
            left = ", ".join(client.find_dependents(schedule.name))
            if left:
                cli.warn(
                    f"these schedules follow or need {schedule.name}, and no longer run: {left}"
                )
            _warn_of_original(cli, schedule.name, schedule.id)
        if cli.is_json:
            cli.put_json(schedule_object(schedule) for schedule in removed)
            return 0

        for schedule in removed:
            undo = cli.command(f"undo {schedule.name}")
            cli.put(f"removed {schedule.name}; its history stays; restore it: {undo}")
            reverting = reverting_words(schedule)
            if reverting is not None:
                cli.say(f"note: {reverting}")
        return 0


def _warn_of_original(cli: Session, name: str, schedule_id: int) -> None:
    """Warn that nothing runs a schedule that is off, if it was moved from another program."""
    if cli.remote_url() is not None or not is_there(adoptions_path(cli.local_client().path)):
        return
    from edgecron.client.adoption import Book, Phase  # Rarely needed, and slow to load.

    adoption = Book(cli.local_client().path).find_of(schedule_id)
    if adoption is not None and adoption.phase is Phase.ADOPTED:
        back = cli.command(f"adopt --undo {adoption.name}")
        cli.warn(
            f"nothing runs {name} now: its original in {adoption.place.words} stays off;"
            f" to give it back: {back}"
        )


def _agrees_to_remove(cli: Session, names: list[str]) -> bool:
    """Ask a person at a terminal if other schedules name one of these."""
    if not cli.can_ask():
        return True
    client = cli.client()
    for name in dict.fromkeys(names):
        left = [one for one in client.find_dependents(name) if one not in names]
        if left:
            cli.say(
                f"these schedules follow or need {name}, and would no longer run: {', '.join(left)}"
            )
            if not cli.ask(f"remove {name}?"):
                return False
    return True


class UndoCommand:
    """Undo changes of schedules.

        edgecron undo                    undo the last change of any schedule
        edgecron undo nightly            undo the last change of nightly
        edgecron undo nightly weekly
        edgecron undo nightly 3          return nightly to revision 3
        edgecron undo nightly --dry-run

    `edgecron show NAME --changes` lists the changes of a schedule with their revisions. You can
    undo every change, also one by rm, apply or import, and an undo. The undo of an addition removes
    the schedule; its history stays. Without NAME, edgecron undoes the last change; an apply or
    import is one change of all its schedules.

    An undo runs nothing twice. A restored or resumed schedule runs from now on; the history shows
    the times that passed meanwhile as one skipped row. Cancelled runs stay cancelled. The limit of
    a group belongs to all its schedules, so an undo does not change it. On a terminal, edgecron
    shows the differences and asks first.
    """

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add(
            "[NAME|REVISION...]",
            "schedules, or one schedule and a revision (default: the last change)",
            dest="names",
        )
        parser.add("--dry-run", "show the undo; change nothing")
        parser.add("-y --yes", "do not ask")

    @staticmethod
    def run(cli: Session, args: Namespace) -> int:
        names, revision = _read_names(args.names)
        client = cli.client(must_exist=True)
        if not names:
            names = client.last_changed()
            if not names:
                raise NotFound("there is nothing to undo: no change is recorded")
        must_ask = cli.can_ask() and not args.yes
        undone = []
        if args.dry_run or must_ask:
            undone = [client.plan_undo(name, revision) for name in names]
            if not cli.is_json:
                for plan in undone:
                    _put_plan(cli, client, plan)
        if args.dry_run:
            if cli.is_json:
                cli.put_json(map(undo_object, undone))
            cli.say_dry_run()
            return 0
        if must_ask and not cli.ask(_question(names, revision)):
            cli.say("nothing was changed")
            return 1
        seen = {plan.seen for plan in undone} if len(names) == 1 else set()
        done: list[Undo] = []
        try:
            for name in names:
                done.append(client.undo(name, revision, seen=next(iter(seen), None)))
        finally:
            # If one can't be undone, those before it were.
            if cli.is_json and done:
                cli.put_json(map(undo_object, done))
            for undo in () if cli.is_json else done:
                _put_done(cli, client, undo, has_plan=must_ask)
        if cli.remote_url() is None:
            local = cli.local_client(must_exist=True)
            for undo in done:
                if undo.is_removed or any(
                    one.field == "enabled" and one.new is False for one in undo.changes
                ):
                    _warn_of_original(cli, undo.schedule, local.past_id(undo.schedule))
        left = [client.schedule(undo.schedule) for undo in done if not undo.is_removed]
        if left:
            cli.warn_without_engine(client, *left)
        return 0


def _read_names(words: Sequence[str]) -> tuple[list[str], int | None]:
    """Split the words into names and a revision: a name is never only digits."""
    numbers = [word for word in words if word.isascii() and word.isdigit()]
    names = list(dict.fromkeys(word for word in words if word not in numbers))
    if not numbers:
        return names, None
    if len(names) != 1 or len(numbers) > 1:
        raise UsageError(
            f"revision {numbers[0]} is given with {len(names)} schedules, expected one schedule"
            if len(numbers) == 1
            else f"{len(numbers)} revisions are given, expected one",
            hint="give one schedule and one revision: edgecron undo nightly 3",
        )
    return names, read_count(numbers[0], what="REVISION", most=2**62)


def _put_plan(cli: Session, client: Client, plan: Undo) -> None:
    zone, now = cli.zone(), client.now()
    if plan.undone is None:
        cli.put(f"return {plan.schedule} to revision {plan.revision}:")
    else:
        when = near_time(plan.undone.at, zone=zone, now=now)
        what = act_words(plan.undone)
        cli.put(
            f"undo revision {plan.revision} of {plan.schedule} ({what} {when} by"
            f" {author_words(plan.undone)}):"
        )
    if plan.is_removed:
        cli.put("    the schedule is removed; its history stays")
    elif _is_restored(plan):
        cli.put("    the schedule is restored")
    put_lines(cli, difference_lines(mask(plan.changes), zone=zone, now=now))
    _put_times(cli, plan, now)


def _is_restored(undo: Undo) -> bool:
    return not undo.is_removed and any(one.field == REMOVED_FIELD for one in undo.changes)


def _question(names: Sequence[str], revision: int | None) -> str:
    if revision is not None:
        return f"return {names[0]} to revision {revision}?"
    what = names[0] if len(names) == 1 else f"{len(names)} schedules"
    return f"undo the last change of {what}?"


def _put_times(cli: Session, undo: Undo, now: datetime) -> None:
    zone = cli.zone()
    before, after = (
        ", ".join(near_time(at, zone=zone, now=now) for at in times) or "none"
        for times in (undo.next_before, undo.next_after)
    )
    if before == after:
        cli.put(f"    next runs stay: {after}")
    else:
        cli.put(f"    next runs: {before}")
        cli.put(f"    then:      {after}")


def _put_done(cli: Session, client: Client, undo: Undo, *, has_plan: bool) -> None:
    name, words = undo.schedule, undone_words(undo)
    if undo.is_removed:
        cli.put(words)
    else:
        cli.put(f"{words}; {cli.next_sentence(client.schedule(name))}")
        if not has_plan and not _is_restored(undo):
            now = client.now()
            put_lines(cli, difference_lines(mask(undo.changes), zone=cli.zone(), now=now))
    cli.say(f"to undo this: {cli.command(f'undo {name}')}")
