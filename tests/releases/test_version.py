"""A version is written in one place, and released when users are told what it brings."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date

import pytest

import edgecron
from tests.support.releasing import PACKAGING, ROOT, tool

version = tool("version")

SOURCE = '__version__ = "1.2.0"\n# The day.\n__built__ = "2026-05-01"\n'
CHANGELOG = """# Changelog

## [Unreleased]

### Added

- A thing.

## [1.2.0] - 2026-05-01

### Fixed

- Another.
"""


def test_the_changelog_tells_of_what_is_here_now() -> None:
    said = subprocess.run(
        [sys.executable, PACKAGING / "version.py", "check"], capture_output=True, text=True
    )

    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


def test_the_version_is_written_in_no_other_file() -> None:
    written = re.compile(rf"(?<![\d.]){re.escape(edgecron.__version__)}(?![\d.])")
    listed = subprocess.run(
        ["git", "ls-files", "edgecron", "packaging", "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    texts = [name for name in listed.stdout.splitlines() if not name.endswith((".png", ".txt"))]

    holders = {name for name in texts if written.search((ROOT / name).read_text(encoding="utf-8"))}

    assert holders == {"edgecron/__init__.py"}


def test_a_released_version_has_its_section_and_the_day_that_clocks_are_judged_by() -> None:
    section = version.check(SOURCE, CHANGELOG, tag="v1.2.0")

    assert (section.name, section.day) == ("1.2.0", "2026-05-01")
    assert section.text == "### Fixed\n\n- Another."


def test_a_build_without_a_tag_may_tell_of_what_is_to_come() -> None:
    source = SOURCE.replace("1.2.0", "1.3.0")

    assert version.check(source, CHANGELOG, tag=None).name == "Unreleased"


@pytest.mark.parametrize(
    ("source", "changelog", "tag", "why"),
    [
        (SOURCE, CHANGELOG, "v1.3.0", "tag is 'v1.3.0', but edgecron/__init__.py says"),
        (SOURCE.replace("1.2.0", "1.3.0"), CHANGELOG, "v1.3.0", "tells users nothing of 1.3.0"),
        (SOURCE, CHANGELOG.replace("- Another.", ""), "v1.2.0", "tells users nothing of 1.2.0"),
        (
            SOURCE.replace("1.2.0", "1.3.0"),
            CHANGELOG.replace("- A thing.", ""),
            None,
            "tells users nothing of 1.3.0 or Unreleased",
        ),
        (SOURCE.replace("05-01", "05-02"), CHANGELOG, "v1.2.0", "make them one day"),
        (SOURCE.replace("1.2.0", "1.2"), CHANGELOG, None, "expected as 1.2.3"),
    ],
)
def test_what_does_not_agree_is_not_released(
    source: str, changelog: str, tag: str | None, why: str
) -> None:
    with pytest.raises(version.Unreleasable, match=re.escape(why)):
        version.check(source, changelog, tag=tag)


def test_preparing_a_release_writes_all_that_has_to_agree() -> None:
    source, changelog = version.prepare(SOURCE, CHANGELOG, version="1.3.0", day=date(2026, 11, 22))

    assert version.read_literal(source, "__version__") == "1.3.0"
    assert version.read_literal(source, "__built__") == "2026-11-22"
    assert [section.name for section in version.sections(changelog)] == [
        *("Unreleased", "1.3.0", "1.2.0")
    ]
    assert version.check(source, changelog, tag="v1.3.0").text == "### Added\n\n- A thing."


def test_a_section_of_a_chosen_version_waits_for_its_day() -> None:
    waiting = CHANGELOG.replace("## [Unreleased]", "## [1.3.0] - unreleased")
    chosen = SOURCE.replace("1.2.0", "1.3.0")
    assert version.check(chosen, waiting, tag=None).text == "### Added\n\n- A thing."
    with pytest.raises(version.Unreleasable, match=r"dates 1\.3\.0 unreleased"):
        version.check(chosen, waiting, tag="v1.3.0")

    source, changelog = version.prepare(chosen, waiting, version="1.3.0", day=date(2026, 11, 22))

    assert version.check(source, changelog, tag="v1.3.0").day == "2026-11-22"
    assert [section.name for section in version.sections(changelog)] == ["1.3.0", "1.2.0"]


@pytest.mark.parametrize("wanted", ["1.2.0", "1.3", "v1.3.0"])
def test_a_version_that_is_there_or_is_none_is_not_prepared(wanted: str) -> None:
    with pytest.raises(version.Unreleasable):
        version.prepare(SOURCE, CHANGELOG, version=wanted, day=date(2026, 11, 22))


def test_nothing_to_tell_is_nothing_to_release() -> None:
    with pytest.raises(version.Unreleasable, match="tells users nothing"):
        version.prepare(
            SOURCE, CHANGELOG.replace("- A thing.", ""), version="1.3.0", day=date(2026, 11, 22)
        )


def test_this_version_was_built_no_later_than_its_commit() -> None:
    said = subprocess.run(
        ["git", "log", "-1", "--format=%cs"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    source = (ROOT / "edgecron" / "__init__.py").read_text(encoding="utf-8")
    built = version.read_literal(source, "__built__")
    assert date.fromisoformat(built) <= date.fromisoformat(said.stdout.strip())


def test_the_readme_waits_for_the_index_or_installs_from_it() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert (version.NOT_YET.search(readme) is None) == ("pipx install edgecron" in readme)


def test_a_tag_of_another_version_is_not_released() -> None:
    refused = subprocess.run(
        [PACKAGING / "release", "--tag", "v99.0.0"], capture_output=True, text=True
    )

    assert refused.returncode == 1
    assert "error: tag is 'v99.0.0', but edgecron/__init__.py says" in refused.stderr
