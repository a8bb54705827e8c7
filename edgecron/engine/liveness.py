"""Who is alive: what kernel locks say, and what the journals of the dead tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol

from edgecron.engine.strays import clear_strays
from edgecron.model import Outcome, Reason
from edgecron.runners.command import outcome_of
from edgecron.store.contract import RunningRow
from edgecron.supervisor.cgroups import end_left_cgroup
from edgecron.supervisor.files import SCARCE, is_key, lock_is_held, lock_path, take_lock
from edgecron.supervisor.groups import end_left_group
from edgecron.supervisor.journal import JournalState, read_journal
from edgecron.supervisor.looks import end_unrecorded
from edgecron.supervisor.remains import find_dead, forget
from edgecron.supervisor.verdicts import Exit, Interrupted, Verdict, judge


def engine_lock_path(state_dir: Path, key: str) -> Path:
    return state_dir / f"engine-{key}.lock"


class Liveness(Protocol):
    """What recovery asks about engines and supervisors other than our own."""

    def engine_is_alive(self, key: str) -> bool: ...

    def supervisor_is_alive(self, supervisor_id: str) -> bool: ...

    def dead_supervisors(self) -> list[str]:
        """Those that died and whose files were not cleared away yet."""

    def judge(self, supervisor_id: str, tokens: Iterable[str]) -> dict[str, Verdict]:
        """The verdict on each token of a dead supervisor."""

    def outcome_of(self, verdict: Exit, row: RunningRow) -> Outcome:
        """The outcome that the dead supervisor recorded for a row."""

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        """End an interrupted run, if it is still the one that was started, and its cgroup."""

    def forget_engine(self, key: str) -> None:
        """Clear away the files of a dead engine."""

    def forget_supervisor(self, supervisor_id: str) -> None:
        """Clear away the files of a dead supervisor whose runs all have their ends on record."""

    def clear_strays(self, *, known: Collection[str], now_ms: int) -> None:
        """Clear away the files of dead engines whose keys are not known."""


class KernelLiveness:
    """Asks kernel locks and reads journals in a state folder."""

    def __init__(self, state_dir: Path, *, boot_id: str) -> None:
        self._state_dir = state_dir
        self._boot_id = boot_id

    def engine_is_alive(self, key: str) -> bool:
        return lock_is_held(engine_lock_path(self._state_dir, key))

    def supervisor_is_alive(self, supervisor_id: str) -> bool:
        return is_key(supervisor_id) and lock_is_held(lock_path(self._state_dir, supervisor_id))

    def dead_supervisors(self) -> list[str]:
        return find_dead(self._state_dir)

    def judge(self, supervisor_id: str, tokens: Iterable[str]) -> dict[str, Verdict]:
        try:
            journal = read_journal(self._state_dir, supervisor_id)
        except OSError as error:
            if error.errno in SCARCE:
                raise
            journal = JournalState(is_intact=False)  # As one that is damaged: nothing is known.
        return {token: judge(journal, token, boot_id=self._boot_id) for token in tokens}

    def outcome_of(self, verdict: Exit, row: RunningRow) -> Outcome:
        return outcome_of(
            verdict.record,
            execution_id=row.execution_id,
            token=row.lease_token,
            ok_codes=row.ok_codes,
            state_dir=self._state_dir,
        )

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        if verdict.pid is not None:
            end_left_group(verdict.pid, verdict.start_time)
        elif verdict.reason is Reason.LOST:
            end_unrecorded(token)
        if verdict.cgroup is not None:
            end_left_cgroup(verdict.cgroup)

    def forget_engine(self, key: str) -> None:
        (self._state_dir / f"engine-{key}.fifo").unlink(missing_ok=True)
        engine_lock_path(self._state_dir, key).unlink(missing_ok=True)

    def forget_supervisor(self, supervisor_id: str) -> None:
        forget(self._state_dir, supervisor_id)

    def clear_strays(self, *, known: Collection[str], now_ms: int) -> None:
        clear_strays(self._state_dir, known=known, now_ms=now_ms)


def take_engine_lock(state_dir: Path, key: str) -> int:
    """Hold an engine's lock until the descriptor that is returned is closed."""
    return take_lock(engine_lock_path(state_dir, key))
