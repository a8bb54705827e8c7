"""Hints that can be pasted: each says what was meant, and nothing that the command then refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.cli import run
from tests.support.cli import Edgecron

COMMAND = ("--", "true")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            ("add", "x", "--cron", "@every 5m", *COMMAND),
            "expected a cron",
            "use --every 5m instead",
        ),
        (("add", "x", "--cron", "every 5m", *COMMAND), "expected a cron", "use --every 5m instead"),
        (("add", "x", "--cron", "@reboot", *COMMAND), "expected a cron", "use --on-boot instead"),
        (("add", "x", "--cron", "on boot", *COMMAND), "expected a cron", "use --on-boot instead"),
        (("add", "x", "--cron", "5m", *COMMAND), "1 field", "did you mean 'every 5m'?"),
        (("add", "x", "--on-boot", "yes", *COMMAND), "'yes'", "--on-boot takes no value"),
        (("add", "x", "--after", "a b", *COMMAND), "expected one schedule", "each one separately"),
        (("add", "x", "--every", "-5m", *COMMAND), "'-5m'", "15m"),
        (("check", "30", "2", "a.txt", "b.txt", "a.txt"), "day", "quote the cron text"),
        (("check", "30", "2", *["a.txt"] * 100), "characters long", "quote the cron text"),
        (("rm", "--all"), "unknown option '--all'", "rm --help"),
        (("backup", "--dry-run"), "unknown option '--dry-run'", "backup --help"),
        (("history", "-n5", "--bogus"), "unknown option '--bogus'", "history --help"),
        (("history", "-n5", "a", "b"), "unexpected argument 'b'", "history --help"),
        (("add", "-x", "--every", "5m", *COMMAND), "unknown option '-x'", "add --help"),
        (("reschedule", "backup", "2h"), "'2h'", "did you mean 'in 2h'?"),
        (("pause", "backup", "--until", "2h"), "'2h'", "did you mean 'in 2h'?"),
        (("reschedule", "backup", "next monday"), "'next monday'", "did you mean 'monday 00:00'?"),
        (("backfill", "backup", "2h", "1h"), "'2h'", "did you mean '2h ago'?"),
        (
            ("--url", "http://127.0.0.1:1", "--token-file", "t", "doctor"),
            "machine of the database",
            "run it there",
        ),
    ],
)
def test_a_hint_says_what_was_meant(
    edgecron: Edgecron, backup: str, words: tuple[str, ...], message: str, hint: str
) -> None:
    said = edgecron(*words)

    error, tip = said.err.splitlines()
    assert said.code in (1, 2)
    assert message in error
    assert hint in tip


def test_a_crontab_given_to_apply_is_recognized(edgecron: Edgecron, tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text("# jobs\n*/5 2 * * * /usr/bin/backup --all\n")

    said = edgecron("apply", str(file))

    assert said.code == 2
    assert "it looks like a crontab" in said.err
    assert "import crontab FILE" in said.err


@pytest.mark.parametrize("words", [("run",), ("edit",), ("rm",), ("pause",), ("why",), ("show",)])
def test_a_removed_schedule_can_be_restored(
    edgecron: Edgecron, backup: str, words: tuple[str, ...]
) -> None:
    edgecron("add", "backup2", "--every", "1h", *COMMAND)
    edgecron("rm", backup)

    said = edgecron(*words, backup)

    assert said.code == 3
    assert (
        said.err == "error: schedule 'backup' was removed\nhint: restore it: edgecron undo backup\n"
    )


def test_a_command_in_a_hint_names_the_same_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(tmp_path / "other.db")
    run(("--db", other, "add", "job", "--every", "1h", *COMMAND))
    capsys.readouterr()

    run(("--db", other, "show", "jobb"))
    run(("--db", other, "show", "nothing"))
    run(("--db", other, "show", "--some"))

    told = capsys.readouterr().err
    assert "hint: did you mean 'job'?" in told
    assert f"hint: see: edgecron --db {other} list\n" in told
    assert "hint: see: edgecron show --help\n" in told


def test_a_need_that_is_never_met_is_a_finding(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "report", "--every", "1h", "--needs", f"success:{backup}", *COMMAND)
    assert "in vain" not in edgecron("doctor").out
    edgecron("rm", backup)

    said = edgecron("doctor")

    assert "report needs a success of backup, which is gone: its runs will be skipped" in said.out
    assert "edgecron undo backup" in said.out
    assert "edgecron edit report --needs none" in said.out


def test_a_job_that_fails_in_silence_is_told_of(edgecron: Edgecron) -> None:
    edgecron("add", "quiet", "--every", "1h", "--shell", "exit 3")

    said = edgecron("run", "quiet", "--wait")

    assert (said.code, said.out) == (3, "")
    assert said.err == "edgecron: run 1 of quiet failed: exit code 3\n"


def test_an_import_of_a_copy_says_that_cron_does_not_read_it(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    copy.write_text("0 2 * * * /usr/bin/backup --all\n")

    said = edgecron("import", "crontab", str(copy), "--comment-out")

    assert "if crontab -e shows it, comment it out there, too" in said.err
    assert "no longer runs" not in said.err
