"""Restore a backup: check it, put it in the place of the database, and keep the former one.

Runs that were `running` or `queued` in the backup continued in the database that it replaces. None
starts again, unless its schedule asks for that after an interruption. Times since the backup are
missed; each schedule's catch-up decides them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from shlex import quote

from edgecron.base.clock import Clock
from edgecron.base.errors import (
    Conflict,
    DatabaseDamaged,
    DatabaseFull,
    DatabaseUnusable,
    EdgecronError,
    InvalidInput,
    NotFound,
)
from edgecron.base.paths import hint_for_missing, list_command, make_folders, state_dir, user_name
from edgecron.base.units import format_instant, from_ms
from edgecron.base.values import dataclass, replace
from edgecron.client.backup import (
    date_words,
    exchange,
    find_opening,
    partial_file,
    refuse_in_use,
    rename_to_new,
    sync_file,
    sync_folder,
)
from edgecron.client.engine_health import find_holder
from edgecron.client.retiming import retime, timing_of_stored
from edgecron.engine.state_folder import find_foreign_owner
from edgecron.model.choices import Reason
from edgecron.planning.corrections import is_trusted, resolve_mark_ms
from edgecron.store.sqlite import copies
from edgecron.store.sqlite.copies import (
    Contents,
    Progress,
    StoredCommand,
    hold_alone,
    make_plain,
    read_commands,
    read_contents,
    read_copy,
)
from edgecron.store.sqlite.store import SqliteStore, open_store
from edgecron.supervisor.state_files import find_holders, lock_is_held

_CHUNK_BYTES = 1024 * 1024
_BESIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The effects of a restore.

    `aside` is the path of the former database, None if there was none. `interrupted` runs were
    running when the backup was made, `cancelled` ones queued. `due` schedules missed a time since;
    for `skipped` ones it was skipped on request.
    """

    database: Path
    aside: Path | None
    contents: Contents
    interrupted: int
    cancelled: int
    due: tuple[str, ...]
    skipped: tuple[str, ...]


