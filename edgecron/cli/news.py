"""What has become of runs since one last looked: which have started, which have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from edgecron.base.values import NamedTuple
from edgecron.model.choices import ACTIVE, Status
from edgecron.model.run import Execution
from edgecron.views.times import near_time, short_duration

if TYPE_CHECKING:
    from edgecron.client.protocol import Client

_MOST_ACTIVE = 1000  # that are watched; of others the end alone is not told
_PAGE = 500
_MOST_TOLD = 10  # at once


class NewsReader:
    """Reads what is new of a database, as lines for people; what there is at first is known."""

    def __init__(self, client: Client, *, zone: tzinfo) -> None:
        self._client = client
        self._zone = zone
        self._mark: int | None = client.change_mark()
        self._last_id = client.run_bounds().last_id
        self._active = self._find_active()

    def read(self) -> list[str]:
        """The lines since the last time; none where nobody has changed anything."""
        mark = self._client.change_mark()
        if mark == self._mark:
            return []
        self._mark = mark
        before = {id_: run.status for id_, run in self._active.items()}
        self._active = self._find_active()
        gone = [self._find(id_) for id_ in before if id_ not in self._active]
        fresh = self._find_fresh()
        runs = {run.id: run for run in (*gone, *self._active.values(), *fresh) if run is not None}
        return news_lines(
            find_news(before, list(runs.values())), zone=self._zone, now=self._client.now()
        )

    def let_go(self) -> None:
        """Close the database; the next `read` opens it anew, and has what was changed meanwhile."""
        self._client.close()
        self._mark = None  # A new connection counts anew.

    def _find_active(self) -> dict[int, Execution]:
        found = self._client.history(statuses=tuple(ACTIVE), limit=_MOST_ACTIVE)
        return {run.id: run for run in found}

    def _find_fresh(self) -> list[Execution]:
        """Runs that have begun since, those that have ended already among them."""
        found = self._client.run_page(after_id=self._last_id, limit=_PAGE).runs
        self._last_id = max(self._last_id, self._client.run_bounds().last_id)
        return found

    def _find(self, execution_id: int) -> Execution | None:
        from edgecron.base.errors import NotFound

        try:
            return self._client.execution(execution_id)
        except NotFound:
            return None  # Retention has removed it: its end is not news any more.


class News(NamedTuple):
    """That a run has started, or ended, and when."""

    run: Execution
    at: datetime


def find_news(before: Mapping[int, Status], runs: Sequence[Execution]) -> list[News]:
    """What is new of runs, in the order of time.

    `before` has the statuses of those that were known to be active. What was skipped has neither
    started nor ended.
    """
    news = []
    for run in runs:
        if run.status is before.get(run.id) or run.status in (Status.QUEUED, Status.SKIPPED):
            continue
        at = run.started_at if run.status is Status.RUNNING else run.finished_at
        news.append(News(run, at or run.due_at))
    return sorted(news, key=lambda each: (each.at, each.run.id))


def news_lines(news: Sequence[News], *, zone: tzinfo, now: datetime) -> list[str]:
    """A line for each, the name first; of many the last ones, and how many there were before."""
    lines = [_line(each, zone=zone, now=now) for each in news[-_MOST_TOLD:]]
    left_out = len(news) - len(lines)
    return [f"{left_out} runs more: see history", *lines] if left_out else lines


def _line(news: News, *, zone: tzinfo, now: datetime) -> str:
    from edgecron.views.phrases import failure_words, status_words

    run = news.run
    start = f"{run.schedule}, run {run.id},"
    time = near_time(news.at, zone=zone, now=now)
    if run.status is Status.RUNNING:
        return f"{start} started at {time}"
    why = f" ({failure_words(run)})" if run.error_msg else ""
    took = "" if run.duration_ms is None else f", {short_duration(run.duration_ms)}"
    return f"{start} ended at {time}: {status_words(run)}{why}{took}"
