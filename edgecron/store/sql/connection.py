"""Connection: what the statements of a store need of the database below them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from edgecron.base.errors import EdgecronError

RESTORE = "to restore a backup: edgecron restore FILE"

Params = Mapping[str, Any]


class Connection(Protocol):
    """One connection, for one thread at a time. `sqlite.connection.Database` is one.

    SQL has named parameters (`:name`). Rows are tuples: integers, texts, bytes and None.
    """

    notes: dict[str, Any]  # of the store's modules, kept between transactions

    @property
    def seed(self) -> bytes:
        """The random seed of jitter and `H`."""

    @property
    def was_locked(self) -> bool:
        """Whether the open transaction had to wait for a lock when it began."""

    def transaction(self, *, is_synced: bool = True) -> AbstractContextManager[None]:
        """One transaction, the only one that writes: committed at the end, rolled back by errors.

        Without `is_synced`, a power cut can take it, but no earlier one.
        """

    def rows(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """All rows of a statement."""

    def each(self, sql: str, params: Params | None = None) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, a few at a time, for results that are too large for memory."""

    def row(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """The first row of a statement, or None."""

    def change(self, sql: str, params: Params | None = None) -> int:
        """Run a statement that writes; how many rows it changed."""

    def change_many(self, sql: str, params: Sequence[Params]) -> None:
        """Run a statement that writes once for each set of parameters."""

    def returning_each(self, sql: str, params: Sequence[Params]) -> list[tuple[Any, ...]]:
        """Run a statement with RETURNING once for each set of parameters; all its rows."""

    def returning(self, sql: str, params: Params | None = None) -> tuple[Any, ...] | None:
        """Run a statement with RETURNING; its one row, or None."""

    def returning_all(self, sql: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Run a statement with RETURNING; all its rows."""

    def unique(self, column: str, problem: EdgecronError) -> AbstractContextManager[None]:
        """Raise `problem` if a statement within the block repeats a value of a unique column."""

    def as_value(self, value: object) -> Any:
        """A Python object as the value of a parameter, for a function of ours to read."""

    def let_others_write(self) -> None:
        """Pause between two slices of a large change, for connections that wait for the lock."""

    def without_overwriting(self) -> AbstractContextManager[None]:
        """Do not overwrite removed rows within the block: retention writes half as much."""

    def find_size(self) -> tuple[int, int]:
        """The bytes that the database holds, and the free bytes in its file."""

    def empty_log(self) -> bool:
        """Remove former contents from all files; False if a reader prevents this."""
