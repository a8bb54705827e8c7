"""`config`: what each setting is, where it comes from, and which files are all right."""

from __future__ import annotations

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from edgecron.base.paths import system_config_path
from edgecron.formats.config_settings import SETTINGS
from tests.support.cli import Edgecron
from tests.support.settings import Settings


@pytest.fixture
def settings(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    return Settings(tmp_path, monkeypatch)


def test_show_says_where_each_value_comes_from(edgecron: Edgecron, settings: Settings) -> None:
    system = settings.write_system('[limits]\nburst = 5\n[defaults]\ntimeout = "1h"\n')
    user = settings.write_user('[defaults]\ntimeout = "2h"\nok_codes = [0, 3]\n')
    settings.set("EDGECRON_LIMITS_MAX_RUNNING", "3")

    shown = edgecron("config", "show", "--color", "never", "--json").json

    found = {each["key"]: each for each in shown}
    assert list(found) == list(SETTINGS)
    of = {key: (each["value"], each["origin"], each["line"]) for key, each in found.items()}
    assert of["color"] == ("never", "--color", None)
    assert of["limits.max_running"] == ("3", "EDGECRON_LIMITS_MAX_RUNNING", None)
    assert of["limits.burst"] == (5, str(system), 2)
    assert of["defaults.timeout"] == ("2h", str(user), 2)
    assert of["defaults.ok_codes"] == ([0, 3], str(user), 3)
    assert of["defaults.max_late"] == (None, "default", None)
    assert of["dashboard.keys.quit"] == (["q", "ctrl+q"], "default", None)
    assert found["defaults.max_late"]["absent"] == "24h or one interval, whichever is longer"
    assert found["limits.burst"]["variable"] == "EDGECRON_LIMITS_BURST"
    assert found["limits.burst"]["flag"] == "--burst"


def test_show_is_a_table_for_people(edgecron: Edgecron, settings: Settings) -> None:
    settings.set("COLUMNS", "300")
    user = settings.write_user("[limits]\nburst = 5\n")

    lines = edgecron("config", "show", "limits").out.splitlines()

    assert lines[0].split() == ["KEY", "VALUE", "ORIGIN"]
    assert lines[1].split("  ")[0] == "limits.max_running"
    assert "4 per core, at least 8" in lines[1]
    assert lines[2].split() == ["limits.burst", "5", str(user)]
    assert lines[3].split() == ["limits.output", "256KiB", "default"]


def test_show_of_one_key_or_of_what_is_changed_alone(
    edgecron: Edgecron, settings: Settings
) -> None:
    settings.write_user('[dashboard.keys]\nquit = "f10"\n')

    one = edgecron("config", "show", "limits.burst", "--json").json
    changed = edgecron("config", "show", "--changed", "--json").json
    database = os.environ["EDGECRON_DB"]

    assert [each["key"] for each in one] == ["limits.burst"]
    assert [(each["key"], each["value"]) for each in changed] == [
        ("database", database),
        ("dashboard.keys.quit", "f10"),
    ]


def test_config_alone_shows(edgecron: Edgecron, settings: Settings) -> None:
    assert edgecron("config").out == edgecron("config", "show").out


@pytest.mark.skipif(system_config_path().exists(), reason="this machine has a file")
@pytest.mark.parametrize("command", ["list", "status"])
def test_without_a_file_nothing_is_imported_to_read_one(
    database: Path, backup: str, tmp_path: Path, command: str
) -> None:
    script = (
        "import sys; from edgecron.cli import run; code = run(sys.argv[1:]);"
        " print(code, *sorted(sys.modules))"
    )
    places = {"HOME": str(tmp_path), "EDGECRON_DB": str(database), "EDGECRON_CONFIG": ""}

    shown = subprocess.run(
        [sys.executable, "-c", script, command, "--json"],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=True,
    )

    code, *loaded = shown.stdout.splitlines()[-1].split()
    assert code == "0"
    assert "edgecron.formats.config" in loaded
    unwanted = {"tomllib", "platformdirs", "edgecron.formats.config_settings"}
    assert unwanted.isdisjoint(loaded)


def test_the_database_is_shown_by_its_path_wherever_that_comes_from(
    edgecron: Edgecron, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGECRON_DB")
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    [default] = edgecron("config", "show", "database", "--json").json
    [given] = edgecron("config", "show", "database", "--db", "/a/x.db", "--json").json

    assert (default["value"], default["origin"]) == ("/var/lib/edgecron/edgecron.db", "default")
    assert (given["value"], given["origin"]) == ("/a/x.db", "--db")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "limits.burts"), "did you mean limits.burst?"),
        (("show", "burst"), "did you mean limits.burst?"),
        (("show", "limit"), "did you mean limits?"),
        (("shwo",), "expected show, path, check or init"),
        (("path", "x"), "takes no argument"),
        (("path", "--changed"), "--changed only works with show"),
    ],
)
def test_what_is_not_known_is_refused(
    edgecron: Edgecron, settings: Settings, words: tuple[str, ...], said: str
) -> None:
    refused = edgecron("config", *words)

    assert refused.code == 2
    assert said in refused.err


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("EDGECRON_DATABASE", "EDGECRON_DB"),
        ("EDGECRON_URLS", "EDGECRON_URL"),
        ("EDGECRON_COLOUR", "EDGECRON_COLOR"),
        ("EDGECRON_TOKENFILE", "EDGECRON_TOKEN_FILE"),
        ("EDGECRON_CONFG", "EDGECRON_CONFIG"),
        ("EDGECRON_BURST", "EDGECRON_LIMITS_BURST"),
        ("EDGECRON_LIMIT_MAX_RUNNING", "EDGECRON_LIMITS_MAX_RUNNING"),
    ],
)
def test_a_variable_that_is_meant_as_a_setting_is_refused(
    edgecron: Edgecron, settings: Settings, name: str, meant: str
) -> None:
    settings.set(name, "3")

    said = edgecron("list")

    assert said.code == 2
    assert f"variable {name} is unknown\nhint: did you mean {meant}?\n" in said.err


