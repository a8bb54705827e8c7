"""Create and change schedules from a TOML file.

    edgecron apply schedules.toml --dry-run     only show the changes
    edgecron apply schedules.toml
    edgecron apply schedules.toml --prune       also remove deleted schedules
    edgecron apply schedules.toml --resolve     fill in the templates and print
    edgecron export | ssh board edgecron apply -

Either all changes are made or none. Each table [schedules.NAME] is a schedule. Its keys are the
options of `add` with underscores, as `export` writes them: cron, command, timeout, retry_delay.
`edgecron edit NAME` shows all of them.

A missing key has edgecron's default, the same on every machine: [defaults] of the configuration
do not apply. If `enabled` is missing, a paused schedule stays paused. The next time only moves if
the times of the schedule change. A relative time (at = "tomorrow 09:00") counts from each apply.

[templates.NAME] holds keys for several schedules; see `edgecron help templates`.

If the time of a new schedule has passed, it is created as finished. If its upstream does not exist,
it is created too, and the plan says so. --prune only removes schedules that this file, by its path,
created or changed last.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from edgecron.base.errors import InvalidDocument, UsageError
from edgecron.base.files import STDIN, read_file
from edgecron.cli.add import warn_of_jitter, warn_of_missing, warn_of_windows
from edgecron.cli.parser import Parser
from edgecron.cli.plans import (
    MOST_TOLD,
    changed_names,
    counted_words,
    put_kept,
    put_plan,
    say_problems,
    say_undo,
    step_object,
)
from edgecron.cli.schedule_arguments import find_least_niceness, niceness_warning
from edgecron.cli.session import Session
from edgecron.client import Client as LocalClient
from edgecron.client.stored_plans import WHOLE, PlanMemory
from edgecron.formats.document import MOST_BYTES, read_document
from edgecron.formats.document_tables import (
    APPLY,
    SCHEDULES,
    Action,
    Document,
    Step,
    may_be_secret,
    spec_table,
)
from edgecron.formats.option_texts import secret_warnings
from edgecron.formats.toml import write_table
from edgecron.views.phrases import count_words

if TYPE_CHECKING:
    from edgecron.client.protocol import Client


def add_arguments(parser: Parser) -> None:
    parser.add("FILE|-", "schedules as TOML; - is stdin", dest="file")
    parser.add("--dry-run", "show the plan; change nothing")
    parser.add("--resolve", "print the schedules with their templates resolved; change nothing")
    parser.add("--prune", "remove schedules that this file no longer has")


def run(cli: Session, args: Namespace) -> int:
    if args.resolve and (args.dry_run or args.prune):
        raise UsageError(
            "--resolve only prints the schedules; give it without --dry-run and --prune",
            hint=f"edgecron apply {args.file} --resolve",
        )
    content = read_file(args.file, most_bytes=MOST_BYTES)
    if args.resolve:
        document = _read(cli, content)
        _put_notes(cli, document)
        _put_resolved(cli, document)
        return 0
    origin = APPLY + (STDIN if args.file == STDIN else os.path.realpath(args.file))
    memory = _find_memory(cli, content, origin, is_pruned=args.prune)
    if memory is not None and (counts := memory.recall()) is not None:
        kept, left = counts
        cli.say(counted_words({Action.KEEP: kept, Action.LEAVE: left}))
        if args.dry_run:
            cli.say_dry_run()
        return 0
    document = _read(cli, content)
    try:
        with planner(cli, is_dry=args.dry_run) as client:
            steps = client.plan_document(document, origin=origin, is_pruned=args.prune)
    except InvalidDocument as error:
        say_problems(cli, error)
        raise
    _put_notes(cli, document)
    _put(cli, steps, is_pruned=args.prune)
    if memory is not None:
        memory.remember(steps)
    if args.dry_run:
        cli.say_dry_run()
        return 0
    removed = [step for step in steps if step.action is Action.REMOVE]
    if removed and not document.wanted:
        need_consent(cli, removed)
    client = cli.client()
    changed = client.apply(steps, origin=origin)
    if changed or removed:
        if not cli.is_json:
            cli.say("done")
            say_undo(cli, changed_names(steps))
            specs = [wanted.spec for wanted in document.wanted]
            for words in secret_warnings(specs, held_by="the database stores"):
                cli.warn(words)
            _put_kept(cli, steps)
            _warn_of_times(cli, client, steps)
            warn_of_missing(cli, specs)
        cli.warn_without_engine(client, *changed)
        _remember(cli, content, document, origin, is_pruned=args.prune)
    return 0


def _read(cli: Session, content: bytes) -> Document:
    """Read the document, or print its problems."""
    try:
        document = read_document(content, now=cli.now(), is_portable=True)
    except InvalidDocument as error:
        say_problems(cli, error)
        raise
    return document


def _put_notes(cli: Session, document: Document) -> None:
    """Print what the author of the document should know."""
    if not document.wanted:
        cli.say("the file has no schedules")
    for note in document.notes or ():
        cli.warn(note)
    least = None if cli.remote_url() is not None else find_least_niceness()
    for wanted in document.wanted:
        niceness = niceness_warning(wanted.spec.job, least=least)
        if niceness is not None:
            cli.warn(f"schedule {wanted.spec.name}: {niceness}")


def _put_resolved(cli: Session, document: Document) -> None:
    """Print the schedules as a document without templates."""
    tables = {
        wanted.spec.name: spec_table(
            wanted.spec,
            is_enabled=wanted.enabled is not False,
            group_most=None if wanted.limit is None else wanted.limit[1],
        )
        for wanted in document.wanted
    }
    templates = document.templates or {}
    if cli.is_json:
        cli.put_json(
            {"name": name, "templates": list(templates.get(name, ())), **table}
            for name, table in tables.items()
        )
        return
    for number, (name, table) in enumerate(tables.items()):
        if number:
            cli.put("")
        if name in templates:
            cli.put(f"# with the keys of {', '.join(templates[name])}")
        cli.put(write_table((SCHEDULES, name), table).rstrip("\n"))


def _find_memory(
    cli: Session, content: bytes, origin: str, *, is_pruned: bool
) -> PlanMemory | None:
    """Return the memory of plans; None if it can't be used, or if the whole plan must be shown."""
    if cli.is_json or cli.remote_url() is not None or not cli.has_database():
        return None

    return PlanMemory(cli.local_client(), content, origin=origin, is_pruned=is_pruned)


