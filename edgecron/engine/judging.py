"""What became of the runs of a dead supervisor, by its journal; and the end of what is left."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from edgecron.model.choices import Reason
from edgecron.model.claim import Outcome
from edgecron.store.contract import RunningRow
from edgecron.supervisor.cgroups import end_left_cgroup
from edgecron.supervisor.command_runner import outcome_of
from edgecron.supervisor.files import SCARCE
from edgecron.supervisor.groups import end_left_group
from edgecron.supervisor.journal import JournalState, read_journal
from edgecron.supervisor.looks import end_unrecorded
from edgecron.supervisor.verdicts import Exit, Interrupted, Verdict, judge


def judge_all(
    state_dir: Path, supervisor_id: str, tokens: Iterable[str], *, boot_id: str
) -> dict[str, Verdict]:
    """The verdict on each token of a dead supervisor. Raises OSError where only the system is
    short of something."""
    try:
        journal = read_journal(state_dir, supervisor_id)
    except OSError as error:
        if error.errno in SCARCE:
            raise
        journal = JournalState(is_intact=False)  # As one that is damaged: nothing is known.
    return {token: judge(journal, token, boot_id=boot_id) for token in tokens}


def outcome_of_row(verdict: Exit, row: RunningRow, *, state_dir: Path) -> Outcome:
    """The outcome that a dead supervisor recorded for a row."""
    return outcome_of(
        verdict.record,
        execution_id=row.execution_id,
        token=row.lease_token,
        ok_codes=row.ok_codes,
        state_dir=state_dir,
    )


def end_what_is_left(verdict: Interrupted, token: str) -> None:
    """End an interrupted run, if it is still the one that was started, and its cgroup."""
    if verdict.pid is not None:
        end_left_group(verdict.pid, verdict.start_time)
    elif verdict.reason is Reason.LOST:
        end_unrecorded(token)
    if verdict.cgroup is not None:
        end_left_cgroup(verdict.cgroup)
