"""A mutation, its edits and where it is hunted, as values."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.edits import Edit, FileEdit


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
    edits: tuple[Edit | FileEdit, ...]
    hunt: Hunt
    is_quick: bool = False
