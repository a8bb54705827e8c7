"""The questions of front ends, which change nothing: a part of the interface `Client`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from edgecron.model.listing import (
    ALL_RUNS,
    Acknowledged,
    Choice,
    Lane,
    NamedId,
    Removal,
    RunBounds,
    RunChoice,
    RunPage,
    RunSort,
    ScheduleLine,
    SchedulePage,
    SortBy,
    Standing,
)

if TYPE_CHECKING:
    from array import array

    from edgecron.client.engine_health import EngineState
    from edgecron.client.following import Follower, LaterRuns
    from edgecron.engine.other_engines import DatabaseCopy
    from edgecron.formats.document_tables import Document
    from edgecron.model.choices import Status
    from edgecron.model.filters import Filter
    from edgecron.model.notices import Notice
    from edgecron.model.run import Execution, Output
    from edgecron.model.schedule import Definition, Schedule, ScheduleSpec
    from edgecron.planning.corrections import ClockState
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.simulation import Simulation
    from edgecron.triggers import Trigger
    from edgecron.views.busy import WeekHeat
    from edgecron.views.outlook import Explanation, Foreseen, LatePlaces, Outlook
    from edgecron.views.schedule_health import ScheduleHealth
    from edgecron.views.statistics import Tallied


class Reader(Protocol):
    """The schedules of a database, for one thread and only to read."""

    @property
    def place(self) -> str:
        """Where the database is, for people: a path or a URL."""

    def now(self) -> datetime:
        """Return the wall time of the database's machine, aware, in UTC."""

    def close(self) -> None:
        """Stop following."""

    def definitions(self) -> list[Definition]:
        """Return all schedules as documents define them, by name: cheaper than `schedules`.

        Raises Unreadable if one of them can't be read.
        """

    def schedule_page(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> SchedulePage:
        """Return the same schedules, and the names of those that can't be read."""

    def count_schedules(self) -> tuple[int, int, int]:
        """Return how many schedules there are, are broken, and are run by no program."""

    def standings(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Standing]:
        """Return how schedules stand: the few fields of a list, cheaper than `schedules`."""

    def schedule(self, name: str) -> Schedule:
        """Return a schedule. Raises NotFound with a suggestion, or Unreadable."""

    def next_fires(
        self,
        name: str | None = None,
        *,
        matches: Filter | None = None,
        most_each: int | None = None,
    ) -> Iterator[UpcomingFire]:
        """Yield the fires to come of one schedule, or of all, in the order in which they can start.

        Of all schedules, yield at most `most_each` fires of each one's triggers.
        Raises NotFound; InvalidTrigger if the triggers of the named schedule can't be read.
        """

    def clock_state(self) -> ClockState:
        """Return whether the clock of the database's machine can be trusted."""

    def is_clock_trusted(self) -> bool:
        """Return whether engines would trust the clock of the database's machine for fires."""

    def local_zone(self) -> str | None:
        """Return the zone that `local` means there; None if it has no name."""

    def active_counts(self) -> dict[Status, int]:
        """Return how many runs are queued and how many are running."""


class Questions(Reader, Protocol):
    """Questions about schedules, runs and engines, and about what will happen."""

    # Schedules.

    def schedules(self) -> list[Schedule]:
        """Return all schedules by name.

        Raises Unreadable if one of them can't be read; see `schedule_page`.
        """

    def state(self, name: str) -> dict[str, str]:
        """Return what a schedule's job remembers between runs: texts of JSON by key."""

    def count_state(self, name: str) -> int:
        """Return how many keys `state` has, without reading them."""

    def acknowledged(self, schedule_ids: Sequence[int]) -> list[Acknowledged]:
        """Return which failures of these schedules a person has acknowledged, by their errors."""

    def triggers(self, schedule: Schedule) -> list[Trigger]:
        """Return the triggers of a schedule. Raises InvalidTrigger if they can't be read."""

    def triggers_at(self, name: str, at: datetime) -> list[Trigger]:
        """Return the triggers that a schedule had at a time; none if they can't be read."""

    def find_dependents(self, name: str) -> list[str]:
        """Return the names of schedules that follow a schedule or need its success."""

    def removals(self, name: str) -> list[Removal]:
        """Return the id and the time of each removed schedule of this name, newest first."""

    def removed_at(self, name: str) -> datetime | None:
        """Return when the schedule of this name was removed; None if it exists or never did."""

    # Schedules as lists show them.

    def schedule_order(
        self,
        sort: SortBy | None = None,
        *,
        is_descending: bool = False,
        matches: Filter | None = None,
    ) -> array[int]:
        """Return the ids of the schedules that a filter lets through, in an order."""

    def schedule_lines(self, ids: Sequence[int]) -> list[ScheduleLine]:
        """Return schedules of these ids as lines of a list; removed ones are missing."""

    def first_schedule_lines(self, limit: int) -> list[ScheduleLine]:
        """Return the first schedules by name as lines of a list."""

    def schedule_names(self) -> list[NamedId]:
        """Return the id and the name of each schedule, removed ones included."""

    def schedule_ids_named(self, matches: Filter) -> array[int]:
        """Return the ids of schedules that a filter lets through by name and command.

        Removed ones are included.
        """

    def nearest_names(self, letters: str, *, limit: int) -> list[str]:
        """Return the names nearest to some letters, best first."""

    def change_mark(self) -> int:
        """Return a number that changes with each commit to the database. It is cheap."""

    def lock_waits(self) -> int:
        """Return how often this client waited for the lock of another process."""

    # What will happen, and why.

    def outlook(self, name: str, *, upcoming: int = 5) -> Outlook:
        """Return what will happen next to a schedule, and why. Raises NotFound."""

    def foresee(
        self, spec: ScheduleSpec, *, schedule: Schedule | None = None, upcoming: int = 10
    ) -> Foreseen:
        """Return what would come of a specification that is not written yet.

        `schedule` is the schedule that it would change. Raises InvalidInput.
        """

    def schedule_health(self, *, limit: int = 5) -> ScheduleHealth | None:
        """Return which schedules are not healthy, and why; None from an older server."""

    def explain(self, name: str, at: datetime) -> Explanation:
        """Return why a schedule ran, did not run, or will not run at a time. Raises NotFound."""

    def tallies(
        self,
        name: str | None = None,
        *,
        since: datetime,
        after: str | None = None,
        limit: int | None = None,
        with_trends: bool = False,
    ) -> Tallied:
        """Return what the runs since a time amount to, per schedule and in total.

        `after` and `limit` choose a page by name; `with_trends` adds the month before. A removed
        schedule is included, but only in the total if its name is taken. Raises NotFound.
        """

    def week_heat(
        self, zone: str | None = "local", *, most_per_hour: int | None = None
    ) -> Iterator[WeekHeat | None]:
        """Count the fires of the next week per hour, in slices: None until the last one.

        Schedules that run more often in an hour than `most_per_hour` are left out.
        """

    def timeline(
        self, ids: Sequence[int], *, from_at: datetime, until_at: datetime, cells: int
    ) -> list[Lane]:
        """Return what these schedules did and will do in each cell of a span, in this order.

        Only the newest runs of schedules with very many are read. Raises InvalidInput.
        """

    def simulate(
        self, *, from_at: datetime, until_at: datetime, document: Document | None = None
    ) -> Iterator[Simulation | None]:
        """Simulate the schedules, or those of a document, in slices: None until the last one.

        Raises InvalidInput for an empty span, or one of over ten years.
        """

    # Runs.

    def execution(self, execution_id: int) -> Execution:
        """Return a run. Raises NotFound, or Unreadable."""

    def history(
        self, name: str | None = None, *, choice: RunChoice = ALL_RUNS, limit: int = 20
    ) -> list[Execution]:
        """Return runs, newest first, without the unreadable ones: see `history_page`."""

    def history_page(
        self, name: str | None = None, *, choice: RunChoice = ALL_RUNS, limit: int = 20
    ) -> RunPage:
        """Return runs, newest first, and the ids of unreadable runs between them.

        If no schedule has this name, the runs of the newest removed one. Fewer than `limit` is the
        end. Raises NotFound.
        """

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
        since: datetime | None = None,
        until: datetime | None = None,
        least_ms: int | None = None,
        most_ms: int | None = None,
        sort: RunSort | None = None,
        is_descending: bool = False,
    ) -> RunPage:
        """Return runs before or after an id, newest first, or the first ones in another order.

        An empty tuple of statuses, causes or reasons, and None elsewhere, let every run through.
        """

    def run_bounds(self) -> RunBounds:
        """Return the first and the last id of all runs; 0 and 0 if there is none."""

    def waiting_runs(self, *, limit: int = 20) -> list[Execution]:
        """Return queued runs in the order in which they can start."""

    def last_run(self, name: str) -> Execution:
        """Return the newest run of a schedule that started. Raises NotFound."""

    def last_failure(self) -> Execution | None:
        """Return the newest run that failed or was interrupted; None if there is none."""

    def next_attempt(self, execution: Execution) -> Execution | None:
        """Return the retry of a run; None if there is none."""

    def spec_of(self, execution: Execution) -> ScheduleSpec | None:
        """Return what a run's schedule said when the run was decided; None if that was pruned."""

    def output(self, execution_id: int) -> Output | None:
        """Return the stored output of an ended run; None if it printed nothing or has not ended."""

    def is_supervised(self, execution: Execution) -> bool:
        """Return whether a living supervisor looks after a run."""

    def follower(self, execution_id: int, *, position: int = 0) -> Follower:
        """Open the output of a run, live, from a position in bytes. Close it when done."""

    def later_runs(self, name: str, *, known: Execution | None) -> LaterRuns:
        """Open the runs of a schedule that begin from now on, except a known one."""

    def notices(
        self, *, rule: str | None = None, before: int | None = None, limit: int = 20
    ) -> list[Notice]:
        """Return notices, newest first: of a rule, and before an id."""

    # Engines and the database.

    def engines(self) -> list[EngineState]:
        """Return the engines of the database and how each does."""

    def other_databases(self) -> list[DatabaseCopy]:
        """Return other databases that engines have open under the same path."""

    def has_engine(self, queue: str, *, offer: str | None = None) -> bool:
        """Return whether a running engine takes runs of a queue, and of this offer of the queue."""

    def late_places(self) -> LatePlaces:
        """Return which late runs hold the places of working engines for late runs."""

    def disk_problem(self) -> str | None:
        """Why engines can't record a start: too little room beside the database; None if not."""

    def database_sizes(self) -> tuple[int, int]:
        """Return the bytes of the database and of its write-ahead log."""
