"""`import crontab`: all of a file or nothing, and parting from cron."""

from __future__ import annotations

import io
import os
import pwd
import stat
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from edgecron.base.values import replace
from edgecron.client import Client
from tests.support.cli import Edgecron
from tests.support.terminal import on_terminal, read_until

CRONTAB = """\
PATH=/usr/bin:/bin
# nightly backup
0 2 * * * /usr/bin/backup --all
@reboot echo up

*/5 * * * * cat%one%two
"""


@pytest.fixture
def crontab(tmp_path: Path) -> Path:
    path = tmp_path / "my.crontab"
    path.write_text(CRONTAB)
    path.chmod(0o640)
    return path


def test_every_line_becomes_a_schedule(edgecron: Edgecron, crontab: Path) -> None:
    said = edgecron("import", "crontab", str(crontab))

    assert said.code == 0
    found = {one["name"]: one for one in edgecron("list", "--json").json}
    assert list(found) == ["backup", "cat", "echo"]
    assert found["backup"]["triggers"] == ["0 2 * * *"]
    assert found["backup"]["description"] == "nightly backup"
    assert found["echo"]["triggers"] == ["on boot"]
    [cat] = edgecron("show", "cat", "--json", "--reveal").json
    assert cat["stdin"] == "one\ntwo\n"
    assert "imported 3 schedules" in said.err
    assert "cron still runs" in said.err
    assert "--comment-out" in said.err
    assert crontab.read_text() == CRONTAB


def test_a_second_import_adds_nothing(edgecron: Edgecron, crontab: Path) -> None:
    edgecron("import", "crontab", str(crontab))

    said = edgecron("import", "crontab", str(crontab))

    assert said.code == 0
    assert "nothing new" in said.err
    assert "already imported: backup, echo, cat" in said.err
    assert len(edgecron("list", "--json").json) == 3


@pytest.mark.failure(59)
def test_one_bad_line_keeps_everything_out(
    edgecron: Edgecron, crontab: Path, database: Path
) -> None:
    crontab.write_text(CRONTAB + "61 * * * * true\n* * * * \x1b[2J\n0 0 30 2 * never\n")

    said = edgecron("import", "crontab", str(crontab), "--comment-out")

    assert said.code == 2
    assert said.err.splitlines()[0].startswith("line 7: ")
    assert "line 9: " in said.err
    assert said.err.splitlines()[-2].startswith("error: nothing was imported")
    assert said.err.splitlines()[-1].startswith("hint: correct each problem")
    assert "\x1b" not in said.err
    assert not database.exists()
    assert "moved to edgecron" not in crontab.read_text()


