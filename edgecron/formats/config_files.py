"""Read a configuration file: check who can change it, and every word in it. Write an example."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from edgecron.base.checks import suggest
from edgecron.base.errors import InvalidConfig, InvalidInput
from edgecron.base.files import find_weakness, has_other_users
from edgecron.base.paths import is_root
from edgecron.base.values import NamedTuple
from edgecron.formats.config_settings import SECTIONS, SETTINGS, Setting, Text
from edgecron.formats.notify_rules import ReadRule, read_rules
from edgecron.formats.toml import MOST_LEVELS, explain_fault, find_lines, find_too_deep, write_value

MOST_BYTES = 1024 * 1024
NOTIFY = "notify"  # the table of the rules for notices
ROOT_UID = 0
# Names that people write instead.
_ALIKE = 0.75  # of two keys: foo is not follow
_OTHER_WORDS = {
    "tz": "timezone", "db": "database", "colour": "color", "output_cap": "output",
    "grace": "max_late",
}  # fmt: skip


class ConfigFile(NamedTuple):
    """A valid file. `values`: by key, the text that a flag would have, and the value as written."""

    path: Path
    values: Mapping[str, tuple[Text, Any]]
    content: str
    rules: tuple[ReadRule, ...] = ()  # for notices

    def line_of(self, key: str) -> int | None:
        return line_of(self.content, key)


def read_file(path: Path, *, is_system: bool = False) -> ConfigFile:
    """Read the settings of a file. Raises InvalidConfig with everything that is wrong.

    Of [defaults] only the form is checked here.
    """
    content = _decode(path, _read_trusted(path, is_system=is_system))
    document = _parse(path, content)
    values: dict[str, tuple[Text, Any]] = {}
    problems: list[_Problem] = []
    rules, wrong = read_rules(document.pop(NOTIFY, {}), source=str(path))
    problems += [_Problem(*each) for each in wrong]
    for key, value in _flatten(document, problems):
        setting = SETTINGS[key]
        try:
            text = setting.kind.text_of(value, key)
            setting.kind.read(text, key)
        except InvalidInput as error:
            problems.append(_Problem(key, error.message, error.hint or example_of(setting)))
        else:
            values[key] = (text, value)
    if problems:
        raise _refuse(path, content, problems)
    return ConfigFile(path, values, content, tuple(rules))


class _Problem(NamedTuple):
    key: str
    message: str
    hint: str | None


def _refuse(path: Path, content: str, problems: list[_Problem]) -> InvalidConfig:
    """Make the error that reports problems of a file in the order of their lines."""
    lines = _lines_of(content)
    told = []
    for problem in problems:
        line = _find_line(lines, problem.key)
        place = str(path) if line is None else f"{path}:{line}"
        message = f"{place}: {problem.message}"
        told.append({"key": problem.key, "line": line, "message": message, "hint": problem.hint})
    told.sort(key=lambda each: each["line"] or 0)
    message, hint = str(told[0]["message"]), told[0]["hint"]
    if len(told) > 1:
        message += f" ({hint})" if hint else ""
        hint = (
            f"{len(told)} settings are wrong; to see all: edgecron config check {quote(str(path))}"
        )
    return InvalidConfig(message, hint=None if hint is None else str(hint), problems=told)


def line_of(content: str, key: str) -> int | None:
    """Find the line where a key is set, or its section begins."""
    return _find_line(_lines_of(content), key)


def _lines_of(content: str) -> dict[str, int]:
    return {".".join(names): number for names, number in find_lines(content).items()}


def _find_line(lines: Mapping[str, int], key: str) -> int | None:
    while key and key not in lines:
        key = key.rpartition(".")[0]  # an inline table, as in `limits = {burst = 5}`
    return lines.get(key)


def _read_trusted(path: Path, *, is_system: bool) -> bytes:
    try:
        # O_NONBLOCK: opening a FIFO would wait.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        _check_trust(path, os.fstat(fd), is_system=is_system)
        with open(fd, "rb", closefd=False) as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(fd)
    if len(content) > MOST_BYTES:
        raise InvalidConfig(f"configuration file {path} is larger than 1 MiB")
    return content


def _unreadable(path: Path, error: OSError) -> InvalidConfig:
    if isinstance(error, FileNotFoundError):
        return InvalidConfig(
            f"configuration file {path} does not exist",
            hint=f"to write one: edgecron config init {quote(str(path))}",
        )
    words = (error.strerror or str(error)).lower()
    return InvalidConfig(
        f"configuration file {path} can't be read: {words}",
        hint=f"see who can read it: ls -l {quote(str(path))}",
    )


def _check_trust(path: Path, status: os.stat_result, *, is_system: bool) -> None:
    """Refuse a file that other users can change: it decides what is run, and how.

    Only root can be able to change root's and the system's file, and each folder above what root
    reads, as with cron's tables. Any other file belongs to its user or root and is not writable
    for everybody.
    """
    if not stat.S_ISREG(status.st_mode):
        raise InvalidConfig(
            f"configuration file {path} is not a file",
            hint=f"see what it is: ls -ld {quote(str(path))}",
        )
    owners, others, command = {os.geteuid(), ROOT_UID}, stat.S_IWOTH, "chmod o-w"
    if is_system or is_root():
        owners, others, command = {ROOT_UID}, stat.S_IWOTH | stat.S_IWGRP, "chmod go-w"
    if status.st_uid not in owners:
        whose = "root" if owners == {ROOT_UID} else "you or root"
        raise InvalidConfig(
            f"configuration file {path} belongs to user {status.st_uid}, expected {whose}",
            hint="its owner could choose the commands that run",
        )
    if status.st_mode & others:
        mode = stat.S_IMODE(status.st_mode)
        raise InvalidConfig(
            f"configuration file {path} has mode {mode:04o}, so that other users can change it",
            hint=f"{command} {path}",
        )
    opening = find_weakness(path, must_exist=True) if is_root() and has_other_users() else None
    if opening is not None:
        raise InvalidConfig(
            f"configuration file {path} can be changed by other users: {opening.words}",
            hint=f"these users could choose the commands that run: {opening.mend}",
        )


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidConfig(f"{path}:{line}: not UTF-8", hint="save the file as UTF-8") from None


def _parse(path: Path, content: str) -> dict[str, Any]:
    deep = find_too_deep(content)
    if deep is not None:
        raise InvalidConfig(f"{path}:{deep}: nested more than {MOST_LEVELS} levels deep")
    try:
        return tomllib.loads(content)
    except ValueError as error:
        fault = explain_fault(error, content)
        place = str(path) if fault.line is None else f"{path}:{fault.line}"
        column = "" if fault.column is None else f", column {fault.column}"
        raise InvalidConfig(f"{place}: not TOML{column}: {fault.words}", hint=fault.hint) from None


def _flatten(
    table: Mapping[str, Any], problems: list[_Problem], section: str = ""
) -> Iterator[tuple[str, Any]]:
    """List the settings of a table and of tables below; add unknown keys to the problems."""
    names = _names_of(section)
    for name, value in table.items():
        full = f"{section}.{name}" if section else name
        if name not in names:
            problems.append(_unknown(section, name))
        elif full in SETTINGS:
            yield full, value
        elif isinstance(value, dict):
            yield from _flatten(value, problems, full)
        else:
            hint = f"write [{full}], and its settings below"
            problems.append(_Problem(full, f"{full} is not a table", hint))


def _names_of(section: str) -> list[str]:
    """List the names that a section can have: its settings, and the sections below."""
    settings = [each.name for each in SETTINGS.values() if each.section == section]
    below = [
        inner.rpartition(".")[2]
        for inner in SECTIONS
        if inner and inner.rpartition(".")[0] == section
    ]
    return settings + below + ([] if section else [NOTIFY])


def _unknown(section: str, name: str) -> _Problem:
    shown = name if re.fullmatch(r"[\w\-]{1,60}", name) else ascii(name[:60])
    full = f"{section}.{shown}" if section else shown
    suggestion = _suggest(section, name)
    hint = f"did you mean {suggestion}?" if suggestion else "see: edgecron config show"
    key = f"{section}.{name}" if section else name
    return _Problem(key, f"{full} is unknown", hint)


def _suggest(section: str, name: str) -> str | None:
    """Find the setting that was probably meant, in this section first."""
    word = name.lower().replace("-", "_")
    word = _OTHER_WORDS.get(word, word)
    within = suggest(word, _names_of(section), cutoff=_ALIKE)
    if within is not None:
        if section:
            return f"{section}.{within}"
        return f"[{within}]" if within in (*SECTIONS, NOTIFY) else within
    by_name = {setting.name: setting.key for setting in reversed(SETTINGS.values())}
    elsewhere = suggest(word, by_name, cutoff=_ALIKE)
    return None if elsewhere is None else by_name[elsewhere]


_HEAD = """\
# Settings of edgecron. The first of these that has a value decides: an option of the command line,
# the variable EDGECRON_SECTION_KEY, the user's file, the system's file, the default. To see where
# each value comes from: edgecron config show. Each line below is a default: to change it, remove
# the #.
"""
_SAMPLES = {
    "database": "/srv/edgecron/edgecron.db",
    "url": "http://pi:8745",
    "token_file": "~/.config/edgecron/token",
    "limits.max_running": 8,
    "limits.burst": 10,
    "defaults.max_late": "24h",
    "defaults.max_running": 1,
    "defaults.env_file": "~/.config/edgecron/job.env",
    "defaults.cwd": "~",
}


def example_text() -> str:
    """Write a file in which every setting is a comment."""
    parts = [_HEAD]
    for section, words in SECTIONS.items():
        lines = [f"# {words[:1].upper()}{words[1:]}"]
        lines += [f"[{section}]"] if section else []
        lines += [_line(setting) for setting in SETTINGS.values() if setting.section == section]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def example_of(setting: Setting) -> str:
    """Write a hint with a value that a setting can have."""
    return f"for example: {setting.name} = {write_value(_sample(setting))}"


def _sample(setting: Setting) -> Any:
    """Return the default of a setting, else a sample, else none."""
    return setting.default if setting.default is not None else _SAMPLES.get(setting.key, "none")


def _line(setting: Setting) -> str:
    value, words = _sample(setting), setting.help
    if setting.default is None and value != "none":
        words += f"; unless set: {setting.absent}"
    return f"# {setting.name} = {write_value(value)}".ljust(36) + f"  # {words}"
