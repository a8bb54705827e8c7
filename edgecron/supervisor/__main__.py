"""Run a supervisor as its own program: `python -m edgecron.supervisor FD KEY STATE_DIR PLACES`."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from edgecron.base.clock import SystemClock
from edgecron.supervisor.launch import serve_detached


def main(arguments: list[str]) -> None:
    """Serve the connection that is descriptor FD. Does not return. PLACES 0 means unlimited.

    An engine that was started before an upgrade gives no PLACES, and claims no more than it has.
    """
    fd, key, folder, *more = arguments
    places = int(more[0]) if more else 0
    try:
        link = socket.socket(fileno=int(fd))
        serve_detached(link, Path(folder), key=key, clock=SystemClock(), places=places or None)
    finally:
        os._exit(70)


if __name__ == "__main__":
    main(sys.argv[1:])
