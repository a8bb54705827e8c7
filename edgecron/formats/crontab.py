"""A crontab's text into schedules: line by line, as Debian's cron and cronie read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from edgecron.base.errors import InvalidInput
from edgecron.base.values import dataclass, field
from edgecron.formats.crontab_fields import Fault, read_job, read_start_hour, split_timing
from edgecron.formats.crontab_lines import (
    BOM,
    DEBIAN_COMMAND_MOST,
    DEFAULT_SHELL,
    LINE_MOST_BYTES,
    LOCAL,
    Crontab,
    Entry,
    Line,
    Notice,
    Problem,
    Settings,
    Validate,
    apply_assignment,
    describe,
    read_assignment,
    split_lines,
)
from edgecron.formats.crontab_names import suggest_stem, take_name
from edgecron.model.choices import JobKind
from edgecron.model.options import Job, Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.triggers import parse_trigger


def split_percent(text: str) -> tuple[str, str | None]:
    """The command for the shell, and what it reads on stdin; None where there is nothing.

    A `%` behind a backslash is a plain `%`, and a backslash before anything else stays. In the
    command two backslashes are a pair, so `\\\\%` ends it; in the input only the last one counts.
    Input that does not end in a newline is given one.
    """
    if "%" not in text:
        return text, None
    command: list[str] = []
    is_escaped = False
    for position, letter in enumerate(text):
        if letter == "%":
            if not is_escaped:
                return "".join(command), _read_input(text[position + 1 :])
            command.pop()
        command.append(letter)
        is_escaped = letter == "\\" and not is_escaped
    return "".join(command), None


def _read_input(text: str) -> str | None:
    written: list[str] = []
    needs_newline = False
    is_escaped = False
    for letter in text:
        if is_escaped and letter != "%":
            written.append("\\")
        was_escaped, is_escaped = is_escaped, letter == "\\"
        if is_escaped:
            continue
        written.append("\n" if letter == "%" and not was_escaped else letter)
        needs_newline = written[-1] != "\n"
    if is_escaped:
        written.append("\\")
    if needs_newline:
        written.append("\n")
    return "".join(written) or None


_BOOT = "on boot"
_BLANKS = re.compile(r"[ \t]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Who reads, in which format: the same for every line. `owner`'s are lines without a column."""

    system: bool
    is_guessed: bool
    importer: str
    is_root: bool
    owner: str
    user_exists: Callable[[str], bool]
    validate: Validate
    is_anacron: bool


@dataclass(slots=True, kw_only=True)
class _Progress:
    """What the lines so far have left."""

    settings: Settings = field(default_factory=Settings)
    comments: list[str] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Notice] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    start_hour: int = 0

    def warn(self, line: Line, message: str) -> None:
        self.warnings.append(Notice(line=line.number, raw=line.raw, message=message))

    def refuse(self, line: Line, fault: Fault) -> None:
        self.problems.append(
            Problem(line=line.number, raw=line.raw, message=fault.message, hint=fault.hint)
        )


def read_crontab(
    content: bytes | str,
    *,
    system: bool | None,
    importer: str,
    is_root: bool,
    user_exists: Callable[[str], bool],
    owner: str | None = None,
    validate: Validate | None = None,
    is_anacron: bool = False,
) -> Crontab:
    """Every line of a crontab as an entry, a problem, or nothing; never raises for its content.

    `system` says whether lines have a user column; None, where nobody said: they have none, and
    where every command then begins with a user's name, that is a problem. `importer` is the user
    who imports, and whose own lines get no user; `owner` is whose crontab it is where there is no
    column (the importer's by default). `validate` is the trigger gate, `parse_trigger` by default.
    With `is_anacron` it is an anacrontab.
    """
    reader = _Reader(
        system=bool(system),
        is_guessed=system is None and not is_anacron,
        importer=importer,
        is_root=is_root,
        owner=importer if owner is None else owner,
        user_exists=user_exists,
        validate=_validate_trigger if validate is None else validate,
        is_anacron=is_anacron,
    )
    if isinstance(content, str):
        # A lone surrogate becomes bytes that are not UTF-8, and so a problem of its line.
        content = content.encode("utf-8", "surrogatepass")
    lines = split_lines(content)
    progress = _Progress()
    for line in lines:
        _read_line(reader, progress, line)
    _warn_of_file(reader, progress, lines, has_bom=content.startswith(BOM))
    return Crontab(
        entries=tuple(progress.entries),
        problems=tuple(progress.problems),
        warnings=tuple(sorted(progress.warnings, key=lambda warning: warning.line)),
    )


