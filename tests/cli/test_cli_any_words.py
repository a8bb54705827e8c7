"""Whatever the words, the command line answers: a known exit code, harmless text, no traceback.

The words are its own commands and options, with values that fit, values that do not, and letters of
them cut, doubled and exchanged. The long form: pytest -m slow tests/cli/test_cli_any_words.py
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgecron.base.errors import EdgecronError
from edgecron.cli import run
from edgecron.cli.completion import read_grammar
from edgecron.cli.parser import parse
from edgecron.cli.session import Session
from tests.support.fence import fenced
from tests.support.forms import tried

FAST = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
LONG = settings(FAST, derandomize=False, max_examples=20_000)
CODES = {0, 1, 2, 3, 4, 5}

VALUES = st.sampled_from([
    "backup", "x", "y", "new", "gone", "1", "2", "3", "0", "-1", "7", "99999999999999999999",
    "5m", "1h", "90s", "1h30m", "0s", "100000w", "1ms", "5 parsecs", "none", "forever", "local",
    "UTC", "CET", "EST5EDT", "Zone", "0 5 * * *", "*/5 * * * *", "@daily", "0 0 30 2 *", "* * * *",
    "0 0 L * 5#2", "H H * * *", "5-1 * * * *", "every 5m", "every 1h after end", "at 2031-01-01",
    "2026-11-20T08:00:00Z", "2031-01-01 10:00", "tomorrow 09:00", "yesterday", "in 20m", "now",
    "0000-00-00", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "backup:any", "x:failure",
    "success:backup:1h", "online", "ac", "load<1", "device:a", "g:2", "g:0", "g", ":", "A=1", "A",
    "=", "high", "low", "replace", "allow", "skip", "once", "all", "retry", "leave", "queued",
    "0,2", "256", "1.5", "nan", "inf", "1e9", "256KiB", "1GB", "{}", '{"a": 1}', "[", "null", "",
    " ", "\t", "\n", "\r", "\x1b[2J", "\x1b]0;x\x07", "\u202egnp.exe", "\ud800", "é", "٣", "\0",
    "a" * 200, "*" * 300, "schedules.toml", "crontab", "edgecron.db", "config.toml", ".", "-",
    "show", "path", "check", "init", "defaults", "defaults.retries", "bash", "zsh", "stdout",
])  # fmt: skip
TOML = [
    '[schedules.x]\ntriggers = ["@daily"]\nshell = "true"\n',
    "[schedules]\nx = 1\n",
    "[[",
    "é=1",
]
CRONTAB = ["0 5 * * * true\n", "@reboot x\n* * * * *\n", "\x1b * * *\n", "5-1 0 * * * x\n"]
CONFIG = ["[defaults]\nretries = 2\n", "[defaults]\nretries = -2\n", "[\x1b", "[output]\ncolor='x'"]
FILES = st.tuples(st.sampled_from(TOML), st.sampled_from(CRONTAB), st.sampled_from(["", *CONFIG]))
_NO_CONFIG = ""
# Beyond the folder of the test nothing is named; what is written there is seen by the fence.
_ELSEWHERE = re.compile(r"(^|[=:])[/~]|\.\.")
_UNSAFE = re.compile(r"[^\n\t -~\xa1-\U0010ffff]")


@lru_cache(maxsize=1)
def switches() -> dict[str, list[tuple[str, bool]]]:
    """The options of each command, and whether they take a value."""
    return {
        command.name: [
            (name, option.value is not None) for option in command.options for name in option.names
        ]
        for command in read_grammar()
    }


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(sorted(switches())))
    words = [command]
    if draw(st.booleans()):
        words.append(draw(st.sampled_from(["backup", "x", "schedules.toml", "crontab"])))
    for _ in range(draw(st.integers(0, 5))):
        is_option = draw(st.integers(0, 2)) > 0
        if switches()[command] and is_option:
            option, has_value = draw(st.sampled_from(switches()[command]))
            value = draw(VALUES) if has_value else ""
            is_joined = has_value and draw(st.booleans())
            words += [f"{option}={value}"] if is_joined else [option, value][: 1 + has_value]
        else:
            words.append(draw(VALUES))
    words += draw(st.sampled_from([[], ["--json"], ["--color", "never"], ["--", "true"]]))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        words = draw(mutilated(words))
    return [_ELSEWHERE.sub("_", word) for word in words]


@st.composite
def mutilated(draw: st.DrawFn, words: list[str]) -> list[str]:
    """One word cut, doubled, moved, or with a letter exchanged."""
    if not words:
        return words
    at = draw(st.integers(0, len(words) - 1))
    word = words[at]
    place = draw(st.integers(0, len(word)))
    match draw(st.sampled_from(["cut", "drop", "double", "exchange", "join"])):
        case "cut":
            return [*words[:at], word[:place], *words[at + 1 :]]
        case "drop":
            return [*words[:at], *words[at + 1 :]]
        case "double":
            return [*words[: at + 1], *words[at:]]
        case "exchange":
            letter = draw(st.sampled_from("-=:,#%*é0 \x1b\n\0\u202e\ud800"))
            return [*words[:at], word[:place] + letter + word[place + 1 :], *words[at + 1 :]]
    return [*words[:at], "".join(words[at : at + 2]), *words[at + 2 :]]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a database of three schedules and a few runs."""
    folder = tmp_path_factory.mktemp("any-words") / "template"
    folder.mkdir()
    with fenced(folder):
        assert run(["add", "backup", "--every", "1h", "--retries", "2", "--", "true"]) == 0
        assert run(["add", "x", "--cron", "0 5 * * *", "--after", "backup", "--shell", "true"]) == 0
        assert run(["add", "y", "--at", "2031-01-01T00:00:00Z", "--group", "g:1", "--", "a b"]) == 0
        assert run(["run", "backup"]) == 0
        assert run(["run", "backup"]) in (0, 1)
        assert run(["pause", "y"]) == 0
        assert run(["backup", "copy.db"]) == 0
    yield folder
    shutil.rmtree(folder)


