"""--quiet prints only errors; a global option that a command would ignore is refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from edgecron.cli.commands import COMMANDS, CONFIRMING, LOCAL_COMMANDS, WITHOUT_DATABASE
from edgecron.cli.completion import read_command, read_grammar
from edgecron.cli.parser import parser_of
from tests.support.cli import Edgecron

# A command line of each command that confirms what it did.
LINES = {
    "add": ("add", "other", "--cron", "0 2 * * *", "--", "true"),
    "apply": ("apply", "FILE"),
    "backfill": ("backfill", "nightly", "2026-01-01", "2026-01-03", "-y"),
    "backup": ("backup", "COPY"),
    "cancel": ("cancel", "1"),
    "config": ("config", "init", "SETTINGS"),
    "edit": ("edit", "nightly", "--cron", "0 3 * * *"),
    "export": ("export", "-o", "EXPORTED"),
    "import": ("import", "crontab", "TABLE"),
    "migrate": ("migrate", "--to", "NEW"),
    "pause": ("pause", "nightly"),
    "prune": ("prune", "--history-age", "1d"),
    "reschedule": ("reschedule", "nightly", "tomorrow 05:00"),
    "restore": ("restore", "BACKUP", "-y"),
    "resume": ("resume", "nightly"),
    "rm": ("rm", "nightly"),
    "run": ("run", "idle"),
    "undo": ("undo", "gone"),
}
PATHS = ("FILE", "COPY", "TABLE", "BACKUP", "SETTINGS", "EXPORTED", "NEW")
# They confirm only what they do to the machine, or a warning.
SELDOM = {"adopt", "engine", "metrics", "self", "service"}


@pytest.fixture
def files(edgecron: Edgecron, tmp_path: Path) -> dict[str, str]:
    """A database with a schedule, a removed one and a queued run, and files for LINES."""
    edgecron("add", "nightly", "--cron", "0 2 * * *", "--", "true")
    edgecron("add", "idle", "--cron", "0 2 * * *", "--", "true")
    edgecron("add", "gone", "--cron", "0 2 * * *", "--", "true")
    edgecron("rm", "gone")
    edgecron("run", "nightly")
    found = {name: str(tmp_path / name.lower()) for name in PATHS}
    Path(found["FILE"]).write_text('[schedules.more]\nevery = "1h"\ncommand = ["true"]\n')
    Path(found["TABLE"]).write_text("5 4 * * * true\n")
    edgecron("backup", found["BACKUP"])
    return found


def test_there_is_a_line_of_each_command_that_confirms() -> None:
    assert LINES.keys() | SELDOM == CONFIRMING


@pytest.mark.parametrize(
    "words",
    [
        ("config", "show"),
        ("export",),
        ("metrics",),
        ("self",),
        ("service", "print"),
        ("service", "status"),
    ],
)
def test_a_quiet_command_still_prints_what_was_asked_for(
    edgecron: Edgecron, files: dict[str, str], words: tuple[str, ...]
) -> None:
    loud, quiet = edgecron(*words), edgecron("-q", *words)

    assert len(loud.out.splitlines()) == len(quiet.out.splitlines()) > 0


@pytest.mark.parametrize("command", sorted(LINES))
def test_a_quiet_command_prints_nothing(
    edgecron: Edgecron, files: dict[str, str], command: str
) -> None:
    words = [files.get(word, word) for word in LINES[command]]

    said = edgecron("-q", *words)

    assert (said.code, said.out, said.err) == (0, "", "")


@pytest.mark.parametrize("command", sorted(LINES))
def test_the_same_command_confirms_what_it_did(
    edgecron: Edgecron, files: dict[str, str], command: str
) -> None:
    words = [files.get(word, word) for word in LINES[command]]

    said = edgecron(*words)

    assert said.code == 0
    assert said.out or said.err


def test_a_quiet_command_says_what_went_wrong(edgecron: Edgecron, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('[schedules.one]\nevery = "soon"\ncommand = ["true"]\n')

    missing = edgecron("rm", "nothing", "--quiet")
    wrong = edgecron("apply", str(file), "--quiet")

    assert missing.code == 3
    assert missing.is_plain_error
    assert wrong.code == 2
    assert "line 2: " in wrong.err
    assert missing.out == wrong.out == ""


def test_quiet_json_is_still_printed(edgecron: Edgecron) -> None:
    said = edgecron("add", "nightly", "--every", "1h", "-q", "--json", "--", "true")

    assert said.json[0]["name"] == "nightly"


@cache
def find_globals() -> dict[str, bool]:
    """Return the global options of all commands, and whether each is a flag."""
    return {
        option.names[-1]: option.value is None
        for command in read_grammar()
        for option in command.options
        if option.is_global
    }


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_global_option_that_a_command_would_ignore_is_refused(
    edgecron: Edgecron, command: str
) -> None:
    _, parser = parser_of(command)
    [*_, listed] = parser.globals_line.partition(": ")
    options = find_globals()

    offered = {name for one in read_command(command).options for name in one.names}
    assert offered & options.keys() == {option for option in options if option in listed}
    for option, is_flag in options.items():
        word = option if is_flag else f"{option}=never"
        if option in listed or (option == "--url" and command in LOCAL_COMMANDS - WITHOUT_DATABASE):
            continue
        for words in ((word, command), (command, word)):
            said = edgecron(*words)
            assert said.code == 2
            assert f"edgecron {command} does not use {option}" in said.err