def _validate_trigger(text: str, timezone: str | None, name: str) -> Sequence[str]:
    return parse_trigger(text, timezone, name=name).warnings


def _read_line(reader: _Reader, progress: _Progress, line: Line) -> None:
    if line.is_blank:
        progress.comments.clear()
        return
    if line.is_comment:
        _read_comment(progress, line)
        return
    comments, progress.comments = progress.comments, []
    fault = _find_line_fault(line)
    if fault is not None:
        progress.refuse(line, fault)
        return
    text = (line.text or "").lstrip(" \t")
    assignment = read_assignment(text)
    if assignment is None:
        read = _read_anacron if reader.is_anacron else _read_entry
        entry = read(reader, progress, line, text=text, comments=comments)
        if isinstance(entry, Fault):
            progress.refuse(line, entry)
        else:
            progress.entries.append(entry)
        return
    outcome: Fault | str | None
    if isinstance(assignment, Fault):
        outcome = assignment
    elif reader.is_anacron and assignment.name == "START_HOURS_RANGE":
        hour = read_start_hour(assignment.value)
        outcome = hour if isinstance(hour, Fault) else None
        progress.start_hour = progress.start_hour if isinstance(hour, Fault) else hour
    else:
        outcome = apply_assignment(progress.settings, assignment, validate=reader.validate)
    if isinstance(outcome, Fault):
        progress.refuse(line, outcome)
    elif outcome is not None:
        progress.warn(line, outcome)


def _find_line_fault(line: Line) -> Fault | None:
    if line.text is None:
        return Fault(message="the line is not UTF-8", hint="convert the file: iconv -t UTF-8")
    if "\0" in line.text:
        return Fault(message="the line holds a NUL character")
    if line.byte_count > LINE_MOST_BYTES:
        return Fault(
            message=f"the line is {line.byte_count} bytes long, expected at most {LINE_MOST_BYTES}",
            hint="put the command into a script",
        )
    return None


def _read_comment(progress: _Progress, line: Line) -> None:
    if line.text is None:
        progress.warn(line, "the comment is not UTF-8 and is left out")
    else:
        progress.comments.append(line.text)


def _read_entry(
    reader: _Reader, progress: _Progress, line: Line, *, text: str, comments: list[str]
) -> Entry | Fault:
    if text.startswith("-"):
        # cronie and SUSE: such a line is not logged. Ours never are, outside the history.
        if not (reader.system or reader.is_root):
            return Fault(
                message="a - before the minute is for root and system crontabs only",
                hint="leave out the -",
            )
        text = text[1:]
    timing = split_timing(text)
    if isinstance(timing, Fault):
        return timing
    user, rest = reader.owner, timing.rest
    if reader.system:
        user, rest = (*_BLANKS.split(rest, maxsplit=1), "")[:2]
    fault = _find_user_fault(reader, user)
    if fault is not None:
        return fault
    command, stdin = split_percent(rest)
    if not command.strip():
        return Fault(message="the command is missing", hint="write it after the time fields")
    progress.commands.append(command)
    _warn_of_entry(progress, line, command)
    return _build_entry(
        reader,
        progress,
        line,
        trigger=timing.trigger,
        command=command,
        stdin=stdin,
        user=None if user == reader.importer else user,
        description=describe(comments),
    )


