"""Client: a database on this machine.

Its methods lie in one class per subject, in `opening`, `schedules`, `schedule_changes`, `runs`,
`manual_runs`, `outlook` and `backfill`. Here are documents, statistics and upkeep of the whole
database.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from edgecron.base.checks import check_aware_or_none
from edgecron.base.errors import Conflict, DatabaseUnusable, NotFound
from edgecron.base.units import from_ms, to_ms
from edgecron.client.manual_runs import Backfills, ManualRuns
from edgecron.client.outlook import Outlooks
from edgecron.model.run import EndedRun, Measures
from edgecron.store.sql.schedule_lists import find_names
from edgecron.store.sqlite.whole_file import Orphans, compact, repair_orphans

if TYPE_CHECKING:
    from edgecron.client.backup import Backup
    from edgecron.client.restore import Restoration
    from edgecron.formats.document_tables import Document, Step
    from edgecron.model.notices import Notice
    from edgecron.model.schedule import Change, Schedule, Undo
    from edgecron.planning.retention import Forgotten, Pruned, Removed, Retention
    from edgecron.planning.simulation import Simulation
    from edgecron.planning.times import CompiledSpec
    from edgecron.views.statistics import Tallied, Trend


MOST_COUNTED = 100_000  # that statistics count: a second, whatever the history holds
_MOST_OUTPUTS = 1_000


_OWN_CHECKS = "the server keeps its rows whole; to check its files: pg_amcheck"


def _say_nothing(done: int, count: int) -> None:
    """Ignore progress."""


class Client(Outlooks, Backfills, ManualRuns):
    """A database of schedules and runs. For one thread; the file is opened on first use.

    `database` None is the one that the command line would use: EDGECRON_DB, else the configured
    one, else this user's default. With `must_exist`, a missing file raises NotFound instead of
    being created. `retention` None is the default retention.
    """

    # Changes of several schedules. `apply` reads and compares documents, which takes 5 ms to load:
    # a tenth of `edgecron list`.

    def plan_document(
        self, document: Document, *, origin: str, is_pruned: bool = False
    ) -> tuple[Step, ...]:
        """Return the steps that would bring the schedules to what a document wants.

        Raises InvalidDocument with everything that is wrong with it.
        """
        from edgecron.client.apply import Apply

        return Apply(self).plan(document, origin=origin, is_pruned=is_pruned)

    def simulate(
        self, *, from_at: datetime, until_at: datetime, document: Document | None = None
    ) -> Iterator[Simulation | None]:
        """Simulate the schedules, or those of a document, in slices: None until the last one.

        Raises InvalidInput for an empty span, or one of over ten years.
        """
        from edgecron.client.simulating import Simulating

        return Simulating(self, from_at=from_at, until_at=until_at).run(document)

    def check(self, step: Step) -> CompiledSpec | None:
        """Check a step as `apply` would, without a change.

        Return the compiled specification; None if it stays as it is.
        """
        from edgecron.client.apply import Apply

        return Apply(self).check(step)

    def apply(self, steps: Sequence[Step], *, origin: str) -> list[Schedule]:
        """Carry out steps, all of them or none, and return the schedules that they changed.

        Raises Conflict if one of them has changed since, and the errors of a single change.
        """
        from edgecron.client.apply import Apply

        return Apply(self).carry_out(steps, origin=origin)

    def finish_apply(self) -> int:
        """Finish an apply whose process has died; return how many steps it had."""
        if self.store.find_pending_apply() is None:
            return 0
        from edgecron.client.apply import Apply

        return Apply(self).finish()

    def notices(
        self, *, rule: str | None = None, before: int | None = None, limit: int = 20
    ) -> list[Notice]:
        """Return notices, newest first: of a rule, and before an id."""
        from edgecron.store.sql.outbox import find_notices

        return find_notices(self.store, before_id=before, limit=limit, rule=rule)

    # Changes of a schedule.

    def changes(self, name: str, *, before: int | None = None, limit: int = 20) -> list[Change]:
        """Return the changes of a schedule before a revision, newest first.

        If no schedule has this name, those of the newest removed one. Raises NotFound.
        """
        from edgecron.client.undo import ChangeLog

        return ChangeLog(self).find(name, before=before, limit=limit)

    def last_changed(self) -> list[str]:
        """Return the schedules of the last change: several if one transaction changed them."""
        found = set(self.store.find_last_changed())
        return [name for schedule_id, name in find_names(self.store) if schedule_id in found]

    def plan_undo(self, name: str, revision: int | None = None) -> Undo:
        """Return what `undo` would do, without a change."""
        from edgecron.client.undo import Undoing

        return Undoing(self).plan(name, revision)

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
        from edgecron.client.undo import Undoing

        return Undoing(self).undo(name, revision, seen=seen, change=change)

    # Statistics.

    def tallies(
        self,
        name: str | None = None,
        *,
        since: datetime,
        after: str | None = None,
        limit: int | None = None,
        with_trends: bool = False,
    ) -> Tallied:
        """Return what the runs since an instant amount to, per schedule and in total.

        `after` and `limit` choose a page of schedules by name; only their runs are read. A removed
        schedule is included; if another schedule has its name, it counts only in the total.
        `with_trends` also reads the month before. Raises NotFound.
        """
        from edgecron.store.sql.statistics import (
            find_ended,
            find_named_page,
            find_names_of,
            find_output_sizes,
            find_pruned,
        )
        from edgecron.views.statistics import MONTH_MS, Tallied, find_trends, spread, tally

        check_aware_or_none("since", since)
        since_ms = to_ms(since)
        first_ms = since_ms - MONTH_MS if with_trends else since_ms
        schedule_id = None if name is None else self.past_id(name)
        database = self.store
        if schedule_id is None and limit is not None:
            names = find_named_page(database, since_ms=since_ms, after=after, limit=limit)
            each = MOST_COUNTED // max(1, len(names))
            runs, cut_ms = find_ended(database, list(names), since_ms=first_ms, limit=each)
        else:
            names = find_names_of(database, schedule_id)
            ids = None if schedule_id is None else [schedule_id]
            runs, cut_ms = find_ended(database, ids, since_ms=first_ms, limit=MOST_COUNTED)
        trends: dict[str, Trend] = {}
        if with_trends:
            trends = find_trends(
                runs,
                names,
                pruned=find_pruned(database, names),
                since_ms=since_ms,
                until_ms=self._clock.now_ms(),
                known_from_ms=cut_ms or 0,
            )
            runs = [run for run in runs if run.written_ms >= since_ms]
            cut_ms = None if cut_ms is None or cut_ms <= since_ms else cut_ms
        grouped: dict[int, list[EndedRun]] = {}
        for run in runs:
            grouped.setdefault(run.schedule_id, []).append(run)
        named = {
            names[each]: ended
            for each, ended in grouped.items()
            if names.get(each, "") > (after or "")
        }
        sizes = []
        if schedule_id is not None:
            sizes = find_output_sizes(database, schedule_id, since_ms=since_ms, limit=_MOST_OUTPUTS)
        return Tallied(
            since=since,
            cut_at=None if cut_ms is None else from_ms(cut_ms),
            by_name={each: tally(named[each]) for each in sorted(named)},
            total=tally(runs),
            output_bytes=spread(sizes),
            trends={each: trends[each] for each in sorted(named) if each in trends},
        )

    def measures(self, *, per_schedule: bool = False) -> Measures:
        """Return counts and times of every schedule, active runs, and histograms of all runs.

        With `per_schedule`, also the histograms of each schedule.
        """
        from edgecron.store.sql.statistics import (
            count_active,
            find_by_schedule,
            find_durations,
            find_lateness,
            find_lock_failures,
            find_measured,
        )

        database = self.store
        return Measures(
            schedules=find_measured(database, now_ms=self._clock.now_ms()),
            active=count_active(database),
            duration=find_durations(database),
            late=find_lateness(database),
            lock_failures=find_lock_failures(database),
            by_schedule=find_by_schedule(database) if per_schedule else None,
        )

    # Upkeep: copies of the whole database, and removal of what is too old or too much.

    def backup(
        self,
        path: str | Path,
        *,
        replace: bool = False,
        on_progress: Callable[[int, int], object] = _say_nothing,
    ) -> Backup:
        """Copy the database to a file, or into a folder under a dated name, while it is in use.

        The file gets its name only when it is whole, on the disk, and undamaged. Raises
        AlreadyExists if it exists and `replace` is not set, InvalidInput or NotFound for a place
        where no backup can be, DatabaseUnusable for a damaged database.
        """
        from edgecron.client.backup import make_backup

        return make_backup(
            self._file_to_copy(),
            str(path),
            now=self.now(),
            replace=replace,
            on_progress=on_progress,
        )

    def write_backup(
        self,
        write: Callable[[bytes], object],
        *,
        on_progress: Callable[[int, int], object] = _say_nothing,
    ) -> Backup:
        """Copy the database to `write`, part by part, after a check for damage."""
        from edgecron.client.backup import write_backup

        return write_backup(self._file_to_copy(), write, now=self.now(), on_progress=on_progress)

    def restoring(
        self,
        path: str | Path,
        *,
        on_progress: Callable[[int, int], object] = _say_nothing,
    ) -> AbstractContextManager[Restoration]:
        """Check a backup that is to replace the database; nothing changes yet.

        Within the context, its `carry_out` replaces the database. Raises NotFound if there is no
        such file, DatabaseUnusable for a damaged one, Conflict if an engine, a supervisor or
        another program has the database open.
        """
        from edgecron.client.restore import prepare_restore

        file = self.file(
            "restore",
            instead=f"with PostgreSQL's own program: psql -d '{self.location}' -f FILE",
        )
        # A missing database must not be created, and a damaged one can't be read.
        if os.path.lexists(file):
            with suppress(NotFound, DatabaseUnusable):
                self.take_over()
        self.close()
        return prepare_restore(file, Path(path), clock=self.clock, on_progress=on_progress)

    def _file_to_copy(self) -> Path:
        if self._opening["reads_if_full"]:
            self.close()  # On a full disk, it would keep out the connection that copies.
        return self.file(
            "backup", instead=f"with PostgreSQL's own program: pg_dump -d '{self.location}' -f FILE"
        )

    @property
    def retention(self) -> Retention:
        """The default retention of this client."""
        if self._retention is None:
            from edgecron.planning.retention import Retention

            self._retention = Retention()
        return self._retention

    def prune(
        self,
        name: str | None = None,
        *,
        retention: Retention | None = None,
        dry_run: bool = False,
        on_progress: Callable[[Removed], object] = lambda removed: None,
    ) -> Pruned:
        """Remove what is beyond a retention (default: the client's own).

        `name` chooses one schedule, also a removed one; `database_bytes` then has no meaning.
        Engines continue meanwhile. A dry run only reports what would go. Raises NotFound.
        """
        from edgecron.planning.retention import Kept, Pruned, limits_at, sum_of
        from edgecron.store.sql.retention import prune

        schedule_id = None if name is None else self.past_id(name)
        retention = retention or self.retention
        is_trusted = self.is_clock_trusted()
        limits = limits_at(retention, self._clock.now_ms(), is_trusted=is_trusted)
        before = Kept(*self.store.find_size())
        done: list[Removed] = []
        slices = prune(self.store, limits, schedule_id=schedule_id, is_trial=dry_run)
        for removed in slices:
            if removed is None or not removed.count:
                continue
            done = sum_of(done, removed)
            on_progress(removed)
            if not dry_run:
                self.store.tidy()
                self.store.let_others_write()
        return Pruned(
            removed=tuple(done),
            before=before,
            after=Kept(*self.store.find_size()),
            has_ages=is_trusted,
        )

    def repair_orphans(self) -> list[Orphans]:
        """Repair rows that refer to missing rows, if that loses no history.

        Return what was repaired. Engines continue meanwhile.
        """
        counts: Counter[tuple[str, str]] = Counter()
        store = self.file_store("a repair of rows", instead=_OWN_CHECKS)
        for one in repair_orphans(store):
            counts[one.table, one.parent] += one.row_count
            self.store.tidy()
            self.store.let_others_write()
        return [Orphans(*key, row_count=count) for key, count in counts.items()]

    def forget(self, name: str, *, dry_run: bool = False) -> Forgotten:
        """Remove the former definitions of a schedule for good.

        Of removed schedules of this name, also the last definition. Raises NotFound.
        """
        from edgecron.planning.retention import Forgotten
        from edgecron.store.sql.old_rows import forget

        ids = self.store.find_ids_of_name(name) or [self.past_id(name)]
        found = [forget(self.store, one, is_trial=dry_run) for one in ids]
        return Forgotten(
            removed=sum(one.removed for one in found),
            kept=sum(one.kept for one in found),
            is_log_empty=found[-1].is_log_empty,
        )

    def compact(self) -> None:
        """Give free space of the database file back to the file system.

        The whole file is written again under one lock, and nothing else can be written meanwhile.
        Raises Conflict if an engine is running, which must not wait so long.
        """
        file = self.file_store("--compact", instead="the server does it: psql -c 'VACUUM FULL'")
        alive = [state for state in self.engines() if state.is_alive]
        if alive:
            raise Conflict(
                f"an engine, pid {alive[0].info.pid}, is running and could not write meanwhile",
                hint="stop it first; without --compact, edgecron fills the free space again",
            )
        compact(file)