def _remember(
    cli: Session, content: bytes, document: Document, origin: str, *, is_pruned: bool
) -> None:
    """Let the next apply of the same document recognise that it changes nothing."""
    if len(document.wanted) > WHOLE:
        memory = _find_memory(cli, content, origin, is_pruned=is_pruned)
        if memory is not None:
            memory.remember(
                cli.client().plan_document(document, origin=origin, is_pruned=is_pruned)
            )


@contextmanager
def planner(cli: Session, *, is_dry: bool) -> Iterator[Client]:
    """Yield the database to plan with; for a dry run without a database, a temporary one."""
    if not is_dry or cli.has_database():
        yield cli.client()
        return
    cli.check_folder()
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder, LocalClient(f"{folder}/dry-run.db") as empty:
        yield empty


def _put(cli: Session, steps: Collection[Step], *, is_pruned: bool) -> None:
    if cli.is_json:
        cli.put_json(step_object(step) for step in steps)
    else:
        put_plan(cli, steps, is_pruned=is_pruned)


def _put_kept(cli: Session, steps: Collection[Step]) -> None:
    """Name the schedules whose former values can be secret and stay in the database."""
    keeping = [
        step
        for step in steps
        if any(one.old is not None and may_be_secret(one) for one in step.changes)
    ]
    for step in keeping[:MOST_TOLD]:
        put_kept(cli, step.name, step.changes)
    if len(keeping) > MOST_TOLD:
        cli.say(f"note: the same is true of {len(keeping) - MOST_TOLD} more schedules")


def need_consent(cli: Session, removed: list[Step]) -> None:
    """Ask before removing every schedule of a file. Raises UsageError if the answer is no."""
    what = count_words(len(removed), "schedule")
    if cli.can_ask():
        if cli.ask(f"the file is empty; remove {what}?"):
            return
        raise UsageError("nothing was removed")
    raise UsageError(
        f"the file holds no schedule, and --prune would remove {what}",
        hint=f"to remove them: edgecron rm {' '.join(step.name for step in removed[:5])}"
        if len(removed) <= 5
        else "to remove them: edgecron rm NAME...",
    )


def _warn_of_times(cli: Session, client: Client, steps: Collection[Step]) -> None:
    """Warn of jitter and windows that do not suit the times and durations of runs."""
    for step in steps:
        is_new = step.action in (Action.CREATE, Action.CHANGE)
        if not is_new or step.wanted is None:
            continue
        if step.wanted.spec.policies.jitter_s or step.wanted.spec.has_windows:
            schedule = client.schedule(step.name)
            warn_of_jitter(cli, schedule)
            warn_of_windows(cli, schedule)