@pytest.mark.parametrize(
    "name",
    [
        "EDGECRON_RUN_ID", "EDGECRON_SCHEDULE", "EDGECRON_SCOPE_KIND", "EDGECRON_CAUSE",
        "EDGECRON_ATTEMPT", "EDGECRON_PLAN_AT", "EDGECRON_IDEMPOTENCY_KEY", "EDGECRON_PAYLOAD",
        "EDGECRON_RESULT", "EDGECRON_UPSTREAM_NAME", "EDGECRON_UPSTREAM_RUN_ID",
        "EDGECRON_UPSTREAM_STATUS", "EDGECRON_UPSTREAM_REASON", "EDGECRON_UPSTREAM_ERROR",
        "EDGECRON_UPSTREAM_EXIT_CODE", "EDGECRON_FENCE", "EDGECRON_UNPACK_DIR",
    ],
)  # fmt: skip
def test_a_variable_of_a_run_or_of_another_program_is_no_setting(
    edgecron: Edgecron, settings: Settings, backup: str, name: str
) -> None:
    settings.set(name, "3")

    said = edgecron("list", "--json")

    assert said.code == 0
    assert [schedule["name"] for schedule in said.json] == [backup]


def test_a_job_that_calls_edgecron_may_pass_on_what_it_was_given(
    edgecron: Edgecron, settings: Settings
) -> None:
    shell = ("--shell", "env | grep ^EDGECRON_ | cut -d= -f1")
    edgecron("add", "job", "--every", "1h", "--payload", "1", *shell)
    edgecron("run", "job", "--wait")
    given = edgecron("logs", "job").out.split()

    assert {"EDGECRON_RUN_ID", "EDGECRON_PAYLOAD", "EDGECRON_RESULT"} <= {*given}
    for name in given:
        with pytest.MonkeyPatch.context() as environ:
            environ.setenv(name, "3")
            assert edgecron("list").code == 0, name


def test_a_short_variable_with_swapped_letters_gets_the_one_that_was_meant(
    edgecron: Edgecron, settings: Settings
) -> None:
    settings.set("EDGECRON_BD", "/tmp/x.db")

    assert "hint: did you mean EDGECRON_DB?" in edgecron("list").err


def test_a_variable_that_is_like_no_setting_is_refused_too(
    edgecron: Edgecron, settings: Settings, backup: str
) -> None:
    settings.set("EDGECRON_WOMBAT", "3")

    said = edgecron("list")
    settings.set("EDGECRON_RUN_ID", "7")
    within_a_run = edgecron("list")

    assert said.code == 2
    assert said.err == (
        "error: variable EDGECRON_WOMBAT is unknown\n"
        "hint: remove it, unset EDGECRON_WOMBAT; see: edgecron help settings\n"
    )
    assert within_a_run.code == 0


