"""Read the text of a crontab or an anacrontab as schedules, line by line.

Lines mean what Debian's cron and cronie read in them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from edgecron.base.errors import InvalidInput
from edgecron.base.values import dataclass, field
from edgecron.formats.crontab_lines import (
    BOM,
    DEBIAN_COMMAND_MOST,
    DEFAULT_SHELL,
    LINE_MOST_BYTES,
    LOCAL,
    MOVED_PREFIX,
    OWN_PREFIX,
    Crontab,
    Entry,
    Line,
    Notice,
    Settings,
    Validate,
    apply_assignment,
    read_assignment,
    split_lines,
    split_timing,
)
from edgecron.formats.crontab_names import suggest_stem, take_name
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.triggers import parse_trigger


def split_percent(text: str) -> tuple[str, str | None]:
    """Split into the command for the shell and its stdin, None if it has none.

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


def read_command(text: str) -> tuple[str, str | None]:
    """Read the command and stdin of a line of a user's own crontab.

    Raises InvalidInput if the line is not an entry or can't be imported.
    """
    [line] = split_lines(text.encode())
    _check_line(line)
    if read_assignment(text) is not None:
        raise InvalidInput("cron would set a variable by its line")
    return split_percent(split_timing(line.text or "").rest)


_BOOT = "on boot"
_BLANKS = re.compile(r"[ \t]+")


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
    """Read every line as an entry, a problem, or nothing; never raises for its content.

    `system` says whether lines have a user column. None means that the caller does not know: lines
    have none, and if every command then begins with a user's name, that is a problem. `importer` is
    the user who imports, whose own lines get no user. `owner` is the user of lines without a column
    (default: the importer). `validate` is the trigger gate (default: `parse_trigger`). With
    `is_anacron` the content is an anacrontab.
    """
    reading = _Reading(
        system=bool(system),
        importer=importer,
        is_root=is_root,
        user_exists=user_exists,
        owner=importer if owner is None else owner,
        validate=_validate_trigger if validate is None else validate,
        is_anacron=is_anacron,
    )
    if isinstance(content, str):
        # A lone surrogate becomes bytes that are not UTF-8, and so a problem of its line.
        content = content.encode("utf-8", "surrogatepass")
    lines = split_lines(content)
    for line in lines:
        reading.read(line)
    if content.startswith(BOM) and lines:
        reading.warn(lines[0], "the byte order mark is skipped; cron itself would fail on it")
    with_cr = [line for line in lines if line.has_cr]
    if with_cr:
        reading.warn(
            with_cr[0], "lines end in CR LF; the CR is skipped, but cron would pass it to the shell"
        )
    if system is None and not is_anacron and reading.has_user_column():
        first = lines[reading.entries[0].line - 1]
        reading.entries.clear()
        reading.refuse(
            first,
            "every command begins with a user's name, as in a system crontab",
            "add --system, or --user-format if these are commands",
        )
    return Crontab(
        mail_rules=reading.settings.mail_rules,
        entries=tuple(reading.entries),
        problems=tuple(reading.problems),
        warnings=tuple(sorted(reading.warnings, key=lambda warning: warning.line)),
    )


def _validate_trigger(text: str, timezone: str | None, name: str) -> Sequence[str]:
    return parse_trigger(text, timezone, name=name).warnings


