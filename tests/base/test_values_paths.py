"""Where the database and its state folder lie."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest

from edgecron.base.errors import InvalidInput
from edgecron.base.paths import (
    CONFIG_NAME,
    DATABASE_NAME,
    database_path,
    refuse_missing_folder,
    state_dir,
    user_config_path,
)


def test_a_relative_path_is_of_the_folder_we_are_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert database_path("x.db", environ={}) == tmp_path / "x.db"


def test_a_name_that_sqlite_could_not_take_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"'/a/x\\udcff.db' is not valid UTF-8"):
        database_path("/a/x\udcff.db", environ={})


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")

    assert database_path("~/x.db", environ={}) == Path("/home/somebody/x.db")


def test_root_has_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert database_path(environ={}) == Path("/var/lib/edgecron") / DATABASE_NAME


@pytest.mark.parametrize(
    "environ",
    [
        {"HOME": "/home/me"},
        {"HOME": "/home/me", "XDG_DATA_HOME": "/data", "XDG_CONFIG_HOME": "/settings"},
        {"HOME": "/home/me", "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": ""},
        {"HOME": "here"},
        {},
    ],
)
def test_everyone_else_has_it_where_platformdirs_says(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    database, settings = database_path(), user_config_path()

    data = platformdirs.user_data_path("edgecron", appauthor=False)
    config = platformdirs.user_config_path("edgecron", appauthor=False)
    assert database == data / DATABASE_NAME
    assert settings == config / CONFIG_NAME


def test_a_user_that_is_only_a_number_names_the_database(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    assert user_config_path() is None
    assert database_path("/srv/x.db") == Path("/srv/x.db")
    refuse_missing_folder(tmp_path / "x.db", origin="")
    with pytest.raises(InvalidInput, match="HOME is not set, and user 4000000000 is unknown"):
        database_path()


def test_root_has_the_configuration_of_the_system_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert user_config_path() is None
    assert user_config_path("/a/x.toml") == Path("/a/x.toml")


def test_the_state_folder_lies_beside_the_database() -> None:
    assert state_dir(Path("/a/x.db")) == Path("/a/x.db.state")


@pytest.mark.parametrize("text", ["a\0b", "~nobody-of-this-name/x.db"])
def test_a_path_that_can_not_be_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        database_path(text, environ={})
