"""Browsing: what a screen needs to go through all schedules and runs, however many there are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from edgecron.client.reading import Reading

if TYPE_CHECKING:
    from array import array

    from edgecron.model.choices import Status
    from edgecron.model.filters import Filter
    from edgecron.model.listing import RunBounds, RunPage, ScheduleLine, SortBy
    from edgecron.model.run import Execution


class Browsing(Reading):
    """Orders, lines and pages. Each may be ended from another thread by `interrupt`."""

    def change_mark(self) -> int:
        """A number that is another one when somebody else has committed since.

        Changes made through this Client do not count. Raises DatabaseGone where another file
        has taken the place of the one that is open.
        """
        self.store.check_file()
        return self.store.change_mark

    def schedule_order(
        self,
        sort: SortBy | None = None,
        *,
        is_descending: bool = False,
        matches: Filter | None = None,
    ) -> array[int]:
        """The ids of all schedules, or of those that match, in order; by name where None is said.

        What has nothing to be sorted by comes last, either way; equals come by name.
        """
        from edgecron.model.listing import SortBy
        from edgecron.store.schedule_lines import find_order, find_order_of

        sort = sort or SortBy.NAME
        database = self.store
        if matches is None:
            return find_order(database, sort, is_descending=is_descending)
        return find_order_of(
            database,
            sort,
            is_descending=is_descending,
            matches=matches.matches_schedule,
            now=self.now(),
        )

    def schedule_lines(self, ids: Sequence[int]) -> list[ScheduleLine]:
        """The lines of schedules, in this order; those that are gone are left out.

        For a screen of them: each costs some reads. What can't be read of a schedule is told in
        its `trigger_error`.
        """
        from edgecron.store.schedule_lines import find_lines

        return find_lines(self.store, ids)

    def first_schedule_lines(self, limit: int) -> list[ScheduleLine]:
        """The lines of the schedules whose names come first, before any order is known."""
        from edgecron.store.schedule_lines import find_first_lines

        return find_first_lines(self.store, limit=limit)

    def run_bounds(self) -> RunBounds:
        """The first and the last id of all runs."""
        from edgecron.store.history import find_bounds

        return find_bounds(self.store)

    def run_page(
        self,
        *,
        before_id: int | None = None,
        after_id: int | None = None,
        limit: int = 100,
        statuses: tuple[Status, ...] = (),
        schedule_ids: Sequence[int] | None = None,
        causes: tuple[str, ...] = (),
        reasons: tuple[str | None, ...] = (),
    ) -> RunPage:
        """Runs, newest first: those next to `after_id` where it is given, else the newest.

        Empty is any; of `schedule_ids`, None is. A reason of None is a run without one. A run that
        can't be read is named in the page, and the next run takes its place: less than `limit` is
        the end.
        """
        from edgecron.store.history import Wanted, find_page

        wanted = Wanted(
            schedule_ids=schedule_ids,
            statuses=statuses,
            causes=causes,
            reasons=reasons,
            before_id=before_id,
            after_id=after_id,
        )
        return find_page(self.store, wanted, limit=limit)

    def names_of_all(self) -> list[tuple[int, str]]:
        """(id, name) of every schedule, removed ones included; see `schedule_ids_named`."""
        from edgecron.store.schedule_lines import find_names

        return find_names(self.store)

    def schedule_ids_named(self, matches: Filter) -> array[int]:
        """The ids of the schedules, removed ones included, whose names a filter lets through.

        Of many it takes a tenth of the memory that all their names do.
        """
        from edgecron.store.schedule_lines import find_ids_named

        return find_ids_named(self.store, matches.matches_name)

    def nearest_names(self, letters: str, *, limit: int) -> list[str]:
        """The names of the schedules that are nearest to what somebody has typed, equals by
        name. Without a letter all are."""
        from edgecron.model.filters import rank_of
        from edgecron.store.schedule_lines import find_nearest_names

        return find_nearest_names(
            self.store,
            lambda name: rank_of(name, letters) if letters else 0,
            limit=limit,
        )

    def last_failure(self) -> Execution | None:
        """The newest run that failed or was interrupted."""
        from edgecron.model.choices import Status

        found = self.run_page(statuses=(Status.FAILED, Status.INTERRUPTED), limit=1).runs
        return found[0] if found else None

    def interrupt(self) -> None:
        """From any thread: have the question that is being answered raise QueryInterrupted.

        One that comes between two statements of a question, or after it, ends nothing.
        """
        if self._open_store is not None:
            self._open_store.interrupt()

    def lock_waits(self) -> int:
        """How often another's lock was waited for: while it grows, it is. From any thread."""
        return 0 if self._open_store is None else self._open_store.lock_waits

    def database_sizes(self) -> tuple[int, int]:
        """How many bytes the database file and its log have; 0 for one that is not there."""
        return _size_of(str(self.path)), _size_of(f"{self.path}-wal")


def _size_of(path: str) -> int:
    with suppress(FileNotFoundError):
        return os.stat(path).st_size
    return 0
