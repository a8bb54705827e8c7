"""Read schedules, runs and engines from a server.

`edgecron.client.protocol` says what each method does.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgecron.base.errors import ServerLost
from edgecron.client.remote_requests import Asking, Waiting
from edgecron.client.schedule_questions import View
from edgecron.model.listing import RunPage, SchedulePage

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.client.run_questions import ScheduleCounts, Sizes
    from edgecron.engine.health import EngineState
    from edgecron.engine.other_engines import DatabaseCopy
    from edgecron.formats.document_plan import Step
    from edgecron.formats.document_values import Document
    from edgecron.model.choices import Cause, Status
    from edgecron.model.claim import Output
    from edgecron.model.filters import Filter
    from edgecron.model.listing import Choice, RunBounds, RunPage, ScheduleLine, SortBy, Standing
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Imported, Schedule, ScheduleSpec
    from edgecron.planning.backfill import Backfill
    from edgecron.planning.corrections import ClockState
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.triggers import Trigger
    from edgecron.views.busy import WeekHeat
    from edgecron.views.explanation import Explanation
    from edgecron.views.outlook import Foreseen, LatePlaces, Outlook
    from edgecron.views.statistics import Tallied


# How many fires to come are asked for at a time: most want few, and who wants many wants all.
_PAGES = (32, 480, 4_500, 10_000)
_MOST_SCHEDULES = 500
_MOST_RUNS = 1000


def _choice_fields(choice: Choice | None) -> dict[str, object]:
    """A choice as the parameters of lists of schedules; those that choose nothing are left out."""
    if choice is None:
        return {}
    fields = {
        "word": choice.words,
        "group": choice.group,
        "failed": choice.is_failed,
        "paused": choice.is_paused,
    }
    return {name: value for name, value in fields.items() if value}


class Reading(Asking):
    """What is, what was and what is to come."""

    def schedules(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Schedule]:
        page = self.schedule_page(after=after, limit=limit, choice=choice)
        for name in page.unreadable:
            self.schedule(name)  # raises what is wrong with it
        return page.schedules

    def schedule_page(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> SchedulePage:
        """In pages, however many are wanted: so that no answer is too large."""
        found = SchedulePage([], [])
        count = 0
        while limit is None or count < limit:
            size = _MOST_SCHEDULES if limit is None else min(limit - count, _MOST_SCHEDULES)
            page: SchedulePage = self._ask(
                "schedule_page",
                after=after or None,
                limit=size,
                view=View.RECORD,
                **_choice_fields(choice),
            )
            found.schedules.extend(page.schedules)
            found.unreadable.extend(page.unreadable)
            names = page.names
            count += len(names)
            if len(names) < size:
                break
            after = names[-1]
        return found

    def count_schedules(self) -> tuple[int, int, int]:
        counts: ScheduleCounts = self._status("counts").counts
        return counts.schedules, counts.broken, counts.vanished

    def state(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self._ask("state", name=name)
        return found

    def count_state(self, name: str) -> int:
        found: int = self._ask("count_state", name=name)
        return found

    def standings(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Standing]:
        found: list[Standing] = self._ask(
            "standings", after=after, limit=limit, **_choice_fields(choice)
        )
        return found

    def schedule(self, name: str) -> Schedule:
        found: Schedule = self._ask("schedule", name=name)
        return found

    def triggers(self, schedule: Schedule) -> list[Trigger]:
        found: list[Trigger] = self._ask("triggers", schedule=schedule)
        return found

    def triggers_at(self, name: str, at: datetime) -> list[Trigger]:
        found: list[Trigger] = self._ask("triggers_at", name=name, at=at)
        return found

    def next_fires(
        self, name: str | None = None, *, matches: Filter | None = None
    ) -> Iterator[UpcomingFire]:
        """In pages: what is changed meanwhile may be seen as it was, or twice."""
        skip = 0
        while True:
            limit = next((size for size in _PAGES if size > skip), _PAGES[-1])
            page: list[UpcomingFire] = self._ask(
                "next_fires", schedule=name, filter=matches, skip=skip, limit=limit
            )
            yield from page
            skip += len(page)
            if len(page) < limit:
                return

    def execution(self, execution_id: int) -> Execution:
        found: Execution = self._ask("execution", execution_id=execution_id)
        return found

    def history(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> list[Execution]:
        return self.history_page(
            name,
            statuses=statuses,
            causes=causes,
            before_id=before_id,
            limit=limit,
            with_former=with_former,
        ).runs

    def history_page(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> RunPage:
        found = RunPage([], [])
        while len(found.runs) < limit:
            size = min(limit - len(found.runs), _MOST_RUNS)
            page: RunPage = self._ask(
                "history_page",
                schedule=name,
                status=statuses,
                cause=causes,
                before=before_id,
                limit=size,
                former=with_former,
            )
            found.runs.extend(page.runs)
            found.unreadable.extend(page.unreadable)
            if len(page.runs) < size:
                break
            before_id = page.runs[-1].id
        return found

    def find_dependents(self, name: str) -> list[str]:
        found: list[str] = self._ask("find_dependents", name=name)
        return found

    def waiting_runs(self, *, limit: int = 20) -> list[Execution]:
        found: list[Execution] = self._ask("waiting_runs", limit=limit)
        return found

    def last_run(self, name: str) -> Execution:
        found: Execution = self._ask("last_run", name=name)
        return found

    def next_attempt(self, execution: Execution) -> Execution | None:
        found: Execution | None = self._ask("next_attempt", execution_id=execution.id)
        return found

    def spec_of(self, execution: Execution) -> ScheduleSpec | None:
        found: ScheduleSpec | None = self._ask("spec_of", execution_id=execution.id)
        return found

    def imported(self) -> list[Imported]:
        found: list[Imported] = self._ask("imported")
        return found

    def note_imported(self, entries: Sequence[Imported]) -> None:
        self._ask("note_imported", entries=entries)

    def removals(self, name: str) -> list[tuple[int, datetime]]:
        return [(id_, at) for id_, at in self._ask("removals", name=name)]

    def removed_at(self, name: str) -> datetime | None:
        found: datetime | None = self._ask("removed_at", name=name)
        return found

    def output(self, execution_id: int) -> Output | None:
        found: Output | None = self._ask("output", execution_id=execution_id)
        return found

    def active_counts(self) -> dict[Status, int]:
        found: dict[Status, int] = self._status("active").active
        return found

    def late_places(self) -> LatePlaces:
        found: LatePlaces = self._status("late_places").late_places
        return found

    def engines(self) -> list[EngineState]:
        found: list[EngineState] = self._ask("engines")
        return found

    def clock_state(self) -> ClockState:
        """Whether the other machine's clock can be trusted, as its engines see it."""
        found: ClockState = self._status("clock").clock
        return found

    def local_zone(self) -> str | None:
        found: str | None = self._status("local_zone").local_zone
        return found

    def twins(self) -> list[DatabaseCopy]:
        found: list[DatabaseCopy] = self._ask("twins")
        return found

    def disk_problem(self) -> str | None:
        found: str | None = self._status("disk_problem").disk_problem
        return found

    def has_engine(self, queue: str, *, offer: str | None = None) -> bool:
        found: bool = self._ask("has_engine", queue=queue, offer=offer)
        return found

    def is_supervised(self, execution: Execution) -> bool:
        found: bool = self._ask("is_supervised", execution_id=execution.id)
        return found

    def take_over(self) -> None:
        self._ask("take_over")

    def outlook(self, name: str, *, upcoming: int = 5) -> Outlook:
        found: Outlook = self._ask("outlook", name=name, upcoming=upcoming)
        return found

    def foresee(
        self, spec: ScheduleSpec, *, schedule: Schedule | None = None, upcoming: int = 10
    ) -> Foreseen:
        found: Foreseen = self._ask("foresee", spec=spec, schedule=schedule, upcoming=upcoming)
        return found

    def explain(self, name: str, at: datetime) -> Explanation:
        """Without the timing of its words, which stays where it is."""
        found: Explanation = self._ask("explain", name=name, at=at)
        return found

    def tallies(
        self,
        name: str | None = None,
        *,
        since: datetime,
        after: str | None = None,
        limit: int | None = None,
    ) -> Tallied:
        found: Tallied = self._ask("tallies", schedule=name, since=since, after=after, limit=limit)
        return found

    def week_heat(self, zone: str | None = "local") -> Iterator[WeekHeat | None]:
        """In a zone of this machine's: its own, where that is `local`."""
        if zone == "local":
            from edgecron.triggers import local_zone_name

            zone = local_zone_name()
        found: WeekHeat = self._ask("week_heat", zone=zone)
        yield found

    def plan_document(
        self, document: Document, *, origin: str, is_pruned: bool = False
    ) -> tuple[Step, ...]:
        found: tuple[Step, ...] = self._ask(
            "plan_document", document=document, origin=origin, is_pruned=is_pruned
        )
        return found

    def check(self, step: Step) -> None:
        self._ask("check", step=step)

    def plan_backfill(self, name: str, from_at: datetime, to_at: datetime) -> Backfill:
        found: Backfill = self._ask("plan_backfill", name=name, from_at=from_at, to_at=to_at)
        return found


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
