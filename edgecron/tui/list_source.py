"""Where lists get their lines: what is common to all, and to those that read the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from edgecron.tui.list_model import Line, Targets
from edgecron.tui.queries import QueryScreen, ThrottledQuery

if TYPE_CHECKING:
    from edgecron.model.filters import Filter


T = TypeVar("T")


class Source:
    """The lines of a list. The list calls `line` while it draws, so it never waits.

    `keys` are those of all lines, in order. `is_counted` says whether `count` is the whole number,
    not only what was found so far.
    """

    keys: Sequence[int] = ()
    filter: Filter | None = None

    @property
    def count(self) -> int:
        """How many lines there are, as far as known."""
        return len(self.keys)

    @property
    def is_counted(self) -> bool:
        return True

    @property
    def trouble(self) -> str:
        """What can't be shown, and why; empty if all can."""
        return ""

    def line(self, index: int) -> Line | None:
        """Return a line; None if it is not read yet."""
        raise NotImplementedError

    def index_of(self, key: int) -> int | None:
        """Return the index of a line; None if it is unknown or gone."""
        try:
            return self.keys.index(key)
        except ValueError:
            return None

    def want(self, first: int, last: int) -> None:
        """Read what is missing of these visible lines."""

    def ask_keys(self, take: Callable[[Sequence[int]], None]) -> None:
        """Pass the keys of all lines to `take`, now or later."""
        take(self.keys)

    def gone_of(self, keys: Set[int]) -> Set[int]:
        """Return the keys whose lines no longer exist, as far as known."""
        return keys - set(self.keys) if keys and self.filter is None else frozenset()

    def nearest_s(self, first: int, last: int) -> float:
        """Return the distance in seconds of the nearest time in these lines."""
        return inf

    def filter_by(self, wanted: Filter | None) -> None:
        """Show only lines that match a filter; None shows all."""
        self.filter = wanted

    def unused_keys(self, wanted: Filter) -> Sequence[str]:
        """Return the keys of a filter that do not apply to these lines."""
        return ()


class DatabaseSource(Source, Generic[T]):
    """Lines that are read from the database; calls `changed` when there is something new to show.

    `topic` is that of its question.
    """

    topic: ClassVar[str]

    def __init__(self, screen: QueryScreen[Any], *, changed: Callable[[], None]) -> None:
        self._screen = screen
        self._query: ThrottledQuery[T] = ThrottledQuery(screen, self.topic)
        self._now = screen.app.now
        self._zone = screen.app.zone
        self._changed = changed
        self.is_clock_trusted = True  # as far as known

    def read(self) -> None:
        """Read the lines again, at most at the rate that this costs."""
        raise NotImplementedError

    def read_at_once(self) -> None:
        """Read the lines again immediately: the user waits for them."""
        self._screen.interrupt(self.topic)
        self._query.skip_wait()
        self.read()

    def filter_by(self, wanted: Filter | None) -> None:
        super().filter_by(wanted)
        self.read_at_once()

    def schedule_of(self, key: int) -> str | None:
        """Return the schedule of a line; None if it is not read."""
        raise NotImplementedError

    def targets(self, keys: Sequence[int]) -> Targets | None:
        """Return these lines as the targets of an action; None if they are not known."""
        raise NotImplementedError
