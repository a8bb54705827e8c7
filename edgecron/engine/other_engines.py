"""Ask about the other engines of a database, and take over what dead ones left.

The kernel's locks show whether an engine or a supervisor is running. A dead supervisor's journal
shows how its runs ended.
"""

from __future__ import annotations

# `socket` would add 300 KB to every engine, for names that `_socket` has too.
import _socket
import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from edgecron.base.clock import Clock
from edgecron.base.errors import SupervisorUnavailable
from edgecron.base.paths import list_names
from edgecron.base.values import dataclass
from edgecron.engine.state_folder import (
    engine_lock_path,
    find_machine,
    remove_dead_files,
    ring_engines,
)
from edgecron.model.choices import Reason
from edgecron.model.run import Outcome, Output, OutputChunk, Stream
from edgecron.store.contract import RunningRow
from edgecron.supervisor.command_runner import CommandRunner, outcome_of
from edgecron.supervisor.control import Control
from edgecron.supervisor.journal import (
    Exit,
    Interrupted,
    JournalState,
    Verdict,
    find_dead,
    forget,
    judge,
    read_journal,
)
from edgecron.supervisor.link import SupervisorLink
from edgecron.supervisor.output import load_saved_output
from edgecron.supervisor.protocol import Phase
from edgecron.supervisor.run_session import end_left_group, end_unrecorded, has_supervisor
from edgecron.supervisor.runner import Lease, Runner
from edgecron.supervisor.state_files import SCARCE, is_key, lock_is_held, lock_path, spool_name

