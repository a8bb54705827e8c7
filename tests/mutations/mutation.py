"""A mutation, its edits and where it is hunted, as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class StaleAnchor(ValueError):
    """An edit's old text does not stand in the source exactly once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A text of one file of the package that is replaced by another."""

    file: str  # below the package
    old: str
    new: str

    def apply(self, package: Path) -> None:
        """Change the file. Raises StaleAnchor where the text is not found exactly once."""
        path = package / self.file
        source = path.read_text(encoding="utf-8")
        count = source.count(self.old)
        if count != 1:
            raise StaleAnchor(f"{self.file}: found {count} times, expected once: {self.old!r}")
        path.write_text(source.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """Tests, one of which must fail, and a pattern of what it says then, or of its name.

    They run in this order, up to the first that fails. `is_long`: those marked slow as well.
    """

    tests: tuple[str, ...]
    says: str
    is_long: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A guard that is taken away, and who must notice.

    `proves` are invariants (I4) and rows of the failure catalogue (15) that go with the guard.
    `is_quick`: it is hunted whenever the tests run.
    """

    name: str
    guard: str  # what is taken away
    proves: tuple[str, ...]
    edits: tuple[Edit, ...]
    hunt: Hunt
    is_quick: bool = False
