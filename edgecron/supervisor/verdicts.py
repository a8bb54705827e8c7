"""Decide what became of a run whose engine and supervisor are both dead.

ARCHITECTURE.md, "Who recovers what", has the table.
"""

from __future__ import annotations

from edgecron.base.values import dataclass
from edgecron.model.choices import Reason
from edgecron.supervisor.journal import JournalState, Trace
from edgecron.supervisor.records import ExitRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The journal has its end."""

    record: ExitRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverStarted:
    """It was not started, and can be queued again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """It can have run, and its end is unknown.

    `reason` is lost or reboot. `pid` and `start_time`, for `end_left_group`, are of this boot only.
    """

    reason: Reason
    pid: int | None = None
    start_time: int | None = None


Verdict = Exit | NeverStarted | Interrupted


def judge(journal: JournalState, token: str, *, boot_id: str) -> Verdict:
    """Return the verdict on a token by the journal of its supervisor, whose lock is free.

    `boot_id` is that of now.
    """
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
