"""The version of a release: it stands in `edgecron/__init__.py`, and CHANGELOG.md tells of it.

    python3 packaging/version.py show              the version
    python3 packaging/version.py notes             what CHANGELOG.md says of it
    python3 packaging/version.py check --tag v1.2.3    nothing, or why that must not be released
    python3 packaging/version.py prepare 1.2.3     write it down, with today's date

Until a release, CHANGELOG.md has its section as `## [Unreleased]`, or as `## [1.2.3] - unreleased`
once the version is chosen; `prepare` puts the day there. `__built__` beside the version is the same
day: a clock that says less can't be right. Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNRELEASED = "Unreleased"
NO_DAY = "unreleased"
# How README.md says that the first release is still to come.
NOT_YET = re.compile(r"Until \S+ is on PyPI")
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_LITERAL = '^{name} = "(.*)"$'
_HEADING = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<day>\S+))?$", re.MULTILINE)


class Unreleasable(Exception):
    """Why a version must not be released as things are written down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What CHANGELOG.md says of one version; `day` is None, or NO_DAY, before its release."""

    name: str
    day: str | None
    text: str


def read_literal(source: str, name: str) -> str:
    """The text that a module gives a name, without running it; KeyError where it gives none."""
    found = re.search(_LITERAL.format(name=name), source, re.MULTILINE)
    if found is None:
        raise KeyError(name)
    return found[1]


def sections(changelog: str) -> list[Section]:
    """The sections of a changelog, newest first."""
    headings = list(_HEADING.finditer(changelog))
    ends = [heading.start() for heading in headings[1:]] + [len(changelog)]
    return [
        Section(
            name=heading["name"], day=heading["day"], text=changelog[heading.end() : end].strip()
        )
        for heading, end in zip(headings, ends, strict=True)
    ]


def check(source: str, changelog: str, *, tag: str | None) -> Section:
    """The section that tells of what is built: of its version; without a tag, of what is to come.

    Raises Unreleasable where there is none, or where tag, version and days differ.
    """
    version, built = read_literal(source, "__version__"), read_literal(source, "__built__")
    if not _VERSION.fullmatch(version):
        raise Unreleasable(f"version is {version!r}, expected as 1.2.3 or 1.2.3rc1")
    if tag is not None and tag != f"v{version}":
        raise Unreleasable(f"tag is {tag!r}, but edgecron/__init__.py says version {version!r}")
    named = {section.name: section for section in sections(changelog)}
    section = named.get(version)
    if section is None and tag is None:
        section = named.get(UNRELEASED)
    if section is None or not re.search(r"^- ", section.text, re.MULTILINE):
        wanted = version if tag is not None else f"{version} or {UNRELEASED}"
        raise Unreleasable(f"CHANGELOG.md tells users nothing of {wanted}; write it down there")
    waits = tag is None and section.day == NO_DAY
    if section.name == version and section.day != built and not waits:
        raise Unreleasable(
            f"CHANGELOG.md dates {version} {section.day}, __built__ is {built}; make them one day"
        )
    return section


def prepare(source: str, changelog: str, *, version: str, day: date) -> tuple[str, str]:
    """Module and changelog of a release: what was to come is now of this version and day.

    Raises Unreleasable for a text that is not a version, for a released version, and if the
    changelog has no section for the next release.
    """
    if not _VERSION.fullmatch(version):
        raise Unreleasable(f"version is {version!r}, expected as 1.2.3 or 1.2.3rc1")
    named = {section.name: section for section in sections(changelog)}
    if version in named and named[version].day != NO_DAY:
        raise Unreleasable(f"CHANGELOG.md has version {version} already")
    for name, text in (("__version__", version), ("__built__", day.isoformat())):
        pattern = _LITERAL.format(name=name)
        source = re.sub(pattern, f'{name} = "{text}"', source, flags=re.MULTILINE)
    dated = f"## [{version}] - {day}"
    if version in named:
        changelog = changelog.replace(f"## [{version}] - {NO_DAY}", dated, 1)
    else:
        heading = f"## [{UNRELEASED}]"
        changelog = changelog.replace(heading, f"{heading}\n\n{dated}", 1)
    check(source, changelog, tag=f"v{version}")
    return source, changelog


def main(arguments: Sequence[str]) -> int:
    """0, or 1 after it has said on stderr why not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("show")
    commands.add_parser("notes")
    commands.add_parser("check").add_argument("--tag")
    commands.add_parser("prepare").add_argument("version")
    chosen = parser.parse_args(arguments)
    module, history = ROOT / "edgecron" / "__init__.py", ROOT / "CHANGELOG.md"
    source, changelog = module.read_text(encoding="utf-8"), history.read_text(encoding="utf-8")
    try:
        if chosen.command == "show":
            print(read_literal(source, "__version__"))
        elif chosen.command == "notes":
            print(check(source, changelog, tag=None).text)
        elif chosen.command == "check":
            check(source, changelog, tag=chosen.tag)
            readme = (ROOT / "README.md").read_text(encoding="utf-8")
            if chosen.tag is not None and (claim := NOT_YET.search(readme)):
                raise Unreleasable(f"README.md still says {claim[0]!r}; it is part of the release")
        else:
            today = datetime.now(UTC).date()
            source, changelog = prepare(source, changelog, version=chosen.version, day=today)
            module.write_text(source, encoding="utf-8")
            history.write_text(changelog, encoding="utf-8")
            print(f"commit this, then: git tag v{chosen.version}")
    except Unreleasable as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
