"""`apply`: schedules as a file says, all of it or nothing."""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from edgecron.cli import run
from edgecron.client import Client
from tests.support.cli import Edgecron, Said
from tests.support.specs import make_spec
from tests.support.story import Story
from tests.support.terminal import on_terminal, read_until

TWO = """\
[schedules.backup]
cron = "30 2 * * *"
command = ["/usr/bin/tar", "czf", "/srv/home.tgz"]
timeout = "2h"

[schedules.report]
after = "backup"
shell = "date"
"""


class File:
    """A file of schedules."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def write(self, text: str) -> None:
        self.path.write_text(text)


@pytest.fixture
def file(tmp_path: Path) -> File:
    file = File(tmp_path / "schedules.toml")
    file.write(TWO)
    return file


def listed(edgecron: Edgecron) -> dict[str, dict[str, object]]:
    return {one["name"]: one for one in edgecron("list", "--json").json}


def actions(said: Said) -> dict[str, str]:
    return {step["name"]: step["action"] for step in said.json}


def test_what_the_file_has_is_made(edgecron: Edgecron, file: File) -> None:
    said = edgecron("apply", str(file))

    assert said.code == 0
    assert said.out.splitlines() == [
        "+ create backup",
        "    + cron: 30 2 * * *",
        '    + command: ["/usr/bin/tar", "czf", "/srv/home.tgz"]',
        "    + timeout: 2h",
        "+ create report",
        "    + after: backup",
        "    + shell: date",
    ]
    assert said.err.splitlines()[:2] == ["2 to create", "done"]
    found = listed(edgecron)
    assert found["backup"]["timeout_s"] == 7200
    assert found["backup"]["timezone"] == "local"
    assert found["report"]["triggers"] == ["after backup"]


def test_a_second_time_changes_nothing(edgecron: Edgecron, file: File) -> None:
    edgecron("apply", str(file))
    before = listed(edgecron)

    said = edgecron("apply", str(file))

    assert (said.code, said.out, said.err) == (0, "", "2 unchanged\n")
    assert listed(edgecron) == before


def test_a_change_is_shown_field_by_field(edgecron: Edgecron, file: File) -> None:
    edgecron("apply", str(file))
    file.write(TWO.replace('timeout = "2h"', 'retries = 3\nenv.A = "x y"\nok_codes = [0, 2]'))

    said = edgecron("apply", str(file))

    assert said.out.splitlines() == [
        "~ change backup",
        "    + env.A: none -> x y",
        "    - timeout: 2h -> none",
        "    ~ retries: 0 -> 3",
        "    ~ ok_codes: [0] -> [0, 2]",
    ]
    found = listed(edgecron)["backup"]
    assert (found["timeout_s"], found["retries"]) == (None, 3)


def test_a_dry_run_writes_nothing(edgecron: Edgecron, file: File, database: Path) -> None:
    said = edgecron("apply", str(file), "--dry-run")

    assert said.code == 0
    assert "+ create backup" in said.out
    assert not database.exists()


def test_a_dry_run_leaves_what_there_is(edgecron: Edgecron, file: File) -> None:
    edgecron("apply", str(file))
    before = listed(edgecron)
    file.write(TWO.replace("2h", "3h"))

    said = edgecron("apply", str(file), "--dry-run", "--json")

    assert said.code == 0
    assert said.json == [
        {
            "name": "backup",
            "action": "change",
            "changes": [{"field": "timeout", "old": "2h", "new": "3h"}],
            "note": None,
        },
        {"name": "report", "action": "keep", "changes": [], "note": None},
    ]
    assert listed(edgecron) == before


def test_other_edits_do_not_move_the_next_time(edgecron: Edgecron, file: File) -> None:
    file.write('[schedules.x]\nevery = "15m"\nshell = "date"\n')
    edgecron("apply", str(file))
    edgecron("reschedule", "x", "in 3h")
    before = listed(edgecron)["x"]
    file.write('[schedules.x]\nevery = ["15m"]\nshell = "date -u"\ntimezone = "local"\n')

    edgecron("apply", str(file))

    after = listed(edgecron)["x"]
    assert after["job"] == "date -u"
    assert after["next_run_at"] == before["next_run_at"]
    assert after["next_plan_at"] == before["next_plan_at"]


def test_a_pause_is_left_as_it_is_where_the_file_does_not_say(
    edgecron: Edgecron, file: File
) -> None:
    edgecron("apply", str(file))
    edgecron("pause", "backup")
    file.write(TWO.replace("2h", "3h"))

    edgecron("apply", str(file))

    found = listed(edgecron)["backup"]
    assert (found["enabled"], found["timeout_s"]) == (False, 10_800)


def test_enabled_in_the_file_pauses_and_resumes(edgecron: Edgecron, file: File) -> None:
    table = '[schedules.x]\nevery = "1h"\nshell = "date"\nenabled = {}\n'
    states = []
    for value in ("false", "true", "false"):
        file.write(table.format(value))
        said = edgecron("apply", str(file))
        states.append((said.code, listed(edgecron)["x"]))

    assert [(code, one["enabled"]) for code, one in states] == [(0, False), (0, True), (0, False)]
    assert [one["next_run_at"] is None for _, one in states] == [True, False, True]


def test_enabled_and_new_times_come_together(edgecron: Edgecron, file: File) -> None:
    file.write('[schedules.x]\nevery = "1h"\nshell = "date"\nenabled = false\n')
    edgecron("apply", str(file))
    file.write('[schedules.x]\nat = "2999-01-01T00:00:00Z"\nshell = "date"\nenabled = true\n')

    said = edgecron("apply", str(file))

    assert said.code == 0
    found = listed(edgecron)["x"]
    assert (found["enabled"], found["next_plan_at"]) == (True, "2999-01-01T00:00:00Z")


def test_a_group_s_limit_is_set(edgecron: Edgecron, file: File) -> None:
    file.write('[schedules.x]\nevery = "1h"\nshell = "date"\ngroup = "disk:2"\n')

    edgecron("apply", str(file))

    assert listed(edgecron)["x"]["group_max_running"] == 2
    file.write('[schedules.x]\nevery = "1h"\nshell = "date"\ngroup = "disk:none"\n')
    said = edgecron("apply", str(file))
    assert "    ~ group: disk:2 -> disk" in said.out
    assert listed(edgecron)["x"]["group_max_running"] is None


def test_prune_removes_what_the_file_has_made_and_nothing_else(
    edgecron: Edgecron, file: File, backup: str, tmp_path: Path
) -> None:
    edgecron("rm", backup)
    edgecron("apply", str(file))
    edgecron("add", "by-hand", "--every", "1h", "--", "true")
    other = File(tmp_path / "other.toml")
    other.write('[schedules.elsewhere]\nevery = "1h"\nshell = "date"\n')
    edgecron("apply", str(other))
    file.write(TWO[: TWO.index("[schedules.report]")])

    left = edgecron("apply", str(file))
    pruned = edgecron("apply", str(file), "--prune")

    assert left.out == "  left alone: report (no longer in the file; --prune removes it)\n"
    assert left.err == "1 unchanged, 3 not in the file\n"
    assert pruned.out.splitlines() == [
        "- remove report",
        "    - after: backup",
        "    - shell: date",
        "  left alone: by-hand (not made by apply)",
        f"  left alone: elsewhere (it came from {other})",
    ]
    assert sorted(listed(edgecron)) == ["backup", "by-hand", "elsewhere"]


def test_what_a_person_has_edited_since_is_not_pruned(edgecron: Edgecron, file: File) -> None:
    edgecron("apply", str(file))
    edgecron("edit", "report", "--timeout", "1h")
    edgecron("pause", "backup")
    file.write('[schedules.x]\nevery = "1h"\nshell = "date"\n')

    said = edgecron("apply", str(file), "--prune", "--json")

    # Its words are those of the file, a pause or not; but the other comes after it.
    assert said.code == 1
    assert "other schedules follow or need 'backup': report" in said.err
    assert sorted(listed(edgecron)) == ["backup", "report"]
    edgecron("rm", "report")
    said = edgecron("apply", str(file), "--prune", "--json")
    assert actions(said) == {"x": "create", "backup": "remove"}


def test_an_empty_file_prunes_nothing_unasked(edgecron: Edgecron, file: File) -> None:
    edgecron("apply", str(file))
    file.write("")

    said = edgecron("apply", str(file), "--prune")

    assert said.code == 2
    assert "--prune would remove 2 schedules" in said.err
    assert "edgecron rm backup report" in said.err
    assert sorted(listed(edgecron)) == ["backup", "report"]


@pytest.mark.parametrize(("answer", "left"), [("y", []), ("n", ["backup", "report"])])
def test_an_empty_file_prunes_when_a_person_says_yes(
    edgecron: Edgecron, file: File, answer: str, left: list[str]
) -> None:
    edgecron("apply", str(file))
    file.write("# nothing\n")

    with on_terminal(dict(os.environ), "apply", str(file), "--prune") as outer:
        read_until(outer, "remove 2 schedules? [y/N] ")
        os.write(outer, f"{answer}\n".encode())
        read_until(outer, None)

    assert sorted(listed(edgecron)) == left


@pytest.mark.failure(59)
def test_everything_wrong_is_told_and_nothing_of_the_file_is_taken(
    edgecron: Edgecron, file: File, database: Path
) -> None:
    file.write(TWO + 'timout = "1h"\n[schedules.y]\nevery = "5 parsecs"\n')

    said = edgecron("apply", str(file))

    assert said.code == 2
    assert said.err.splitlines() == [
        "line 9: schedule 'report': key 'timout' is unknown (did you mean timeout?)",
        (
            "line 10: schedule 'y': the command is missing, expected one of command and shell"
            ' (such as: command = ["/usr/bin/rsync", "-a", "/home", "/srv"])'
        ),
        (
            "line 11: schedule 'y': every: duration '5 parsecs' is not understood"
            " (write a number and a unit, such as 90s, 15m, 6h, 2d or 1h30m)"
        ),
        "error: 3 errors in the schedules, and nothing was applied",
    ]
    assert not database.exists()


@pytest.mark.failure(59)
def test_what_only_the_database_refuses_is_told_alike(edgecron: Edgecron, file: File) -> None:
    file.write(
        TWO
        + '[schedules.y]\nafter = ["backup", "backup"]\nshell = "date"\n'
        + '[schedules.z]\nafter = "z"\nshell = "date"\n'
    )

    said = edgecron("apply", str(file), "--json")

    assert said.code == 2
    assert [(one["line"], one["schedule"], one["message"]) for one in said.error["problems"]] == [
        (9, "y", "schedule 'y' names the same time twice"),
        (12, "z", "schedule 'z' runs after itself"),
    ]
    assert listed(edgecron) == {}


@pytest.mark.failure(59)
def test_an_apply_that_fails_half_way_leaves_nothing_of_it(
    edgecron: Edgecron, file: File, database: Path
) -> None:
    edgecron("apply", str(file))
    before = listed(edgecron)
    document = TWO.replace("2h", "3h") + '[schedules.late]\nevery = "1h"\nshell = "date"\n'
    with Client(database) as client:
        from edgecron.formats.document import read_document

        steps = client.plan_document(read_document(document.encode()), origin="apply x")
        edgecron("add", "late", "--every", "1d", "--", "true")

        with pytest.raises(Exception, match="'late' exists already"):
            client.apply(steps, origin="apply x")

    after = listed(edgecron)
    assert after.pop("late")["triggers"] == ["every 1d"]
    assert after == before


def test_a_plan_is_not_carried_out_over_another_change(
    edgecron: Edgecron, file: File, database: Path
) -> None:
    edgecron("apply", str(file))
    with Client(database) as client:
        from edgecron.formats.document import read_document

        document = read_document(TWO.replace("2h", "3h").encode())
        steps = client.plan_document(document, origin="apply x")
        edgecron("edit", "backup", "--retries", "1")

        with pytest.raises(Exception, match="in the meantime; nothing was applied"):
            client.apply(steps, origin="apply x")

    assert listed(edgecron)["backup"]["timeout_s"] == 7200


def test_schedules_of_a_file_may_name_each_other_in_any_order(
    edgecron: Edgecron, file: File
) -> None:
    file.write(
        '[schedules.a]\nafter = "b"\nneeds = "success:b"\nshell = "date"\n'
        '[schedules.b]\nevery = "1h"\nshell = "date"\n'
    )

    assert edgecron("apply", str(file)).code == 0

    file.write('[schedules.a]\nafter = "b"\nshell = "date"\n[schedules.b]\nafter = "a"\nshell="x"')
    circle = edgecron("apply", str(file))
    assert circle.code == 2
    assert "would run after itself" in circle.err
    assert "remove one of these after" in circle.err


def test_stdin_is_read(edgecron: Edgecron, backup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = edgecron("export").out.replace("1h", "2h")
    stdin = SimpleNamespace(buffer=io.BytesIO(text.encode()), isatty=lambda: False)
    monkeypatch.setattr("sys.stdin", stdin)

    said = edgecron("apply", "-")

    assert "    ~ every: 1h -> 2h" in said.out
    assert listed(edgecron)[backup]["triggers"] == ["every 2h"]


def test_a_file_that_can_t_be_read_is_named(edgecron: Edgecron, tmp_path: Path) -> None:
    assert edgecron("apply", str(tmp_path / "none.toml")).code == 3
    folder = edgecron("apply", str(tmp_path))
    assert folder.code == 2
    assert "is a folder, expected a file" in folder.err


@pytest.mark.failure(65)
def test_a_plan_shows_no_secrets(edgecron: Edgecron, file: File) -> None:
    table = '[schedules.x]\nevery = "1h"\nshell = "date"\nenv.API_TOKEN = "{}"\n'
    file.write(table.format("hunter2"))
    first = edgecron("apply", str(file))
    file.write(table.format("hunter3"))

    second = edgecron("apply", str(file))

    assert "    ~ env.API_TOKEN: changed (hidden)" in second.out
    assert "the database stores API_TOKEN in plain text" in second.err
    assert "hunter" not in first.out + first.err + second.out + second.err


def test_what_a_crontab_made_is_exported_and_applied_unchanged(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    crontab = tmp_path / "my.crontab"
    crontab.write_text("MY-VAR=x y\n# nightly\n0 2 * * * backup --all%one%two\n@reboot echo up\n")
    edgecron("import", "crontab", str(crontab))
    before = listed(edgecron)
    file = tmp_path / "out.toml"
    edgecron("export", "-o", str(file))

    said = edgecron("apply", str(file))

    assert said.err == "2 unchanged\n"
    assert listed(edgecron) == before


def test_of_many_that_are_left_alone_some_are_named(edgecron: Edgecron, file: File) -> None:
    with Client(os.environ["EDGECRON_DB"]) as client:
        client.add_all([make_spec(f"n{number}", "every 1h") for number in range(25)])

    said = edgecron("apply", str(file), "--prune", "--dry-run")

    assert said.out.count("not made by apply") == 20
    assert "  left alone: 5 more, see --json" in said.out


def test_a_plan_holds_while_times_are_decided(
    edgecron: Edgecron, file: File, database: Path
) -> None:
    # An engine fires between plan and transaction: nobody changed the schedule.
    file.write('[schedules.x]\nevery = "1s"\nshell = "date"\n')
    edgecron("apply", str(file))
    with Client(database) as client:
        from edgecron.formats.document import read_document

        document = read_document(b'[schedules.x]\nevery = "1h"\nshell = "date"\n')
        steps = client.plan_document(document, origin="apply x")
        connection = apsw.Connection(str(database))
        connection.execute("UPDATE schedules SET decided_until = decided_until + 1000")
        connection.close()

        [changed] = client.apply(steps, origin="apply x")

    assert changed.spec.triggers == ("every 1h",)


def test_relative_times_in_a_file_count_from_the_apply(edgecron: Edgecron, file: File) -> None:
    file.write(
        '[schedules.soon]\nat = "in 20m"\ncommand = ["true"]\n'
        '[schedules.later]\nat = "at tomorrow 09:00"\ncommand = ["true"]\n'
        '[schedules.grid]\nevery = "15m"\nfrom = "tomorrow 09:00"\ncommand = ["true"]\n'
    )

    said = edgecron("apply", str(file))

    assert said.code == 0, said.err
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    found = listed(edgecron)
    assert found["later"]["next_plan_at"] == f"{tomorrow}T09:00:00Z"
    assert found["grid"]["next_plan_at"] == f"{tomorrow}T09:00:00Z"
    assert str(found["soon"]["next_plan_at"]) > datetime.now(UTC).isoformat()


def test_a_misspelt_upstream_is_named_in_the_plan(edgecron: Edgecron, file: File) -> None:
    file.write(TWO.replace('after = "backup"', 'after = "bakcup"'))

    steps = {step["name"]: step for step in edgecron("apply", str(file), "--json").json}

    assert steps["report"]["note"] == (
        "schedule 'report' runs after 'bakcup', and there is no schedule with that name"
        " (did you mean 'backup'?)"
    )
    assert steps["backup"]["note"] is None


def test_a_secret_that_a_document_removes_is_said_to_stay_in_the_database(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    path = tmp_path / "s.toml"
    head = '[schedules.upload]\nevery = "1h"\ncommand = ["true"]\n'
    path.write_text(head + 'env = {TOKEN = "s3cret"}\n')
    made = edgecron("apply", str(path))
    path.write_text(head)

    said = edgecron("apply", str(path))

    assert (made.code, said.code) == (0, 0)
    assert "keeps the former" not in made.err
    assert "note: the database keeps the former env.TOKEN for runs that started with it" in said.err
    assert "edgecron prune --forget upload" in said.err


def test_a_window_that_is_shorter_than_past_runs_is_named(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story.add("backup", "0 21 * * *", lasts_s=7200)
    story.after_s(3600)
    story.after_s(7201)
    file = tmp_path / "schedules.toml"
    file.write_text(
        '[schedules.backup]\ncron = "0 21 * * *"\ncommand = ["job", "7200", "0"]\n'
        'timezone = "UTC"\nbetween = "21:00-22:00"\n'
    )
    database = ("--db", str(story.client.path))

    run(["apply", str(file), *database])
    applied = capsys.readouterr().err
    run(["edit", "backup", "--between", "21:00-22:30", *database])
    edited = capsys.readouterr().err
    run(["edit", "backup", "--between", "21:00-23:30", *database])

    assert "schedule backup: its runs usually take 2h, but a window closes 1h after" in applied
    assert "a window closes 1h30m after the first run starts" in edited
    assert "a window closes" not in capsys.readouterr().err
