"""The interface of all front ends: a database on this machine, or elsewhere over HTTP.

`edgecron.client.Client` implements it on a file, `edgecron.client.remote.RemoteClient` over the
HTTP API. Methods that are not here need the machine of the database.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.client.engine_health import EngineState
    from edgecron.client.following import Follower, LaterRuns
    from edgecron.engine.other_engines import DatabaseCopy
    from edgecron.formats.document_plan import Step
    from edgecron.formats.document_values import Document
    from edgecron.model.changes import Change, Undo
    from edgecron.model.choices import Cause, Status
    from edgecron.model.claim import Output
    from edgecron.model.filters import Filter
    from edgecron.model.listing import (
        Choice,
        NamedId,
        Removal,
        RunBounds,
        RunPage,
        ScheduleLine,
        SchedulePage,
        SortBy,
        Standing,
    )
    from edgecron.model.notices import Notice
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Definition, Imported, Schedule, ScheduleSpec
    from edgecron.planning.backfill import Backfill
    from edgecron.planning.corrections import ClockState
    from edgecron.planning.forecast import UpcomingFire
    from edgecron.planning.simulation import Simulation
    from edgecron.triggers import Trigger
    from edgecron.views.busy import WeekHeat
    from edgecron.views.explanation import Explanation
    from edgecron.views.outlook import Foreseen, LatePlaces, Outlook
    from edgecron.views.schedule_health import ScheduleHealth
    from edgecron.views.statistics import Tallied


class Reader(Protocol):
    """The schedules of a database, for one thread and only to read."""

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
        self, name: str | None = None, *, matches: Filter | None = None
    ) -> Iterator[UpcomingFire]:
        """Yield the fires to come of one schedule, or of all, in the order in which they can start.

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