@dataclass(slots=True, kw_only=True)
class _Reading:
    """A crontab as it is read: how to read it, and what its lines so far have left."""

    system: bool
    importer: str
    is_root: bool
    user_exists: Callable[[str], bool]
    owner: str
    validate: Validate
    is_anacron: bool
    settings: Settings = field(default_factory=Settings)
    start_hour: int = 0
    comments: list[str] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    problems: list[Notice] = field(default_factory=list)
    warnings: list[Notice] = field(default_factory=list)

    def warn(self, line: Line, message: str) -> None:
        self.warnings.append(Notice(line=line.number, raw=line.raw, message=message))

    def refuse(self, line: Line, message: str, hint: str | None) -> None:
        self.problems.append(Notice(line=line.number, raw=line.raw, message=message, hint=hint))

    def read(self, line: Line) -> None:
        """Read the next line."""
        if line.is_blank:
            self.comments.clear()
        elif line.is_comment and line.text is None:
            self.warn(line, "the comment is not UTF-8 and is skipped")
        elif line.is_comment:
            self.comments.append(line.raw)
        else:
            try:
                self._read_content(line)
            except InvalidInput as error:
                self.refuse(line, error.message, error.hint)
            self.comments.clear()

    def has_user_column(self) -> bool:
        """Whether every command is a user's name with something behind it."""
        parts = [command.split(maxsplit=1) for command in self.commands]
        return (
            bool(self.entries)
            and all(len(part) == 2 for part in parts)
            and all(self.user_exists(name) for name in {part[0] for part in parts})
        )

    def _read_content(self, line: Line) -> None:
        _check_line(line)
        text = (line.text or "").lstrip(" \t")
        assignment = read_assignment(text)
        if assignment is None and self.is_anacron:
            self._read_anacron(line, text)
        elif assignment is None:
            self._read_entry(line, text)
        elif self.is_anacron and assignment.name == "START_HOURS_RANGE":
            self.start_hour = _read_start_hour(assignment.value)
        else:
            warning = apply_assignment(self.settings, assignment, validate=self.validate)
            if warning is not None:
                self.warn(line, warning)

    def _read_entry(self, line: Line, text: str) -> None:
        if text.startswith("-"):
            # cronie and SUSE do not log such a line. edgecron logs none outside the history.
            if not (self.system or self.is_root):
                raise InvalidInput(
                    "a - before the minute is for root and system crontabs only",
                    hint="remove the -",
                )
            text = text[1:]
        timing = split_timing(text)
        user, rest = self.owner, timing.rest
        if self.system:
            user, rest = (*_BLANKS.split(rest, maxsplit=1), "")[:2]
        self._check_user(user)
        command, stdin = split_percent(rest)
        if not command.strip():
            raise InvalidInput("the command is missing", hint="write it after the time fields")
        if not line.is_ended:
            self.warn(line, "the last line has no newline, so cron itself does not run it")
        if len(command) > DEBIAN_COMMAND_MOST:
            self.warn(
                line,
                f"the command is {len(command)} characters long, and Debian's cron takes at most"
                f" {DEBIAN_COMMAND_MOST}",
            )
        if stdin is not None and _is_cut(command):
            self.warn(
                line,
                "cron ends the command at the first %, which starts its input; to keep a %, write"
                " \\%",
            )
        self._add(line, timing.trigger, suggest_stem(command), command, stdin=stdin, user=user)
        self.commands.append(command)

    def _read_anacron(self, line: Line, text: str) -> None:
        job = _read_job(text, start_hour=self.start_hour)
        self._check_user(self.owner)
        stem = suggest_stem(job.identifier)
        self._add(line, job.trigger, stem, job.command, stdin=None, user=self.owner)

    def _check_user(self, user: str) -> None:
        if not user:
            raise InvalidInput("the user is missing", hint="write it after the time fields")
        if user == self.importer:
            return
        shown = f"{user[:60]!a}"
        if not self.user_exists(user):
            hint = "for a user's own crontab, omit --system" if self.system else None
            raise InvalidInput(f"user {shown} does not exist", hint=hint)
        if not self.is_root:
            raise InvalidInput(f"runs as {shown}; import it as root")

    def _add(
        self, line: Line, trigger: str, stem: str, command: str, *, stdin: str | None, user: str
    ) -> None:
        at_boot = trigger == _BOOT
        # A boot has no zone, and cronie delays only what has a time.
        timezone = LOCAL if at_boot else self.settings.timezone
        jitter_s = 0.0 if at_boot else self.settings.jitter_s
        for warning in self.validate(trigger, timezone, stem):
            self.warn(line, warning)
        name = take_name(stem, taken=self.names)
        # A shell job is run by /bin/sh; another SHELL is started as cron starts it.
        settings, is_plain = self.settings, self.settings.shell == DEFAULT_SHELL
        job = Job(
            kind=JobKind.SHELL if is_plain else JobKind.COMMAND,
            argv=(command,) if is_plain else (settings.shell, "-c", command),
            stdin=stdin,
            env=settings.job_env(),
            cwd=settings.env.get("HOME"),
            user=None if user == self.importer else user,
        )
        spec = ScheduleSpec(
            name=name,
            triggers=(trigger,),
            job=job,
            timezone=timezone,
            description=_describe(self.comments),
            policies=Policies(jitter_s=jitter_s, notify=self.settings.notify),
        )
        self.entries.append(Entry(line=line.number, raw=line.raw, stem=stem, spec=spec))


def _is_cut(command: str) -> bool:
    """Whether a command seems to end too early, within quotes or within `$(date +`."""
    try:
        shlex.split(command)
    except ValueError:
        return True
    is_open = command.count("$(") > command.count(")") or command.count("`") % 2
    return bool(is_open) or command.endswith("+")


def _check_line(line: Line) -> None:
    if line.text is None:
        raise InvalidInput("the line is not UTF-8", hint="convert the file: iconv -t UTF-8")
    if "\0" in line.text:
        raise InvalidInput("the line holds a NUL character")
    if line.byte_count > LINE_MOST_BYTES:
        raise InvalidInput(
            f"the line is {line.byte_count} bytes long, expected at most {LINE_MOST_BYTES}",
            hint="put the command into a script",
        )


