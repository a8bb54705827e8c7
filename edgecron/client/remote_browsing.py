"""Browsing: orders, lines and pages, asked elsewhere; and when there is anything new to ask."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgecron.base.errors import ServerLost
from edgecron.client.remote_asking import Asking, Waiting

if TYPE_CHECKING:
    from edgecron.client.run_questions import Sizes
    from edgecron.model.choices import Status
    from edgecron.model.filters import Filter
    from edgecron.model.listing import RunBounds, RunPage, ScheduleLine, SortBy
    from edgecron.model.run import Execution

# For how long the server holds a question whether anything has changed: the network is at rest
# meanwhile, a change is told at once, and that nobody answers any more is noticed soon after.
_HELD_S = 5.0
_LOST_MS = 15_000


class Browsing(Asking):
    """What a screen needs to go through all schedules and runs."""

    _watch: Waiting | None = None
    _mark = 0
    _asked_ms = 0

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        super().close()

    def change_mark(self) -> int:
        """A number that is another one when anybody has committed since.

        It costs nothing to ask: the server holds the question, and answers it when that is so.
        """
        if self._watch is None:
            self._mark = self._ask("change_mark")
            self._watch = Waiting(self._lines.open(), self._time, "await_change")
        now_ms = self._time.boottime_ms()
        if self._watch.is_begun:
            if not _is_readable(self._watch.fileno()):
                if now_ms - self._asked_ms > _LOST_MS:
                    raise ServerLost(f"{self.place} does not answer")
                return self._mark
            found: int | None = self._watch.finish()
            self._mark = self._mark if found is None else found
        self._watch.begin(wait_s=_HELD_S, mark=self._mark)
        self._asked_ms = now_ms
        return self._mark

    def schedule_order(
        self,
        sort: SortBy | None = None,
        *,
        is_descending: bool = False,
        matches: Filter | None = None,
    ) -> array[int]:
        found = self._ask("schedule_order", sort=sort, is_descending=is_descending, filter=matches)
        return array("q", found)

    def schedule_lines(self, ids: Sequence[int]) -> list[ScheduleLine]:
        found: list[ScheduleLine] = self._ask("schedule_lines", ids=ids)
        return found

    def first_schedule_lines(self, limit: int) -> list[ScheduleLine]:
        found: list[ScheduleLine] = self._ask("first_schedule_lines", limit=limit)
        return found

    def run_bounds(self) -> RunBounds:
        found: RunBounds = self._ask("run_bounds")
        return found

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
        found: RunPage = self._ask(
            "run_page",
            before_id=before_id,
            after_id=after_id,
            limit=limit,
            statuses=statuses,
            schedule_ids=schedule_ids,
            causes=causes,
            reasons=reasons,
        )
        return found

    def names_of_all(self) -> list[tuple[int, str]]:
        return [(id_, name) for id_, name in self._ask("schedule_names")]

    def schedule_ids_named(self, matches: Filter) -> array[int]:
        return array("q", self._ask("schedule_ids_named", filter=matches))

    def nearest_names(self, letters: str, *, limit: int) -> list[str]:
        found: list[str] = self._ask("nearest_names", letters=letters, limit=limit)
        return found

    def last_failure(self) -> Execution | None:
        found: Execution | None = self._ask("last_failure")
        return found

    def lock_waits(self) -> int:
        """Of what others lock there nothing is seen from here: an answer tells it."""
        return 0

    def database_sizes(self) -> tuple[int, int]:
        sizes: Sizes = self._status("sizes").sizes
        return sizes.database_bytes, sizes.wal_bytes


def _is_readable(fileno: int | None) -> bool:
    if fileno is None:
        return True
    import select

    poller = select.poll()
    poller.register(fileno, select.POLLIN)
    return bool(poller.poll(0))
