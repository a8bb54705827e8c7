"""The lock files name all that pyproject.toml wants, by hash, and no place they came from."""

from __future__ import annotations

import re
import tomllib
from functools import cache

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.releasing import PACKAGING, ROOT

LOCKS = ("runtime", "binary", "release")
EXTRAS = ("http", "mcp", "metrics", "web")
UNLOCKED = ("apprise", "dbus", "holidays", "postgres")  # no release file has these: people use pip
_PIN = re.compile(r"([\w.-]+)==(\S+)( ; .+)? \\")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def lock_text(name: str) -> str:
    return (PACKAGING / "locks" / f"{name}.txt").read_text(encoding="utf-8")


@cache
def pins(name: str) -> dict[str, str]:
    """Versions by name; the whole file is pins with hashes, or this raises."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\w)", lock_text(name).rstrip()):
        first, *hashes = entry.splitlines()
        pin = _PIN.fullmatch(first)
        assert pin is not None, first
        assert hashes, first
        assert all(map(_HASH.fullmatch, hashes)), first
        found[str(canonicalize_name(pin[1]))] = str(pin[2])
    return found


@cache
def project() -> dict[str, dict[str, object]]:
    loaded: dict[str, dict[str, object]] = tomllib.loads(
        (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    )
    return loaded


def unmet(wanted: list[str], locked: dict[str, str]) -> list[str]:
    needs = [Requirement(text) for text in wanted]
    return [
        str(need)
        for need in needs
        if not need.specifier.contains(locked.get(canonicalize_name(need.name), "0"))
    ]


@pytest.mark.parametrize("lock", ["runtime", "binary"])
def test_what_edgecron_needs_is_locked(lock: str) -> None:
    assert unmet(project()["project"]["dependencies"], pins(lock)) == []  # type: ignore[arg-type]


def test_what_every_extra_needs_is_locked() -> None:
    extras = project()["project"]["optional-dependencies"]
    assert isinstance(extras, dict)

    assert set(extras) == {*EXTRAS, *UNLOCKED, "test", "test-all"}
    for extra in EXTRAS:
        assert unmet(extras[extra], pins("runtime")) == []


@pytest.mark.parametrize(
    ("library", "broken", "fixed"),
    [
        ("textual", "8.2.4", "8.2.5"),
        ("prometheus-client", "0.22.1", "0.23.0"),
        ("apsw", "3.51.3.0", "3.53.0.0"),
    ],
)
def test_a_version_that_does_not_work_is_refused_by_each_bound(
    library: str, broken: str, fixed: str
) -> None:
    about = project()["project"]
    extras = about["optional-dependencies"]
    assert isinstance(extras, dict)
    named = [*about["dependencies"], *(text for extra in extras.values() for text in extra)]  # type: ignore[misc]

    bounds = [need.specifier for text in named if (need := Requirement(text)).name == library]

    assert bounds
    assert [bound for bound in bounds if broken in bound or fixed not in bound] == []


def test_what_builds_it_is_locked() -> None:
    wanted = project()["build-system"]["requires"]

    assert unmet([*wanted, "build", "pyinstaller"], pins("release")) == []  # type: ignore[misc]


def test_what_is_in_the_binary_has_the_versions_of_the_wheel() -> None:
    assert pins("binary").items() <= pins("runtime").items()


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_names_no_place(lock: str) -> None:
    assert re.search(r"https?:|file:|\bindex\b|/", lock_text(lock)) is None
    assert len(pins(lock)) >= 8
