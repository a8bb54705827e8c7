"""Help and the manual page: they name all there is, and can be read."""

from __future__ import annotations

import re
import subprocess

import pytest

from edgecron.cli.commands import COMMANDS
from edgecron.cli.completion import read_grammar
from tests.support.cli import Edgecron
from tests.support.tools import need_tools


def test_help_names_every_command_and_every_exit_code(edgecron: Edgecron) -> None:
    said = edgecron("help")

    assert said == edgecron("--help")
    assert all(f"\n  {command} " in said.out for command in COMMANDS)
    assert "5 database unusable" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


@pytest.mark.parametrize("words", [("help", "show"), ("show", "--help"), ("--help", "show")])
def test_help_of_a_command_is_the_same_however_it_is_asked_for(
    edgecron: Edgecron, words: tuple[str, ...]
) -> None:
    assert edgecron(*words).out == edgecron("show", "-h").out


# How summaries begin: a new one begins with one of these or adds its verb.
VERBS = {
    "Add", "Cancel", "Change", "Copy", "Create", "Explain", "Find", "Import", "Install", "List",
    "Move", "Open", "Pause", "Print", "Remove", "Replace", "Restore", "Resume", "Run", "Serve",
    "Show", "Undo", "Write",
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_begins_its_help_with_a_summary_of_at_most_eight_words(
    edgecron: Edgecron, command: str
) -> None:
    summary = COMMANDS[command].summary

    assert edgecron("help", command).out.startswith(f"{summary}.\n")
    assert len(summary.split()) <= 8
    assert summary.split()[0] in VERBS


@pytest.mark.parametrize("command", COMMANDS)
def test_each_argument_and_option_says_what_it_is(edgecron: Edgecron, command: str) -> None:
    said = edgecron("help", command, "--all").out
    listed = said.partition("\nGlobal options: ")[0].partition("\nusage: ")[2].partition("\n\n")[2]

    alone = re.findall(r"^  (\S(?:.(?!  ))*)\n(?! {6,})", f"{listed}\n", re.MULTILINE)
    assert alone == []


def test_help_on_help_is_the_overview(edgecron: Edgecron) -> None:
    assert edgecron("help", "help") == edgecron("help")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_usage_of_a_command_fits_80_columns(edgecron: Edgecron, command: str) -> None:
    [usage] = re.findall(r"^usage: .*(?:\n +.*)*", edgecron("help", command).out, re.MULTILINE)

    lines = usage.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(f"usage: edgecron {command}")
    assert all(line.strip().count("[") == line.count("]") for line in lines)


def test_help_of_a_command_that_is_misspelled_suggests_one(edgecron: Edgecron) -> None:
    said = edgecron("help", "histry")
    itself = edgecron("hlep")

    assert (said.code, itself.code) == (2, 2)
    assert "did you mean 'history'?" in said.err
    assert "did you mean 'help'?" in itself.err


def test_the_manual_has_every_verb_and_every_option(edgecron: Edgecron) -> None:
    page = edgecron("help", "--man").out

    for command in read_grammar():
        assert f"\n.SS {command.name}\n" in page
        for option in command.options:
            name = option.names[-1].replace("-", r"\-")
            assert name in page or "help" in name
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "FILES", "ENVIRONMENT", "EXIT STATUS",
                    "SEE ALSO"):  # fmt: skip
        assert f"\n.SH {section}\n" in page


def test_no_line_of_the_manual_is_a_request_by_accident(edgecron: Edgecron) -> None:
    page = edgecron("help", "--man").out
    known = {"TH", "SH", "SS", "PP", "TP", "EX", "EE", "B"}

    assert set(re.findall(r"^[.'](\S*)", page, re.MULTILINE)) == known
    assert page.isascii()


@pytest.mark.parametrize(
    "checker",
    [("mandoc", "-Tlint", "-Wwarning"), ("groff", "-man", "-Tascii", "-ww", "-z")],
)
def test_the_manual_is_read_without_a_warning(edgecron: Edgecron, checker: tuple[str, ...]) -> None:
    need_tools(checker[0])

    said = subprocess.run(
        checker, input=edgecron("help", "--man").out, capture_output=True, text=True, check=False
    )

    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_summary_is_short_and_starts_with_a_capital(command: str) -> None:
    summary = COMMANDS[command].summary

    assert len(summary.split()) <= 8
    assert summary[0].isupper()
    assert not summary.endswith(".")


@pytest.mark.parametrize("command", ["add", "edit", "daemon"])
def test_rare_options_are_shown_on_request(edgecron: Edgecron, command: str) -> None:
    rare = "--burst" if command == "daemon" else "--kill-grace"

    short, full = edgecron("help", command).out, edgecron("help", command, "--all").out

    assert rare not in short
    assert f"Advanced options: edgecron help {command} --all" in short
    assert "\nAdvanced:\n" in full
    assert f"\n  {rare}" in full


def test_global_options_are_listed_once_and_named_where_they_work(edgecron: Edgecron) -> None:
    overview = edgecron("help").out
    named = {
        command: edgecron("help", command).out.partition("Global options: ")[2]
        for command in ("list", "backup", "check")
    }

    assert "\nGlobal options:\n" in overview
    for option in ("--db", "--url", "--token-file", "-V, --version"):
        assert f"\n  {option}" in overview
    assert "--url" in named["list"]
    assert "--db" in named["backup"]
    assert "--url" not in named["backup"]
    assert "--db" not in named["check"]
    assert edgecron("help", "list").out.count("--db") == 1


def test_no_example_names_a_schedule_after_a_command(edgecron: Edgecron) -> None:
    naming = "|".join(("add", "edit", "rm", "undo", "show", "pause", "resume", "run", "why"))
    commands = "|".join(COMMANDS)
    wrong = re.compile(rf"edgecron (?:{naming}) (?:{commands})\b")

    texts = [edgecron("help", *words).out for words in ((), *((one,) for one in COMMANDS))]

    assert [found for text in texts for found in wrong.findall(text)] == []


@pytest.mark.parametrize("command", ["backfill", "doctor", "restore", "rm", "self"])
def test_yes_has_a_short_form_for_each_command_that_asks(edgecron: Edgecron, command: str) -> None:
    assert "\n  -y, --yes" in edgecron("help", command).out