@pytest.mark.failure(59)
def test_an_import_that_fails_half_way_leaves_nothing_of_it(
    edgecron: Edgecron, backup: str, crontab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The names were chosen when somebody else took one of them.
    import edgecron.cli.import_ as package

    real = package.find_new  # type: ignore[attr-defined]
    monkeypatch.setattr(package, "find_new", lambda entries, existing, taken: real(entries, []))

    said = edgecron("import", "crontab", str(crontab))

    assert said.code == 4
    assert [one["name"] for one in edgecron("list", "--json").json] == [backup]


def test_lines_are_commented_out_in_place(edgecron: Edgecron, crontab: Path) -> None:
    said = edgecron("import", "crontab", str(crontab), "--comment-out")

    assert said.code == 0
    lines = crontab.read_text().splitlines()
    assert lines[2] == "# moved to edgecron: 0 2 * * * /usr/bin/backup --all"
    assert lines[:2] == CRONTAB.splitlines()[:2]
    assert stat.S_IMODE(crontab.stat().st_mode) == 0o640
    left = [name for name in os.listdir(crontab.parent) if name.startswith(".edgecron")]
    assert left == []


def test_stdin_is_read_and_crontab_e_is_named(
    edgecron: Edgecron, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(CRONTAB.encode()), isatty=lambda: False)
    monkeypatch.setattr("sys.stdin", stdin)

    said = edgecron("import", "crontab", "-")

    assert said.code == 0
    assert "crontab -e" in said.err
    assert edgecron("import", "crontab", "-", "--comment-out").code == 2


def test_a_system_crontab_has_a_user_column(edgecron: Edgecron, tmp_path: Path) -> None:
    import pwd

    me = pwd.getpwuid(os.geteuid()).pw_name
    file = tmp_path / "system"
    file.write_text(f"17 * * * * {me} cd / && run-parts /etc/cron.hourly\n")

    said = edgecron("import", "crontab", str(file), "--system", "--json")

    [schedule] = said.json
    assert schedule["triggers"] == ["17 * * * *"]
    assert schedule["job"] == "cd / && run-parts /etc/cron.hourly"


@pytest.mark.failure(61)
def test_what_differs_from_cron_is_named_line_by_line(edgecron: Edgecron, tmp_path: Path) -> None:
    file = tmp_path / "mail"
    file.write_text("MAILFROM=me\n0 2 * * * true\n")

    said = edgecron("import", "crontab", str(file))

    assert said.code == 0
    assert "line 1: MAILFROM" in said.err


def test_the_rule_of_mailto_is_shown_until_the_configuration_has_it(
    edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, config = tmp_path / "mail", tmp_path / "config.toml"
    file.write_text("MAILTO=me\n0 2 * * * true\n")

    shown = edgecron("import", "crontab", str(file))
    config.write_text(
        shown.err[shown.err.index("[notify") : shown.err.index("needs_output = true")]
    )
    config.chmod(0o600)
    monkeypatch.setenv("EDGECRON_CONFIG", str(config))
    again = edgecron("import", "crontab", str(file))

    assert "edgecron does so with this rule in the configuration" in shown.err
    assert "MAILTO" not in again.err
    assert edgecron("show", "true", "--json").json[0]["notify"] == ["mailto-me"]


def test_a_second_import_adds_the_mailto_of_a_line(
    edgecron: Edgecron, database: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mail"
    file.write_text("0 2 * * * true\n")
    edgecron("import", "crontab", str(file))
    edgecron("edit", "true", "--notify", "chat")
    unchanged = edgecron("import", "crontab", str(file))
    edgecron("edit", "true", "--notify", "none")
    with Client(database) as client, client.store.transaction():  # As an older version wrote it.
        client.store.change(
            "UPDATE imported_entries SET imprint = json_remove(imprint, '$.notify')"
        )
    file.write_text("MAILTO=me\n0 2 * * * true\n")

    unasked = edgecron("import", "crontab", str(file))
    taken = edgecron("import", "crontab", str(file), "--take", "crontab")
    again = edgecron("import", "crontab", str(file))

    assert "changed" not in unchanged.out + unchanged.err
    assert unasked.code == 2
    assert "line 2, true, has changed since its import\n    in the crontab: notify" in unasked.out
    assert taken.code == 0
    assert edgecron("show", "true", "--json").json[0]["notify"] == ["mailto-me"]
    assert "changed" not in again.out


def test_a_changed_line_of_another_file_is_named_if_its_command_is_known(
    edgecron: Edgecron, crontab: Path, tmp_path: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    copied = tmp_path / "copied.crontab"
    copied.write_text(CRONTAB.replace("0 2 * * *", "0 3 * * *"))

    said = edgecron("import", "crontab", str(copied))

    assert "imported 1 schedule" in said.err
    assert "backup-2 runs the same command as backup" in said.err
    assert "edgecron rm backup" in said.err


def test_many_lines_with_a_known_command_are_named_once(edgecron: Edgecron, tmp_path: Path) -> None:
    file = tmp_path / "many.crontab"
    file.write_text("1 2 * * * backup\n2 2 * * * backup\n")
    edgecron("import", "crontab", str(file))
    other = tmp_path / "other.crontab"
    other.write_text("3 2 * * * backup\n4 2 * * * backup\n")

    said = edgecron("import", "crontab", str(other))

    [warning] = [line for line in said.err.splitlines() if "the same command" in line]
    assert "backup-3, backup-4 run the same command as backup, backup-2" in warning


def test_a_command_that_reads_other_input_is_not_the_same(
    edgecron: Edgecron, crontab: Path, tmp_path: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    other = tmp_path / "other.crontab"
    other.write_text("*/5 * * * * cat%three\n")

    said = edgecron("import", "crontab", str(other))

    assert "imported 1 schedule" in said.err
    assert "the same command" not in said.err


def test_a_missing_file_is_not_found(edgecron: Edgecron, tmp_path: Path) -> None:
    said = edgecron("import", "crontab", str(tmp_path / "none"))

    assert said.code == 3
    assert edgecron("import", "crontab", str(tmp_path)).code == 2


def test_an_empty_crontab_imports_nothing(edgecron: Edgecron, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# nothing\n")

    said = edgecron("import", "crontab", str(tmp_path / "empty"), "--json")

    assert (said.code, said.json) == (0, [])
    assert "nothing to import" in edgecron("import", "crontab", str(tmp_path / "empty")).err


def test_a_tab_in_a_line_that_is_refused_is_shown_as_a_blank(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    (tmp_path / "tabs").write_text("17 25\t* * *\techo\n")

    said = edgecron("import", "crontab", str(tmp_path / "tabs"))

    assert said.err.splitlines()[0].endswith(": 17 25 * * * echo")


def test_a_system_crontab_of_another_place_is_refused_with_what_to_add(
    edgecron: Edgecron, tmp_path: Path, database: Path
) -> None:
    file = tmp_path / "c1"
    file.write_text("17 * * * * root cd / && run-parts /etc/cron.hourly\n")

    said = edgecron("import", "crontab", str(file))
    both = edgecron("import", "crontab", str(file), "--system", "--user-format")

    assert said.code == both.code == 2
    assert "--system" in said.err
    assert "--user-format and --system are both given" in both.err
    assert not database.exists()
    assert edgecron("import", "crontab", str(file), "--user-format").code == 0
    [schedule] = edgecron("list", "--json").json
    assert schedule["job"] == "root cd / && run-parts /etc/cron.hourly"


def test_faults_are_part_of_the_error_as_json(edgecron: Edgecron, tmp_path: Path) -> None:
    file = tmp_path / "bad"
    file.write_text("MAILTO=me\n61 * * * * true\n0 0 * * *\n")

    said = edgecron("import", "crontab", str(file), "--json")

    assert (said.code, said.out) == (2, "")
    assert (
        said.error["hint"]
        == "correct each problem, or comment out its line with #; then import again"
    )
    problems = said.error["problems"]
    assert [problem["line"] for problem in problems] == [2, 3]
    assert list(problems[0]) == ["line", "text", "message", "hint"]
    assert problems[0]["text"] == "61 * * * * true"


def test_one_line_is_spoken_of_as_one(edgecron: Edgecron, tmp_path: Path) -> None:
    file = tmp_path / "one"
    file.write_text("0 2 * * * true\n")

    said = edgecron("import", "crontab", str(file))

    assert "cron still runs this line, too" in said.err
    assert "comment it out" in said.err


def test_a_folder_is_refused_in_words(edgecron: Edgecron, tmp_path: Path) -> None:
    said = edgecron("import", "crontab", str(tmp_path))

    assert said.err == (
        f"error: {str(tmp_path)!r} is a folder, expected a file\n"
        f"hint: see its files: ls -t {tmp_path}\n"
    )


def listed(edgecron: Edgecron) -> dict[str, dict[str, object]]:
    return {one["name"]: one for one in edgecron("list", "--json").json}


@pytest.mark.parametrize(
    "edit",
    [
        ("--env", "A=b"),
        ("--tz", "Asia/Tokyo"),
        ("--cron", "0 3 * * *"),
        ("--shell", "other"),
    ],
)
def test_a_schedule_that_was_edited_is_not_imported_twice(
    edgecron: Edgecron, crontab: Path, edit: tuple[str, ...]
) -> None:
    edgecron("import", "crontab", str(crontab))
    edgecron("edit", "backup", *edit)
    before = listed(edgecron)

    said = edgecron("import", "crontab", str(crontab))

    assert said.code == 0
    assert "changed in edgecron since the import, not replaced: backup" in said.err
    assert listed(edgecron) == before


def test_a_schedule_that_an_older_version_imported_is_known(
    edgecron: Edgecron, crontab: Path, database: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    edgecron("edit", "backup", "--env", "A=b")
    edgecron("rm", "cat")
    with apsw.Connection(str(database)) as connection:
        connection.execute("DELETE FROM imported_entries")

    said = edgecron("import", "crontab", str(crontab))

    assert "not replaced: backup (env)" in said.err
    assert "skipped, because you removed them since the import: cat" in said.err
    assert sorted(listed(edgecron)) == ["backup", "echo"]


def test_a_removed_schedule_stays_removed_unless_it_is_wanted_again(
    edgecron: Edgecron, crontab: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    edgecron("rm", "cat")

    left_out = edgecron("import", "crontab", str(crontab), "--comment-out")
    commented = crontab.read_text()
    crontab.write_text(CRONTAB)
    again = edgecron("import", "crontab", str(crontab), "--again")
    last = edgecron("import", "crontab", str(crontab))

    assert "cat (line 6); to import them: --again" in left_out.err
    assert "\n*/5 * * * * cat%one%two" in commented
    assert "# moved to edgecron: 0 2 * * *" in commented
    assert "imported 1 schedule" in again.err
    assert "already imported: backup, echo, cat" in last.err
    assert sorted(listed(edgecron)) == ["backup", "cat", "echo"]


def test_a_line_that_has_changed_is_shown_and_nothing_happens_unasked(
    edgecron: Edgecron, crontab: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    edgecron("edit", "backup", "--env", "A=b", "--timeout", "5m")
    before = listed(edgecron)
    crontab.write_text(CRONTAB.replace("0 2 * * *", "0 6 * * *") + "0 1 * * * extra\n")

    said = edgecron("import", "crontab", str(crontab))

    assert said.code == 2
    assert said.out.splitlines() == [
        "line 3, backup, has changed since its import",
        "    in the crontab: triggers; in edgecron: env",
        "    ~ cron: 0 2 * * * -> 0 6 * * *",
    ]
    assert "--take crontab changes the schedules, --take edgecron leaves them" in said.err
    assert listed(edgecron) == before


def test_the_crontab_s_side_changes_only_what_changed_there(
    edgecron: Edgecron, crontab: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    edgecron("edit", "backup", "--env", "A=b", "--timeout", "5m")
    crontab.write_text(CRONTAB.replace("0 2 * * *", "0 6 * * *"))

    said = edgecron("import", "crontab", str(crontab), "--take", "crontab")
    again = edgecron("import", "crontab", str(crontab))

    [backup] = edgecron("show", "backup", "--json", "--reveal").json
    assert "changed 1 schedule" in said.err
    assert backup["triggers"] == ["0 6 * * *"]
    assert backup["env"]["A"] == "b"
    assert backup["timeout_s"] == 300
    assert "nothing new to import" in again.err
    assert len(listed(edgecron)) == 3


def test_variables_that_a_person_added_or_changed_stay_unless_the_crontab_changes_them(
    edgecron: Edgecron, crontab: Path
) -> None:
    variables = "SAME=1\nEDITED=1\nDROPPED=1\nBOTH=1\n"
    crontab.write_text(variables + CRONTAB)
    edgecron("import", "crontab", str(crontab))
    edgecron("edit", "backup", "--env", "MINE=m", "--env", "NAMED=n", "--env", "EDITED=2",
             "--env", "BOTH=2")  # fmt: skip
    crontab.write_text("SAME=1\nEDITED=1\nNAMED=3\nBOTH=3\nNEW=3\n" + CRONTAB)

    shown = edgecron("import", "crontab", str(crontab), "--take", "crontab")
    again = edgecron("import", "crontab", str(crontab))

    [backup] = edgecron("show", "backup", "--json", "--reveal").json
    own = {name: backup["env"][name] for name in backup["env"] if name not in ("PATH", "SHELL")}
    assert own == {
        "SAME": "1", "EDITED": "2", "MINE": "m", "NAMED": "3", "BOTH": "3", "NEW": "3",
    }  # fmt: skip
    assert "MINE" not in shown.out
    assert "nothing new to import" in again.err


def test_a_line_that_is_no_longer_there_is_named_and_removed_on_request(
    edgecron: Edgecron, crontab: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    crontab.write_text(CRONTAB.replace("@reboot echo up\n", ""))

    named = edgecron("import", "crontab", str(crontab))
    still_there = sorted(listed(edgecron))
    pruned = edgecron("import", "crontab", str(crontab), "--prune")
    last = edgecron("import", "crontab", str(crontab))

    assert f"no longer in {crontab}: echo; remove it with --prune, or edgecron" in named.err
    assert still_there == ["backup", "cat", "echo"]
    assert "removed echo; its history stays; restore it: edgecron" in pruned.out
    assert sorted(listed(edgecron)) == ["backup", "cat"]
    assert "no longer" not in last.err
    assert edgecron("undo", "echo").code == 0


def test_a_line_that_an_import_commented_out_is_still_there(
    edgecron: Edgecron, crontab: Path
) -> None:
    edgecron("import", "crontab", str(crontab), "--comment-out")

    said = edgecron("import", "crontab", str(crontab), "--prune")

    assert "no longer" not in said.err
    assert sorted(listed(edgecron)) == ["backup", "cat", "echo"]


def test_schedules_that_came_from_elsewhere_are_not_of_this_crontab(
    edgecron: Edgecron, crontab: Path, tmp_path: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    edgecron("add", "own", "--every", "1h", "--", "true")
    other = tmp_path / "other.crontab"
    other.write_text("0 7 * * * other\n")

    said = edgecron("import", "crontab", str(other), "--prune")

    assert "no longer" not in said.err
    assert sorted(listed(edgecron)) == ["backup", "cat", "echo", "other", "own"]


def test_an_empty_crontab_removes_nothing_without_consent(
    edgecron: Edgecron, crontab: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    crontab.write_text("")

    said = edgecron("import", "crontab", str(crontab), "--prune")

    assert said.code == 2
    assert "--prune would remove 3 schedules" in said.err
    assert sorted(listed(edgecron)) == ["backup", "cat", "echo"]


def test_edgecron_s_side_is_asked_about_once(edgecron: Edgecron, crontab: Path) -> None:
    edgecron("import", "crontab", str(crontab))
    crontab.write_text(CRONTAB.replace("--all", "--some"))

    said = edgecron("import", "crontab", str(crontab), "--take", "edgecron")
    again = edgecron("import", "crontab", str(crontab))

    assert said.code == again.code == 0
    assert "--all" in str(listed(edgecron)["backup"]["job"])
    assert "changed in edgecron since the import, not replaced: backup (command)" in again.err


def test_a_person_at_a_terminal_is_asked_about_each_line(
    edgecron: Edgecron, crontab: Path, database: Path
) -> None:
    edgecron("import", "crontab", str(crontab))
    crontab.write_text(CRONTAB.replace("0 2 * * *", "0 6 * * *"))

    with on_terminal(dict(os.environ), "import", "crontab", str(crontab)) as outer:
        read_until(outer, "change the schedule as shown? [y/N] ")
        os.write(outer, b"y\n")
        read_until(outer, "[y/N] ")
        os.write(outer, b"n\n")
        read_until(outer, None)

    assert listed(edgecron)["backup"]["triggers"] == ["0 6 * * *"]


def test_a_renamed_schedule_is_still_that_of_its_line(edgecron: Edgecron, crontab: Path) -> None:
    edgecron("import", "crontab", str(crontab))
    with Client() as client:
        client.edit("backup", lambda spec: replace(spec, name="nightly"))

    said = edgecron("import", "crontab", str(crontab))

    assert "already imported: nightly, echo, cat" in said.err
    assert len(listed(edgecron)) == 3


def test_options_may_stand_between_the_words(edgecron: Edgecron, tmp_path: Path) -> None:
    path = tmp_path / "crontab"
    path.write_text(f"0 1 * * * {pwd.getpwuid(os.getuid()).pw_name} backup\n")

    said = edgecron("import", "crontab", "--system", str(path))

    assert said.code == 0, said.err
    assert list(listed(edgecron)) == ["backup"]


def test_an_anacrontab_is_imported_under_its_own_names(edgecron: Edgecron, tmp_path: Path) -> None:
    path = tmp_path / "anacrontab"
    path.write_text(
        "START_HOURS_RANGE=3-22\nRANDOM_DELAY=45\nPATH=/bin\n"
        "1 5 cron.daily run-parts /etc/cron.daily\n"
        "7\t70\tcron.weekly\trun-parts /etc/cron.weekly\n"
        "@monthly 15 cron.monthly run-parts /etc/cron.monthly\n"
        "3 20 often printf %d 1\n"
    )

    said = edgecron("import", "anacrontab", str(path))
    again = edgecron("import", "anacrontab", str(path))

    assert said.code == 0, said.err
    found = listed(edgecron)
    assert {name: one["triggers"] for name, one in found.items()} == {
        "cron.daily": ["5 3 * * *"],
        "cron.weekly": ["10 4 * * 0"],
        "cron.monthly": ["15 3 1 * *"],
        "often": ["every 3d"],
    }
    assert found["cron.daily"]["jitter_s"] == 45 * 60
    assert found["often"]["job"] == "printf %d 1"
    assert "nothing new to import" in again.err


def test_what_an_anacrontab_can_not_mean_is_refused(edgecron: Edgecron, tmp_path: Path) -> None:
    path = tmp_path / "anacrontab"
    path.write_text("0 5 a true\n1 soon b true\n1 5 c\nSTART_HOURS_RANGE=22-3\n1 1440 d true\n")

    said = edgecron("import", "anacrontab", str(path))

    assert said.code == 2
    for line, why in enumerate(
        ("period is '0'", "delay is 'soon'", "neither", "START", "next day"), 1
    ):
        assert f"line {line}: " in said.err
        assert why in said.err
