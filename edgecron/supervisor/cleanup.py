"""Remove what dead supervisors leave in the state folder."""

from __future__ import annotations

from pathlib import Path

from edgecron.base.paths import list_names
from edgecron.supervisor.journal import read_journal
from edgecron.supervisor.results import forget_results
from edgecron.supervisor.state_files import (
    is_key,
    journal_path,
    lock_is_held,
    lock_path,
    socket_path,
    spool_name,
)


def find_dead(state_dir: Path) -> list[str]:
    """Find the keys of dead supervisors whose files are still there."""
    # After a power cut, lock or journal can be missing.
    keys = _keys(state_dir, "lock", "journal")
    return sorted(key for key in keys if not lock_is_held(lock_path(state_dir, key)))


def forget(state_dir: Path, key: str) -> bool:
    """Remove the files of a dead supervisor. Call it when all its runs are on record.

    False, and nothing is removed, if the supervisor still runs, or if its journal is damaged, so
    that the files of other supervisors are unknown. A traceback stays for a person to read.
    """
    if lock_is_held(lock_path(state_dir, key)):
        return False
    journal = journal_path(state_dir, key)
    known = read_journal(state_dir, key)
    unknown = set() if known.is_intact else _unknown_tokens(state_dir, but=key)
    if unknown is None:
        return False
    tokens = known.traces.keys() | unknown
    for token in tokens:
        (state_dir / spool_name(token)).unlink(missing_ok=True)
        forget_results(token, state_dir)
    journal.with_suffix(".journal.new").unlink(missing_ok=True)
    journal.unlink(missing_ok=True)
    socket_path(state_dir, key).unlink(missing_ok=True)
    clear_late_results(state_dir, key)
    # Last: after an interruption here, the lock file leads back to the rest.
    lock_path(state_dir, key).unlink(missing_ok=True)
    return True


def clear_late_results(state_dir: Path, key: str) -> None:
    """Remove results that a background process left after the end of its run.

    `key` is a supervisor without runs. Results of other supervisors' runs stay.
    """
    late = _tokens_of_files(state_dir, "result")
    others = _known_to_others(state_dir, but=key) if late else None
    if others is not None:
        for token in late - others:
            forget_results(token, state_dir)


def _keys(state_dir: Path, *kinds: str) -> set[str]:
    """Find the supervisors that have a file of one of these kinds."""
    names = (name.partition(".") for name in list_names(state_dir))
    found = {
        stem.removeprefix("supervisor-")
        for stem, _, kind in names
        if kind in kinds and stem.startswith("supervisor-")
    }
    return {key for key in found if is_key(key)}


def _unknown_tokens(state_dir: Path, *, but: str) -> set[str] | None:
    """Find the tokens of files that no other journal has, so that they belong to the damaged one.

    None if that is unknown.
    """
    # Files first: a token is in its journal before its run has a file.
    found = _tokens_of_files(state_dir, "*")
    others = _known_to_others(state_dir, but=but)
    return None if others is None else found - others


def _tokens_of_files(state_dir: Path, kind: str) -> set[str]:
    return {path.stem.removeprefix("run-") for path in state_dir.glob(f"run-*.{kind}")}


def _known_to_others(state_dir: Path, *, but: str) -> set[str] | None:
    """Collect the tokens of all journals but one.

    None if a journal can have more than can be read: of a living supervisor, or a later version.
    """
    known: set[str] = set()
    for key in _keys(state_dir, "lock", "journal") - {but}:
        # Before the journal: one that ends meanwhile has then written everything.
        is_alive = lock_is_held(lock_path(state_dir, key))
        other = read_journal(state_dir, key)
        if not other.is_intact and (is_alive or other.is_foreign):
            return None
        known |= other.traces.keys()
    return known
