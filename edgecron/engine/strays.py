"""Files of engines that nobody will come back to."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from edgecron.base.paths import list_names
from edgecron.supervisor.files import lock_is_held

# A lock is without its name for the blink of an eye while it is taken.
_UNNAMED_MS = 3_600_000


def clear_strays(state_dir: Path, *, known: Collection[str], now_ms: int) -> None:
    """Remove what engines left that were killed before the database knew them, or after it had
    forgotten them. `known` are the keys that it knows now.
    """
    for name in list_names(state_dir):
        path = state_dir / name
        stem, _, kind = name.partition(".")
        if kind == "lock.new":
            if _age_ms(path, now_ms) > _UNNAMED_MS and not lock_is_held(path):
                path.unlink(missing_ok=True)
        elif stem.startswith("engine-") and kind in ("lock", "fifo"):
            # An engine holds its lock before it makes its other files.
            is_known = stem.removeprefix("engine-") in known
            if not is_known and not lock_is_held(path.with_suffix(".lock")):
                path.unlink(missing_ok=True)


def _age_ms(path: Path, now_ms: int) -> int:
    try:
        return now_ms - int(path.lstat().st_mtime * 1000)
    except FileNotFoundError:
        return 0
