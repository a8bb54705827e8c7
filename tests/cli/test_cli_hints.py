"""Errors of bad input have a hint: the option, value or command to try, and never a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Edgecron

WHEN = ("--every", "1h")
ADD = ("add", "x", *WHEN)
COMMAND = ("--", "true")


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("every weekday at 9 run ./sync.sh", "sync --when 'every weekday at 9' -- ./sync.sh"),
        (
            "every 5m run curl a.example | grep ok",
            "curl --when 'every 5m' --shell 'curl a.example | grep ok'",
        ),
        ("tidy: daily at 9; on boot -- ls", "tidy --when 'daily at 9' --when 'on boot' -- ls"),
        ("every weekday at 9", "NAME --when 'every weekday at 9' -- COMMAND"),
        ("every 5m run say it's on", """say --when 'every 5m' -- say 'it'"'"'s' on"""),
    ],
)
def test_a_line_of_the_dashboard_gets_the_command_that_does_it(
    edgecron: Edgecron, line: str, command: str
) -> None:
    said = edgecron("add", line)
    unquoted = edgecron("add", *line.split())

    assert (said.code, unquoted.code) == (2, 2)
    assert said.err.endswith(f"\nhint: edgecron add {command}\n")
    is_same = " run " in line and "|" not in line  # A word | of the shell was quoted.
    assert (f"\nhint: edgecron add {command}\n" in unquoted.err) is is_same


def test_a_line_of_the_dashboard_behind_a_name_gets_the_command_that_does_it(
    edgecron: Edgecron,
) -> None:
    said = edgecron("add", "tidy", "every", "5m", "run", "ls", "a b", ";")

    assert said.code == 2
    assert said.err.endswith("\nhint: edgecron add tidy --when 'every 5m' -- ls 'a b' ';'\n")


def test_a_line_of_the_dashboard_with_an_unknown_time_gets_a_place_for_one(
    edgecron: Edgecron,
) -> None:
    said = edgecron("add", "next full moon run ./howl")
    named = edgecron("add", "long run test", *WHEN, *COMMAND)

    assert said.err.endswith("\nhint: edgecron add howl --when TIME -- ./howl\n")
    assert named.err.endswith("\nhint: did you mean long-run-test?\n")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((*ADD, "--overlap", "skp", *COMMAND), "did you mean --overlap skip?"),
        ((*ADD, "--overlap", "SKIP", *COMMAND), "did you mean --overlap skip?"),
        ((*ADD, "--overlap", "foo", *COMMAND), "for example: --overlap skip"),
        ((*ADD, "--retries", "foo", *COMMAND), "for example: --retries 3"),
        ((*ADD, "--retries", "2x", *COMMAND), "for example: --retries 2"),
        ((*ADD, "--retries", "-1", *COMMAND), "for example: --retries 0"),
        ((*ADD, "--retries", "9999999", *COMMAND), "for example: --retries 1000000"),
        ((*ADD, "--max-running", "0", *COMMAND), "for example: --max-running 1"),
        ((*ADD, "--ok-codes", "0,256", *COMMAND), "for example: --ok-codes 255"),
        ((*ADD, "--priority", "hi", *COMMAND), "did you mean --priority high?"),
        ((*ADD, "--priority", "urgent", *COMMAND), "for example: --priority low"),
        ((*ADD, "--group", "disk:many", *COMMAND), "for example: --group disk:2"),
        ((*ADD, "--payload", "{a:1}", *COMMAND), "for example: --payload '{\"size\": 3}'"),
        ((*ADD, "--env", "A", *COMMAND), "for example: --env LANG=C"),
        (("run", "backup", "--payload", "{a:1}"), "for example: --payload '{\"size\": 3}'"),
        (("history", "--status", "faild"), "did you mean --status failed?"),
        (("history", "-n", "all"), "for example: -n 3"),
        (("cancel", "0"), "list the runs: edgecron history"),
        (("doctor", "--take-over", "abc"), "see the PID of each engine: edgecron status"),
    ],
)
def test_a_wrong_value_gets_one_to_try(
    edgecron: Edgecron, backup: str, words: tuple[str, ...], hint: str
) -> None:
    said = edgecron(*words)

    assert (said.code, said.out) == (2, "")
    assert said.is_plain_error
    assert said.err.endswith(f"\nhint: {hint}\n")


def test_a_missing_file_gets_one_with_a_similar_name_or_the_command_that_lists_them(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    (tmp_path / "jobs.toml").touch()
    near, far = tmp_path / "job.toml", tmp_path / "away" / "x.toml"

    for words in (("apply",), ("import", "crontab"), ("restore",)):
        found = edgecron(*words, str(near))
        other = edgecron(*words, str(far))
        assert (found.code, other.code) == (3, 3), words
        assert found.err.endswith(f"\nhint: did you mean {tmp_path / 'jobs.toml'}?\n")
        assert other.err.endswith(f"\nhint: see which files exist: ls -t {tmp_path}\n")


def test_a_missing_schedule_file_of_the_daemon_is_one_error(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    path = (tmp_path / "jobs").resolve() / "x.toml"

    said = edgecron("daemon", "--schedules", str(path))

    assert said.code == 2
    assert said.err == (
        f"error: no schedule file is applied: file '{path}' does not exist\n"
        f"hint: see which files exist: ls -t {tmp_path.resolve()}\n"
    )


def test_a_missing_folder_gets_the_command_that_makes_it(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"

    for words in (("metrics", "-o"), ("backup",)):
        said = edgecron(*words, str(folder / "x"))
        assert said.err.endswith(f"\nhint: mkdir -p '{folder}'\n"), words


def test_a_missing_database_in_a_missing_folder_is_not_for_add(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    folder = tmp_path / "away"

    said = edgecron("--db", str(folder / "x.db"), "list")

    assert said.code == 3
    assert "does not exist, nor does its folder (named by --db)" in said.err
    assert said.err.endswith(f"\nhint: check the path; to create the folder: mkdir -p {folder}\n")


def test_a_damaged_backup_gets_the_command_that_lists_others(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    (tmp_path / "b.db").write_text("no database")

    said = edgecron("restore", str(tmp_path / "b.db"), "--yes")

    assert said.code == 5
    hint = f"give another backup; see the files beside it: ls -t {tmp_path}"
    assert said.err.endswith(f"\nhint: {hint}\n")


def test_a_missing_configuration_can_be_written(edgecron: Edgecron, tmp_path: Path) -> None:
    path = tmp_path / "my config.toml"

    checked = edgecron("config", "check", str(path))
    listed = edgecron("--config", str(path), "list")

    hint = f"\nhint: to write one: edgecron config init '{path}'\n"
    assert checked.err.endswith(hint)
    assert listed.err.endswith(hint)
    assert edgecron("config", "init", str(path)).code == 0
    assert edgecron("config", "check", str(path)).code == 0


def test_only_a_near_name_of_another_section_is_suggested(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"

    path.write_text("[daemon]\nfoo = 1\n")
    far = edgecron("config", "check", str(path))
    path.write_text("[daemon]\nburst = 1\n")
    near = edgecron("config", "check", str(path))

    assert far.err.endswith("daemon.foo is unknown\nhint: see: edgecron config show\n")
    assert near.err.endswith("daemon.burst is unknown\nhint: did you mean limits.burst?\n")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("add", "x", "--time", "09:00", *COMMAND), "did you mean --at?"),
        (("add", "x", "--daily", *COMMAND), "did you mean --cron @daily?"),
        (("logs", "backup", "--tail", "5"), "did you mean -n?"),
        (("list", "--limit", "5"), "did you mean -n?"),
        (("-v",), "did you mean --version?"),
        (("add", "x", "on demand", *COMMAND), "--on-demand"),
        (
            ("add", "x", "every 1h after end from 09:00", *COMMAND),
            "--every '1h after end from 09:00'",
        ),
        (
            ("add", "x", "once in 21:00-05:00 when ac-power and online", *COMMAND),
            "--once '21:00-05:00 when ac-power and online'",
        ),
        (("add", "x", "on", "boot", *COMMAND), "--on-boot"),
        (("add", "x", "every 5m", *COMMAND), "--every 5m"),
        (("add", "x", "at tomorrow 09:00", *COMMAND), "--at 'tomorrow 09:00'"),
        (("add", "x", "--every", "1h", "echo", "a b"), "write the command after --: -- echo 'a b'"),
        (
            ("add", "x", "--every", "1h", "--shell", "echo", "hi"),
            "quote the line, because the shell splits it: --shell 'echo hi'",
        ),
        (
            ("add", "x", "--at", "tomorrow", "09:00", *COMMAND),
            "quote the time, because the shell splits it: 'tomorrow 09:00'",
        ),
        (
            ("reschedule", "backup", "in", "20m"),
            "quote the time, because the shell splits it: 'in 20m'",
        ),
        (("run", "backup", "--wait=yes"), "write only --wait"),
        (
            ("run", "backup", "--payload"),
            'for example: edgecron run sync --payload \'{"host": "plc2"}\'',
        ),
        (("next", "-n"), "for example: edgecron next nightly -n 3"),
        (("next", "-n", ""), "for example: -n 3"),
        (("add", "x", "--stdin"), "write --stdin TEXT"),
        (("list", "--db"), "for example: --db ./edgecron.db"),
        (("import", "crontab"), "import your own: crontab -l | edgecron import crontab -"),
        (("service", "instal"), "did you mean edgecron service install?"),
        (("self", "foo"), "for example: edgecron self show"),
        (("help", "add", "edit"), "for example: edgecron help add"),
        (("add", "my job", *WHEN, *COMMAND), "did you mean my-job?"),
        (
            (*ADD, "--needs", "backup", *COMMAND),
            "if that is a schedule: success:backup; or a condition such as ac-power",
        ),
        ((*ADD, "--user", "no-such-user", *COMMAND), "list the users: getent passwd"),
        (("history", "--status", "failed,skipped"), "write --status failed --status skipped"),
        (("backfill", "backup", "2026-02-01", "2026-01-01"), "give the earlier time first"),
    ],
)
def test_a_wrong_command_line_gets_the_one_that_was_meant(
    edgecron: Edgecron, backup: str, words: tuple[str, ...], hint: str
) -> None:
    said = edgecron(*words)

    assert (said.code, said.out) == (2, "")
    assert said.is_plain_error
    assert said.err.endswith(f"\nhint: {hint}\n")


def test_a_line_that_is_given_as_a_command_is_warned_of(edgecron: Edgecron) -> None:
    said = edgecron(*ADD, "--", "echo hi | wc")

    assert said.code == 0
    assert (
        "command 'echo hi | wc' is not in your PATH;"
        " a line for the shell is given with --shell 'echo hi | wc'"
    ) in said.err


def test_a_file_that_is_not_executable_is_warned_of(edgecron: Edgecron, tmp_path: Path) -> None:
    (tmp_path / "job").touch(mode=0o600)

    said = edgecron(*ADD, "--", str(tmp_path / "job"))

    assert said.code == 0
    assert f"warning: command '{tmp_path / 'job'}' is not executable\n" in said.err


def test_a_section_of_the_configuration_is_no_schedule(edgecron: Edgecron, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"

    file.write_text("[daemon]\nburst = 3\n")
    section = edgecron("apply", str(file), "--json")
    file.write_text('[daemon]\ncron = "0 2 * * *"\n')
    schedule = edgecron("apply", str(file), "--json")

    [problem] = section.error["problems"]
    assert problem["hint"] == "see where the configuration is: edgecron config path"
    [problem] = schedule.error["problems"]
    assert problem["hint"] == "did you mean [schedules.daemon]?"


def test_a_missing_token_file_is_made_for_a_server_and_copied_for_a_client(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    path = tmp_path / "a token"

    asked = edgecron("--url", "http://localhost:1", "--token-file", str(path), "list")
    serving = edgecron("daemon", "--http", "127.0.0.1:0", "--token-file", str(path))

    for said in (asked, serving):
        assert f"error: token file '{path}' can't be read: no such file or directory\n" in said.err
    assert asked.err.endswith(
        "\nhint: copy the server's: the file that --token-file of its daemon names\n"
    )
    hint = f"make it: (umask 077; head -c 32 /dev/urandom | base64 > '{path}')"
    assert serving.err.endswith(f"\nhint: {hint}\n")


def test_a_token_file_needs_a_server(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edgecron(*ADD, *COMMAND)
    token = ("--token-file", str(tmp_path / "token"))

    refused = edgecron("list", *token)
    monkeypatch.delenv("EDGECRON_DB", raising=False)
    monkeypatch.setenv("EDGECRON_URL", "http://localhost:1")
    asked = edgecron("list", *token)

    assert refused.code == 2
    assert refused.err.startswith("error: --token-file is given without --url\nhint: ")
    assert "can't be read: no such file or directory" in asked.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("config", "show", "foo"), "see: edgecron config show"),
        (("config", "path", "x"), "edgecron config path"),
        (("logs", "backup", "--stream", "err"), "did you mean --stream stderr?"),
        (("metrics", "--format", "json"), "did you mean --json?"),
        (("stats", "--days", "7"), "did you mean --since?"),
        (("prune", "--older", "7d"), "did you mean --history-age?"),
        (("apply", "/"), "see its files: ls -t /"),
        (("-l",), "edgecron list"),
        ((*ADD, *WHEN, *COMMAND), "remove one of them"),
        ((*ADD, "--shell", "ls", *COMMAND), "remove one of them"),
        (
            (*ADD, "--from", "in 2h", "--until", "in 1h", *COMMAND),
            "give a later until, or an earlier from",
        ),
        (
            (*ADD, "--needs", "success:x", *COMMAND),
            "name another schedule; to run after its own end: --every '1h after end'",
        ),
        (("stop", "backup"), "a schedule: edgecron pause NAME; a run: edgecron cancel RUN"),
        ((*ADD, "--command", "ls"), "write the command after --, or give a line to --shell"),
        (
            ("config", "set", "timeout", "1h"),
            "edit the file that this names: edgecron config path",
        ),
        (("daemon", "--port=80"), "give it to --http: --http 127.0.0.1:8745"),
        (("pause", "backup", "--for", "2h"), '--until "in 2h"'),
        (("run", "a", "b"), "write only NAME; see: edgecron run --help"),
        (("status", "a"), "leave it out; see: edgecron status --help"),
        (
            ("check", "every 5 parsecs"),
            "write 'every 15m', 'every 15m from 2026-11-20T08:00:00Z' or 'every 1h after end'",
        ),
        (("check", "every day at 25"), "write a time such as 09:00, 17:30 or 9pm"),
        (
            ("check", "0 9 * * 1-5 echo hi"),
            "write only the five fields, '0 9 * * 1-5', and the command by itself",
        ),
        (
            ("check", "0 0 9 * * FRI 2027"),
            "leave the year field out; --until or an 'at' trigger bounds a schedule",
        ),
    ],
)
def test_a_word_in_the_wrong_place_gets_its_own_hint(
    edgecron: Edgecron, backup: str, words: tuple[str, ...], hint: str
) -> None:
    said = edgecron(*words)

    assert (said.code, said.out) == (2, "")
    assert said.err.endswith(f"\nhint: {hint}\n")
