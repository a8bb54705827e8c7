"""On a terminal: what it would obey is not sent to it, and questions are asked."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.program import PROGRAM
from tests.support.terminal import on_terminal, read_until


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        **{key: value for key, value in os.environ.items() if key != "NO_COLOR"},
        "EDGECRON_DB": str(tmp_path / "edgecron.db"),
        "TZ": "UTC",
        "TERM": "xterm-256color",
    }


def run(environment: dict[str, str], *words: str) -> None:
    subprocess.run([*PROGRAM, *words], env=environment, capture_output=True, check=True)


@pytest.mark.failure(45)
@pytest.mark.failure(72)
def test_output_is_cleaned_on_a_terminal(environment: dict[str, str]) -> None:
    line = r"printf 'a\033]52;c;aGk=\007b\033[2Jc\377\r\nd'"
    run(environment, "add", "x", "--every", "1h", "--shell", line)
    run(environment, "run", "x", "--wait")

    with on_terminal(environment, "logs", "x") as outer:
        shown = read_until(outer, None)

    assert shown.splitlines() == ["a\\x1b]52;c;aGk=\\x07b\\x1b[2Jc\ufffd", "d"]


def test_tables_are_coloured_on_a_terminal(environment: dict[str, str]) -> None:
    run(environment, "add", "x", "--every", "1h", "--", "true")

    with on_terminal(environment, "list") as outer:
        coloured = read_until(outer, None)
    with on_terminal({**environment, "TERM": "dumb"}, "list") as outer:
        plain = read_until(outer, None)

    assert "\x1b[1mNAME" in coloured
    assert "\x1b" not in plain


@pytest.mark.parametrize(("answer", "is_changed"), [("y", True), ("", False), ("no", False)])
def test_an_import_asks_whether_to_comment_out(
    environment: dict[str, str], tmp_path: Path, answer: str, is_changed: bool
) -> None:
    crontab = tmp_path / "my.crontab"
    crontab.write_text("0 2 * * * /usr/bin/backup\n")

    with on_terminal(environment, "import", "crontab", str(crontab)) as outer:
        read_until(outer, "[y/N] ")
        os.write(outer, f"{answer}\n".encode())
        read_until(outer, None)

    assert crontab.read_text().startswith("# moved to edgecron: ") is is_changed


def test_the_daemon_begins_in_words_and_names_a_new_database(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with on_terminal(environment, "daemon") as outer:
        line = read_until(outer, "nothing to come")
        os.kill(int(line.split("pid ")[1].split(":")[0]), signal.SIGTERM)
        read_until(outer, None)

    assert f"edgecron runs new database {tmp_path}/edgecron.db, pid " in line


def test_a_warning_is_wrapped_between_words(environment: dict[str, str]) -> None:
    narrow = {**environment, "COLUMNS": "40"}

    with on_terminal(narrow, "add", "x", "--every", "1h", "--", "true") as outer:
        lines = read_until(outer, None).splitlines()

    first = next(i for i, line in enumerate(lines) if "warning: no engine" in line)
    # What follows it is another notice, with a path that has no place to wrap.
    last = next(i for i, line in enumerate(lines) if line.startswith("created database"))
    warning = lines[first:last]
    assert len(warning) > 1
    assert all(len(line) <= 40 for line in warning)
    assert all(line.startswith("  ") for line in warning[1:])


def test_what_was_removed_can_be_had_again_as_the_terminal_says(
    environment: dict[str, str],
) -> None:
    words = (
        "--every",
        "1h",
        "--timeout",
        "5m",
        "--env",
        "X=it's $HOME",
        "--",
        "echo",
        "a\nb\u202e",
    )
    run(environment, "add", "x", *words)
    listed = subprocess.run([*PROGRAM, "export"], env=environment, capture_output=True, check=True)

    with on_terminal(environment, "rm", "x") as outer:
        shown = read_until(outer, None).replace("\r\n", "\n")
    command = shown.split("restore it: ")[1].removeprefix("edgecron ")
    program = " ".join(PROGRAM)
    subprocess.run(["sh", "-c", f"{program} {command}"], env=environment, check=True)

    again = subprocess.run([*PROGRAM, "export"], env=environment, capture_output=True, check=True)
    assert again.stdout == listed.stdout


def test_a_person_is_asked_before_others_wait_in_vain(environment: dict[str, str]) -> None:
    run(environment, "add", "base", "--every", "1h", "--", "true")
    run(environment, "add", "tell", "--after", "base", "--", "true")

    with on_terminal(environment, "rm", "base") as outer:
        asked = read_until(outer, "[y/N] ")
        os.write(outer, b"n\n")
        refused = read_until(outer, None)
    with on_terminal(environment, "rm", "base", "tell") as outer:
        together = read_until(outer, None)

    assert "these schedules follow or need base, and would no longer run: tell" in asked
    assert "nothing was removed" in refused
    assert "removed base" in together
    assert "[y/N]" not in together


def test_who_adds_a_schedule_at_a_terminal_is_told_what_comes_next(
    environment: dict[str, str],
) -> None:
    words = ("add", "x", "--every", "1h", "--", "true")

    with on_terminal(environment, *words) as outer:
        shown = read_until(outer, None)
    piped = subprocess.run([*PROGRAM, "rm", "x"], env=environment, capture_output=True, check=True)

    for line in ("edgecron show x", "edgecron run x --wait", "edgecron rm x"):
        assert line in shown
    assert piped.stderr == b""