_DESCRIPTION_MOST = 4096

_SETTING = re.compile(r"[A-Z][A-Z0-9_]*\s*=.*", re.ASCII)
_COLUMN_ROW = re.compile(r"(m|min|mins|minutes?)\W+(h|hr|hrs|hours?)\b", re.IGNORECASE)
_DRAWING = re.compile(r"[|│┌├└┬]|[.,+`'*]-")
_TOOL_HEADER = re.compile(
    r"DO NOT EDIT THIS FILE|\(.* installed on |\(Cron version |Edit this file to introduce"
)


def _describe(comments: Sequence[str]) -> str | None:
    """Make a description of comment lines (with their `#`, in file order).

    The lines nearest to the entry count, up to an empty comment or a header.
    """
    kept: list[str] = []
    for comment in reversed(comments):
        body = comment.lstrip(" \t").lstrip("#").strip(" \t")
        if _is_header(body):
            break
        if _is_left_out(body):
            continue
        sentence = _clean(body)
        if any(letter.isalnum() for letter in sentence):
            kept.append(sentence)
        elif kept:
            break
    description = "\n".join(reversed(kept))
    if len(description) > _DESCRIPTION_MOST:
        description = description[: _DESCRIPTION_MOST - 3] + "..."
    return description or None


def _is_header(body: str) -> bool:
    return any(pattern.match(body) for pattern in (_COLUMN_ROW, _DRAWING, _TOOL_HEADER))


def _is_left_out(body: str) -> bool:
    """Whether the text is a line that was commented out, or edgecron's own comment."""
    own = (MOVED_PREFIX.removeprefix("# "), OWN_PREFIX.removeprefix("# "))
    if body.startswith(own) or _SETTING.fullmatch(body):
        return True
    try:
        return bool(split_timing(body).rest)
    except InvalidInput:
        return False


def _clean(body: str) -> str:
    spaced = (" " if letter.isspace() else letter for letter in body)
    printable = "".join(letter for letter in spaced if letter.isprintable())
    return " ".join(printable.split()).rstrip("# ")


_ANACRON_LINE = re.compile(r"(\S+)\s+(\S+)\s+(\S+)\s+(\S.*)", re.DOTALL)
_HOURS = re.compile(r"\s*(\d{1,2})\s*-\s*(\d{1,2})\s*", re.ASCII)
_MOST_DAYS = 3650
_DATES = {
    "1": "* * *",
    "@daily": "* * *",
    "7": "* * 0",
    "@weekly": "* * 0",
    "@monthly": "1 * *",
    "@yearly": "1 1 *",
    "@annually": "1 1 *",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnacronJob:
    """A line of an anacrontab. `identifier` is the name that its author gave the job."""

    trigger: str
    identifier: str
    command: str


def _read_start_hour(text: str) -> int:
    """Read the first hour of START_HOURS_RANGE, such as 3 of `3-22`. Raises InvalidInput."""
    found = _HOURS.fullmatch(text)
    if found is None or not int(found[1]) <= int(found[2]) <= 24 or int(found[1]) > 23:
        raise InvalidInput(f"START_HOURS_RANGE is {text[:60]!a}, expected hours such as 3-22")
    return int(found[1])


def _read_job(text: str, *, start_hour: int) -> _AnacronJob:
    """Read a line that is neither a comment nor a variable. Raises InvalidInput."""
    found = _ANACRON_LINE.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"{text[:60]!a} is neither a variable nor period, delay, identifier, command",
            hint="write such as: 7 25 cron.weekly run-parts /etc/cron.weekly",
        )
    period, delay, identifier, command = found.groups()
    if not (delay.isascii() and delay.isdigit()) or len(delay) > 6:
        raise InvalidInput(f"delay is {delay[:60]!a}, expected minutes")
    minutes = start_hour * 60 + int(delay)
    if minutes >= 24 * 60:
        raise InvalidInput(
            f"delay is {delay} minutes after {start_hour:02}:00, which is the next day",
            hint="write a shorter delay",
        )
    dates = _DATES.get(period)
    if dates is not None:
        trigger = f"{minutes % 60} {minutes // 60} {dates}"
    elif (
        period.isascii() and period.isdigit() and len(period) < 6 and 1 <= int(period) <= _MOST_DAYS
    ):
        trigger = f"every {int(period)}d"
    else:
        raise InvalidInput(
            f"period is {period[:60]!a}, expected a number of days, @daily, @weekly,"
            " @monthly or @yearly"
        )
    return _AnacronJob(trigger=trigger, identifier=identifier, command=command.rstrip())
