"""Files that commands write as root: none where another user could lead it elsewhere."""

from __future__ import annotations

import os
import pwd
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.base.files import write_new, write_whole
from edgecron.base.paths import make_folders
from tests.support.accounts import as_root
from tests.support.cli import Edgecron

NOBODY = pwd.getpwnam("nobody").pw_uid


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of ours that a planted link leads to."""
    path = tmp_path / "secret"
    path.write_text("root's own")
    return path


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like /tmp."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def commands(path: Path) -> dict[str, tuple[str, ...]]:
    return {
        "metrics": ("metrics", "--output", str(path)),
        "export": ("export", "-o", str(path)),
        "backup": ("backup", str(path), "--force"),
        "config": ("config", "init", str(path)),
    }


@as_root
@pytest.mark.parametrize("command", ["metrics", "export", "backup", "config"])
@pytest.mark.parametrize("is_dangling", [False, True])
def test_a_planted_link_is_never_written_through(
    edgecron: Edgecron, backup: str, shared: Path, secret: Path, command: str, is_dangling: bool
) -> None:
    target = shared / "out"
    target.symlink_to(secret if not is_dangling else secret.with_name("new"))
    os.lchown(target, NOBODY, NOBODY)

    said = edgecron(*commands(target)[command])

    assert said.code != 0
    assert target.is_symlink()
    assert secret.read_text() == "root's own"
    assert not secret.with_name("new").exists()


@as_root
@pytest.mark.parametrize("command", ["metrics", "export", "backup", "config"])
def test_root_writes_nothing_into_a_folder_that_others_can_change(
    edgecron: Edgecron, backup: str, tmp_path: Path, command: str
) -> None:
    folder = tmp_path / "ada"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)

    said = edgecron(*commands(folder / "out")[command])

    assert said.code == 2
    assert f"root writes nothing into folder {folder}" in said.err
    assert f"{folder} belongs to user {NOBODY}, expected root" in said.err
    assert list(folder.iterdir()) == []


@as_root
@pytest.mark.parametrize("command", ["metrics", "export", "backup", "config"])
def test_a_free_name_in_a_sticky_folder_is_written(
    edgecron: Edgecron, backup: str, shared: Path, command: str
) -> None:
    said = edgecron(*commands(shared / "out")[command])

    assert said.code == 0, said.err
    assert stat.S_ISREG((shared / "out").lstat().st_mode)


@as_root
def test_another_user_s_file_in_a_sticky_folder_is_left_alone(
    edgecron: Edgecron, backup: str, shared: Path
) -> None:
    target = shared / "out"
    target.write_text("theirs")
    os.chown(target, NOBODY, NOBODY)

    said = edgecron("metrics", "--output", str(target))

    assert said.code == 2
    assert f"belongs to user {NOBODY} and lies in a folder that users share" in said.err
    assert target.read_text() == "theirs"


def test_a_file_is_whole_keeps_its_mode_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "out"

    write_whole(target, [b"one\n"])
    new_mode = stat.S_IMODE(target.stat().st_mode)
    target.chmod(0o640)
    write_whole(target, [b"two\n", b"three\n"])

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise InvalidInput("no more")

    with pytest.raises(InvalidInput):
        write_whole(target, broken())

    assert (new_mode, stat.S_IMODE(target.stat().st_mode)) == (0o600, 0o640)
    assert target.read_bytes() == b"two\nthree\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_new_file_takes_no_name_that_is_there(tmp_path: Path, secret: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")

    for name in (secret, link):
        with pytest.raises(FileExistsError):
            write_new(name, b"x", mode=0o600)

    assert secret.read_text() == "root's own"


def test_a_new_file_that_can_not_be_written_leaves_nothing(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    file = tmp_path / "new" / "config.toml"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        refused = edgecron("config", "init", str(file))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)

    assert refused.code == 2
    assert f"file '{file}' can't be written: file too large" in refused.err
    assert list(file.parent.iterdir()) == []


@as_root
def test_no_folder_is_made_where_another_user_leads_root(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    led_to = tmp_path / "led-to"
    led_to.mkdir()
    link = tmp_path / "link"
    link.symlink_to(led_to)
    os.lchown(link, 12345, 12345)

    refused = edgecron("config", "init", str(link / "new" / "config.toml"))

    assert refused.code == 2
    assert f"chown -h root {link}" in refused.err
    assert list(led_to.iterdir()) == []


def test_folders_are_private_whatever_the_umask(tmp_path: Path, open_umask: None) -> None:
    make_folders(tmp_path / "a" / "b" / "c")

    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")} == {0o700}


def test_every_folder_above_a_new_database_is_private(
    edgecron: Edgecron, tmp_path: Path, open_umask: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "x"
    database = home / ".local/share/edgecron" / "edgecron.db"
    monkeypatch.setenv("HOME", str(home))
    for variable in ("XDG_DATA_HOME", "EDGECRON_DB"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("EDGECRON_CONFIG", "none")
    monkeypatch.setattr("edgecron.base.paths.is_root", lambda: False)

    said = edgecron("add", "nightly", "--every", "1h", "--", "true")

    assert said.code == 0
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "x", database.parent)} == {
        0o700
    }


@as_root
def test_another_user_s_backup_is_restored_only_when_its_commands_were_seen(
    edgecron: Edgecron, tmp_path: Path, database: Path
) -> None:
    copy = tmp_path / "theirs.db"
    edgecron(
        "add", "nightly", "--every", "1h", "--env", "A=1", "--", "/bin/sh", "-c", "evil \x1b[2J"
    )
    edgecron("backup", str(copy))
    os.chown(copy, NOBODY, NOBODY)
    edgecron("rm", "nightly")

    refused = edgecron("restore", str(copy), "--yes")
    as_json = edgecron("--json", "restore", str(copy), "--yes")
    left = edgecron("list", "--json").json
    done = edgecron("restore", str(copy), "--yes", "--take-over")

    assert (refused.code, left) == (1, [])
    assert f"{copy} belongs to user {NOBODY}" in refused.err
    assert "nightly: /bin/sh -c 'evil \\x1b[2J' with A" in refused.err
    assert "repeat with --take-over" in refused.err
    assert "nightly: /bin/sh" in as_json.error["message"]
    assert (done.code, [one["name"] for one in edgecron("list", "--json").json]) == (0, ["nightly"])
    assert "nightly: /bin/sh" in done.err
    assert database.stat().st_uid == 0


@as_root
def test_a_backup_in_a_folder_of_another_user_is_theirs(
    edgecron: Edgecron, backup: str, tmp_path: Path
) -> None:
    folder = tmp_path / "ada"
    folder.mkdir()
    edgecron("backup", str(folder / "copy.db"))
    os.chown(folder, NOBODY, NOBODY)

    said = edgecron("restore", str(folder / "copy.db"), "--yes")

    assert said.code == 1
    assert f"{folder} belongs to user {NOBODY}" in said.err
