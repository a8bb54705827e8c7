"""The former name of --max-late works on the command line; elsewhere an error names the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Edgecron
from tests.support.settings import Settings


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


def test_a_document_with_the_former_key_is_told_the_new_one(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    document = tmp_path / "schedules.toml"
    document.write_text('[schedules.x]\nevery = "1h"\ncommand = ["true"]\ngrace = "2h"\n')

    said = edgecron("apply", str(document))

    assert said.code == 2
    assert "key 'grace' is unknown" in said.err
    assert "did you mean max_late?" in said.err


def test_a_configuration_with_the_former_key_is_told_the_new_one(
    edgecron: Edgecron, settings: Settings
) -> None:
    settings.write_user('[defaults]\ngrace = "2h"\n')

    said = edgecron("add", "x", "--every", "1h", "--", "true")

    assert said.code == 2
    assert "did you mean defaults.max_late?" in said.err


def test_the_former_variable_is_told_the_new_one(
    edgecron: Edgecron, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGECRON_DEFAULTS_GRACE", "2h")

    said = edgecron("add", "x", "--every", "1h", "--", "true")

    assert said.code == 2
    assert "did you mean EDGECRON_DEFAULTS_MAX_LATE?" in said.err
