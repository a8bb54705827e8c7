"""Remove former definitions: those that no run needs, and those that a person wants forgotten.

A snapshot holds variables, payload and stdin. SQLite overwrites removed bytes in the file too.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise

import apsw

from edgecron.base.values import NamedTuple
from edgecron.planning.retention import MOST_ROWS, Forgotten
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.revisions import is_noted
from edgecron.store.sqlite.statements import translated_errors

_RUN_PAGE = 1_000  # runs that one look spans
_PAIRS = 16  # snapshots that one look compares
_MOST_BATCH_BYTES = 2 * 1024 * 1024  # of one transaction: each page is overwritten


class Snapshot(NamedTuple):
    """One stored snapshot of a schedule, without its content."""

    revision: int
    at_ms: int
    origin: str
    size_bytes: int


class Unneeded(NamedTuple):
    """Snapshots of a schedule that can go, as long as it is still at `revision`.

    `ends` says of each snapshot that stays before one that goes until when it held.
    """

    schedule_id: int
    revision: int
    snapshots: Sequence[Snapshot]
    ends: dict[int, int]


def find_changed(database: Database, *, after_id: int, limit: int = 100) -> list[int]:
    """The next schedules that were changed since they were made; the lowest ids first."""
    rows = database.rows(
        """SELECT DISTINCT schedule_id
           FROM schedule_revisions INDEXED BY schedule_revisions_changed
           WHERE revision > 1 AND schedule_id > :after ORDER BY schedule_id LIMIT :limit""",
        {"after": after_id, "limit": limit},
    )
    return [row[0] for row in rows]


def look_for_unneeded(
    database: Database, schedule_id: int
) -> Generator[None, None, Unneeded | None]:
    """Find the snapshots of a schedule that no run needs; a short look at each turn.

    Needed are what the schedule says now and what it said when one of its runs was decided. Of a
    schedule that an older version imported from a crontab, also what its line said: the next import
    knows it by that.
    """
    snapshots = _find_snapshots(database, schedule_id)
    found = database.row("SELECT revision FROM schedules WHERE id = :id", {"id": schedule_id})
    if len(snapshots) < 2 or found is None:
        return None
    [revision] = found
    yield None
    repeats = yield from _find_repeats(database, schedule_id, snapshots)
    # Of several in a row that say the same, the first stays for all of them.
    numbers = [one.revision for one in snapshots if one.revision not in repeats]
    needed = {_snapshot_at(numbers, revision)}
    if snapshots[0].origin == "crontab" and not is_noted(database, schedule_id):
        needed.add(snapshots[0].revision)
    after_id = 0
    while not needed.issuperset(numbers):
        after_id, used = _find_used(database, schedule_id, after_id=after_id)
        if not used:
            break
        needed |= {_snapshot_at(numbers, one) for one in used}
        yield None
    gone = [one for one in snapshots if one.revision not in needed]
    if not gone:
        return None
    return Unneeded(schedule_id, revision, gone, _find_ends(snapshots, gone, repeats))


def remove_unneeded(database: Database, unneeded: Unneeded, batch: Sequence[Snapshot]) -> int:
    """Remove a batch of the unneeded snapshots, inside the caller's transaction; how many.

    0 if the schedule was changed since: another snapshot is needed then.
    """
    ids = {"id": unneeded.schedule_id}
    current = database.row("SELECT revision FROM schedules WHERE id = :id", ids)
    if current is None or current[0] != unneeded.revision:
        return 0
    for revision, until_ms in unneeded.ends.items():
        database.change(
            """UPDATE schedule_revisions SET known_until = :until
               WHERE schedule_id = :id AND revision = :revision
                   AND coalesce(known_until, :until + 1) > :until""",
            ids | {"revision": revision, "until": until_ms},
        )
    return database.change(
        """DELETE FROM schedule_revisions WHERE schedule_id = :id
               AND revision IN (SELECT value FROM json_each(:revisions))""",
        ids | {"revisions": json.dumps([one.revision for one in batch])},
    )


def batches_of(snapshots: Sequence[Snapshot]) -> Iterator[list[Snapshot]]:
    """Split what goes into transactions of few rows and few bytes."""
    batch: list[Snapshot] = []
    size_bytes = 0
    for one in snapshots:
        if batch and (len(batch) == MOST_ROWS or size_bytes + one.size_bytes > _MOST_BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(one)
        size_bytes += one.size_bytes
    if batch:
        yield batch


def forget(database: Database, schedule_id: int, *, is_trial: bool) -> Forgotten:
    """Remove a schedule's former definitions for good, and all of a removed schedule's.

    Definitions that an active run needs stay. So do the output and the payloads of past runs.
    """
    unneeded, kept = find_forgettable(database, schedule_id)
    if is_trial:
        return Forgotten(removed=len(unneeded.snapshots), kept=kept, is_log_empty=True)
    count = 0
    for batch in batches_of(unneeded.snapshots):
        with database.transaction():
            count += remove_unneeded(database, unneeded, batch)
    with database.transaction():
        blank_removed(database, schedule_id)
    return Forgotten(removed=count, kept=kept, is_log_empty=empty_log(database))


def find_forgettable(database: Database, schedule_id: int) -> tuple[Unneeded, int]:
    """Find the former snapshots that no active run needs, and count those that one does.

    Of a removed schedule, its last snapshot counts as a former one.
    """
    snapshots = _find_snapshots(database, schedule_id)
    numbers = [one.revision for one in snapshots]
    [(revision, is_removed)] = database.rows(
        "SELECT revision, deleted_at IS NOT NULL FROM schedules WHERE id = :id",
        {"id": schedule_id},
    )
    active = database.rows(
        """SELECT DISTINCT revision FROM executions INDEXED BY executions_active
           WHERE schedule_id = :id AND status IN ('queued', 'running')""",
        {"id": schedule_id},
    )
    needed = {_snapshot_at(numbers, row[0]) for row in active}
    current = {_snapshot_at(numbers, revision)}
    kept = len(needed if is_removed else needed - current)
    if not is_removed:
        needed |= current
    gone = [one for one in snapshots if one.revision not in needed]
    return Unneeded(schedule_id, revision, gone, _find_ends(snapshots, gone, set())), kept


def blank_removed(database: Database, schedule_id: int) -> None:
    """Blank what a removed schedule still says, inside the caller's transaction."""
    database.change(
        """UPDATE schedules SET payload = NULL, stdin = NULL, env = '{}', env_file = NULL,
               description = NULL, job = iif(kind = 'command', '["true"]', 'true'),
               removed_state = 'forgotten'
           WHERE id = :id AND deleted_at IS NOT NULL""",
        {"id": schedule_id},
    )


