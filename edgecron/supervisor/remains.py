"""What dead supervisors leave in the state folder, and clearing it away."""

from __future__ import annotations

from pathlib import Path

from edgecron.supervisor.cgroups import clear_away
from edgecron.supervisor.files import (
    is_key,
    journal_path,
    lock_is_held,
    lock_path,
    socket_path,
    spool_name,
)
from edgecron.supervisor.journal import read_journal
from edgecron.supervisor.results import forget_results


def find_dead(state_dir: Path) -> list[str]:
    """The keys of supervisors that died and whose files are still there."""
    paths = sorted(state_dir.glob("supervisor-*.lock"))
    keys = [path.stem.removeprefix("supervisor-") for path in paths]
    return [key for key in keys if is_key(key) and not lock_is_held(lock_path(state_dir, key))]


def forget(state_dir: Path, key: str) -> bool:
    """Remove the files of a dead supervisor, once all it knew was taken over.

    False, and nothing is removed, where it is alive; False too while what a run of it left on
    purpose keeps a cgroup: that is then found again. A traceback is left for a person to read.
    """
    if lock_is_held(lock_path(state_dir, key)):
        return False
    journal = journal_path(state_dir, key)
    known = read_journal(state_dir, key)
    if known.cgroup is not None and not clear_away(known.cgroup, key):
        return False
    for token in known.traces:
        (state_dir / spool_name(token)).unlink(missing_ok=True)
        forget_results(token, state_dir)
    journal.with_suffix(".journal.new").unlink(missing_ok=True)
    journal.unlink(missing_ok=True)
    socket_path(state_dir, key).unlink(missing_ok=True)
    # Last: whoever is interrupted here finds the lock file, and comes back to the rest.
    lock_path(state_dir, key).unlink(missing_ok=True)
    return True
