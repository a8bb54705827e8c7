"""Where the database and its state folder lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgecron.errors import InvalidInput
from edgecron.paths import DATABASE_NAME, database_path, state_dir


def test_what_is_given_comes_before_the_environment() -> None:
    assert database_path("/a/x.db", environ={"EDGECRON_DB": "/b/y.db"}) == Path("/a/x.db")
    assert database_path(None, environ={"EDGECRON_DB": "/b/y.db"}) == Path("/b/y.db")


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


def test_everyone_else_has_it_in_the_user_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    found = database_path(environ={"EDGECRON_DB": ""})

    assert found.name == DATABASE_NAME
    assert found.is_relative_to(tmp_path)


def test_the_state_folder_lies_beside_the_database() -> None:
    assert state_dir(Path("/a/x.db")) == Path("/a/x.db.state")


@pytest.mark.parametrize("text", ["a\0b", "~nobody-of-this-name/x.db"])
def test_a_path_that_can_not_be_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        database_path(text, environ={})