# A supervisor answers immediately, unless it is stopped. With a longer time-out our own engine
# would hear nobody meanwhile.
_TIMEOUT_S = 0.2
_STARTED = (Phase.RUNNING, Phase.ENDED)
_NAMES = Path("/proc/net/unix")
_NAME = re.compile(
    r"@edgecron/([0-9a-f-]{36})/([0-9a-f]{1,16}):([0-9a-f]{1,16})/([0-9]{1,10})/[0-9a-f]{1,16}",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """The answer of a dead engine's supervisor; it works for us from now on if `runner` is set.

    `started`: the rows that it runs or ran; their ends come to us. `revoked`: the rows that it
    will never start. The end of every other row is on record.
    """

    runner: Runner | None
    started: tuple[RunningRow, ...]
    revoked: tuple[RunningRow, ...]


class OtherEngines(Protocol):
    """The link of an engine to the other engines and supervisors of its database."""

    def ring(self) -> None:
        """Wake the other engines, after a commit that can concern them."""

    def announce(self) -> None:
        """Wake the other engines and report that ours has started: they are to watch it."""

    def adopt(self, supervisor_id: str, rows: Sequence[RunningRow]) -> Adoption | None:
        """Take over the supervisor of a dead engine; None if it does not answer.

        `rows` are the runs that the database records for it.
        """

    def engine_is_alive(self, key: str) -> bool: ...

    def is_elsewhere(self, machine: str | None) -> bool:
        """Whether this is another machine than ours, whose processes and files we can't see."""

    def supervisor_is_alive(self, supervisor_id: str) -> bool: ...

    def dead_supervisors(self) -> list[str]:
        """List the dead supervisors whose files are still there."""

    def judge(self, supervisor_id: str, tokens: Iterable[str]) -> dict[str, Verdict]:
        """Give the verdict on each token of a dead supervisor."""

    def outcome_of(self, verdict: Exit, row: RunningRow) -> Outcome:
        """Give the outcome that the dead supervisor recorded for a row."""

    def find_output(self, token: str) -> tuple[Output, bool] | None:
        """Find what a run of a dead supervisor had printed, and whether it is complete."""

    def find_printed(self, supervisor_id: str, token: str) -> Output | None:
        """Find what a running run of this machine has printed so far; None if that is unknown."""

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        """End an interrupted run if it is still the process that was started."""

    def find_unattended(self) -> dict[str, list[str]]:
        """Find the tokens that each living supervisor without an engine has."""

    def end_forgotten(self, supervisor_id: str, tokens: Sequence[str]) -> bool:
        """End commands of a supervisor; False if it does not answer."""

    def forget_engine(self, key: str) -> None:
        """Remove the files of a dead engine."""

    def forget_supervisor(self, supervisor_id: str) -> None:
        """Remove the files of a dead supervisor; the ends of all its runs are on record."""

    def remove_dead_files(self, *, known: Collection[str], now_ms: int) -> None:
        """Remove the files of dead engines whose keys are not `known`."""


class LocalEngines:
    """The engines of this machine, by the kernel's locks and the journals in a state folder.

    `key` is that of our own engine, None if the caller is not an engine.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        boot_id: str,
        key: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._boot_id = boot_id
        self._key = key
        self._clock = clock
        self._own_machine = find_machine(state_dir)

    def is_elsewhere(self, machine: str | None) -> bool:
        return machine not in (None, self._own_machine)

    def ring(self) -> None:
        ring_engines(self._state_dir, but=self._key)

    def announce(self) -> None:
        ring_engines(self._state_dir, but=self._key, is_new=True)

    def adopt(self, supervisor_id: str, rows: Sequence[RunningRow]) -> Adoption | None:
        assert self._clock is not None, "only an engine adopts supervisors"
        return adopt_supervisor(self._state_dir, supervisor_id, rows, clock=self._clock)

    def engine_is_alive(self, key: str) -> bool:
        return lock_is_held(engine_lock_path(self._state_dir, key))

    def supervisor_is_alive(self, supervisor_id: str) -> bool:
        return is_key(supervisor_id) and lock_is_held(lock_path(self._state_dir, supervisor_id))

    def dead_supervisors(self) -> list[str]:
        if not any(name.startswith("supervisor-") for name in list_names(self._state_dir)):
            return []
        return find_dead(self._state_dir)

    def judge(self, supervisor_id: str, tokens: Iterable[str]) -> dict[str, Verdict]:
        """Read the journal. Raises OSError if the system is only short of something."""
        try:
            journal = read_journal(self._state_dir, supervisor_id)
        except OSError as error:
            if error.errno in SCARCE:
                raise
            journal = JournalState(is_intact=False)  # As a damaged one: nothing is known.
        return {token: judge(journal, token, boot_id=self._boot_id) for token in tokens}

    def outcome_of(self, verdict: Exit, row: RunningRow) -> Outcome:
        return outcome_of(
            verdict.record,
            execution_id=row.execution_id,
            token=row.lease_token,
            ok_codes=row.ok_codes,
            state_dir=self._state_dir,
            clock=self._clock,
        )

    def find_output(self, token: str) -> tuple[Output, bool] | None:
        return load_saved_output(self._state_dir / spool_name(token))

    def find_printed(self, supervisor_id: str, token: str) -> Output | None:
        if not is_key(supervisor_id):
            return None  # A function within its program.
        chunks: list[OutputChunk] = []
        position = dropped_bytes = dropped_after = 0
        try:
            with self._control(supervisor_id) as control:
                while (part := control.output(token, position)[1]).chunks:
                    if part.position > position and dropped_bytes:
                        break  # It prints faster than we read: the rest is for the next time.
                    if part.position > position:
                        dropped_bytes, dropped_after = part.position - position, len(chunks)
                    chunks += part.chunks
                    position = part.next_position
        except SupervisorUnavailable:
            return None  # A part would replace more that is stored already.
        # Of the bytes that were not kept, the stream is unknown until the end.
        printed = [one for one in chunks if one.stream is Stream.STDERR]
        stderr_bytes = sum(len(one.content) for one in printed)
        return Output(
            chunks=tuple(chunks),
            stdout_bytes=position - stderr_bytes,
            stderr_bytes=stderr_bytes,
            dropped_bytes=dropped_bytes,
            dropped_after=dropped_after,
        )

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        if verdict.pid is not None:
            if not has_supervisor(verdict.pid):
                end_left_group(verdict.pid, verdict.start_time)
        elif verdict.reason is Reason.LOST:
            end_unrecorded(token)

    def find_unattended(self) -> dict[str, list[str]]:
        found = {}
        for name in list_names(self._state_dir):
            supervisor_id = name.removeprefix("supervisor-").removesuffix(".lock")
            if name != f"supervisor-{supervisor_id}.lock" or not self.supervisor_is_alive(
                supervisor_id
            ):
                continue
            with suppress(SupervisorUnavailable), self._control(supervisor_id) as control:
                state = control.status()
                if not state.has_engine:
                    known = [*(one.token for one in state.running), *state.waiting]
                    found[supervisor_id] = known
        return found

    def end_forgotten(self, supervisor_id: str, tokens: Sequence[str]) -> bool:
        with suppress(SupervisorUnavailable), self._control(supervisor_id) as control:
            control.cancel(tokens)
            return True
        return False

    def _control(self, supervisor_id: str) -> Control:
        return Control(self._state_dir, supervisor_id, timeout_s=_TIMEOUT_S)

    def forget_engine(self, key: str) -> None:
        (self._state_dir / f"engine-{key}.fifo").unlink(missing_ok=True)
        engine_lock_path(self._state_dir, key).unlink(missing_ok=True)

    def forget_supervisor(self, supervisor_id: str) -> None:
        forget(self._state_dir, supervisor_id)

    def remove_dead_files(self, *, known: Collection[str], now_ms: int) -> None:
        remove_dead_files(self._state_dir, known=known, now_ms=now_ms)


def adopt_supervisor(
    state_dir: Path, supervisor_id: str, rows: Sequence[RunningRow], *, clock: Clock
) -> Adoption | None:
    """Become the engine of a supervisor whose own engine died; None if it does not answer.

    No answer means that the supervisor is stopped or has ended. It refuses if another engine has
    adopted it, or if it speaks another version of the protocol. `rows` are all its runs in the
    database. Those that it has not started are revoked first, so that they can be queued again.
    """
    link = None
    tokens = [row.lease_token for row in rows]
    try:
        with Control(state_dir, supervisor_id, timeout_s=_TIMEOUT_S) as control:
            phases = control.revoke(tokens)
            with suppress(SupervisorUnavailable):  # It refuses, and has said what it runs.
                link = control.adopt()
        started = [token for token in tokens if phases[token] in _STARTED]
        if link is not None:
            started = _still_started(link, started)
    except SupervisorUnavailable:
        if link is not None:
            link.close()
        return None
    ours = tuple(row for row in rows if row.lease_token in started)
    revoked = tuple(row for row in rows if phases[row.lease_token] not in _STARTED)
    if link is None:
        return Adoption(runner=None, started=ours, revoked=revoked)
    leases = [
        Lease(execution_id=row.execution_id, lease_token=row.lease_token, ok_codes=row.ok_codes)
        for row in ours
    ]
    runner = CommandRunner(link, clock=clock, leases=leases)
    return Adoption(runner=runner, started=ours, revoked=revoked)


def _still_started(link: SupervisorLink, tokens: Sequence[str]) -> list[str]:
    """Return the runs whose end the supervisor will report to us.

    Asked again after the adoption, when only we can receive an end. An engine that died a moment
    ago might have received ends since the first question. It wrote them, and the supervisor does
    not report them again.
    """
    if not tokens:
        return []
    with Control(link.state_dir, link.supervisor_id, timeout_s=_TIMEOUT_S) as control:
        phases = control.revoke(tokens)
    return [token for token in tokens if phases[token] in _STARTED]


# Copies of a database that engines run beside it.


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCopy:
    """A process that runs a copy of a database; `path` None if this process can't see it."""

    pid: int
    path: Path | None


class CopyAnnouncement:
    """Which database file this process runs, for others to see until `close`."""

    def __init__(self, database: Path, *, uuid: str, key: str) -> None:
        self._socket: _socket.socket | None = None
        found = database.stat()
        name = f"\0edgecron/{uuid}/{found.st_dev:x}:{found.st_ino:x}/{os.getpid()}/{key}"
        if _NAMES.exists():
            self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
            # Where it can't be had, a copy is not noticed, and all else goes on.
            with suppress(OSError):
                self._socket.bind(name)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def find_copies(database: Path, *, uuid: str) -> list[DatabaseCopy]:
    """The processes that run another file with the uuid of this database, by their ids."""
    try:
        lines = _NAMES.read_text(encoding="utf-8", errors="replace").splitlines()
        own = database.stat()
    except OSError:
        return []
    found: dict[int, tuple[int, int]] = {}
    for line in lines:
        name = _NAME.fullmatch(line.rpartition(" ")[2])
        if name is None or name[1] != uuid:
            continue
        identity = (int(name[2], 16), int(name[3], 16))
        if identity != (own.st_dev, own.st_ino):
            found[int(name[4])] = identity
    return [
        DatabaseCopy(pid=pid, path=_path_of(pid, identity))
        for pid, identity in sorted(found.items())
    ]


def _path_of(pid: int, identity: tuple[int, int]) -> Path | None:
    """The path by which a process has a file open; None if this process can't see it."""
    folder = f"/proc/{pid}/fd"
    try:
        for fd in os.listdir(folder):
            with suppress(OSError):
                seen = os.stat(f"{folder}/{fd}")
                if (seen.st_dev, seen.st_ino) == identity:
                    return Path(os.readlink(f"{folder}/{fd}"))
    except OSError:
        return None
    return None
