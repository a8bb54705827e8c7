"""What became of a run whose engine and supervisor are both dead: the table of the design."""

from __future__ import annotations

from pathlib import Path

from edgecron.base.values import dataclass
from edgecron.model.choices import Reason
from edgecron.supervisor.journal import JournalState, Trace, read_journal
from edgecron.supervisor.records import ExitRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """Its end is on record: the truth."""

    record: ExitRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverStarted:
    """It surely was not started: it may be queued again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """It may have run, and its end is not known.

    `reason` is lost or reboot. `pid` and `start_time`, for `end_left_group`, are of this boot only.
    """

    reason: Reason
    pid: int | None = None
    start_time: int | None = None


Verdict = Exit | NeverStarted | Interrupted


def verdict(state_dir: Path, supervisor_id: str, token: str, *, boot_id: str) -> Verdict:
    """The verdict on a token of a supervisor whose lock is free. `boot_id` is that of now.

    To judge many, read the journal once and call `judge`.
    """
    return judge(read_journal(state_dir, supervisor_id), token, boot_id=boot_id)


def judge(journal: JournalState, token: str, *, boot_id: str) -> Verdict:
    """The first row of the table that fits."""
    trace = journal.traces.get(token)
    is_same_boot = journal.boot_id == boot_id
    if trace is not None and trace.exit is not None:
        return Exit(record=trace.exit)
    if trace is None and journal.is_intact and is_same_boot:
        return NeverStarted()
    if journal.boot_id is not None and not is_same_boot:
        return Interrupted(reason=Reason.REBOOT)
    known = trace or Trace()
    return Interrupted(
        reason=Reason.LOST,
        pid=known.pid,
        start_time=known.start_time,
    )