class Client(Reader, Protocol):
    """A database of schedules and runs, for one thread.

    Each method can raise DatabaseUnusable; elsewhere that is ServerUnavailable.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    # Opening and time.

    @property
    def clock(self) -> Clock:
        """The clock of the database's machine."""

    @property
    def place(self) -> str:
        """Where the database is, for people: a path or a URL."""

    def interrupt(self) -> None:
        """Let the running question raise QueryInterrupted. Can be called from any thread.

        Between two questions it does nothing.
        """

    def close(self) -> None:
        """Close the connection. Closing twice is harmless."""

    # Schedules.

    def schedules(
        self, *, after: str | None = None, limit: int | None = None, choice: Choice | None = None
    ) -> list[Schedule]:
        """Return schedules by name: after a name, at most `limit`, that a choice lets through.

        Raises Unreadable if one of them can't be read; see `schedule_page`.
        """

    def state(self, name: str) -> dict[str, str]:
        """Return what a schedule's job remembers between runs: texts of JSON by key."""

    def count_state(self, name: str) -> int:
        """Return how many keys `state` has, without reading them."""

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
        """Return the ids of schedules whose names a filter lets through, removed ones included."""

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

    def week_heat(self, zone: str | None = "local") -> Iterator[WeekHeat | None]:
        """Count the fires of the next week per hour, in slices: None until the last one."""

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
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> list[Execution]:
        """Return runs, newest first, without the unreadable ones: see `history_page`."""

    def history_page(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> RunPage:
        """Return runs, newest first, before an id, and the ids of unreadable runs between them.

        Only runs from `since` on and before `until`: by their start, or by their plan time if they
        have not started. If no schedule has this name, the runs of the newest removed one;
        `with_former` adds all removed ones of this name. Fewer than `limit` is the end. Raises
        NotFound.
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
    ) -> RunPage:
        """Return runs before or after an id, newest first, as a list shows them.

        An empty tuple of statuses, causes or reasons, and None as ids, let every run through.
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

    # Changes of schedules.

    def add(self, spec: ScheduleSpec, *, origin: str = "python") -> Schedule:
        """Add a schedule; it computes from now and never fires for the past.

        Raises AlreadyExists, InvalidTrigger, UnknownTimezone or another InvalidInput.
        """

    def add_all(self, specs: Sequence[ScheduleSpec], *, origin: str = "python") -> list[Schedule]:
        """Add several schedules in one transaction: all, or none and an error."""

    def edit(
        self, name: str, change: Callable[[ScheduleSpec], ScheduleSpec], *, origin: str = "python"
    ) -> Schedule:
        """Change a schedule. New triggers compute from now; other edits keep the next time.

        `change` is called again if the schedule has changed meanwhile. Raises NotFound,
        InvalidInput, and Conflict.
        """

    def edit_once(
        self, schedule: Schedule, spec: ScheduleSpec, *, origin: str = "python"
    ) -> Schedule | None:
        """Change a schedule if it still is as it was read; None if it has changed."""

    def remove(self, name: str) -> Schedule:
        """Remove a schedule and return it: queued runs are cancelled, running ones finish.

        The history stays. Raises NotFound, or Unreadable.
        """

    def undo_removal(self, name: str | None = None) -> list[Schedule]:
        """Undo the last removal: of this name, or of any. Restores all of its schedules or none.

        Raises NotFound; Conflict if its definition was pruned; AlreadyExists if its name is taken.
        """

    def changes(self, name: str, *, before: int | None = None, limit: int = 20) -> list[Change]:
        """Return the changes of a schedule before a revision, newest first.

        If no schedule has this name, those of the newest removed one. Raises NotFound.
        """

    def last_changed(self) -> list[str]:
        """Return the schedules of the last change: several if one transaction changed them."""

    def plan_undo(self, name: str, revision: int | None = None) -> Undo:
        """Return what `undo` would do, without a change."""

    def undo(self, name: str, revision: int | None = None, *, seen: int | None = None) -> Undo:
        """Undo the last change of a schedule, or return to the definition of a revision.

        Raises NotFound; Conflict if there is nothing to undo, or if the schedule has another
        revision than `seen`; and what a change raises.
        """

    def remove_unreadable(self, name: str) -> bool:
        """Remove a schedule that can't be read; False if there is none of this name."""

    def pause(self, name: str, *, until: datetime | None = None) -> Schedule:
        """Pause a schedule until a time; None pauses it without end. Raises NotFound."""

    def resume(self, name: str) -> Schedule:
        """Resume a schedule. The times that passed meanwhile become one skipped run. Raises
        NotFound.
        """

    def reschedule(self, name: str, run_at: datetime) -> Schedule:
        """Move the next run of a schedule to a time, once. Raises NotFound, and InvalidInput."""

    def limit_group(self, group: str, max_running: int | None) -> None:
        """Let at most so many runs of a group run at the same time; None is no limit."""

    # Runs started and ended by hand.

    def run_now(self, name: str, *, payload: str | None = None) -> list[Execution]:
        """Queue a run of a schedule in each of its scopes, and return them.

        `payload`, a text of JSON, replaces the schedule's for this run. Raises NotFound.
        """

    def run_once(
        self, name: str, *, key: str, payload: str | None = None, asked_at: datetime | None = None
    ) -> list[Execution]:
        """Queue as `run_now`, once for a key: the same key gives the same runs.

        The key holds for 24 hours. `asked_at` is the time of the first try (default: now).
        Raises KeyReused if the payload is another one, and Conflict if the key is too old.
        """

    def cancel(self, execution_id: int) -> Execution:
        """Cancel a queued run, or end a running one; its end is recorded a moment later.

        Raises NotFound, and Conflict if it has ended.
        """

    def plan_backfill(self, name: str, from_at: datetime, to_at: datetime) -> Backfill:
        """Return the past times from `from_at` to `to_at` without success or active run."""

    def backfill(
        self,
        name: str,
        from_at: datetime,
        to_at: datetime,
        *,
        priority: int | None = None,
        on_progress: Callable[[int, int], object] = lambda done, count: None,
    ) -> list[int]:
        """Queue runs for these times and return their ids.

        `on_progress` is called with how many are queued, and of how many.
        """

    # Documents and crontabs.

    def plan_document(
        self, document: Document, *, origin: str, is_pruned: bool = False
    ) -> tuple[Step, ...]:
        """Return the steps that would bring the schedules to what a document wants.

        `origin` names the document; with `is_pruned`, schedules of that origin that it lacks go.
        """

    def check(self, step: Step) -> object:
        """Check a step, such as its times, without a change. Raises InvalidInput."""

    def apply(self, steps: Sequence[Step], *, origin: str) -> list[Schedule]:
        """Carry out steps in one transaction, and return the schedules they made or changed.

        Raises Conflict if a schedule was changed since the steps were planned.
        """

    def imported(self) -> list[Imported]:
        """Return the schedules that crontab imports made, and of which lines."""

    def note_imported(self, entries: Sequence[Imported]) -> None:
        """Record the schedules that a crontab import made."""

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

    def take_over(self) -> None:
        """Record the ends of runs whose engine has died."""
