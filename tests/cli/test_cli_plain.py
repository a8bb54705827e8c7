"""`tui --plain`: how it stands, and a prompt, in lines alone."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.program import PROGRAM
from tests.support.terminal import BOUND_S, on_terminal, process_on_terminal, read_until

PROMPT = "edgecron> "
# All that a terminal which only prints lines can be sent.
LINES = re.compile(r"(?:[^\x00-\x1f\x7f-\x9f]|\r?\n|\t)*")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "edgecron.db"


@pytest.fixture
def environment(database: Path) -> dict[str, str]:
    return {**os.environ, "EDGECRON_DB": str(database), "TZ": "UTC", "TERM": "dumb"}


def run(environment: dict[str, str], *words: str) -> None:
    subprocess.run([*PROGRAM, *words], env=environment, capture_output=True, check=True)


def sit(environment: dict[str, str], *lines: str, words: tuple[str, ...] = ()) -> str:
    """What a sitting shows whose lines come through a pipe."""
    ended = subprocess.run(
        [*PROGRAM, "tui", "--plain", *words],
        env=environment,
        input="".join(f"{line}\n" for line in lines),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=BOUND_S * 2,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.fixture
def backup(environment: dict[str, str]) -> str:
    run(environment, "add", "backup", "--every", "1h", "--shell", "echo done; exit 3")
    return "backup"


def test_it_says_how_it_stands_and_takes_the_verbs_of_the_command_line(
    environment: dict[str, str], backup: str
) -> None:
    shown = sit(environment, "list", "run backup --wait", "logs 1", "edgecron history -n 1")

    assert "no engine is running" in shown
    listed, ran, logged, past = shown.split(PROMPT)[1:5]
    assert re.search(r"backup +every 1h", listed)
    assert "done" in ran
    assert "done" in logged
    assert "exit code 3" in past


def test_the_last_failures_are_told_at_the_beginning(
    environment: dict[str, str], backup: str
) -> None:
    for _ in range(2):
        subprocess.run([*PROGRAM, "run", "backup", "--wait"], env=environment, check=False)

    shown = sit(environment)

    assert "last failure backup, run 2" in shown
    assert "before that  backup, run 1" in shown


def test_the_end_of_stdin_and_words_of_parting_leave_it(environment: dict[str, str]) -> None:
    for words in ([], ["quit"], ["exit", "list"], ["q"]):
        shown = sit(environment, *words)

        assert "NAME" not in shown


def test_what_is_wrong_is_told_and_nothing_ends(environment: dict[str, str], backup: str) -> None:
    shown = sit(environment, "lst", 'logs "', "logs 99", "daemon", "tui", "", "show backup")

    assert "unknown command 'lst'" in shown
    assert "no closing quotation" in shown
    assert "there is no run 99" in shown
    assert "daemon does not work here" in shown
    assert "every 1h" in shown.split(PROMPT)[-2]


def test_help_tells_the_words_of_the_prompt_and_of_commands(environment: dict[str, str]) -> None:
    words, commands, of_list = sit(environment, "help", "help commands", "help list").split(PROMPT)[
        1:4
    ]

    assert "engine" in words
    assert "reschedule" in commands
    assert "edgecron list" in of_list


def test_where_there_is_no_database_yet_the_prompt_makes_one(
    environment: dict[str, str], database: Path
) -> None:
    shown = sit(environment, "list", "add x --every 1h -- true", "list")

    assert f"database {database} does not exist (named by EDGECRON_DB)" in shown
    assert re.search(r"x +every 1h", shown)
    assert database.exists()


@pytest.mark.failure(73)
def test_a_terminal_that_is_dumb_gets_nothing_but_lines(
    environment: dict[str, str], backup: str
) -> None:
    with on_terminal(environment, "tui", "--plain") as outer:
        shown = read_until(outer, PROMPT)
        os.write(outer, b"run backup --wait\n")
        shown += read_until(outer, PROMPT)
        os.write(outer, b"history\nquit\n")
        shown += read_until(outer, None)

    assert "exit code 3" in shown
    assert LINES.fullmatch(shown)


def test_an_engine_runs_from_the_prompt_and_ends_with_it(
    environment: dict[str, str], backup: str
) -> None:
    with process_on_terminal(environment, "tui", "--plain", "--engine") as (outer, process):
        shown = read_until(outer, PROMPT)
        run(environment, "run", "backup")
        os.write(outer, b"logs 1 -f\n")
        shown += read_until(outer, PROMPT)
        os.write(outer, b"quit\n")
        read_until(outer, None)
        process.wait(BOUND_S)

    assert "an engine is running and stops with this prompt" in shown
    assert "no engine is running" in sit(environment)
