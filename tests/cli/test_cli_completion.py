"""Completion: what the shells themselves offer, and how little it costs them to ask."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import apsw
import pytest

import edgecron as package
from edgecron.cli import run
from edgecron.cli.commands import COMMANDS
from edgecron.cli.completion import read_grammar
from tests.support.cli import Edgecron, Said
from tests.support.shells import (
    complete_in_bash,
    complete_in_fish,
    complete_in_zsh,
    put_program_on_path,
)
from tests.support.tools import need_tools

_SHELLS = {"bash": complete_in_bash, "zsh": complete_in_zsh, "fish": complete_in_fish}

Complete = Callable[[str], list[str]]
Ask = Callable[..., Said]


@pytest.fixture(params=_SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    need_tools(name)
    return name


@pytest.fixture
def complete(
    shell: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Complete:
    """What a shell offers for the last word of a line, with three schedules and a queued run."""
    for name in ("backup", "big", "report"):
        run(("add", name, "--every", "1h", "--", "true"))
    run(("run", "report"))
    capsys.readouterr()
    assert run(("completion", shell)) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    programs = tmp_path / "bin"
    programs.mkdir()
    put_program_on_path(programs)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(package.__file__).parents[1]),
        "HOME": str(tmp_path),
    }
    return lambda line: _SHELLS[shell](script, line, environment=environment)


def test_verbs_are_offered(complete: Complete) -> None:
    offered = complete("edgecron ")

    assert set(COMMANDS) <= set(offered)


def test_verbs_and_topics_are_offered_for_help(complete: Complete) -> None:
    assert {"triggers", "policies", "add"} <= set(complete("edgecron help "))
    assert not {"triggers", "add"} & set(complete("edgecron help triggers "))


def test_options_are_offered(complete: Complete) -> None:
    offered = " ".join(complete("edgecron add x --re"))

    assert all(f"--{name}" in offered for name in ("retries", "retry-delay", "retry-factor"))


def test_closed_choices_are_offered(complete: Complete) -> None:
    assert set(complete("edgecron add x --overlap ")) == {"skip", "queue", "allow", "replace"}


def test_schedules_are_offered_where_their_names_belong(complete: Complete) -> None:
    assert set(complete("edgecron show ")) >= {"1", "backup", "big", "report"}
    assert set(complete("edgecron rm backup b")) >= {"big"}
    assert not {"backup", "big"} & set(complete("edgecron add b"))
    assert complete("edgecron resume b") == []
    run(("pause", "big"))
    run(("rm", "report"))
    assert complete("edgecron resume ") == ["big"]
    assert set(complete("edgecron undo ")) >= {"backup", "big", "report"}


def test_runs_and_schedules_are_offered_for_logs(complete: Complete) -> None:
    assert {"1", "backup", "report"} <= set(complete("edgecron logs "))
    assert {"1", "backup", "report"} <= set(complete("edgecron cancel "))
    run(("cancel", "1"))
    assert "1" not in complete("edgecron cancel ")
    assert "1" in complete("edgecron logs ")


def test_zones_are_offered(complete: Complete) -> None:
    offered = complete("edgecron add x --tz Europe/Be")

    assert set(offered) == {"Europe/Belfast", "Europe/Belgrade", "Europe/Berlin"}


def test_files_are_offered_where_a_file_is_due(complete: Complete, tmp_path: Path) -> None:
    (tmp_path / "one.crontab").touch()
    (tmp_path / "two.crontab").touch()

    offered = " ".join(complete(f"edgecron import crontab {tmp_path}/"))

    assert "one.crontab" in offered
    assert "two.crontab" in offered


def test_a_command_is_offered_behind_its_dashes(complete: Complete) -> None:
    offered = complete("edgecron add x --every 5m -- mkd")

    assert "mkdir" in offered or offered == []  # zsh lists no lone word


def test_the_database_of_the_line_is_asked(complete: Complete, tmp_path: Path) -> None:
    absent = tmp_path / "none.db"

    offered = complete(f"edgecron --db {absent} show ")

    assert not {"backup", "big"} & set(offered)
    assert not absent.exists()


@pytest.mark.parametrize("option", ["--db", "--db="])
def test_bash_takes_an_option_and_its_value_in_both_spellings(
    edgecron: Edgecron, backup: str, database: Path, tmp_path: Path, option: str
) -> None:
    script = tmp_path / "script"
    script.write_text(edgecron("completion", "bash").out)
    put_program_on_path(tmp_path)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(package.__file__).parents[1]),
    }
    # bash parts words at `=`.
    words = option.replace("=", " =")

    offered = complete_in_bash(
        script, f"edgecron {words} {database} show ", environment=environment
    )

    assert offered == [backup]


def test_a_script_is_one_that_its_shell_can_read(
    edgecron: Edgecron, shell: str, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text(edgecron("completion", shell).out)

    said = subprocess.run([shell, "-n", script], capture_output=True, check=False)

    assert (said.returncode, said.stdout, said.stderr) == (0, b"", b"")


@pytest.fixture
def ask(edgecron: Edgecron, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """What edgecron answers a shell for these words of a line, of which the last one is begun."""

    def answer(*words: str) -> Said:
        monkeypatch.setattr("sys.stdin", StringIO("".join(f"{word}\n" for word in words)))
        return edgecron("completion", "--words")

    return answer


def test_every_option_and_choice_of_the_parsers_is_offered(ask: Ask) -> None:
    for command in read_grammar():
        offered = {line.partition(" ")[0] for line in ask(command.name, "-").out.splitlines()}
        assert {name for option in command.options for name in option.names} <= offered
        for option in command.options:
            choices = option.value.choices if option.value is not None else ()
            if choices:
                words = (command.name, option.names[-1], "")
                assert set(choices) <= set(ask(*words).out.split())


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--color", "a"), "auto\nalways\n"),
        (("--color=a",), "auto\nalways\n"),
        (("--color", "=", "n"), "never\n"),
        (("add", "x", "--cwd", ""), ":folders\n"),
        (("add", "x", "--user", ""), ":users\n"),
        (("add", "x", "--every", "1h", "--", ""), ":commands\n"),
        (("add", "x", "--every", "1h", "--", "tar", ""), ":files\n"),
        (("none", ""), ""),
    ],
)
def test_each_place_of_a_line_has_its_words(ask: Ask, words: tuple[str, ...], answer: str) -> None:
    said = ask(*words)

    assert (said.code, said.out, said.err) == (0, answer, "")


def test_a_shell_that_is_not_known_is_refused(edgecron: Edgecron) -> None:
    assert edgecron("completion", "tcsh").code == 2
    assert edgecron("completion").code == 2


@pytest.mark.parametrize("command", ["show", "logs", "cancel"])
def test_asking_is_silent_and_makes_nothing(
    ask: Ask, database: Path, tmp_path: Path, command: str
) -> None:
    def offered() -> tuple[int, str, str]:
        said = ask(command, "")
        return said.code, said.out, said.err

    nothing = (0, "", "")
    assert offered() == nothing
    assert list(tmp_path.iterdir()) == []

    database.write_bytes(b"no database at all, but a file of some length" * 100)
    assert offered() == nothing

    database.unlink()
    database.symlink_to("/etc/passwd")
    assert offered() == nothing


def test_asking_waits_for_no_lock(ask: Ask, backup: str, database: Path) -> None:
    connection = apsw.Connection(str(database))
    connection.execute("BEGIN IMMEDIATE")
    held = ask("show", "").out
    connection.execute("ROLLBACK")
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")

    locked = ask("show", "")
    connection.close()

    assert held == f"{backup}\n"
    assert (locked.code, locked.err) == (0, "")


def test_asking_changes_no_byte(ask: Ask, backup: str, database: Path) -> None:
    before = database.read_bytes()
    os.chmod(database, stat.S_IRUSR)

    said = ask("show", "")

    assert said.out == f"{backup}\n"
    assert database.read_bytes() == before


def test_a_database_of_another_version_has_nothing_to_offer(
    ask: Ask, backup: str, database: Path
) -> None:
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA user_version = 1")
    connection.close()

    assert ask("show", "").out == ""


def test_a_name_that_was_written_by_hand_is_not_offered(
    ask: Ask, backup: str, database: Path
) -> None:
    connection = apsw.Connection(str(database))
    connection.execute("UPDATE schedules SET name = '$(touch x)'")
    connection.close()

    assert ask("show", "").out == ""
