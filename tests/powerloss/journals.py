"""What virtual supervisors put on record: real journals, locks and spools, which nobody syncs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from edgecron.model.choices import Reason
from edgecron.model.run import Stream
from edgecron.supervisor.journal import Exit, Interrupted, Journal, forget, judge, read_journal
from edgecron.supervisor.output import OutputKeeper, load_output
from edgecron.supervisor.protocol import EndCause, ExitRecord
from edgecron.supervisor.state_files import lock_path, spool_name, take_lock
from tests.simulation.world import Body, SimSupervisor

LINE_BYTES = 700
_CAUSES = {
    None: EndCause.EXIT,
    Reason.REQUEST: EndCause.CANCELLED,
    Reason.SHUTDOWN: EndCause.STOPPED,
}


class WrittenJournal(dict[str, Body | None]):
    """What a virtual supervisor knows, with a real journal, written as a real one writes it.

    A token is on record before its body starts, or OSError is raised; an end is once `write_exits`
    was called after it.
    """

    def __init__(self, state_dir: Path, supervisor_id: str, *, boot_id: str) -> None:
        super().__init__()
        self._state_dir = state_dir
        lock_fd = take_lock(lock_path(state_dir, supervisor_id))
        self._lock_fd: int | None = lock_fd
        try:
            self._journal = Journal(state_dir, supervisor_id, boot_id=boot_id)
        except OSError:
            os.close(lock_fd)
            raise
        self._ended: set[str] = set()

    def __setitem__(self, token: str, body: Body | None) -> None:
        if body is None:
            self._journal.write_tokens([token])
        else:
            started_ms = body.started_ms
            self._journal.add_start(token, pid=2, start_time=3, started_ms=started_ms)
            self.flush()
        super().__setitem__(token, body)

    def __delitem__(self, token: str) -> None:
        """It is revoked."""
        super().__delitem__(token)
        self._journal.add_revoked([token])
        self.flush()

    def pop(self, token: str, default: Body | None = None) -> Body | None:  # type: ignore[override]
        """Its end is acknowledged."""
        with suppress(OSError):
            (self._state_dir / spool_name(token)).unlink(missing_ok=True)
        body = super().pop(token, default)
        with suppress(OSError):
            self._journal.shrink(self.keys())
        return body

    def flush(self) -> None:
        """Write what waits; what finds no room waits on, as in a supervisor."""
        with suppress(OSError):
            self._journal.write_backlog()

    @property
    def has_backlog(self) -> bool:
        return self._journal.has_backlog

    def write_exits(self, now_ms: int) -> None:
        """Put on record what has ended by itself, or was asked to."""
        for token, body in self.items():
            is_news = body is not None and token not in self._ended
            if is_news and body is not None and not body.is_cut_short and body.is_over(now_ms):
                self._ended.add(token)
                self._journal.add_exit(record_of(body, self._state_dir).to_json())
        self.flush()

    def die(self) -> None:
        """Let go of the lock; harmless where that is done."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._journal.close()
            self._lock_fd = None


class KnownSupervisors(dict[str, SimSupervisor]):
    """All supervisors; who is forgotten leaves no file behind."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__()
        self._state_dir = state_dir

    def pop(self, key: str, default: object = None) -> SimSupervisor | None:  # type: ignore[override]
        found = super().pop(key, None)
        if found is not None:
            if isinstance(found.journal, WrittenJournal):
                found.journal.die()
            forget(self._state_dir, key)
        return found


def remember(
    state_dir: Path, supervisor_id: str, bodies: Iterable[Body], *, boot_id: str
) -> SimSupervisor | None:
    """A dead supervisor with what the verdicts on its files say; None where they say nothing.

    What they say is the truth, or that it is unknown.
    """
    state = read_journal(state_dir, supervisor_id)
    verdicts = {body.token: (body, judge(state, body.token, boot_id=boot_id)) for body in bodies}
    if state.boot_id is None:
        lost = Interrupted(reason=Reason.LOST)
        assert all(verdict == lost for _, verdict in verdicts.values()), verdicts
        return None
    supervisor = SimSupervisor(supervisor_id, state.boot_id, engine_key=None, is_alive=False)
    for token, (body, verdict) in verdicts.items():
        if isinstance(verdict, Exit):
            check_record(verdict.record, body, state_dir)
            supervisor.journal[token] = replace(body)
        else:
            assert verdict == Interrupted(reason=Reason.REBOOT), verdict
    return supervisor


def record_of(body: Body, state_dir: Path) -> ExitRecord:
    """What a supervisor records of an end; longer output is written to a spool."""
    keeper = OutputKeeper(cap_bytes=262_144, spool=state_dir / spool_name(body.token))
    for number, line in enumerate(lines_of(body)):
        keeper.add(Stream.STDOUT, body.started_ms + number * 1000, line)
    return ExitRecord(
        token=body.token,
        cause=_CAUSES[body.end_reason],
        exit_code=body.exit_code,
        started_ms=body.started_ms,
        finished_ms=body.ends_ms,
        duration_ms=body.ends_ms - body.started_ms,
        output=keeper.finish(),
    )


def lines_of(body: Body) -> list[bytes]:
    """What it prints: nothing, a little, or more than a journal takes."""
    count = {1: 2, 4: 30}.get(body.execution_id % 7, 0)
    return [f"{body.token} {number} ".encode().ljust(LINE_BYTES, b".") for number in range(count)]


def check_record(record: ExitRecord, body: Body, state_dir: Path) -> None:
    """What was found on the disk is what happened, and output that is shown as whole is so."""
    found = (record.exit_code, record.started_ms, record.finished_ms, record.cause)
    happened = (body.exit_code, body.started_ms, body.ends_ms, _CAUSES[body.end_reason])
    assert found == happened, f"I6 {record} {body}"
    output, is_whole = load_output(record.output, state_dir)
    printed = b"".join(lines_of(body))
    if is_whole:
        shown = b"".join(chunk.content for chunk in output.chunks)
        assert shown == printed, f"I6 the output of {body} is shown as whole, and is not"
