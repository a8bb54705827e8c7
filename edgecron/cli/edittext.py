"""`edit NAME` alone: the schedule as TOML in an editor, until it is right, given up or kept."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from edgecron.base.errors import EdgecronError, InvalidDocument, UsageError
from edgecron.cli.draft import Draft, is_editor_set

if TYPE_CHECKING:
    from edgecron.cli.session import Session
    from edgecron.formats.document_plan import FieldChange, Step
    from edgecron.model.schedule import Schedule

_QUESTION = "e: edit again, s: keep the text in a file and leave, d: drop it [e] "


def edit_text(cli: Session, name: str) -> int:
    """Let a person change a schedule in an editor. Returns the exit code."""
    from edgecron.base.errors import ChangedByOthers
    from edgecron.formats.document_writing import write_for_editing

    client = cli.client(must_exist=True)
    schedule = client.schedule(name)
    if not _is_on_terminal() and not is_editor_set():
        raise UsageError(
            f"nothing to change in schedule {name!r} is given, and an editor needs a terminal",
            hint=f"give options, such as: edgecron edit {name} --timeout 1h;"
            f" or: edgecron export {name} -o FILE, and edgecron apply FILE",
        )
    text = write_for_editing(schedule)
    with Draft(cli, schedule=name, text=text) as draft:
        while True:
            draft.edit()
            if not draft.is_changed():
                draft.settle()
                return _put_unchanged(cli, name)
            try:
                step = _plan(cli, schedule, draft.read())
                if not step.changes:
                    draft.settle()
                    return _put_unchanged(cli, name)
                [changed] = client.apply((step,), origin="cli")
            except EdgecronError as error:
                if not _is_on_terminal():
                    _say_wrong(cli, error, is_last=True)
                    raise
                _say_wrong(cli, error, is_last=False)
                draft.mark(_wrong_words(error))
                if not _wants_again(draft):
                    return error.exit_code
                if isinstance(error, ChangedByOthers):
                    schedule = client.schedule(name)
                continue
            draft.settle()
            _put_changed(cli, changed, step.changes)
            return 0


def _is_on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _plan(cli: Session, opened: Schedule, content: bytes) -> Step:
    """What the text changes of the schedule. Raises Conflict where others changed it meanwhile."""
    from edgecron.base.values import replace
    from edgecron.formats.document import read_document
    from edgecron.formats.document_plan import compare_one, need_unchanged

    client = cli.client()
    document = read_document(content, now=client.now(), known=opened.spec.triggers)
    if len(document.wanted) != 1:
        raise UsageError(
            f"the text holds {len(document.wanted)} schedules, expected one",
            hint="make another one with: edgecron add, or edgecron apply",
        )
    [wanted] = document.wanted
    current = client.schedule(opened.name)
    need_unchanged(opened, current)
    if wanted.enabled is None and not current.enabled:
        # The text had said it: what it no longer says has its default, as everything else.
        wanted = replace(wanted, enabled=True)
    return compare_one(wanted, current)


def _say_wrong(cli: Session, error: EdgecronError, *, is_last: bool) -> None:
    """What is wrong, on stderr; the error itself too, unless it is told later."""
    if isinstance(error, InvalidDocument):
        from edgecron.cli.plans import say_problems

        say_problems(cli, error)
    if not is_last and not (isinstance(error, InvalidDocument) and error.problems):
        cli.show_error(error)


def _wrong_words(error: EdgecronError) -> list[str]:
    """What is wrong, for the top of the text: at its lines as they then are."""
    from edgecron.base.safetext import clean

    if not (isinstance(error, InvalidDocument) and error.problems):
        message = re.sub(r"at line (\d+)", lambda at: f"at line {int(at[1]) + 1}", error.message)
        return [clean(message)]
    above = len(error.problems)
    words = []
    for one in error.problems:
        where = "" if one["line"] is None else f"line {one['line'] + above}: "
        hint = f" ({one['hint']})" if one["hint"] else ""
        words.append(clean(f"{where}{one['message']}{hint}"))
    return words


def _wants_again(draft: Draft) -> bool:
    """Ask what becomes of the text; False where the person leaves."""
    while True:
        print(_QUESTION, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        answer = line.strip().lower()[:1]
        if not line or answer == "s":
            return False
        if answer == "d":
            draft.settle()
            return False
        if answer in ("", "e"):
            return True


def _put_unchanged(cli: Session, name: str) -> int:
    if cli.is_json:
        cli.put_json([])
    cli.say(f"nothing is changed in schedule {name}")
    return 0


def _put_changed(cli: Session, schedule: Schedule, changes: tuple[FieldChange, ...]) -> None:
    from edgecron.cli.add import warn_of, warn_of_jitter
    from edgecron.cli.plans import put_changed
    from edgecron.formats.document_writing import TRIGGERS
    from edgecron.model.choices import JobKind

    put_changed(cli, schedule, changes)
    keys = {change.key for change in changes}
    job = schedule.spec.job
    told = Namespace(
        env=[f"{name}=" for name in job.env if f"env.{name}" in keys],
        # A relative path counts from HOME, which need not be ours.
        cwd=job.cwd if "cwd" in keys and (job.cwd or "").startswith("/") else None,
        env_file=job.env_file
        if "env_file" in keys and (job.env_file or "").startswith("/")
        else None,
        argv=list(job.argv) if "command" in keys and job.kind is JobKind.COMMAND else None,
    )
    triggers = cli.client().triggers(schedule) if keys & set(TRIGGERS) else []
    warn_of(cli, told, triggers, job)
    if keys & {"jitter", *TRIGGERS}:
        warn_of_jitter(cli, schedule)
