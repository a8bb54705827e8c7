"""Bad input: one clear line on stderr, the right exit code, and a database as it was."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from edgecron.client import Client
from tests.support.cli import Edgecron
from tests.support.places import unwritable_folder
from tests.support.specs import make_spec

WHEN = ("--every", "1h")
COMMAND = ("--", "true")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A database with one schedule, `backup`, for all that leaves it as it is; its revision."""
    path = tmp_path_factory.mktemp("filled") / "edgecron.db"
    with Client(path) as client:
        return path, client.add(make_spec("backup", "every 1h")).revision


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "x", *COMMAND), "no time to run at"),
        (("add", "x", *WHEN), "the command is missing"),
        (("add", "x", *WHEN, "--"), "the command is missing"),
        (("add", "x", *WHEN, "--shell", " "), "the command is missing"),
        (("add", "x", *WHEN, "--shell", "true", *COMMAND), "both given"),
        (("add", *WHEN, *COMMAND), "NAME"),
        (("add", "x", "--cron", "25 * * *", *COMMAND), "expected"),
        (("add", "x", "--cron", "every 5m", *COMMAND), "expected a cron text"),
        (("add", "x", "--every", "5 parsecs", *COMMAND), "parsecs"),
        (("add", "x", "--every", "1h after lunch", *COMMAND), "after lunch"),
        (
            ("add", "x", "--after", "nothing", *COMMAND),
            "runs after 'nothing', and there is no",
        ),
        (("add", "x", "--after", "bakup", *COMMAND), "did you mean 'backup'"),
        (("add", "x", "--after", "backup:sometimes", *COMMAND), "sometimes"),
        (("add", "x", "--after", "x", *COMMAND), "runs after itself"),
        (("edit", "backup", "--after", "backup:any"), "runs after itself"),
        (("add", "x", "--cron", "after y", *COMMAND), "expected a cron text"),
        (("add", "x", "--at", "2001-01-01T00:00:00Z", *COMMAND), "in the past"),
        (("add", "x", "--at", "teatime", *COMMAND), "teatime"),
        (("add", "x", *WHEN, "--tz", "Europe/Berlim", *COMMAND), "did you mean Europe/Berlin"),
        (("add", "x", *WHEN, "--timeout", "soon", *COMMAND), "soon"),
        (("add", "x", *WHEN, "--timeout", "0s", *COMMAND), "--timeout: duration '0s' is zero"),
        (("add", "x", *WHEN, "--timeout", "5 parsecs", *COMMAND), "--timeout: duration"),
        (("edit", "backup", "--max-late", "long"), "--max-late: duration 'long'"),
        (("add", "x", "--every", "-1s", *COMMAND), "--every"),
        (("add", "x", "--every=-1s", *COMMAND), "--every: duration '-1s'"),
        (("add", "x", "--every", "1ms", *COMMAND), "--every '1ms' is less than a second"),
        (("add", "x", "--every", "1ms", *COMMAND), "did you mean 1m?"),
        (("add", "x", "--every", "999ms", *COMMAND), "under a second: --allow-fast"),
        (("add", "x", "--every", "1ms after end", *COMMAND), "'1ms' is less than a second"),
        (("edit", "backup", "--every", "1ms"), "--every '1ms' is less than a second"),
        (("add", "x", "--cron", "@daily", "--allow-fast", *COMMAND), "without --every"),
        (("edit", "backup", "--allow-fast"), "--allow-fast is given without --every"),
        (("stats", "backup", "-n", "2"), "-n and --after are for several schedules"),
        (("stats", "backup", "--after", "a"), "-n and --after are for several schedules"),
        (("doctor", "--repair", "--yes"), "--repair excludes the other options of doctor"),
        (("add", "x", *WHEN, "--tz", "", *COMMAND), "timezone ''"),
        (("edit", "backup", "--tz", ""), "timezone ''"),
        (("add", "x", *WHEN, "--between", "9-17", *COMMAND), "--between: window '9-17'"),
        (("add", "x", *WHEN, "--between", "Monday", *COMMAND), "window 'Monday' is not"),
        (("add", "x", *WHEN, "--except", "SUN", *COMMAND), "--except: day 'SUN'"),
        (("add", "x", *WHEN, "--needs", "ac_power", *COMMAND), "did you mean 'ac-power'?"),
        (("add", "x", *WHEN, "--needs", "internet", *COMMAND), "did you mean 'online'?"),
        (("add", "x", *WHEN, "--memory-max", "512M", *COMMAND), "--memory-max is '512M'"),
        (("add", "x", *WHEN, "--memory-max", "512M", *COMMAND), "did you mean 512MiB?"),
        (("add", "x", *WHEN, "--ionice", "low", *COMMAND), "--ionice is 'low'"),
        (("add", "x", *WHEN, "--keep-awake", "yes", *COMMAND), "--keep-awake takes no value"),
        (("env", "backup"), "edgecron env show backup"),
        (("env", "show"), "missing NAME"),
        (("import", "systemd", "x.timer"), "edgecron adopt NAME"),
        (("check", "@daily", "--tz", ""), "timezone ''"),
        (("add", "x", *WHEN, "--max-running", "0", *COMMAND), "--max-running is '0'"),
        (("add", "x", *WHEN, "--max-runs", "9" * 30, *COMMAND), "--max-runs"),
        (("add", "x", *WHEN, "--priority", "urgent", *COMMAND), "low, normal, high"),
        (("add", "x", *WHEN, "--overlap", "supersede", *COMMAND), "allow or replace"),
        (("add", "x", *WHEN, "--catch-up", "some", *COMMAND), "once, skip or all"),
        (("add", "x", *WHEN, "--ok-codes", "0,256", *COMMAND), "--ok-codes"),
        (("add", "x", *WHEN, "--env", "A", *COMMAND), "KEY=VALUE"),
        (("add", "x", *WHEN, "--env", "A B=x", *COMMAND), "not starting with a digit"),
        (("add", "x", *WHEN, "--env", "1A=x", *COMMAND), "not starting with a digit"),
        (("edit", "backup", "--env", "EDGECRON_RUN_ID=9"), "reserved"),
        (("add", "x", *WHEN, "--scope", "device", *COMMAND), "KIND:ID"),
        (("add", "x", *WHEN, "--payload", "{", *COMMAND), "not JSON"),
        (("add", "x", *WHEN, "--payload", "[1, NaN]", *COMMAND), "not JSON: NaN"),
        (("add", "x", *WHEN, "--payload", "Infinity", *COMMAND), "not JSON: Infinity"),
        (("add", "x", *WHEN, "--user", "no-such-user", *COMMAND), "is unknown"),
        (("add", "x", *WHEN, "--group", "a b", *COMMAND), "group name"),
        (("add", "x", *WHEN, "--until", "2001-01-01", *COMMAND), "in the past"),
        (("add", "x", *WHEN, "--from", "in 2h", "--until", "in 1h", *COMMAND), "not later"),
        (("add", "x", *WHEN, "--retries", "-1", *COMMAND), "--retries"),
        (("add", "x", *WHEN, "--retry-factor", "0.5", *COMMAND), "from 1 to 100"),
        (("add", "x", *WHEN, "--retry-delay", "soon", *COMMAND), "--retry-delay: duration 'soon'"),
        (("add", "x", *WHEN, "--on-interrupt", "cry", *COMMAND), "leave or retry"),
        (("add", "x", *WHEN, "--needs", "moon", *COMMAND), "is unknown"),
        (("add", "x", *WHEN, "--timeot", "1s", *COMMAND), "did you mean --timeout"),
        (("edit", "backup"), "no change to schedule"),
        (("edit", "backup", "--name", "a b"), "schedule name 'a b' is not usable"),
        (("pause", "backup", "--until", "2001-01-01"), "in the past"),
        (("logs", "backup", "--stream", "stdin"), "--stream"),
        (("history", "--status", "great"), "--status is 'great'"),
        (("history", "-n", "0"), "-n is '0'"),
        (("check", "@daily", "-n", "0"), "-n is '0', expected a whole number from 1 to 10000"),
        (("next", "-n", "many"), "-n is 'many'"),
        (("rm",), "NAME"),
        (("list", "--", "x"), "no words after --"),
        (("lst",), "did you mean 'list'"),
        (("restart", "backup"), "did you mean 'run'"),
        (("restar",), "unknown command 'restar'\nhint: see: edgecron --help"),
        (("restor",), "did you mean 'restore'"),
        (("show",), "missing NAME|RUN\nhint: for example: edgecron show nightly\n"),
        (("add", "x", "--every"), "--every needs a value"),
        (("list", "--json=1"), "--json takes no value, but the value '1' is given"),
        (("remove", "x"), "did you mean 'rm'"),
        (("delete", "x"), "did you mean 'rm'"),
        (("ls",), "did you mean 'list'"),
        (("log", "x"), "did you mean 'logs'"),
        (("start",), "hint: the engine: edgecron daemon; a job: edgecron run NAME"),
        (("-y", "rm", "x y"), "-y stands before the command, expected after it"),
        (("-y", "rm", "x y"), "hint: edgecron rm -y 'x y'\n"),
        (("-n", "5", "history"), "hint: edgecron history -n 5\n"),
        (("--status=failed", "history"), "hint: edgecron history --status=failed\n"),
        (("-y", "list"), "unknown option '-y'\nhint: see: edgecron --help"),
        (("--jsn", "list"), "unknown option '--jsn'\nhint: did you mean --json?"),
        (("list", "--jsn"), "unknown option '--jsn'\nhint: did you mean --json?"),
        (("add", "x", *WHEN, "--foo", *COMMAND), "option '--foo'\nhint: see: edgecron add --help"),
        (("--color", "pink", "list"), "pink"),
        (("--url", "127.0.0.1:9", "list"), "it does not begin with http://, https:// or unix:"),
        (("daemon", "--http", "127.0.0.1:99999"), "with a port up to 65535"),
        (("list", "--db"), "--db needs a value"),
        (("kill", "3"), "did you mean 'cancel'"),
        (("disable", "x"), "did you mean 'pause'"),
        (("version",), "did you mean '--version'"),
        (("add", "x", "0 5 * * *", "/bin/true"), "--cron '0 5 * * *'"),
        (("add", "x", "@daily", *COMMAND), "--cron '@daily'"),
        (("add", "x", "--cron", "0", "5", "*", "*", "*", *COMMAND), "quote the cron text"),
        (("add", "x", *WHEN, "/bin/true"), "write the command after --: -- /bin/true"),
        (("add", "x", "--cron", "@reboot", *COMMAND), "--on-boot"),
        (("cancel",), "missing RUN|NAME\nhint: for example: edgecron cancel "),
        (("import", "fcrontab", "x"), "expected crontab"),
        (("import", "/etc/cron tab"), "hint: edgecron import crontab '/etc/cron tab'\n"),
        (("import", "crontab"), "expected FILE, or - for stdin"),
        (("daemon", "--log-format", "xml"), "--log-format"),
        (("demo", "--seconds", "-1"), "--seconds"),
    ],
)
def test_bad_usage_is_an_error_with_a_hint_and_leaves_the_database(
    edgecron: Edgecron,
    filled: tuple[Path, int],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    database, revision = filled
    monkeypatch.setenv("EDGECRON_DB", str(database))

    found = edgecron(*words)

    assert found.code == 2
    assert found.out == ""
    assert found.is_plain_error
    assert said in found.err
    [schedule] = edgecron("list", "--json").json
    assert schedule["revision"] == revision


@pytest.mark.parametrize("command", ["add", "edit"])
def test_all_wrong_options_are_named_at_once(
    edgecron: Edgecron, filled: tuple[Path, int], command: str
) -> None:
    given = ("--timeout", "soon", "--retries", "many", "--env", "LANG", "--scope", "pump")
    words = ("--db", str(filled[0]), command, "backup", "--every", "5 parsecs", *given)

    said = edgecron(*words, *COMMAND)
    as_json = edgecron("--json", *words, *COMMAND)

    errors = [line for line in said.err.splitlines() if line.startswith("error: ")]
    assert (said.code, len(errors)) == (2, 5)
    for option in ("--every", "--timeout", "--retries", "--env", "--scope"):
        assert any(option in error for error in errors), option
    problems = as_json.error["problems"]
    assert [f"error: {one['message']}" for one in problems] == errors
    assert all(one["hint"] for one in problems)


def test_all_unknown_options_are_named_at_once(edgecron: Edgecron) -> None:
    said = edgecron("add", "x", *WHEN, "--retires", "3", "--nicee", "-5", *COMMAND)

    assert [line for line in said.err.splitlines() if line.startswith("error")] == [
        "error: unknown option '--retires'",
        "error: unknown option '--nicee'",
    ]
    assert "did you mean --retries?" in said.err


@pytest.mark.failure(10)
def test_a_date_that_can_never_come_is_refused(edgecron: Edgecron, database: Path) -> None:
    said = edgecron("add", "x", "--cron", "0 0 30 2 *", *COMMAND)

    assert said.code == 2
    assert not database.exists()


@pytest.mark.failure(11)
@pytest.mark.parametrize(
    "text", ["R * * * *", "5-1 * * * *", "*/0 * * * *", "* * * *", "* * * * * * *", "٣ * * * *"]
)
def test_cron_texts_that_are_not_promised_are_refused(edgecron: Edgecron, text: str) -> None:
    said = edgecron("check", text)

    assert said.code == 2
    assert said.is_plain_error
    assert "\nhint: " in said.err, "says what to write instead"


@pytest.mark.failure(57)
@pytest.mark.parametrize(
    "name", ["", "a\nb", "a\x1b[2J", "../up", "n" * 129, "x" * 1_000_000, "a\u202eb", "42", "-a"]
)
def test_names_that_are_not_usable_are_refused(
    edgecron: Edgecron, database: Path, name: str
) -> None:
    said = edgecron("add", name, *WHEN, *COMMAND)

    assert said.code == 2
    assert said.is_plain_error
    assert len(said.err) < 500
    assert "".join(said.err.splitlines()).isprintable()
    assert not database.exists()


@pytest.mark.failure(58)
def test_a_duplicate_name_is_refused_and_the_first_stays(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("add", backup, "--every", "2h", *COMMAND)

    assert said.code == 4
    assert "edgecron edit backup" in said.err
    assert edgecron("list", "--json").json[0]["triggers"] == ["every 1h"]


def test_an_unknown_name_gets_a_suggestion(edgecron: Edgecron, backup: str) -> None:
    for command in ("show", "rm", "pause", "resume", "run", "logs", "next", "history"):
        said = edgecron(command, "bakcup")
        assert said.code == 3, command
        assert "did you mean 'backup'" in said.err


def test_an_unknown_run_is_not_found(edgecron: Edgecron, backup: str) -> None:
    assert edgecron("logs", "4711").code == 3
    assert edgecron("logs", backup).code == 3


def test_an_error_is_an_object_where_json_is_asked_for(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("show", "bakcup", "--json")
    usage = edgecron("add", "--wat", "--json")

    assert said.error == {
        "code": "not_found",
        "message": "there is no schedule 'bakcup'",
        "hint": "did you mean 'backup'?",
    }
    assert usage.code == 2
    assert usage.error["code"] == "usage"


def test_what_has_nothing_to_show_as_json_refuses_it(edgecron: Edgecron) -> None:
    said = edgecron("demo", "--json")

    assert said.code == 2
    assert "--json" in said.error["message"]


def test_a_file_that_is_no_database_is_named_and_left(edgecron: Edgecron, database: Path) -> None:
    database.write_text("dear diary, " * 100)

    for words in (("list",), ("add", "x", *WHEN, *COMMAND), ("daemon",), ("status",)):
        said = edgecron(*words)
        assert said.code == 5, words
        assert said.out == ""
        assert said.is_plain_error
        assert str(database) in said.err
    assert database.read_text().startswith("dear diary")


def test_a_database_of_another_program_is_refused(edgecron: Edgecron, database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()

    said = edgecron("add", "x", *WHEN, *COMMAND)

    assert said.code == 5
    assert "another program" in said.err


def test_a_newer_schema_is_refused(edgecron: Edgecron, backup: str, database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    said = edgecron("list")

    assert said.code == 5
    assert "upgrade edgecron" in said.err


def test_a_folder_that_can_not_be_written_is_refused(edgecron: Edgecron, tmp_path: Path) -> None:
    path = str(unwritable_folder(tmp_path) / "x.db")

    for words in (("add", "x", *WHEN, *COMMAND), ("daemon",)):
        said = edgecron("--db", path, *words)
        assert said.code == 5, words
        assert said.is_plain_error
        assert path in said.err


def test_a_place_that_is_no_folder_is_refused(edgecron: Edgecron, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "x.db")

    for words in (("add", "x", *WHEN, *COMMAND), ("daemon",), ("list",)):
        said = edgecron("--db", path, *words)
        assert said.code == 5, words
        assert "Traceback" not in said.err
        assert path in said.err


@pytest.mark.parametrize("command", ["list", "history", "next", "stats", "status", "export"])
def test_a_database_that_can_not_be_reached_is_not_said_to_be_missing(
    edgecron: Edgecron, tmp_path: Path, command: str
) -> None:
    (tmp_path / "loop").symlink_to("loop")

    said = edgecron("--db", str(tmp_path / "loop" / "x.db"), command)

    assert (said.code, said.out) == (5, "")
    assert "can't be reached (Too many levels of symbolic links)" in said.err


def test_a_relative_path_in_a_folder_that_was_removed_is_named(
    edgecron: Edgecron, backup: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    for words in (("--db", "x.db", "list"), ("backup", "x.db")):
        said = edgecron(*words)
        assert said.code == 2
        assert "'x.db' counts from the current folder, which was removed" in said.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_only_be_read_is_named(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    database.parent.chmod(0o500)

    said = edgecron("list")

    assert said.code == 5
    assert "this user can't write in its folder" in said.err


def test_bytes_that_are_not_text_are_refused(edgecron: Edgecron, database: Path) -> None:
    said = edgecron("add", "x", *WHEN, "--", "echo", "\udcff")

    assert said.code == 2
    assert "not UTF-8" in said.err
    assert not database.exists()
