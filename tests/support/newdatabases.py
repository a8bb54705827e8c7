"""New databases, copied: to make one by its schema takes ten times as long."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from edgecron.store.sqlite.store import open_store

_SEED = b"seed of template"  # each copy has its own in this place
_BEGAN_MS = time.time_ns() // 1_000_000


def new_database(path: Path, *, now_ms: int = _BEGAN_MS, seed: bytes | None = None) -> Path:
    """Make a database without schedules, as of `now_ms`, and return its path.

    The default `seed` is a random one.
    """
    content, uuid = _template(now_ms)
    content = content.replace(_SEED, seed or os.urandom(len(_SEED)))
    content = content.replace(uuid, str(uuid4()).encode())
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    return path


@lru_cache(maxsize=8)
def _template(now_ms: int) -> tuple[bytes, bytes]:
    """The bytes of a new database, and its UUID in them."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "template.db")
        store = open_store(path, now_ms=now_ms, seed=_SEED)
        uuid = store.uuid.encode()
        store.close()
        content = path.read_bytes()
    assert content.count(_SEED) == content.count(uuid) == 1
    return content, uuid
