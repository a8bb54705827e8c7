"""Suggest what wrong words of a command line were meant to be. Only errors load this module."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from itertools import takewhile
from shlex import join, quote, split
from typing import NoReturn

from edgecron.base.checks import suggest
from edgecron.base.errors import InvalidTrigger, UsageError
from edgecron.base.files import package_text
from edgecron.base.window_texts import split_once_in
from edgecron.formats.crontab_names import suggest_stem
from edgecron.formats.option_texts import is_words
from edgecron.model.options import OPTIONS, OptionType
from edgecron.triggers import parse_trigger

_ALIKE = 0.75  # of two options without their dashes: jsn is json, time is not timeout
_MACROS = ("hourly", "daily", "weekly", "monthly", "yearly")  # of cron texts
_WORDS: dict[str, dict[str, str]] = tomllib.loads(package_text("cli/texts/words.toml"))
OTHER_WORDS = {word: name for name, words in _WORDS["commands"].items() for word in words.split()}
_OTHER_OPTIONS = {
    word: options.split() for words, options in _WORDS["options"].items() for word in words.split()
}
_HABITS = _WORDS["habits"]
_CLOCK = re.compile(r"\d{1,2}:\d\d\S*", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d|[a-z]+", re.ASCII | re.IGNORECASE)


def find_habit(prog: str, word: str) -> str | None:
    """Return what to write instead of a usual word of other programs; None for other words."""
    return _HABITS.get(f"{prog} {word}".removeprefix("edgecron").strip())


def hint_for_stray(unknown: list[str], argv: list[str], *, prog: str, has_job: bool) -> str | None:
    """Guess what stray words of a command line were meant to be; None if nothing is likely.

    `has_job`: the command takes the times and the job of a schedule.
    """
    hint = _split_hint(unknown[0], argv) or find_habit(prog, argv[0])
    return _stray_hint(unknown, argv) if hint is None and has_job else hint


def _split_hint(word: str, argv: list[str]) -> str | None:
    """Suggest quotes for a time or a shell line that the shell has split; None for other words."""
    at = argv.index(word)
    before = argv[at - 1].lower() if at else ""
    is_clock = _CLOCK.fullmatch(word) is not None and _DAY.fullmatch(before) is not None
    if is_clock or before == "in" or word.lower() == "ago":
        return f"quote the time, because the shell splits it: {quote(f'{argv[at - 1]} {word}')}"
    if "--shell" in argv[: at - 1]:
        first = argv.index("--shell") + 1
        line = list(takewhile(lambda one: one[:2] != "--", argv[first:]))
        if at < first + len(line):
            words = quote(" ".join(line))
            return f"quote the line, because the shell splits it: --shell {words}"
    return None


def _stray_hint(unknown: list[str], argv: list[str]) -> str:
    """Guess what stray words were meant to be: a part of a time, or a job."""
    if "run" in argv:
        end = argv.index("run") + 1
        line = " ".join([*argv[:end], join(argv[end:])])  # The shell took the quotes of the job.
        hint = hint_for_line(line) or hint_for_line(line.replace(" ", ": ", 1))  # behind a name
        if hint is not None:
            return hint
    word = unknown[0]
    before = argv[argv.index(word) - 1]
    switches = (one.option for one in OPTIONS.values() if one.type is OptionType.SWITCH)
    if f"--{before.removeprefix('--').removeprefix('no-')}" in switches:
        return f"leave it out, {before} takes no value"
    trigger = _find_trigger_option(word if " " in word else " ".join(unknown))
    if trigger is not None:
        return trigger
    if word[:1] == "@" or len(word.split()) > 4:
        return f"--cron {word!r}"
    after = argv[argv.index("--cron") + 1 :] if "--cron" in argv else []
    if after and " " not in after[0] and word in after[1:6]:
        return "quote the cron text, because the shell splits it: --cron '0 2 * * *'"
    return f"write the command after --: -- {join(unknown)}"


def _find_trigger_option(text: str) -> str | None:
    """Return the option for the text of a trigger, such as `--every 5m`; None for other texts."""
    if text in ("on boot", "on demand"):
        return f"--{text.replace(' ', '-')}"
    once_in = split_once_in(text)
    if once_in is not None:
        return f"--once {quote(once_in.text.removeprefix('once in '))}"
    if is_words(text):
        return f"--when {quote(text)}"
    kind, _, value = text.partition(" ")
    return f"--{kind} {quote(value)}" if value and kind in ("after", "at", "every") else None


def hint_for_line(text: str, *, is_any_time: bool = False) -> str | None:
    """Write a line of the dashboard, `TIME run COMMAND`, as a command; None for other texts.

    With `is_any_time`, the command has TIME in place of a time that can't be read.
    """
    from edgecron.tui.quick_add import find_shell_sign, split_line  # It loads the dashboard.

    line = split_line(text)
    times = line.when.splitlines()
    try:
        for one in times:
            parse_trigger(one)
    except InvalidTrigger:
        times = ["TIME"] if line.job and is_any_time else []
    if not times:
        return None
    name = line.name or (suggest_stem(line.job) if line.job else "NAME")
    job = line.job or "COMMAND"
    if find_shell_sign(job):
        job = f"--shell {quote(job)}"
    else:
        try:
            split(job)
        except ValueError:  # An open quote: a shell would wait for its end.
            job = join(job.split())
        job = f"-- {job}"
    return f"edgecron add {name} {' '.join(f'--when {quote(one)}' for one in times)} {job}"


def refuse_option(word: str, known: Iterable[str], *, prog: str) -> NoReturn:
    """Raise UsageError for an unknown option, with the option that was probably meant."""
    by_name = {option.lstrip("-"): option for option in known}
    name = word.partition("=")[0].lstrip("-")
    others = [option for option in _OTHER_OPTIONS.get(name, ()) if option in by_name.values()]
    close = suggest(name, by_name, cutoff=_ALIKE)
    meant = others[0] if others else by_name.get(close or "")
    if meant == "--cron" and name in _MACROS:
        meant = f"--cron @{name}"
    hint = f"did you mean {meant}?" if meant else f"see: {prog} --help"
    habit = find_habit(prog, word.partition("=")[0])
    raise UsageError(f"unknown option {word!r}", hint=habit or hint)


def refuse_action(command: str, word: str, actions: Iterable[str]) -> NoReturn:
    """Raise UsageError for an unknown action of a command, with the one that was probably meant."""
    known = list(actions)
    close = suggest(word, known)
    hint = f"for example: edgecron {command} {known[0]}"
    if close is not None:
        hint = f"did you mean edgecron {command} {close}?"
    raise UsageError(
        f"{word!r} is unknown, expected {', '.join(known[:-1])} or {known[-1]}",
        hint=find_habit(command, word) or hint,
    )