def goes_on(words: list[str]) -> bool:
    """Whether a command line would wait or start what goes on; only its words are read then."""
    try:
        module, args = parse(Session(), words)
    except (EdgecronError, SystemExit):
        return False
    waits = ("wait", "follow", "result")
    if module is None:  # Without a command: the help of all of them.
        return False
    is_long = module.__name__.rpartition(".")[2] in ("daemon", "demo", "mcp_", "tui")
    return is_long or any(getattr(args, name, False) for name in waits)


def check(template: Path, words: list[str], files: tuple[str, ...]) -> None:
    folder = template.parent / "now"
    shutil.copytree(template, folder)
    for name, text in zip(("schedules.toml", "crontab", "config.toml"), files, strict=True):
        if text:
            (folder / name).write_text(text)
    try:
        with fenced(folder) as (out, err):
            if goes_on(words):
                return
            code = run(words)
        said = out.getvalue().decode(), err.getvalue().decode()
    finally:
        shutil.rmtree(folder)

    of_a_wait = {125} if {"run", "--wait"} <= set(words) else set()
    assert code in CODES | of_a_wait, (words, code, said)
    if "backup" not in words[:1] and "--" not in words[:1]:  # `backup -` writes bytes
        assert not _UNSAFE.search(said[0]), (words, said[0])
    assert not _UNSAFE.search(said[1]), (words, said[1])
    assert code == 0 or said[1] or words[:1] != ["add"], (words, said)
    is_told_on_stdout = words[:1] == ["doctor"]  # what it finds is its result
    options = words[: words.index("--")] if "--" in words else words
    if code in (2, 3, 4, 5) and "--json" in options and not is_told_on_stdout:
        assert {"code", "message", "hint"} <= json.loads(said[1])["error"].keys()


@settings(FAST, max_examples=tried(50, 150))
@given(words=command_lines(), files=FILES)
def test_any_words_are_answered(template: Path, words: list[str], files: tuple[str, ...]) -> None:
    check(template, words, files)


@pytest.mark.slow
@settings(LONG)
@given(words=command_lines(), files=FILES)
def test_many_more_words_are_answered(
    template: Path, words: list[str], files: tuple[str, ...]
) -> None:
    check(template, words, files)
