"""Reading what a process prints, while it goes on."""

from __future__ import annotations

import os
import select
from typing import IO

from tests.support.processes import BOUND_S


def read_bytes(stream: IO[bytes] | None, until: bytes) -> bytes:
    """What comes until these bytes; the bound makes a hang a failure. The stream has no buffer."""
    assert stream is not None
    read = b""
    while until not in read:
        assert select.select([stream], [], [], BOUND_S)[0], f"no {until!r} in time after {read!r}"
        part = os.read(stream.fileno(), 65_536)
        assert part, f"ended without {until!r}: {read!r}"
        read += part
    return read
