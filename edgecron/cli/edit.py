"""Change a schedule.

    edgecron edit nightly                       its TOML in $VISUAL or $EDITOR
    edgecron edit nightly --cron "30 3 * * *"   replace all of its times
    edgecron edit nightly --timeout none        clear an option
    edgecron edit nightly --name weekly         rename it, with its runs

Options that you do not give stay as they are. If you change times, the next run is computed from
now; edgecron never runs times of the past. Other changes keep the next run. --env adds variables;
--env none clears them. The editor shows every option; an option with its default is a comment. To
rename the schedule, change the name in the heading. If the text has errors, edgecron shows them and
keeps the text.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from argparse import Namespace
from shlex import quote, split
from shutil import rmtree, which
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Self

from edgecron.base.errors import (
    ChangedByOthers,
    EdgecronError,
    InvalidDocument,
    InvalidInput,
    Problems,
    UsageError,
    os_words,
)
from edgecron.base.safetext import clean
from edgecron.base.values import replace
from edgecron.base.zones import check_zone
from edgecron.cli.add import (
    warn_of,
    warn_of_gap,
    warn_of_ineffective,
    warn_of_jitter,
    warn_of_missing,
    warn_of_windows,
    warn_of_zone,
)
from edgecron.cli.parser import Parser
from edgecron.cli.plans import put_changed, say_problems
from edgecron.cli.schedule_arguments import (
    add_schedule_arguments,
    is_anything_given,
    keep_uncleared,
    read_group_limit,
    read_job,
    read_policies,
    read_rest,
    read_triggers,
    rename_former_option,
)
from edgecron.cli.session import Session
from edgecron.formats.document import read_document
from edgecron.formats.document_tables import (
    TRIGGERS,
    FieldChange,
    Step,
    compare_one,
    find_changes,
    need_unchanged,
    schedule_table,
    write_for_editing,
)
from edgecron.model.choices import JobKind
from edgecron.model.options import NONE
from edgecron.triggers import Trigger

if TYPE_CHECKING:
    from edgecron.cli.session import Session
    from edgecron.model.schedule import Schedule, ScheduleSpec

TAKES_ARGV = True
USAGE = "NAME [options] [-- COMMAND...]"
# Keys by which the times in the windows of a schedule can change.
_OF_WINDOWS = {*TRIGGERS, "between", "not_between", "except", "timezone", "from", "until"}


def add_arguments(parser: Parser) -> None:
    parser.add("NAME", "the schedule to change")
    parser.add("--name NEW", "rename the schedule", dest="new_name")
    add_schedule_arguments(parser)


def run(cli: Session, args: Namespace) -> int:
    rename_former_option(cli, args)
    client = cli.client(must_exist=True)
    if not is_anything_given(args):
        return edit_text(cli, args.name)
    triggers: list[Trigger] = []

    def change(spec: ScheduleSpec) -> ScheduleSpec:
        nonlocal triggers
        now = client.now()
        if args.new_name is not None:
            spec = replace(spec, name=args.new_name)
        problems = Problems()
        timezone = problems.read(lambda: _timezone(args, spec), spec.timezone)
        triggers = read_triggers(args, problems, name=spec.name, timezone=timezone, now=now)
        job = read_job(args, spec.job, problems)
        policies = read_policies(args, spec.policies, problems)
        rest = read_rest(args, problems, timezone=timezone, now=now)
        problems.refuse()
        return replace(
            spec,
            triggers=tuple(trigger.text for trigger in triggers)
            or keep_uncleared(args, spec.triggers),
            timezone=timezone,
            job=job,
            policies=policies,
            **rest,
        )

    before = schedule_table(client.schedule(args.name))
    schedule = client.edit(args.name, change, origin="cli")
    limit = read_group_limit(args)
    if limit is not None:
        client.limit_group(*limit)
        schedule = client.schedule(schedule.name)
    changes = find_changes(before, schedule_table(schedule))
    if schedule.name != args.name:
        changes = (FieldChange(key="name", old=args.name, new=schedule.name), *changes)
    put_changed(cli, schedule, changes)
    warn_of_ineffective(cli, args, schedule.spec)
    warn_of(cli, args, triggers, schedule.spec.job)
    if any((args.argv, args.shell, args.env, args.env_from_shell)):
        warn_of_gap(cli, schedule)
    if triggers or args.jitter is not None:
        warn_of_jitter(cli, schedule)
    if triggers or _OF_WINDOWS.intersection(one.key for one in changes):
        warn_of_windows(cli, schedule)
    if triggers or args.tz is not None:
        warn_of_zone(cli, schedule)
    if any(one is not None for one in (args.notify, args.needs, getattr(args, "while"))):
        warn_of_missing(cli, [schedule.spec])
    return 0


def _timezone(args: Namespace, spec: ScheduleSpec) -> str | None:
    if args.tz is None:
        return spec.timezone
    return check_zone("local" if args.tz == NONE else args.tz)


_MARK = "# ! "  # starts a line with a problem
_MOST_BYTES = 16 * 1024 * 1024
_STDERR = 2
_HEADING = re.compile(r"^\[schedules\..*\]$", re.MULTILINE)
_FALLBACKS = ("editor", "nano", "vi")


class Draft:
    """A private file with the text of `schedule`, opened in an editor.

    The text is never lost: unless it was applied or dropped (`settle`), the file stays and its path
    is printed.
    """

    def __init__(self, cli: Session, *, schedule: str, text: str) -> None:
        self._cli = cli
        self._original = text
        self._is_settled = False
        self._schedule = schedule
        self._folder = mkdtemp(prefix="edgecron-edit-")
        self.path = os.path.join(self._folder, f"{schedule}.toml")
        self._write(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_settled or not self.is_changed():
            rmtree(self._folder, ignore_errors=True)
        else:
            self._cli.say(f"your text is kept in {self.path}")
            self._cli.say(f"after you fix it: {self._taking_over()}")

    def _taking_over(self) -> str:
        """Return the command that applies the kept file."""
        heading = _HEADING.search(self._original)
        if heading is None or heading[0].encode() in self.read().splitlines():
            return self._cli.command(f"apply {quote(self.path)}")
        # A renamed heading: `apply` would create another schedule instead of renaming.
        editor = quote(f"cp {quote(self.path)}")
        return f"VISUAL={editor} {self._cli.command(f'edit {self._schedule}')}"

    def settle(self) -> None:
        """Let the file be removed: its text was applied or dropped."""
        self._is_settled = True

    def edit(self) -> None:
        """Run the editor. Raises InvalidInput if it can't be started or fails."""
        command, whose = find_editor()
        # Ctrl-C is for the editor. A handler is not inherited, an ignored signal would be.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            ended = subprocess.run(
                [*command, self.path],
                # The screen of the editor must not go to a redirected stdout.
                stdout=None if sys.stdout.isatty() else _STDERR,
                check=False,
            )
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"the editor {command[0]!r}{whose} can't be started:"
                f" {os_words(error, is_named=True)}",
                hint="set VISUAL or EDITOR to an installed editor",
            ) from None
        finally:
            signal.signal(signal.SIGINT, before)
        if ended.returncode != 0:
            code = ended.returncode
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise InvalidInput(f"the editor {command[0]!r} failed with {how}, nothing is changed")

    def read(self) -> bytes:
        """Read the text, without the lines that `mark` added."""
        try:
            with open(self.path, "rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            return b""
        mark = _MARK.encode()
        if mark not in content:
            return content
        return b"".join(
            line for line in content.splitlines(keepends=True) if not line.startswith(mark)
        )

    def is_changed(self) -> bool:
        """Return whether the text is not empty and differs from the original."""
        content = self.read().strip()
        return content not in (b"", self._original.encode().strip())

    def mark(self, words: list[str]) -> None:
        """Put problems at the top of the text, in place of earlier ones."""
        lines = [_MARK + " ".join(one.split()) + "\n" for one in words]
        self._write("".join(lines).encode() + self.read())

    def _write(self, text: str | bytes) -> None:
        content = text.encode() if isinstance(text, str) else text
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(fd, "wb") as file:
            file.write(content)


def find_editor() -> tuple[list[str], str]:
    """Return the words of the editor's command line, and ` of $EDITOR` if it comes from there."""
    for variable in ("VISUAL", "EDITOR"):
        text = os.environ.get(variable, "").strip()
        if text:
            try:
                return split(text), f" of ${variable}"
            except ValueError as error:
                raise UsageError(f"${variable} is {text!r}, expected a command: {error}") from None
    for name in _FALLBACKS:
        if which(name):
            return [name], ""
    raise UsageError(
        f"no editor was found: $VISUAL and $EDITOR are not set, and there is no"
        f" {', '.join(_FALLBACKS)}",
        hint="set EDITOR, or change single options: edgecron edit --help",
    )


def is_editor_set() -> bool:
    """Return whether VISUAL or EDITOR is set."""
    return any(os.environ.get(variable, "").strip() for variable in ("VISUAL", "EDITOR"))


_QUESTION = "e: edit again, s: keep the text in a file and leave, d: drop it [e] "


def edit_text(cli: Session, name: str) -> int:
    """Let a person change a schedule in an editor. Returns the exit code."""
    client = cli.client(must_exist=True)
    schedule = client.schedule(name)
    if not cli.can_ask() and not is_editor_set():
        raise UsageError(
            f"no change to schedule {name!r} is given, and an editor needs a terminal",
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
                if not cli.can_ask():
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


def _plan(cli: Session, opened: Schedule, content: bytes) -> Step:
    """Return what the text changes of the schedule. Raises Conflict if others changed it."""
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
        # The text had `enabled = false`; a key that is removed gets its default.
        wanted = replace(wanted, enabled=True)
    return compare_one(wanted, current)


def _say_wrong(cli: Session, error: EdgecronError, *, is_last: bool) -> None:
    """Print the problems on stderr; the error itself, too, unless it is raised later."""
    if isinstance(error, InvalidDocument):
        say_problems(cli, error)
    if not is_last and not (isinstance(error, InvalidDocument) and error.problems):
        cli.show_error(error)


def _wrong_words(error: EdgecronError) -> list[str]:
    """Return the problems for the top of the text, with the line numbers after that insertion."""
    if not (isinstance(error, InvalidDocument) and error.problems):
        message = re.sub(r"\bline (\d+)", lambda at: f"line {int(at[1]) + 1}", error.message)
        return [clean(message)]
    above = len(error.problems)
    words = []
    for one in error.problems:
        where = "" if one["line"] is None else f"line {one['line'] + above}: "
        hint = f" ({one['hint']})" if one["hint"] else ""
        words.append(clean(f"{where}{one['message']}{hint}"))
    return words


def _wants_again(draft: Draft) -> bool:
    """Ask what to do with the text; False to leave."""
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
    put_changed(cli, schedule, changes)
    keys = {change.key for change in changes}
    job = schedule.spec.job
    told = Namespace(
        env=[f"{name}=" for name in job.env if f"env.{name}" in keys],
        env_from_shell=None,
        # A relative path starts at the HOME of the job, maybe not ours.
        cwd=job.cwd if "cwd" in keys and (job.cwd or "").startswith("/") else None,
        env_file=job.env_file
        if "env_file" in keys and (job.env_file or "").startswith("/")
        else None,
        argv=list(job.argv) if "command" in keys and job.kind is JobKind.COMMAND else None,
    )
    triggers = cli.client().triggers(schedule) if keys & set(TRIGGERS) else []
    warn_of(cli, told, triggers, job)
    if keys & {"command", "shell", "env.PATH"}:
        warn_of_gap(cli, schedule)
    if keys & {"notify", "needs", "while"}:
        warn_of_missing(cli, [schedule.spec])
    if keys & {"jitter", *TRIGGERS}:
        warn_of_jitter(cli, schedule)
    if keys & _OF_WINDOWS:
        warn_of_windows(cli, schedule)
