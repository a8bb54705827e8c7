"""Names of options that the release before had: they work, and a warning names the new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.client import Client
from tests.support.cli import Edgecron
from tests.support.settings import Settings

_WARNING = "is now called"


@pytest.fixture
def settings(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    return Settings(tmp_path, monkeypatch)


def max_late_of(edgecron: Edgecron, name: str) -> object:
    [shown] = edgecron("show", name, "--json").json
    assert "grace_s" not in shown
    return shown["max_late_s"]


@pytest.mark.parametrize("words", [("add", "x", "--every", "1h", "--", "true"), ("edit", "x")])
def test_a_former_option_works_and_names_the_new_one(
    edgecron: Edgecron, words: tuple[str, ...]
) -> None:
    if words[0] == "edit":
        edgecron("add", "x", "--every", "1h", "--", "true")

    said = edgecron(*words[:2], "--grace", "2h", *words[2:])

    assert said.code == 0
    assert "--grace is now called --max-late" in said.err
    assert max_late_of(edgecron, "x") == 7200
    assert "--grace" not in edgecron("help", words[0]).out


def test_an_option_and_its_former_name_are_not_both_taken(edgecron: Edgecron) -> None:
    said = edgecron("add", "x", "--every", "1h", "--grace", "2h", "--max-late", "3h", "--", "true")

    assert said.code == 2
    assert "--grace and --max-late are both given" in said.err


def test_a_former_key_of_a_document_works_and_is_not_written_again(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    document = tmp_path / "schedules.toml"
    document.write_text('[schedules.x]\nevery = "1h"\ncommand = ["true"]\ngrace = "2h"\n')

    said = edgecron("apply", str(document))

    assert said.code == 0
    assert "schedule x: grace is now called max_late" in said.err
    assert 'max_late = "2h"' in edgecron("export").out
    assert max_late_of(edgecron, "x") == 7200


def test_both_names_in_a_document_are_a_problem_of_that_schedule(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    document = tmp_path / "schedules.toml"
    document.write_text(
        '[schedules.x]\nevery = "1h"\ncommand = ["true"]\ngrace = "2h"\nmax_late = "2h"\n'
    )

    said = edgecron("apply", str(document))

    assert said.code == 2
    assert "grace and max_late are both given" in said.err


def test_a_former_default_of_the_configuration_works_and_names_the_new_one(
    edgecron: Edgecron, settings: Settings
) -> None:
    path = settings.write_user('[defaults]\ngrace = "2h"\n')

    said = edgecron("add", "x", "--every", "1h", "--", "true")

    assert f"{path}:2: defaults.grace is now called defaults.max_late" in said.err
    assert max_late_of(edgecron, "x") == 7200

    settings.write_user('[defaults]\ngrace = "2h"\nmax_late = "1h"\n')
    assert "are both given" in edgecron("add", "y", "--every", "1h", "--", "true").err


def test_a_former_variable_works_and_names_the_new_one(
    edgecron: Edgecron, settings: Settings
) -> None:
    settings.set("EDGECRON_DEFAULTS_GRACE", "2h")

    said = edgecron("add", "x", "--every", "1h", "--", "true")

    assert "EDGECRON_DEFAULTS_GRACE is now called EDGECRON_DEFAULTS_MAX_LATE" in said.err
    assert max_late_of(edgecron, "x") == 7200


def test_one_warning_stands_for_a_former_name_however_often_it_is_read(
    edgecron: Edgecron, settings: Settings, database: Path
) -> None:
    settings.set("EDGECRON_DEFAULTS_GRACE", "2h")

    said = edgecron("add", "x", "--every", "1h", "--", "true")

    assert said.err.count(_WARNING) == 1
    with Client(database) as client:
        assert client.schedule("x").spec.policies.max_late_s == 7200
