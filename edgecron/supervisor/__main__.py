"""Run a supervisor as its own program: `python -m edgecron.supervisor FD KEY STATE_DIR`."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from edgecron.base.clock import SystemClock
from edgecron.supervisor.launch import serve_detached


def main(arguments: list[str]) -> None:
    """Serve the connection that is descriptor FD. Does not return."""
    fd, key, folder = arguments
    try:
        link = socket.socket(fileno=int(fd))
        serve_detached(link, Path(folder), key=key, clock=SystemClock())
    finally:
        os._exit(70)


if __name__ == "__main__":
    main(sys.argv[1:])
