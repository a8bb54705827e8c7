"""Who is alive: what kernel locks say, and what the journals of the dead tell."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edgecron.base.paths import list_names
from edgecron.engine.strays import clear_strays
from edgecron.model.claim import Outcome, Output
from edgecron.supervisor.files import is_key, lock_is_held, lock_path, spool_name, take_lock

if TYPE_CHECKING:
    from edgecron.store.contract import RunningRow
    from edgecron.supervisor.verdicts import Exit, Interrupted, Verdict


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

    def find_output(self, token: str) -> tuple[Output, bool] | None:
        """What a run of a dead supervisor had printed, and whether it is whole."""

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        """End an interrupted run, if it is still the one that was started, and its cgroup."""

    def forget_engine(self, key: str) -> None:
        """Clear away the files of a dead engine."""

    def forget_supervisor(self, supervisor_id: str) -> None:
        """Clear away the files of a dead supervisor whose runs all have their ends on record."""

    def clear_strays(self, *, known: Collection[str], now_ms: int) -> None:
        """Clear away the files of dead engines whose keys are not known."""


class KernelLiveness:
    """Asks kernel locks and reads journals in a state folder.

    What reads journals and ends what is left is loaded with the first supervisor: where only
    functions are run there is none, and all that is a megabyte.
    """

    def __init__(self, state_dir: Path, *, boot_id: str) -> None:
        self._state_dir = state_dir
        self._boot_id = boot_id

    def engine_is_alive(self, key: str) -> bool:
        return lock_is_held(engine_lock_path(self._state_dir, key))

    def supervisor_is_alive(self, supervisor_id: str) -> bool:
        return is_key(supervisor_id) and lock_is_held(lock_path(self._state_dir, supervisor_id))

    def dead_supervisors(self) -> list[str]:
        if not any(name.startswith("supervisor-") for name in list_names(self._state_dir)):
            return []
        from edgecron.supervisor.remains import find_dead

        return find_dead(self._state_dir)

    def judge(self, supervisor_id: str, tokens: Iterable[str]) -> dict[str, Verdict]:
        from edgecron.engine.judging import judge_all

        return judge_all(self._state_dir, supervisor_id, tokens, boot_id=self._boot_id)

    def outcome_of(self, verdict: Exit, row: RunningRow) -> Outcome:
        from edgecron.engine.judging import outcome_of_row

        return outcome_of_row(verdict, row, state_dir=self._state_dir)

    def find_output(self, token: str) -> tuple[Output, bool] | None:
        from edgecron.supervisor.output import load_saved_output

        return load_saved_output(self._state_dir / spool_name(token))

    def end_what_is_left(self, verdict: Interrupted, token: str) -> None:
        from edgecron.engine.judging import end_what_is_left

        end_what_is_left(verdict, token)

    def forget_engine(self, key: str) -> None:
        (self._state_dir / f"engine-{key}.fifo").unlink(missing_ok=True)
        engine_lock_path(self._state_dir, key).unlink(missing_ok=True)

    def forget_supervisor(self, supervisor_id: str) -> None:
        from edgecron.supervisor.remains import forget

        forget(self._state_dir, supervisor_id)

    def clear_strays(self, *, known: Collection[str], now_ms: int) -> None:
        clear_strays(self._state_dir, known=known, now_ms=now_ms)


def take_engine_lock(state_dir: Path, key: str) -> int:
    """Hold an engine's lock until the descriptor that is returned is closed."""
    return take_lock(engine_lock_path(state_dir, key))
