"""Commands that change nothing say so, and mistakes of several names change nothing at all."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from edgecron.cli.schedule_arguments import niceness_warning
from edgecron.cli.service_machine import find_manager
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from tests.support.cli import Edgecron
from tests.support.processes import Daemon
from tests.support.program import PROGRAM


def test_a_second_pause_says_that_nothing_changed(edgecron: Edgecron, backup: str) -> None:
    said = [edgecron("pause", backup).out for _ in range(2)]
    until = [edgecron("pause", backup, "--until", "2099-01-01").out for _ in range(2)]

    assert said == ["paused backup\n", "backup was already paused\n"]
    assert [line.partition(";")[0] for line in until] == [
        "paused backup until 2099-01-01 00:00:00",
        "backup was already paused until 2099-01-01 00:00:00",
    ]


@pytest.mark.parametrize("command", ["rm", "pause", "resume"])
def test_one_unknown_name_of_several_changes_nothing(
    edgecron: Edgecron, backup: str, command: str
) -> None:
    said = edgecron(command, backup, "nosuch")
    alone = edgecron(command, "nosuch")

    assert (said.code, said.out) == (3, "")
    assert "there is no schedule 'nosuch'; nothing was changed" in said.err
    assert "nothing was changed" not in alone.err
    assert edgecron("list", "--json").json[0]["enabled"]


def test_why_says_once_that_a_run_was_cancelled(edgecron: Edgecron, backup: str) -> None:
    edgecron("run", backup)
    edgecron("cancel", backup)

    said = edgecron("why", "1").out

    assert said.startswith("Run 1 was cancelled by a user before it started. It was due because")
    assert said.count("cancel") == 1


def test_a_second_daemon_names_the_first(edgecron: Edgecron, database: Path) -> None:
    first = Daemon(database)
    try:
        first.wait_for("engine_started")
        second = subprocess.run(
            [*PROGRAM, "daemon", "--until-eof"],
            env={**os.environ, "EDGECRON_DB": str(database)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        first.stop()

    assert f"other_engines={first.process.pid}" in second.stderr


def test_a_document_without_schedules_is_told(edgecron: Edgecron, tmp_path: Path) -> None:
    empty = tmp_path / "empty.toml"
    empty.write_text("")

    assert "the file has no schedules" in edgecron("apply", str(empty)).err


def test_a_key_given_twice_is_named_with_both_lines(edgecron: Edgecron, tmp_path: Path) -> None:
    twice = tmp_path / "twice.toml"
    twice.write_text('[schedules.a]\nevery = "1h"\ncommand = ["true"]\nevery = "2h"\n')

    said = edgecron("apply", str(twice))

    assert "line 4" in said.err
    assert "given twice, first in line 2" in said.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("completion",), "edgecron completion bash"),
        (("daemon", "--http", "localhost"), "--http localhost:8745"),
        (("add", "x", "--cron", "0 2 * * *", "--tz", "UTC+2", "--", "true"), "Etc/GMT-2"),
        (("tui", "--token-file", "/tmp/x"), "or serve with --web"),
        (("--url", "ftp://x", "list"), "such as http://pi:8745"),
    ],
)
def test_a_mistake_has_a_hint_that_works(
    edgecron: Edgecron, words: tuple[str, ...], hint: str
) -> None:
    said = edgecron(*words)

    assert said.code == 2
    assert hint in said.err


def test_a_part_of_a_shell_is_no_command(edgecron: Edgecron) -> None:
    said = edgecron("add", "x", "--every", "1h", "--", "cd", "/srv")
    piped = edgecron("add", "y", "--every", "1h", "--", "/bin/ls", "-l", "|", "wc")

    assert "command 'cd' works only in a shell: use --shell 'cd /srv'" in said.err
    assert "word '|' works only in a shell: use --shell '/bin/ls -l | wc'" in piped.err


@pytest.mark.parametrize("kind", ["folder", "missing"])
def test_a_backup_that_is_no_file_is_told(edgecron: Edgecron, tmp_path: Path, kind: str) -> None:
    path = tmp_path if kind == "folder" else tmp_path / "nosuch"

    said = edgecron("restore", str(path))

    words = "is a folder, expected a file" if kind == "folder" else "does not exist"
    assert f"'{path}' {words}" in said.err
    assert "hint: see " in said.err


def test_a_second_daemon_names_the_first_in_its_json_log(
    edgecron: Edgecron, database: Path
) -> None:
    first = Daemon(database)
    try:
        first.wait_for("engine_started")
        second = subprocess.run(
            [*PROGRAM, "daemon", "--until-eof", "--log-format", "json"],
            env={**os.environ, "EDGECRON_DB": str(database)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        first.stop()

    started = json.loads(second.stdout.splitlines()[0])
    assert (started["event"], started["other_engines"]) == ("starting", [first.process.pid])
    assert list(started)[:5] == ["ts", "level", "msg", "component", "event"]


def test_a_niceness_that_only_root_can_have_is_noticed() -> None:
    job = Job(kind=JobKind.COMMAND, argv=("true",), nice=-5)

    warning = niceness_warning(job, least=0)

    assert warning is not None
    assert warning.startswith("nice is -5, but only root can go below 0: each run would fail")
    assert niceness_warning(job, least=None) is None
    assert niceness_warning(job, least=-5) is None


def test_a_folder_in_place_of_a_file_is_named(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    said = edgecron("metrics", "-o", str(tmp_path))

    assert "can't be written: it is a folder\n" in said.err
    assert f"hint: name a file in it, such as {tmp_path}/NAME" in said.err


def test_an_unknown_engine_s_hint_is_a_command(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("doctor", "--take-over", "99999999")

    assert "hint: see its engines: edgecron status" in said.err


@pytest.mark.skipif(find_manager() is not None, reason="a service manager is running here")
def test_an_uninstall_without_service_manager_and_service_is_no_error(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    said = edgecron("service", "uninstall", "--name", "test")
    installed = edgecron("service", "install")

    assert (said.code, said.err) == (0, "service edgecron-test is not installed\n")
    assert installed.code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("history", "--since", "foo"), "error: --since: time 'foo' is not understood"),
        (("stats", "--since", "foo"), "error: --since: time 'foo' is not understood"),
        (("pause", "backup", "--until", "foo"), "error: --until: time 'foo' is not understood"),
        (("pause",), "hint: such as: edgecron pause nightly"),
        (("resume", "--now"), "hint: such as: edgecron resume nightly"),
        (
            ("add", "x", "--every", "1h", "--needs", "nightly", "--", "true"),
            "hint: if that is a schedule: success:nightly",
        ),
        (("completion", "zhs"), "hint: for example: edgecron completion zsh"),
        (("service", "start"), "hint: edgecron service install"),
        (("notify", "test", "nosuch"), "hint: to write a rule: edgecron help alerts"),
    ],
)
def test_a_mistake_is_named_with_its_option_and_a_command_to_try(
    edgecron: Edgecron, backup: str, words: tuple[str, ...], said: str
) -> None:
    assert said in edgecron(*words).err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("database = 5", 'for example: database = "/srv/edgecron/edgecron.db"'),
        ('url = "foo"', 'for example: url = "http://pi:8745"'),
        ("[retention]\nhistory_age = 5", "for example: history_age = "),
        ("[color]\nx = 1", 'for example: color = "auto"'),
        ('[notify.x]\non = ["failed"]\ncommand = ["true"]', "did you mean events?"),
        ('[notify.x]\nmail = "me@example.org"', "did you mean email?"),
    ],
)
def test_a_wrong_setting_has_an_example(
    edgecron: Edgecron, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)

    assert f"hint: {said}" in edgecron("--config", str(file), "config", "check").err