@pytest.mark.parametrize("command", ["list", "config"])
def test_a_variable_of_a_section_that_no_setting_has_is_refused(
    edgecron: Edgecron, settings: Settings, command: str
) -> None:
    settings.set("EDGECRON_LIMITS_BRST", "3")

    said = edgecron(command)

    assert said.code == 2
    assert said.err == (
        "error: variable EDGECRON_LIMITS_BRST is unknown\n"
        "hint: did you mean EDGECRON_LIMITS_BURST?\n"
    )


def test_path_shows_the_files_and_which_of_them_are_there(
    edgecron: Edgecron, settings: Settings
) -> None:
    settings.set("COLUMNS", "300")
    settings.write_system("limits = [")

    shown = edgecron("config", "path", "--json")
    for_people = edgecron("config", "path")
    none = edgecron("--config", "none", "config", "path", "--json")

    assert shown.json == [
        {"path": str(settings.user_path), "kind": "user", "exists": False},
        {"path": str(settings.system_path), "kind": "system", "exists": True},
    ]
    assert [line.split()[-1] for line in for_people.out.splitlines()] == ["EXISTS", "no", "yes"]
    assert none.json == []


def test_check_reads_one_file_or_all_that_is_looked_at(
    edgecron: Edgecron, settings: Settings, tmp_path: Path
) -> None:
    settings.write_user("[limits]\nburst = 5\n")
    other = tmp_path / "other.toml"
    other.write_text("[limits]\nburts = 5\n")
    other.chmod(0o600)

    good = edgecron("config", "check")
    bad = edgecron("config", "check", str(other))
    settings.set("EDGECRON_LIMITS_OUTPUT", "much")
    of_a_variable = edgecron("config", "check")

    assert good.out == f"{settings.user_path}: all right, 1 setting\n"
    assert bad.code == 2
    assert f"{other}:2: limits.burts is unknown\nhint: did you mean limits.burst?\n" in bad.err
    assert of_a_variable.code == 2
    assert "EDGECRON_LIMITS_OUTPUT is 'much', expected a size" in of_a_variable.err


def test_check_reports_everything_that_is_wrong_with_a_file(
    edgecron: Edgecron, settings: Settings
) -> None:
    settings.write_user(
        'colour = "never"\n[limits]\nburts = 5\nburst = 0\nclock_wait = "10m"\n'
        "[daemon.more]\nx = 1\n[retention]\noutput_age = 3\n"
    )
    path = settings.user_path
    expected = [
        (1, "colour is unknown"),
        (3, "limits.burts is unknown"),
        (4, "limits.burst is '0', expected a whole number from 1"),
        (6, "daemon.more is unknown"),
        (9, "retention.output_age is 3, expected a duration"),
    ]

    said = edgecron("config", "check")
    as_json = edgecron("config", "check", "--json")
    elsewhere = edgecron("list")

    assert (said.code, as_json.code, elsewhere.code) == (2, 2, 2)
    *lines, last = said.err.splitlines()
    assert [
        line.startswith(f"{path}:{number}: ")
        for line, (number, _) in zip(lines, expected, strict=True)
    ] == [True] * 5
    assert all(words in line for line, (_, words) in zip(lines, expected, strict=True))
    assert "(did you mean color?)" in lines[0]
    assert last == "error: 5 settings are wrong"
    problems = as_json.error["problems"]
    assert [each["line"] for each in problems] == [number for number, _ in expected]
    assert problems[1]["hint"] == "did you mean limits.burst?"
    assert elsewhere.is_plain_error
    assert f"error: {path}:1: colour is unknown" in elsewhere.err
    assert f"5 settings are wrong; to see all: edgecron config check {path}" in elsewhere.err


def test_check_refuses_what_the_dashboard_would_refuse(
    edgecron: Edgecron, settings: Settings
) -> None:
    settings.write_user('[dashboard.keys]\nquit = "x"\n')
    one_key_for_two = edgecron("config", "check")
    settings.write_user('[dashboard]\ntheme = "nosuch"\n')
    no_theme = edgecron("config", "check")
    settings.write_user('[dashboard]\ntheme = "edgecron-light"\n')
    good = edgecron("config", "check")

    assert (one_key_for_two.code, no_theme.code, good.code) == (2, 2, 0)
    assert "key x stands for two actions" in one_key_for_two.err
    assert "there is no such theme" in no_theme.err


