"""The interface of all front ends: a database on this machine, or elsewhere over HTTP.

`edgecron.client.Client` implements it on a file, `edgecron.client.remote.RemoteClient` over the
HTTP API. Methods that are neither here nor in `questions` need the machine of the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, Self

from edgecron.client.questions import Questions
from edgecron.model.run import AS_SCHEDULED, Execution, RunOptions

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.formats.document_tables import Document, Step
    from edgecron.model.schedule import Change, Imported, Schedule, ScheduleSpec, Undo
    from edgecron.planning.forecast import Backfill


class Client(Questions, Protocol):
    """A database of schedules and runs, for one thread.

    Each method can raise DatabaseUnusable; elsewhere that is ServerUnavailable.
    """

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    # Opening and time.

    @property
    def clock(self) -> Clock:
        """The clock of the database's machine."""

    def interrupt(self) -> None:
        """Let the running question raise QueryInterrupted. Can be called from any thread.

        Between two questions it does nothing.
        """

    def close(self) -> None:
        """Close the connection. Closing twice is harmless."""

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

    def undo(
        self,
        name: str,
        revision: int | None = None,
        *,
        seen: int | None = None,
        change: int | None = None,
    ) -> Undo:
        """Undo the last change of a schedule, or return to the definition of a revision.

        `change` undoes the one that made this revision; all later ones must be undone. Raises
        NotFound; Conflict if there is nothing to undo, or if the schedule has another revision than
        `seen`; and what a change raises.
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

    def acknowledge(self, schedule_id: int, error: str, execution_id: int) -> None:
        """Acknowledge the failures of a schedule with an error, up to a run."""

    def limit_group(self, group: str, max_running: int | None) -> None:
        """Let at most so many runs of a group run at the same time; None is no limit."""

    # Runs started and ended by hand.

    def run_now(
        self, name: str, *, payload: str | None = None, options: RunOptions = AS_SCHEDULED
    ) -> list[Execution]:
        """Queue a run of a schedule in each of its scopes, and return them.

        `payload`, a text of JSON, replaces the schedule's for this run. Raises NotFound.
        """

    def run_once(
        self,
        name: str,
        *,
        key: str,
        payload: str | None = None,
        asked_at: datetime | None = None,
        options: RunOptions = AS_SCHEDULED,
    ) -> list[Execution]:
        """Queue as `run_now`, once for a key: the same key gives the same runs.

        The key holds as long as its run is in the history. `asked_at` is the time of the first
        try (default: now). Raises KeyReused if the payload is another one, and Conflict if the
        key is unknown and the first try is too long ago.
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

    # Runs of dead engines.

    def take_over(self) -> None:
        """Record the ends of runs whose engine has died."""
