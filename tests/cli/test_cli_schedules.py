"""Making, changing, seeing and removing schedules."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from edgecron.base.errors import NotFound
from edgecron.base.paths import state_dir
from edgecron.base.units import parse_instant
from edgecron.base.zones import machine_zone_name
from edgecron.client import Client
from tests.support.cli import Edgecron

LIST_FIELDS = [
    "name", "kind", "job", "triggers", "timezone", "enabled", "paused_until", "next_plan_at",
    "next_run_at", "last_run_at", "last_status", "run_count", "catch_up", "max_late_s", "overlap",
    "max_running", "timeout_s", "stall_timeout_s", "stall_action", "kill_grace_s", "retries",
    "retry_delay_s", "retry_factor", "retry_max_delay_s", "ok_codes", "notify", "on_interrupt",
    "priority", "jitter_s", "between", "not_between", "except_days", "needs", "needs_deadline_s",
    "while_needs", "while_lost", "on", "group", "group_max_running", "queue",
    "keep_awake", "wake", "durability",
    "description", "scopes", "from_at", "until_at", "max_runs", "trigger_error", "vanished_at",
    "id", "revision", "created_at", "updated_at",
]  # fmt: skip
SHOW_FIELDS = [
    "env", "env_file", "cwd", "user", "nice", "ionice", "memory_max", "cpu_max", "payload",
    "stdin", "counts", "last_success_at", "last_error", "upcoming", "state", "outlook",
]  # fmt: skip


def test_add_says_in_words_what_it_made_and_when_it_comes(edgecron: Edgecron) -> None:
    said = edgecron("add", "backup", "--cron", "0 2 * * *", "--tz", "UTC", "--", "true")

    assert said.code == 0
    assert said.out.startswith("added backup: at 02:00 every day (UTC); next 20")
    assert said.out.count("\n") == 1
    assert "(in " in said.out


@pytest.mark.parametrize(
    ("words", "key", "text"),
    [
        ("every weekday at 9", "cron", "0 9 * * MON-FRI"),
        ("every 5 minutes", "every", "5m"),
        ("@daily", "cron", "@daily"),
        ("after other fails", "after", "other:failure"),
    ],
)
def test_when_takes_plain_words_and_keeps_the_trigger_that_they_mean(
    edgecron: Edgecron, words: str, key: str, text: str
) -> None:
    edgecron("add", "other", "--on-demand", "--", "true")
    added = edgecron("add", "backup", "--when", words, "--", "true")
    edited = edgecron("edit", "other", "--when", words) if key != "after" else added

    assert (added.code, edited.code) == (0, 0)
    assert f'{key} = "{text}"' in edgecron("export", "backup").out


def test_plain_words_in_the_wrong_place_get_the_option_that_takes_them(edgecron: Edgecron) -> None:
    stray = edgecron("add", "backup", "weekdays at 9", "--", "true")
    fast = edgecron("add", "backup", "--when", "every 100 milliseconds", "--", "true")
    as_cron = edgecron("add", "backup", "--cron", "every weekday at 9", "--", "true")
    none = edgecron("edit", "backup", "--when", "none")

    assert "hint: --when 'weekdays at 9'" in stray.err
    assert none.code == 2
    assert "--when '100ms' is less than a second" in fast.err
    assert as_cron.code == 0


def test_a_time_is_told_in_the_schedule_s_zone_where_that_is_another_one(
    edgecron: Edgecron,
) -> None:
    added = edgecron("add", "x", "--cron", "0 2 * * *", "--tz", "Asia/Tokyo", "--", "true").out
    edited = edgecron("edit", "x", "--cron", "30 2 * * *").out
    shown = edgecron("show", "x").out
    same = edgecron("edit", "x", "--tz", "Etc/UTC").out

    assert " 02:00:00 JST, 20" in added
    assert " 17:00:00 here (in " in added
    assert " 02:30:00 JST, 20" in edited
    assert shown.count(" 02:30:00 JST, 20") == 5
    assert "here" not in same


def test_add_without_an_engine_says_how_to_start_one(edgecron: Edgecron, database: Path) -> None:
    said = edgecron("add", "backup", "--every", "5m", "--", "true")
    named = edgecron("--db", str(database), "run", "backup")

    assert "no engine is running" in said.err
    assert "edgecron daemon" in said.err
    assert f"edgecron --db {database} daemon" in named.err


def test_list_as_json_has_the_fields_of_the_contract(edgecron: Edgecron, backup: str) -> None:
    [schedule] = edgecron("list", "--json").json

    assert sorted(schedule) == sorted(LIST_FIELDS)
    assert schedule["name"] == backup
    assert schedule["kind"] == "shell"
    assert schedule["job"] == "echo good; echo bad >&2"
    assert schedule["triggers"] == ["every 1h"]
    assert schedule["timezone"] == "local"
    assert schedule["next_plan_at"].endswith("Z")


def test_show_as_json_is_one_object_with_all_there_is(edgecron: Edgecron) -> None:
    edgecron(
        "add", "full", "--cron", "*/5 * * * *", "--tz", "Europe/Berlin", "--env", "A=1=2",
        "--env", "B=", "--cwd", "/srv", "--payload", '{"n": 1}', "--stdin", "yes",
        "--catch-up", "all", "--max-late", "2h", "--overlap", "queue", "--max-running", "2",
        "--timeout", "90s", "--kill-grace", "0", "--priority", "high", "--group", "disk",
        "--ok-codes", "0,2", "--scope", "device:a", "--scope", "device:b", "--max-runs", "9",
        "--description", "nightly", "--", "tar", "czf", "$(touch x)",
    )  # fmt: skip

    [found] = edgecron("show", "full", "--reveal", "--json").json

    assert sorted(found) == sorted(LIST_FIELDS + SHOW_FIELDS)
    assert found["job"] == ["tar", "czf", "$(touch x)"]
    assert found["env"] == {"A": "1=2", "B": ""}
    assert (found["cwd"], found["payload"], found["stdin"]) == ("/srv", '{"n": 1}', "yes")
    assert (found["catch_up"], found["max_late_s"], found["overlap"]) == ("all", 7200, "queue")
    assert (found["max_running"], found["timeout_s"], found["kill_grace_s"]) == (2, 90, 0)
    assert (found["priority"], found["group"], found["ok_codes"]) == (10, "disk", [0, 2])
    assert found["scopes"] == [{"kind": "device", "id": "a"}, {"kind": "device", "id": "b"}]
    assert (found["max_runs"], found["description"]) == (9, "nightly")
    assert len(found["upcoming"]) == 5


def test_several_triggers_are_kept_and_the_earliest_comes_first(edgecron: Edgecron) -> None:
    said = edgecron(
        "add", "both", "--cron", "0 3 * * *", "--every", "20m", "--at", "in 2d", "--on-boot",
        "--json", "--", "true",
    )  # fmt: skip

    [schedule] = said.json
    kinds = [trigger.split()[0] for trigger in schedule["triggers"]]
    assert kinds == ["0", "every", "at", "on"]
    wait = parse_instant(schedule["next_plan_at"]) - parse_instant(schedule["created_at"])
    assert wait.total_seconds() <= 20 * 60


def test_a_hashed_time_is_told_as_this_database_has_it(edgecron: Edgecron) -> None:
    said = edgecron("add", "x", "--cron", "H H * * *", "--tz", "UTC", "--", "true")

    [schedule] = edgecron("list", "--json").json
    clock = parse_instant(schedule["next_plan_at"]).strftime("%H:%M")
    assert f"at {clock} every day" in said.out


def test_times_are_read_as_people_write_them(edgecron: Edgecron) -> None:
    edgecron(
        "add", "x", "--every", "15m from 2030-01-01 09:00", "--at", "2030-07-01 09:00",
        "--tz", "Europe/Berlin", "--from", "2029-01-01", "--until", "2031-01-01", "--", "true",
    )  # fmt: skip

    [schedule] = edgecron("list", "--json").json
    assert schedule["triggers"] == [
        "every 15m from 2030-01-01T08:00:00Z",
        "at 2030-07-01T07:00:00Z",
    ]
    assert (schedule["from_at"], schedule["until_at"]) == (
        "2028-12-31T23:00:00Z",
        "2030-12-31T23:00:00Z",
    )


def test_a_relative_folder_is_the_one_the_person_is_in(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    edgecron("add", "here", "--every", "1h", "--cwd", ".", "--env-file", "env", "--", "true")

    [found] = edgecron("show", "here", "--json").json
    assert found["cwd"] == str(tmp_path)
    assert found["env_file"] == str(tmp_path / "env")


def test_a_folder_or_file_that_is_missing_is_warned_of(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    said = edgecron("edit", backup, "--cwd", f"{tmp_path}/none", "--env-file", f"{tmp_path}/nope")
    good = edgecron("edit", backup, "--cwd", str(tmp_path), "--env-file", "none")

    assert said.code == 0
    assert f"--cwd: there is no folder '{tmp_path}/none' yet" in said.err
    assert f"--env-file: there is no file '{tmp_path}/nope' yet" in said.err
    assert good.err == ""


def test_a_tilde_as_the_folder_is_home(edgecron: Edgecron) -> None:
    edgecron("add", "x", "--every", "1h", "--cwd", "~", "--", "pwd")

    said = edgecron("run", "x", "--wait")

    assert (said.code, said.out) == (0, f"{os.path.expanduser('~')}\n")


def test_edit_changes_what_is_given_and_nothing_else(edgecron: Edgecron, backup: str) -> None:
    [before] = edgecron("list", "--json").json

    said = edgecron("edit", backup, "--timeout", "2h", "--env", "A=1", "--json")

    [after] = said.json
    assert after["timeout_s"] == 7200
    assert after["revision"] == before["revision"] + 1
    changed = {"timeout_s", "revision", "updated_at"}
    assert {key for key in after if after[key] != before[key]} <= changed


def test_edit_with_none_clears_an_option(edgecron: Edgecron, backup: str) -> None:
    edgecron("edit", backup, "--timeout", "2h", "--description", "x", "--env", "A=1")

    edgecron("edit", backup, "--timeout", "none", "--description", "none", "--env", "none")

    [found] = edgecron("show", backup, "--json").json
    assert found["timeout_s"] is None
    assert found["description"] is None
    assert found["env"] == {}


def test_edit_with_times_replaces_all_of_them(edgecron: Edgecron) -> None:
    edgecron("add", "both", "--every", "1h", "--on-boot", "--", "true")

    [found] = edgecron("edit", "both", "--cron", "0 4 * * *", "--json").json

    assert found["triggers"] == ["0 4 * * *"]


def test_edit_takes_a_new_command(edgecron: Edgecron, backup: str) -> None:
    [found] = edgecron("edit", backup, "--json", "--", "tar", "--json").json

    assert (found["kind"], found["job"]) == ("command", ["tar", "--json"])


def test_pause_and_resume_take_several_names(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "other", "--every", "1h", "--", "true")

    paused = edgecron("pause", backup, "other", "--json").json
    resumed = edgecron("resume", backup, "other", "--json").json

    assert [one["enabled"] for one in paused] == [False, False]
    assert [one["next_plan_at"] for one in paused] == [None, None]
    assert [one["enabled"] for one in resumed] == [True, True]
    assert all(one["next_plan_at"] for one in resumed)


def test_resume_says_what_was_not_paused(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "held", "--every", "1h", "--", "true")
    edgecron("pause", "held")

    lines = edgecron("resume", backup, "held").out.splitlines()

    assert lines[0].startswith("backup was not paused; next ")
    assert lines[1].startswith("resumed held; next ")


def test_pause_until_a_time_keeps_the_schedule_enabled(edgecron: Edgecron, backup: str) -> None:
    [found] = edgecron("pause", backup, "--until", "in 5h", "--json").json

    assert found["enabled"] is True
    assert parse_instant(found["next_plan_at"]) >= parse_instant(found["paused_until"])


def test_a_name_that_is_missing_changes_none_of_the_others(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("rm", backup, "nope")

    assert said.code == 3
    assert [one["name"] for one in edgecron("list", "--json").json] == [backup]


def test_rm_removes_and_the_name_is_free_again(edgecron: Edgecron, backup: str) -> None:
    assert edgecron("rm", backup).code == 0
    assert edgecron("list", "--json").json == []

    again = edgecron("add", backup, "--every", "1h", "--", "true")

    assert again.code == 0


READING = (
    "list", "history", "next", "stats", "status", "metrics", "export", "doctor", "show job",
    "why job", "logs 1", "history job", "prune", "pause job", "run job", "cancel 1",
)  # fmt: skip


@pytest.mark.parametrize("command", READING)
def test_a_wrong_path_is_the_same_error_whichever_command_meets_it(
    edgecron: Edgecron, database: Path, command: str
) -> None:
    typo = database.with_name("edgecorn.db")
    expected = f"database {typo} does not exist (named by --db)"

    said = edgecron("--db", str(typo), *command.split())

    assert said.code == 3
    assert expected in said.out + said.err
    assert not typo.exists()
    if command != "doctor":
        assert said.out == ""


@pytest.mark.parametrize("command", [*READING, "list --groups", "apply /dev/null --dry-run"])
def test_a_command_that_reads_leaves_an_empty_file_as_it_is(
    edgecron: Edgecron, database: Path, command: str
) -> None:
    database.touch()

    said = edgecron(*command.split())

    assert database.read_bytes() == b""
    assert [each.name for each in database.parent.iterdir()] == [database.name]
    if "--dry-run" not in command:
        assert said.code == 3
        expected = f"database {database} is an empty file (named by EDGECRON_DB)"
        assert expected in said.out + said.err


def test_a_command_that_creates_makes_a_database_of_an_empty_file(
    edgecron: Edgecron, database: Path
) -> None:
    database.touch()

    made = edgecron("add", "backup", "--every", "1h", "--", "true")

    assert made.code == 0
    assert f"created database {database}" in made.err
    assert [one["name"] for one in edgecron("list", "--json").json] == ["backup"]


def test_a_client_that_needs_a_database_refuses_an_empty_file(database: Path) -> None:
    database.touch()

    with pytest.raises(NotFound, match="is an empty file"):
        Client(database, must_exist=True).count_schedules()
    assert database.read_bytes() == b""
    assert Client(database).count_schedules() == (0, 0, 0)


def test_a_wrong_path_of_a_variable_is_named_with_the_variable(
    edgecron: Edgecron, database: Path
) -> None:
    said = edgecron("list", "--json")

    assert (said.code, said.out) == (3, "")
    assert f"database {database} does not exist (named by EDGECRON_DB)" in said.err


def test_the_first_use_says_how_to_add_a_schedule(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGECRON_DB")
    monkeypatch.setenv("EDGECRON_CONFIG", "none")
    home = tmp_path / "untouched"
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    monkeypatch.setattr("edgecron.base.paths.is_root", lambda: False)  # Root's is not in a home.

    first = edgecron("list")
    assert (first.code, first.out) == (0, "")
    assert "edgecron add nightly --cron" in first.err
    assert edgecron("list", "--json").json == []
    for command in ("history", "next", "stats", "status", "show job"):
        said = edgecron(*command.split())
        assert (said.code, said.out) == (3, "")
        assert "edgecron.db does not exist (the default path)\nhint: add a first" in said.err
    assert not home.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("add", "job", "--every", "1h", "--", "true"),
        ("apply", "/dev/null"),
        ("apply", "/dev/null", "--dry-run"),
        ("import", "crontab", "/dev/null"),
        ("daemon",),
        ("restore", "copy.db"),
        ("service", "install", "--user", "--for", "systemd", "--dry-run"),
        ("list",),
        ("status",),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_command_makes_the_folder_of_a_database_that_was_named(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    mistyped = tmp_path / "mistyped folder" / "edge.db"

    by_option = edgecron("--db", str(mistyped), *words)
    monkeypatch.setenv("EDGECRON_DB", str(mistyped))
    by_variable = edgecron("--json", *words)

    assert (by_option.code, by_option.out) == (3, "")
    assert "(named by --db)" in by_option.err
    assert words[0] in ("list", "status") or f"mkdir -p '{mistyped.parent}'" in by_option.err
    assert "(named by EDGECRON_DB)" in by_variable.error["message"]
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_creates_a_database_says_so_once(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ("--every", "1h", "--", "true")
    named = str(tmp_path / "named.db")
    monkeypatch.delenv("EDGECRON_DB")
    monkeypatch.setenv("EDGECRON_CONFIG", "none")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("edgecron.base.paths.is_root", lambda: False)

    wrong = edgecron("--db", named, "add", "job", "--every", "never", "--", "true")
    first, second = (edgecron("--db", named, "add", name, *job) for name in ("one", "two"))
    late = edgecron(
        *("--db", str(tmp_path / "late.db"), "add", "job", "--while", "success:other", *job)
    )
    usual = edgecron("add", "job", *job)
    refused = edgecron("--db", str(tmp_path / "x.db"), "--json", "apply", "/nowhere.toml")

    assert "created" not in wrong.err
    assert late.err.splitlines() == [
        f"created database {tmp_path}/late.db",
        (
            "error: condition 'success:other' can't be watched during a run,"
            " expected a condition of the machine"
        ),
        "hint: wait for it before the start: --needs success:other",
    ]
    assert f"created database {named}\n" in first.err
    assert second.code == 0
    assert "created" not in second.err
    assert f"created database {tmp_path}/home/edgecron/edgecron.db\n" in usual.err
    assert refused.error["message"]  # Nothing but the error: a program reads it.


def test_list_says_how_each_schedule_stands(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "held", "--every", "1h", "--", "true")
    edgecron("pause", "held")
    edgecron("add", "boot", "--on-boot", "--", "true")

    lines = edgecron("list").out.splitlines()

    assert [line.split()[1] for line in lines[1:]] == [backup, "boot", "held"]
    assert "at boot" in lines[2]
    assert "paused" in lines[3]


def test_list_fits_eighty_columns(edgecron: Edgecron, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    edgecron("add", "n" * 60, "--cron", "1,2,3,4,5,6,7,8 1-20 * * MON-FRI", "--", "true")

    lines = edgecron("list").out.splitlines()

    assert max(map(len, lines)) <= 80
    assert "in " in lines[-1]


def test_a_machine_whose_zone_is_unknown_is_told_so(
    edgecron: Edgecron, backup: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Gone/Zone")

    said = edgecron("list")

    assert said.code == 0
    assert backup in said.out
    assert "times are shown in UTC" in said.err


@pytest.mark.parametrize(
    ("words", "is_warned"),
    [
        (("--cron", "0 3 * * *"), True),
        (("--cron", "0 3 * * *", "--tz", "Asia/Tokyo"), False),
        (("--every", "1h"), False),
    ],
)
def test_local_times_that_are_other_ones_for_the_engine_are_warned_of(
    edgecron: Edgecron, backup: str, database: Path, words: tuple[str, ...], is_warned: bool
) -> None:
    connection = sqlite3.connect(database)
    connection.execute("UPDATE meta SET local_timezone = 'Europe/Berlin'")
    connection.commit()
    connection.close()

    added = edgecron("add", "x", *words, "--", "true")
    edited = edgecron("edit", backup, *words)

    for said in (added, edited):
        assert said.code == 0
        assert ("is that of UTC here, but that of Europe/Berlin for" in said.err) is is_warned


@pytest.fixture
def other_zone() -> str:
    """A zone that the machine is not in."""
    return "Asia/Tokyo" if machine_zone_name() != "Asia/Tokyo" else "Europe/Berlin"


def test_a_shell_s_own_zone_is_warned_of_before_any_engine_has_run(
    edgecron: Edgecron, other_zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TZ")
    usual = edgecron("add", "usual", "--cron", "0 9 * * *", "--", "true")
    monkeypatch.setenv("TZ", other_zone)
    added = edgecron("add", "x", "--cron", "0 9 * * *", "--", "true")
    named = edgecron("add", "y", "--cron", "0 9 * * *", "--tz", "UTC", "--", "true")

    assert f"(local time, {other_zone})" in added.out
    assert f"local time is that of {other_zone} here" in added.err
    assert f"that of {machine_zone_name()} for an engine without this shell's TZ" in added.err
    assert "edit x --tz ZONE" in added.err
    assert "local time is" not in usual.err + named.err


def test_a_job_of_ours_that_would_find_another_database_is_warned_of(
    edgecron: Edgecron, database: Path
) -> None:
    bare = edgecron("add", "x", "--every", "1h", "--", "edgecron", "backup", "/var/backups/")
    told = edgecron("add", "y", "--every", "1h", "--", "edgecron", f"--db={database}", "list")

    assert "a job does not see EDGECRON_DB" in bare.err
    assert f"add --db {database} to its command" in bare.err
    assert "EDGECRON_DB" not in told.err


def test_colour_is_given_only_where_it_is_wanted(edgecron: Edgecron, backup: str) -> None:
    assert "\x1b" not in edgecron("list").out
    assert "\x1b" in edgecron("--color", "always", "list").out
    assert "\x1b" not in edgecron("list", "--color=never").out


@pytest.mark.failure(65)
def test_a_variable_that_looks_like_a_secret_is_warned_of(edgecron: Edgecron) -> None:
    said = edgecron("add", "x", "--every", "1h", "--env", "DB_PASSWORD=hunter2", "--", "true")

    assert said.code == 0
    assert "--env-file" in said.err
    assert "hunter2" not in said.out + said.err
    assert "hunter2" not in edgecron("add", "y", "--every", "1h", "--env", "hunter2").err


@pytest.mark.failure(60)
def test_no_shell_reads_what_was_given_as_argv(edgecron: Edgecron, tmp_path: Path) -> None:
    bait = tmp_path / "bait"
    edgecron(
        "add", "x", "--every", "1h", "--payload", f'"$(touch {bait})"', "--description",
        f"$(touch {bait})", "--env", f"A=`touch {bait}`", "--", "echo", f"$(touch {bait})",
    )  # fmt: skip

    said = edgecron("run", "x", "--wait")

    assert said.code == 0
    assert said.out == f"$(touch {bait})\n"
    assert not os.path.exists(bait)


def test_none_clears_the_triggers_of_a_kind(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "report", "--after", backup, "--cron", "0 9 * * *", "--", "true")

    said = edgecron("edit", "report", "--after", "none", "--json")

    assert said.code == 0
    assert said.json[0]["triggers"] == ["0 9 * * *"]


def test_new_times_replace_all_others_beside_none(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "report", "--after", backup, "--cron", "0 9 * * *", "--", "true")

    said = edgecron("edit", "report", "--after", "none", "--at", "2999-01-01", "--json")

    assert said.json[0]["triggers"] == ["at 2999-01-01T00:00:00Z"]


def test_the_last_trigger_can_t_be_cleared(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("edit", backup, "--every", "none")

    assert said.code == 2
    assert "no time to run at" in said.err


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--retry-delay", "2h"), "--retry-delay is 2h, which is more than --retry-max-delay, 1h"),
        (("--retry-max-delay", "5s"), "--retry-delay is 10s"),
        (("--retry-delay", "3m", "--retry-max-delay", "2m"), "--retry-delay is 3m"),
    ],
)
def test_a_first_retry_later_than_the_latest_is_refused(
    edgecron: Edgecron, backup: str, given: tuple[str, ...], named: str
) -> None:
    added = edgecron("add", "report", "--every", "1h", *given, "--", "true")
    edited = edgecron("edit", backup, *given)

    assert (added.code, edited.code) == (2, 2)
    assert named in added.err
    assert named in edited.err


@pytest.mark.parametrize(
    ("option", "value", "field", "default"),
    [
        ("--catch-up", "skip", "catch_up", "once"),
        ("--max-late", "1h", "max_late_s", None),
        ("--overlap", "allow", "overlap", "skip"),
        ("--max-running", "2", "max_running", None),
        ("--timeout", "1h", "timeout_s", None),
        ("--stall-timeout", "10m", "stall_timeout_s", None),
        ("--stall-action", "end", "stall_action", "notice"),
        ("--kill-grace", "1s", "kill_grace_s", 10.0),
        ("--retries", "2", "retries", 0),
        ("--retry-delay", "1s", "retry_delay_s", 10.0),
        ("--retry-factor", "3", "retry_factor", 2.0),
        ("--retry-max-delay", "2h", "retry_max_delay_s", 3600.0),
        ("--on-interrupt", "retry", "on_interrupt", "leave"),
        ("--priority", "high", "priority", 0),
        ("--group", "disk", "group", None),
        ("--jitter", "5m", "jitter_s", 0.0),
        ("--between", "21:00-05:00", "between", []),
        ("--not-between", "MON-FRI", "not_between", []),
        ("--except", "2026-12-24", "except_days", []),
        ("--needs", "success:other", "needs", []),
        ("--needs-deadline", "1h", "needs_deadline_s", 86400.0),
        ("--env", "A=b", "env", {}),
        ("--env-file", "/a", "env_file", None),
        ("--cwd", "/a", "cwd", None),
        ("--nice", "-5", "nice", None),
        ("--ionice", "idle", "ionice", None),
        ("--memory-max", "1GB", "memory_max", None),
        ("--cpu-max", "50%", "cpu_max", None),
        ("--durability", "volatile", "durability", "full"),
        ("--description", "words", "description", None),
        ("--payload", "{}", "payload", None),
        ("--scope", "device:a", "scopes", [{"kind": "global", "id": ""}]),
        ("--stdin", "words", "stdin", None),
        ("--ok-codes", "0,2", "ok_codes", [0]),
        ("--notify", "mail,chat", "notify", []),
        ("--from", "2030-01-01", "from_at", None),
        ("--until", "2031-01-01", "until_at", None),
        ("--max-runs", "3", "max_runs", None),
        ("--tz", "Europe/Berlin", "timezone", "local"),
    ],
)
def test_none_clears_an_option(
    edgecron: Edgecron, backup: str, option: str, value: str, field: str, default: object
) -> None:
    edgecron("add", "other", "--every", "1d", "--", "true")
    assert edgecron("edit", backup, option, value).code == 0
    [changed] = edgecron("show", backup, "--reveal", "--json").json

    said = edgecron("edit", backup, option, "none")

    assert said.code == 0
    assert changed[field] != default
    assert edgecron("show", backup, "--json").json[0][field] == default


def test_the_weekdays_of_a_window_can_be_a_word_of_their_own(edgecron: Edgecron) -> None:
    windows = ("--between", "21:00-05:00", "mon-fri", "--not-between", "23:00-24:00", "WED,FRI")

    said = edgecron("add", "tidy", "--every", "1h", *windows, "--", "true")

    assert said.code == 0, said.err
    [shown] = edgecron("show", "tidy", "--json").json
    assert (shown["between"], shown["not_between"]) == (
        ["21:00-05:00 MON-FRI"],
        ["23:00-24:00 WED,FRI"],
    )


@pytest.mark.failure(51)
@pytest.mark.parametrize("in_place", ["a file", "a link to itself"])
def test_what_was_done_is_not_said_to_have_failed_where_no_engine_can_be_told(
    edgecron: Edgecron, database: Path, in_place: str
) -> None:
    folder = state_dir(database)
    if in_place == "a file":
        folder.touch()
    else:
        folder.symlink_to(folder)

    added = edgecron("add", "x", "--every", "1h", "--", "true")
    others = [
        edgecron(*words)
        for words in (
            ("edit", "x", "--every", "2h"),
            ("pause", "x"),
            ("resume", "x"),
            ("run", "x"),
            ("cancel", "1"),
            ("rm", "x"),
        )
    ]

    assert (added.code, added.err.count("permission")) == (0, 0)
    assert [said.code for said in others] == [0] * 6


def test_an_interval_with_a_start_is_anchored_there(edgecron: Edgecron) -> None:
    edgecron("add", "grid", "--every", "15m", "--from", "2030-01-01 09:07", "--", "true")
    first = edgecron("next", "grid", "-n", "2", "--json").json

    assert [one["due_at"] for one in first] == ["2030-01-01T09:07:00Z", "2030-01-01T09:22:00Z"]

    edgecron("edit", "grid", "--from", "2031-01-01 10:00")
    moved = edgecron("next", "grid", "-n", "2", "--json").json

    assert [one["due_at"] for one in moved] == ["2031-01-01T10:00:00Z", "2031-01-01T10:15:00Z"]


@pytest.mark.parametrize("option", ["--every", "--timeout", "--jitter", "--retry-delay"])
def test_a_duration_that_could_mean_two_things_is_refused(edgecron: Edgecron, option: str) -> None:
    for text, why in (("1M", "1mo or 1m?"), ("2h2h", "names the unit h twice")):
        said = edgecron("add", "x", "--cron", "@daily", option, text, "--", "true")

        assert said.code == 2
        assert f"{option}: duration '{text}'" in said.err
        assert why in said.err
        assert ("or 30d for" in said.err) == (text == "1M")  # 1mo is no interval


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        (("--stall-action", "end"), "--stall-timeout"),
        (("--while-lost", "suspend"), "--while"),
        (("--needs-deadline", "2h"), "--needs"),
        (("--retry-delay", "1m"), "--retries"),
    ],
)
def test_an_option_without_the_one_that_it_needs_is_warned_of(
    edgecron: Edgecron, given: tuple[str, str], needed: str
) -> None:
    added = edgecron("add", "x", "--every", "1h", *given, "--", "true")
    edited = edgecron("edit", "x", *given)
    cleared = edgecron("edit", "x", given[0], "none")

    words = f"warning: {given[0]} has no effect without {needed}\n"
    assert added.code == edited.code == 0
    assert words in added.err
    assert words in edited.err
    assert words not in cleared.err


def test_next_finds_what_runs_at_an_hour(edgecron: Edgecron) -> None:
    edgecron("add", "night", "--cron", "0 3 * * *", "--", "true")
    edgecron("add", "noon", "--cron", "0 12 * * *", "--", "true")

    found = edgecron("next", "--filter", "due:3am", "--json").json
    none = edgecron("next", "--filter", "due:05")
    refused = edgecron("next", "--filter", "status:failed")
    both = edgecron("next", "night", "--filter", "due:03")

    assert {fire["schedule"] for fire in found} == {"night"}
    assert len(found) == 7
    assert "no upcoming run matches" in none.out + none.err
    assert (refused.code, both.code) == (2, 2)
    assert "does not apply to upcoming runs" in refused.err
