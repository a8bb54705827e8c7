"""Root's engine: who else could decide what it runs, and whom it runs things as."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import edgecron as package
from edgecron.base.errors import InvalidInput
from edgecron.formats.document_schedule import read_table
from edgecron.formats.option_texts import read_user
from tests.support.accounts import as_root
from tests.support.cli import Edgecron

NOBODY = pwd.getpwnam("nobody").pw_uid


@as_root
@pytest.mark.failure(63)
def test_root_s_engine_refuses_a_database_that_others_can_replace(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    database.parent.chmod(0o777)

    ran = edgecron("run", backup, "--wait")
    looked = edgecron("doctor")
    database.parent.chmod(0o700)
    again = edgecron("run", backup, "--wait")

    assert (ran.code, ran.out) == (125, "")
    assert (
        f"database {database} can be changed by other users: {database.parent} has mode 0777"
        in ran.err
    )
    assert f"chmod go-w {database.parent}" in ran.err
    assert looked.code == 1
    assert "other users decide what root runs, so no engine of root starts" in looked.out
    assert f"chmod go-w {database.parent}" in looked.out
    assert again.code == 0


@as_root
def test_root_s_engine_refuses_a_database_in_a_folder_of_another_user(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    os.chown(database.parent, NOBODY, -1)

    ran = edgecron("run", backup, "--wait")
    listed = edgecron("list")
    looked = edgecron("doctor")
    os.chown(database.parent, 0, -1)

    advice = f"move the database to a folder of root, or give it to user {NOBODY}"
    assert ran.code == 125
    assert f"{database.parent} belongs to user {NOBODY}, expected root" in ran.err
    assert advice in ran.err
    assert advice in looked.out
    assert listed.code == 0  # to look is no harm


@as_root
def test_doctor_advises_only_the_owner_s_engine_for_a_database_of_another_user(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    for path in (database.parent, database):
        os.chown(path, NOBODY, -1)

    looked = edgecron("doctor")
    os.chown(database.parent, 0, -1)

    assert looked.code == 0
    assert f"start one: sudo -u nobody edgecron --db {database} daemon" in looked.out
    assert "of root" not in looked.out


@as_root
def test_root_reads_no_settings_from_a_folder_of_another_user(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    config = folder / "config.toml"
    config.write_text("")
    os.chown(folder, NOBODY, -1)

    said = edgecron("--config", str(config), "list")

    assert said.code == 2
    assert f"can be changed by other users: {folder} belongs to user {NOBODY}" in said.err


@as_root
def test_a_job_runs_as_the_user_it_is_for_and_leaves_a_result(
    edgecron: Edgecron, database: Path
) -> None:
    line = 'id -un; echo $HOME $LOGNAME $SHELL; pwd; umask; echo 7 >"$EDGECRON_RESULT"'
    added = edgecron("add", "theirs", "--every", "1h", "--user", "nobody", "--shell", line)

    ran = edgecron("run", "theirs", "--wait")

    home = pwd.getpwnam("nobody").pw_dir
    folder = home if os.path.isdir(home) else "/"
    assert (added.code, ran.code) == (0, 0)
    assert ran.out == f"nobody\n{home} nobody /bin/sh\n{folder}\n0022\n"
    assert edgecron("logs", "--result", "theirs").out.strip() == "7"


def test_only_root_may_add_a_schedule_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)

    with pytest.raises(InvalidInput, match="only root can run a schedule as another user") as told:
        read_user("nobody", "--user")

    assert told.value.hint == "add it as root, and run the engine as root"


@pytest.mark.parametrize("name", ["0", "65534", "no-such-user", ""])
def test_a_user_is_given_by_name(name: str) -> None:
    with pytest.raises(InvalidInput, match="is unknown on this machine"):
        read_user(name, "--user")


def test_a_function_runs_as_its_program_does_and_as_nobody_else() -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    table = {"callable": "report", "queue": "py:app", "every": "1h", "user": name}

    wanted, problems = read_table("report", table)

    assert wanted is None
    assert [problem.message for problem in problems] == [
        "user is only for commands, and the job is a function of a program"
    ]


def test_nothing_of_edgecron_is_set_user_id() -> None:
    root = Path(package.__file__).parent
    borrowed = [
        path
        for path in root.rglob("*")
        if path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID) and not path.is_dir()
    ]

    assert borrowed == []


@as_root
def test_who_makes_it_set_user_id_all_the_same_gets_nothing_of_it() -> None:
    script = (
        f"import os, sys; os.setresuid({NOBODY}, 0, 0); sys.argv = ['edgecron', 'check', '@daily'];"
        "from edgecron.__main__ import main; main()"
    )

    said = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parents[1])},
    )

    assert (said.returncode, said.stdout) == (1, "")
    assert said.stderr == (
        "error: edgecron runs with the rights of its file's owner or group\n"
        "hint: remove this from the file that you started: chmod ug-s FILE\n"
    )