def test_init_writes_a_file_to_start_from_and_never_over_another(
    edgecron: Edgecron, settings: Settings
) -> None:
    first = edgecron("config", "init")
    again = edgecron("config", "init")

    assert first.code == 0
    assert str(settings.user_path) in first.out
    assert settings.user_path.stat().st_mode & 0o777 == 0o600
    assert "# burst = 10" in settings.user_path.read_text()
    assert again.code == 4
    assert edgecron("config", "check").code == 0


def test_what_completes_words_looks_into_the_same_database(
    edgecron: Edgecron, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edgecron("add", "of-the-variable", "--every", "1h", "--", "true")
    settings.write_user(f'database = "{tmp_path}/of-the-file.db"\n')
    monkeypatch.setattr("sys.stdin", StringIO("show\n\n"))
    by_variable = edgecron("completion", "--words")
    monkeypatch.delenv("EDGECRON_DB")
    edgecron("add", "of-the-file", "--every", "1h", "--", "true")

    monkeypatch.setattr("sys.stdin", StringIO("show\n\n"))
    by_file = edgecron("completion", "--words")

    assert (by_variable.out, by_file.out) == ("of-the-variable\n", "of-the-file\n")


def test_any_verb_refuses_a_file_with_what_is_not_known(
    edgecron: Edgecron, settings: Settings, backup: str
) -> None:
    path = settings.write_user('[dashboard]\nthem = "nord"\n')

    refused = edgecron("list", "--json")
    without = edgecron("--config", "none", "list", "--json")

    assert refused.code == 2
    assert refused.error["code"] == "invalid_config"
    assert refused.error["message"] == f"{path}:2: dashboard.them is unknown"
    assert refused.error["hint"] == "did you mean dashboard.theme?"
    assert without.code == 0


def test_help_and_version_need_no_file(edgecron: Edgecron, settings: Settings) -> None:
    settings.write_user("limits = [")

    assert edgecron("--version").code == 0
    assert edgecron("config", "--help").code == 0
    assert edgecron("config", "path").code == 0


def test_a_named_file_that_is_not_there_is_refused(
    edgecron: Edgecron, settings: Settings, tmp_path: Path
) -> None:
    by_flag = edgecron("--config", str(tmp_path / "missing.toml"), "list")
    without = edgecron("--config=", "list")

    assert by_flag.code == 2
    assert "missing.toml does not exist" in by_flag.err
    assert "--config needs a value" in without.err


def test_the_database_of_a_file_is_that_of_every_command(
    edgecron: Edgecron, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGECRON_DB")
    settings.write_user(f'database = "{tmp_path}/of-the-file.db"\n')

    edgecron("add", "x", "--every", "1h", "--", "true")

    from edgecron.client import Client

    assert (tmp_path / "of-the-file.db").exists()
    with Client() as client:
        assert [schedule.name for schedule in client.schedules()] == ["x"]


@pytest.mark.parametrize(
    ("color", "flag", "is_coloured"),
    [("always", None, True), ("never", None, False), ("always", "never", False)],
)
def test_colours_are_as_a_file_says_unless_a_flag_says_otherwise(
    edgecron: Edgecron,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    color: str,
    flag: str | None,
    is_coloured: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    settings.write_user(f'color = "{color}"\n')

    said = edgecron(*(("--color", flag) if flag else ()), "config", "show", "color")

    assert ("\x1b[" in said.out) is is_coloured


def test_a_command_to_copy_names_the_same_file(
    edgecron: Edgecron, settings: Settings, tmp_path: Path
) -> None:
    path = settings.write_user("[limits]\nburst = 5\n")

    said = edgecron("--config", str(path), "add", "x", "--every", "1h", "--", "true")

    assert f"start one: edgecron --config {path} daemon" in said.err


def test_the_manual_page_tells_of_every_setting(edgecron: Edgecron) -> None:
    page = edgecron("help", "--man").out.replace(r"\(dq", '"')

    assert all(f"# {setting.name} = " in page for setting in SETTINGS.values())
    assert "\n[dashboard.keys]\n" in page