def _read_anacron(
    reader: _Reader, progress: _Progress, line: Line, *, text: str, comments: list[str]
) -> Entry | Fault:
    job = read_job(text, start_hour=progress.start_hour)
    if isinstance(job, Fault):
        return job
    fault = _find_user_fault(reader, reader.owner)
    if fault is not None:
        return fault
    return _build_entry(
        reader,
        progress,
        line,
        trigger=job.trigger,
        command=job.command,
        stdin=None,
        user=None if reader.owner == reader.importer else reader.owner,
        description=describe(comments),
        identifier=job.identifier,
    )


def _find_user_fault(reader: _Reader, user: str) -> Fault | None:
    if not user:
        return Fault(message="the user is missing", hint="write it after the time fields")
    if user == reader.importer:
        return None
    shown = f"{user[:60]!a}"
    if not reader.user_exists(user):
        hint = "leave out --system for a user's own crontab" if reader.system else None
        return Fault(message=f"user {shown} does not exist", hint=hint)
    if not reader.is_root:
        return Fault(message=f"runs as {shown}; import it as root")
    return None


def _build_job(settings: Settings, command: str, *, stdin: str | None, user: str | None) -> Job:
    # A shell job is /bin/sh's; another SHELL is started as cron would start it.
    is_plain = settings.shell == DEFAULT_SHELL
    return Job(
        kind=JobKind.SHELL if is_plain else JobKind.COMMAND,
        argv=(command,) if is_plain else (settings.shell, "-c", command),
        stdin=stdin,
        env=settings.job_env(),
        cwd=settings.env.get("HOME"),
        user=user,
    )


def _build_entry(
    reader: _Reader,
    progress: _Progress,
    line: Line,
    *,
    trigger: str,
    command: str,
    stdin: str | None,
    user: str | None,
    description: str | None,
    identifier: str | None = None,
) -> Entry | Fault:
    at_boot = trigger == _BOOT
    # A boot has no zone, and cronie delays only what has a time.
    timezone = LOCAL if at_boot else progress.settings.timezone
    jitter_s = 0.0 if at_boot else progress.settings.jitter_s
    stem = suggest_stem(command if identifier is None else identifier)
    name = take_name(stem, taken=progress.names)
    try:
        for warning in reader.validate(trigger, timezone, name):
            progress.warn(line, warning)
        spec = ScheduleSpec(
            name=name,
            triggers=(trigger,),
            job=_build_job(progress.settings, command, stdin=stdin, user=user),
            timezone=timezone,
            description=description,
            policies=Policies(jitter_s=jitter_s),
        )
    except InvalidInput as error:
        return Fault(message=error.message, hint=error.hint)
    return Entry(line=line.number, raw=line.raw, stem=stem, spec=spec)


def _warn_of_entry(progress: _Progress, line: Line, command: str) -> None:
    if not line.is_ended:
        progress.warn(line, "no newline follows the last line, and cron itself does not run it")
    if len(command) > DEBIAN_COMMAND_MOST:
        progress.warn(
            line,
            f"the command is {len(command)} characters long, and Debian's cron takes at most"
            f" {DEBIAN_COMMAND_MOST}",
        )


def _warn_of_file(
    reader: _Reader, progress: _Progress, lines: list[Line], *, has_bom: bool
) -> None:
    if has_bom and lines:
        progress.warn(lines[0], "the byte order mark is left out; cron itself stumbles over it")
    with_cr = [line for line in lines if line.has_cr]
    if with_cr:
        progress.warn(
            with_cr[0], "lines end in CR LF: the CR is left out, which cron would give to the shell"
        )
    if reader.is_guessed and progress.entries and _looks_like_system(reader, progress.commands):
        first = lines[progress.entries[0].line - 1]
        progress.entries.clear()
        progress.refuse(
            first,
            Fault(
                message="every command begins with a user's name, as in a system crontab",
                hint="add --system, or --user-format if these are commands",
            ),
        )


def _looks_like_system(reader: _Reader, commands: list[str]) -> bool:
    """Whether every command is a user's name with something behind it."""
    parts = [command.split(maxsplit=1) for command in commands]
    return all(len(part) == 2 for part in parts) and all(
        reader.user_exists(name) for name in {part[0] for part in parts}
    )