class Restoration:
    """A checked backup, beside the database that it is to replace.

    `present` is what the database holds now; None if there is none, or if it is damaged:
    `present_error` then says how. `opening` says how another user could have written the backup;
    None if none could.
    """

    def __init__(
        self,
        database: Path,
        partial: Path,
        *,
        source: Path,
        contents: Contents,
        opening: str | None,
        clock: Clock,
    ) -> None:
        self.database = database
        self.source = source
        self.contents = contents
        self.opening = opening
        self.present: Contents | None = None
        self.present_error: str | None = None
        self._partial = partial
        self._clock = clock
        if os.path.lexists(database):
            try:
                self.present = read_contents(database)
            except DatabaseDamaged as error:
                self.present_error = error.message

    @property
    def has_present(self) -> bool:
        """Whether there is a former database to keep."""
        return self.present is not None or self.present_error is not None

    @property
    def commands(self) -> list[StoredCommand]:
        """The commands of the schedules in the backup."""
        return read_commands(self._partial)

    def carry_out(self, *, skip_missed: bool, take_over: bool = False) -> Restored:
        """Put the backup in the place of the database, and keep the former one.

        With `skip_missed`, times since the backup become skipped runs, and every schedule computes
        from now. Raises Conflict if the database is in use, or if the clock can't tell what was
        missed; nothing has changed then. Raises EdgecronError for a backup that another user could
        have written, unless `take_over`.
        """
        if self.opening is not None and not take_over:
            raise EdgecronError(
                f"backup {self.source} could be another user's: {self.opening};"
                f" its commands would run as {user_name()}",
                hint="check its commands; to accept them, repeat with --take-over",
            )
        refuse_alive(self.database)
        now = from_ms(self._clock.now_ms())
        done = self._make_own(now=now, skip_missed=skip_missed)
        sync_file(self._partial)
        aside = None
        with _held(self.database, is_readable=self.present is not None):
            refuse_alive(self.database)  # An engine may have started since, and wait for the lock.
            if not self.has_present:
                rename_to_new(self._partial, self.database)
            else:
                aside = _set_aside(self.database, self._partial, now=now)
                with suppress(FileNotFoundError):
                    state_dir(self.database).rename(state_dir(aside))
            sync_folder(self.database.parent)
        return replace(done, aside=aside)

    def _make_own(self, *, now: datetime, skip_missed: bool) -> Restored:
        """Give the copy its own identity, and end its active runs."""
        now_ms = self._clock.now_ms()
        boot_id = self._clock.boot_id()
        with self._named():
            self._renew_identity(boot_id=boot_id, now_ms=now_ms)
            # Open it again, to use the new seed.
            store = open_store(self._partial, now_ms=now_ms, must_exist=True)
            try:
                cancelled = copies.cancel_all_queued(store, now_ms=now_ms)
                interrupted = copies.interrupt_all_running(store, now_ms=now_ms)
                due = copies.find_due_names(store, now_ms=now_ms)
                skipped = []
                if skip_missed:
                    _refuse_untrusted(store, self._clock)
                    skipped = [
                        name
                        for name in due
                        if _skip_missed(store, name, boot_id=boot_id, now_ms=now_ms)
                    ]
            finally:
                store.close()
            make_plain(self._partial)
        return Restored(
            database=self.database,
            aside=None,
            contents=self.contents,
            interrupted=interrupted,
            cancelled=cancelled,
            due=tuple(name for name in due if name not in skipped),
            skipped=tuple(skipped),
        )

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Let errors name the backup or the database, not the partial file."""
        try:
            yield
        except DatabaseUnusable as error:
            is_full = isinstance(error, DatabaseFull)
            shown = f"database {self.database}" if is_full else str(self.source)
            message = error.message.replace(f"database {self._partial}", shown)
            raise type(error)(message, hint=error.hint) from error

    def _renew_identity(self, *, boot_id: str, now_ms: int) -> None:
        store = open_store(self._partial, now_ms=now_ms, must_exist=True)
        try:
            copies.renew_identity(store, boot_id=boot_id, now_ms=now_ms)
        finally:
            store.close()


@contextmanager
def prepare_restore(
    database: Path, source: Path, *, clock: Clock, on_progress: Progress
) -> Iterator[Restoration]:
    """Copy a backup beside the database, and check it; nothing is replaced yet.

    Raises NotFound, InvalidInput or DatabaseUnusable for the backup, Conflict if an engine or a
    supervisor of the database is running, EdgecronError if the database is another user's.
    """
    source = Path(os.path.abspath(source.expanduser()))
    _refuse_source(database, source)
    stranger = find_foreign_owner(database)
    if stranger is not None:
        raise EdgecronError(
            f"database {database} belongs to user {stranger}, and you are user {os.geteuid()}",
            hint="repeat as that user",
        )
    refuse_alive(database)
    opening = find_opening(source)
    make_folders(database.parent)
    with partial_file(database.parent) as partial:
        try:
            _copy_file(source, partial, on_progress=on_progress)
        except OSError as error:
            if error.filename == str(source):
                raise EdgecronError(
                    f"{source} can't be read: {error.strerror}",
                    hint=f"see who can read it: ls -l {quote(str(source))}",
                ) from error
            raise EdgecronError(
                f"{source} can't be copied into {database.parent} ({error.strerror})",
                hint="edgecron checks a copy there first, so this folder needs room for the copy",
            ) from error
        contents = read_copy(partial, shown=source)
        yield Restoration(
            database,
            partial,
            source=source,
            contents=contents,
            opening=opening,
            clock=clock,
        )


def refuse_alive(database: Path) -> None:
    """Raise Conflict if an engine or a supervisor of a database is running."""
    folder = state_dir(database)
    holders = find_holders(folder)  # The state folder may have been deleted.
    for kind, hint in (
        ("engine", "stop it first ({kill}, or its service), and start it again afterwards"),
        (
            "supervisor",
            "wait until its runs have ended, or cancel them; to see them: edgecron status",
        ),
    ):
        held = [lock for lock in sorted(folder.glob(f"{kind}-*.lock")) if lock_is_held(lock)]
        pids = {find_holder(lock) for lock in held} | holders.get(kind, set())
        known = sorted(pid for pid in pids if pid is not None)
        if held or known:
            who = f" (pid {', '.join(map(str, known))})" if known else ""
            raise Conflict(
                f"{_an(kind)} of database {database} is running{who}",
                hint=hint.format(kill=f"kill {' '.join(map(str, known))}"),
            )


def _an(kind: str) -> str:
    return f"an {kind}" if kind == "engine" else f"a {kind}"


def _refuse_source(database: Path, source: Path) -> None:
    try:
        is_file = source.is_file()
        is_same = is_file and database.exists() and source.samefile(database)
    except OSError as error:
        raise InvalidInput(f"{source} can't be read ({error.strerror})") from error
    if not os.path.lexists(source):
        raise NotFound(f"file '{source}' does not exist", hint=hint_for_missing(str(source)))
    if source.is_dir():
        hint = f"see its files: {list_command(source)}"
        raise InvalidInput(f"'{source}' is a folder, expected a file", hint=hint)
    if not is_file:
        raise InvalidInput(f"'{source}' is not a regular file", hint="give the path of a backup")
    if is_same:
        raise InvalidInput(f"{source} is the database itself", hint="give the path of a backup")
    refuse_in_use(source, is_folder_in_use=False)
    refuse_alive(source)


def _copy_file(source: Path, partial: Path, *, on_progress: Progress) -> None:
    size = max(1, source.stat().st_size)
    done = 0
    with source.open("rb") as reading, partial.open("r+b") as writing:
        while chunk := reading.read(_CHUNK_BYTES):
            writing.write(chunk)
            done += len(chunk)
            on_progress(min(done, size), size)


def _refuse_untrusted(store: SqliteStore, clock: Clock) -> None:
    """Raise Conflict if the clock can't tell what was missed since."""
    mark_ms = resolve_mark_ms(store.find_clock_marks().trusted_high_ms)
    now_ms = clock.now_ms()
    if not is_trusted(now_ms, mark_ms=mark_ms, is_synchronised=clock.is_synchronised()):
        raise Conflict(
            f"the clock says {format_instant(from_ms(now_ms))} and can't be trusted:"
            " the times missed since the backup are unknown",
            hint="set the clock first, or restore without --skip-missed",
        )


