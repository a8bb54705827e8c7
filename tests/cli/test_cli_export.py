"""`export`: schedules as a TOML file."""

from __future__ import annotations

import os
import stat
import subprocess
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from edgecron.base.units import format_instant
from edgecron.model.options import Policies
from tests.support.cli import Edgecron
from tests.support.places import small_disk
from tests.support.program import PROGRAM
from tests.support.story import Story


def test_schedules_are_written_as_toml(edgecron: Edgecron, backup: str) -> None:
    words = ("--cron", "30 2 * * *", "--timeout", "2h", "--tz", "Europe/Berlin", "--env", "A=b c")
    edgecron("add", "sync", *words, "--group", "disk:2", "--", "/usr/bin/rsync", "-a b")

    said = edgecron("export")

    assert said.code == 0
    assert tomllib.loads(said.out) == {
        "schedules": {
            "backup": {"every": "1h", "shell": "echo good; echo bad >&2"},
            "sync": {
                "cron": "30 2 * * *",
                "timezone": "Europe/Berlin",
                "command": ["/usr/bin/rsync", "-a b"],
                "env": {"A": "b c"},
                "timeout": "2h",
                "group": "disk:2",
            },
        }
    }


def test_what_is_exported_can_be_applied_to_an_empty_database(
    edgecron: Edgecron, story: Story, tmp_path: Path
) -> None:
    soon = story.client.now() + timedelta(hours=1)
    story.add("base", "every 1h")
    story.add("once", f"at {format_instant(soon)}")
    story.add("follow", "after base")
    story.add("needy", "every 1h", policies=Policies(needs=("success:base:2h",)))
    story.add("grid", "every 15m", from_at=soon)
    story.client.remove("base")
    exported = edgecron("--db", story.client.place, "export")
    copy = tmp_path / "copy.toml"
    copy.write_text(exported.out)

    applied = edgecron("apply", str(copy), "--json")

    assert applied.code == 0, applied.err
    notes = {step["name"]: step["note"] for step in applied.json}
    assert "runs after 'base', and there is no schedule with that name" in notes["follow"]
    assert "there is no schedule 'base'" in notes["needy"]
    assert notes["once"] == "its times have passed: it does not run again"
    assert notes["grid"] is None
    found = {one["name"]: one for one in edgecron("list", "--json").json}
    assert found["once"]["next_run_at"] is None
    assert found["once"]["enabled"] is True
    assert edgecron("export").out == exported.out
    assert edgecron("apply", str(copy)).out == ""


@pytest.mark.failure(51)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_has_no_room_for_all_of_it_is_a_failure(
    edgecron: Edgecron, database: Path, tmp_path: Path, unbuffered: str
) -> None:
    edgecron("add", "large", "--every", "1h", "--stdin", "much " * 8_000, "--", "cat")

    with small_disk(tmp_path / "disk", kib=16) as disk, (disk / "all.toml").open("wb") as file:
        done = subprocess.run(
            [*PROGRAM, "--db", str(database), "export"],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )

    assert done.returncode == 1
    assert "no space left on device" in done.stderr


def test_only_those_that_are_named_are_written(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "sync", "--every", "1h", "--", "true")

    said = edgecron("export", "sync")

    assert list(tomllib.loads(said.out)["schedules"]) == ["sync"]
    assert edgecron("export", "syn").code == 3


def test_a_file_is_written_whole_and_for_its_owner_alone(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    file = tmp_path / "out.toml"

    said = edgecron("export", "-o", str(file))

    assert (said.code, said.out) == (0, "")
    assert "wrote 1 schedule to" in said.err
    assert file.read_text() == edgecron("export").out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob(".edgecron-*")] == []


def test_a_file_keeps_its_mode(edgecron: Edgecron, backup: str, tmp_path: Path) -> None:
    file = tmp_path / "out.toml"
    file.write_text("old")
    file.chmod(0o644)

    edgecron("export", "--output", str(file))

    assert "backup" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


def test_a_file_that_can_t_be_written_is_named(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    said = edgecron("export", "-o", str(tmp_path / "missing" / "out.toml"))

    assert said.code == 2
    assert "can't be written: its folder does not exist" in said.err


def test_nothing_is_exported_of_no_database(edgecron: Edgecron, database: Path) -> None:
    said = edgecron("export")

    assert (said.code, said.out) == (3, "")
    assert f"database {database} does not exist" in said.err
    assert not database.exists()


def test_json_has_the_same_keys(edgecron: Edgecron, backup: str) -> None:
    said = edgecron("export", "--json")

    assert said.json == [{"name": backup, "every": "1h", "shell": "echo good; echo bad >&2"}]


def test_a_pause_without_end_is_written(edgecron: Edgecron, backup: str) -> None:
    edgecron("pause", backup)

    said = edgecron("export")

    assert tomllib.loads(said.out)["schedules"][backup]["enabled"] is False


@pytest.mark.failure(65)
def test_a_secret_in_a_variable_is_warned_of(edgecron: Edgecron) -> None:
    edgecron("add", "x", "--every", "1h", "--env", "API_TOKEN=hunter2", "--", "true")

    said = edgecron("export")

    assert "the export contains API_TOKEN in plain text" in said.err
    assert "hunter2" not in said.err


def test_text_that_a_terminal_would_obey_is_escaped(edgecron: Edgecron) -> None:
    edgecron("add", "x", "--every", "1h", "--shell", "echo '\x1b[2J'\n\techo \u202e")

    said = edgecron("export")

    assert said.out.replace("\n", "").isprintable()
    shell = tomllib.loads(said.out)["schedules"]["x"]["shell"]
    assert shell == "echo '\x1b[2J'\n\techo \u202e"


def test_a_crontab_is_written_as_far_as_cron_can_do_it(edgecron: Edgecron, backup: str) -> None:
    edgecron("add", "sync", "--cron", "30 2 * * *", "--", "/usr/bin/rsync", "-a b")

    said = edgecron("export", "--crontab")

    assert said.code == 0
    assert (
        "# edgecron: backup\n# edgecron: not exported: 'every 1h' is not a time that cron knows\n"
        in said.out
    )
    assert "\n30 2 * * * /usr/bin/rsync '-a b'\n" in said.out


def test_a_crontab_is_no_json(edgecron: Edgecron, backup: str) -> None:
    assert edgecron("export", "--crontab", "--json").code == 2


def test_a_schedule_that_may_be_fast_can_be_edited_and_applied_elsewhere(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    file = tmp_path / "schedules.toml"
    edgecron("add", "x", "--every", "250ms", "--allow-fast", "--", "true")

    edited = edgecron("edit", "x", "--timeout", "5s")
    file.write_text(edgecron("export").out)
    applied = edgecron("--db", str(tmp_path / "other.db"), "apply", str(file))

    assert edited.code == 0
    assert "allow_fast = true" in file.read_text()
    assert applied.code == 0
    elsewhere = edgecron("--db", str(tmp_path / "other.db"), "list", "--json").json
    assert elsewhere[0]["triggers"] == ["every 250ms"]
