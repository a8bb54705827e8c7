"""Templates in a file for apply, as a user meets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Edgecron

FILE = """
[templates.base]
every = "15m"
timeout = "1h"
env.LANG = "C"

[schedules.fetch]
template = "base"
env.MODE = "full"
command = ["true"]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "schedules.toml"
    path.write_text(FILE)
    return str(path)


def test_resolve_prints_a_file_that_needs_no_template(
    edgecron: Edgecron, file: str, database: Path, tmp_path: Path
) -> None:
    resolved = edgecron("apply", file, "--resolve")
    [as_json] = edgecron("apply", file, "--resolve", "--json").json

    assert resolved.out.startswith("# with the keys of base\n[schedules.fetch]\n")
    assert as_json == {
        "name": "fetch",
        "templates": ["base"],
        "every": "15m",
        "command": ["true"],
        "env": {"LANG": "C", "MODE": "full"},
        "timeout": "1h",
    }
    assert not database.exists()

    whole = tmp_path / "whole.toml"
    whole.write_text(resolved.out)
    edgecron("apply", file)
    assert "1 unchanged" in edgecron("apply", str(whole)).err


def test_a_changed_template_changes_its_schedules_and_export_has_them_resolved(
    edgecron: Edgecron, file: str
) -> None:
    edgecron("apply", file)
    Path(file).write_text(FILE.replace('"1h"', '"2h"'))

    said = edgecron("apply", file)

    assert "~ change fetch\n    ~ timeout: 1h -> 2h\n" in said.out
    assert 'timeout = "2h"' in edgecron("export").out
    assert "template" not in edgecron("export").out


def test_an_unused_template_is_a_warning(edgecron: Edgecron, file: str) -> None:
    Path(file).write_text(FILE.replace('template = "base"', 'template = "poll"'))

    said = edgecron("apply", file, "--dry-run")

    assert said.code == 0
    assert "warning: line 2: template 'base' is not used by any schedule" in said.err


def test_resolve_and_the_options_of_a_change_exclude_each_other(
    edgecron: Edgecron, file: str
) -> None:
    said = edgecron("apply", file, "--resolve", "--prune")

    assert said.code == 2
    assert f"edgecron apply {file} --resolve" in said.err