def _skip_missed(store: SqliteStore, name: str, *, boot_id: str, now_ms: int) -> bool:
    """Skip what a schedule has missed, on record, and let it compute from now.

    False if its triggers can't be read: the engine reports that.
    """
    schedule = store.get_schedule(name)
    free = replace(schedule, paused_until=None)
    try:
        timing = timing_of_stored(store, schedule)
    except InvalidInput:
        return False
    retiming = retime(store, free, timing, now_ms=now_ms, reason=Reason.MISFIRE)
    return store.resume_schedule(schedule, retiming=retiming, boot_id=boot_id, now_ms=now_ms)


@contextmanager
def _held(database: Path, *, is_readable: bool) -> Iterator[None]:
    """Lock a database, and make it one plain file; leave an unreadable one as it is."""
    if not is_readable:
        yield
        return
    with hold_alone(database):
        yield


def _set_aside(database: Path, partial: Path, *, now: datetime) -> Path:
    """Give the copy the name of the database; return the new name of the former one.

    Files beside the database move with it.
    """
    number = 1
    while True:
        more = "" if number == 1 else f"-{number}"
        name = f"{database.stem}-replaced-{date_words(now)}{more}{database.suffix}"
        aside = database.with_name(name)
        if not os.path.lexists(aside) and not os.path.lexists(state_dir(aside)):
            break
        number += 1
    with _besides_moved(database, aside):
        _trade_names(database, aside, partial)
    return aside


@contextmanager
def _besides_moved(database: Path, aside: Path) -> Iterator[None]:
    """Move the files beside a database with it, and back on an error.

    A damaged database can be repaired with its log.
    """
    moved: list[tuple[Path, Path]] = []
    try:
        for beside in _BESIDE:
            was, now = (path.with_name(path.name + beside) for path in (database, aside))
            with suppress(FileNotFoundError):
                was.rename(now)
                moved.append((was, now))
        yield
    except OSError:
        for was, now in moved:
            now.rename(was)
        raise


def _trade_names(database: Path, aside: Path, partial: Path) -> None:
    # The database must never have the name of a partial file, which other processes remove.
    partial.rename(aside)
    try:
        # Sync before the next step: a power cut could keep only that one, and the database would
        # have the partial name too.
        sync_folder(database.parent)
        is_done = exchange(aside, database)
    except OSError:
        aside.rename(partial)
        raise
    if not is_done:
        aside.rename(partial)
        try:
            # Both names for a moment, so that the database is never missing.
            os.link(database, aside, follow_symlinks=False)
        except OSError:
            database.rename(aside)
        try:
            partial.replace(database)
        except OSError:
            # A database with two names is refused.
            if os.path.lexists(database):
                aside.unlink()
            else:
                aside.rename(database)
            raise