def empty_log(database: Database) -> bool:
    """Move the whole log into the file and empty it; False if another process reads from it.

    Until then the log holds the pages as they were before.
    """
    with database.in_use, translated_errors(database.path):
        try:
            database.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return False
    return True


def _find_snapshots(database: Database, schedule_id: int) -> list[Snapshot]:
    # `octet_length` reads no page of a long snapshot.
    rows = database.rows(
        """SELECT revision, at, origin, octet_length(snapshot) FROM schedule_revisions
           WHERE schedule_id = :id ORDER BY revision""",
        {"id": schedule_id},
    )
    return [Snapshot(*row) for row in rows]


def _find_repeats(
    database: Database, schedule_id: int, snapshots: Sequence[Snapshot]
) -> Generator[None, None, set[int]]:
    """The snapshots that say what the one before them says, as earlier versions stored them."""
    repeats: set[int] = set()
    pairs = [
        (one.revision, other.revision)
        for one, other in pairwise(snapshots)
        if (one.origin, one.size_bytes) == (other.origin, other.size_bytes)
    ]
    for start in range(0, len(pairs), _PAIRS):
        rows = database.rows(
            """SELECT o.revision FROM json_each(:pairs) AS w
               JOIN schedule_revisions AS o
                   ON o.schedule_id = :id AND o.revision = w.value ->> 0
               JOIN schedule_revisions AS r
                   ON r.schedule_id = :id AND r.revision = w.value ->> 1
               WHERE o.snapshot = r.snapshot""",
            {"id": schedule_id, "pairs": json.dumps(pairs[start : start + _PAIRS])},
        )
        equal = {row[0] for row in rows}
        repeats |= {after for before, after in pairs[start : start + _PAIRS] if before in equal}
        yield None
    return repeats


def _find_used(database: Database, schedule_id: int, *, after_id: int) -> tuple[int, list[int]]:
    """The revisions of the next runs of a schedule, and the last of their ids."""
    rows = database.rows(
        """SELECT revision, max(id) FROM (
               SELECT revision, id FROM executions
               WHERE schedule_id = :schedule AND id > :after ORDER BY id LIMIT :limit)
           GROUP BY revision""",
        {"schedule": schedule_id, "after": after_id, "limit": _RUN_PAGE},
    )
    return max((row[1] for row in rows), default=after_id), [row[0] for row in rows]


def _snapshot_at(numbers: Sequence[int], revision: int) -> int:
    """The snapshot that holds at a revision; the first where none is as old."""
    return numbers[max(0, bisect_right(numbers, revision) - 1)] if numbers else 0


def _find_ends(
    snapshots: Sequence[Snapshot], gone: Sequence[Snapshot], repeats: set[int]
) -> dict[int, int]:
    """Until when each snapshot held that stays while the one after it goes."""
    removed = {one.revision for one in gone}
    ends: dict[int, int] = {}
    stays = None
    for one in snapshots:
        if one.revision not in removed:
            stays = one.revision
        elif stays is not None and one.revision not in repeats:
            ends.setdefault(stays, one.at_ms)
    return ends
