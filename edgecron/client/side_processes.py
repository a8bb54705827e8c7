"""Start the processes beside an engine: one sends notices, one reads calendars.

Each process ends when it has nothing to do. Programs with an engine import this module, so it
imports nothing that only the processes need.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgecron.base.bundle import Start, own_start
from edgecron.base.files import open_private
from edgecron.base.paths import Location, ServerUrl, location_text, read_location

# In the state folder: the traceback of an error that ended a process, and why the last sign of
# life could not be sent.
NOTICES_ERROR = "notices-error"
HEARTBEAT_ERROR = "heartbeat-error"
CALENDARS_ERROR = "calendars-error"
HEARTBEAT = "heartbeat"  # the word that makes the process send a heartbeat first


_URL = "EDGECRON_DB"  # in the environment of such a process, which other users can't read


def start_sender(database: Location, has_beat: bool) -> int:
    """Start the process that sends the notices of a database; its process id. Raises OSError.

    `has_beat`: it first sends the heartbeat of an engine.
    """
    words = [str(database), *([HEARTBEAT] if has_beat else [])]
    start = own_start("edgecron.client.notice_sending", *words, bundle_word=":notices")
    return _spawn(start, database)


def start_reader(database: Location) -> int:
    """Start the process that reads the calendars of a database; its process id. Raises OSError."""
    start = own_start("edgecron.client.calendars", str(database), bundle_word=":calendars")
    return _spawn(start, database)


def take_location(word: str) -> Location:
    """Return the database of the process whose argument this is: a URL lacks its password there."""
    location = read_location(word)
    return read_location(os.environ[_URL]) if isinstance(location, ServerUrl) else location


def _spawn(start: Start, database: Location) -> int:
    environ = dict(os.environ)
    if isinstance(database, ServerUrl):
        environ[_URL] = location_text(database)
    null_fd = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        # It can outlive the engine, so it must not keep the engine's log or terminal open.
        actions = [(os.POSIX_SPAWN_DUP2, null_fd, fd) for fd in (0, 1, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in start.pass_fds]
        return os.posix_spawn(
            start.executable or start.argv[0], start.argv, environ, file_actions=actions
        )
    finally:
        os.close(null_fd)


def become_side_process(*, nice: int) -> None:
    """Leave the engine's session, and give way to other programs by a niceness."""
    with suppress(OSError):
        os.setsid()  # Ctrl-C on the engine's terminal is not for us.
    with suppress(OSError):
        os.nice(nice)


@contextmanager
def recording_error(path: Path) -> Iterator[None]:
    """Write the traceback of an error within the block to a file, and raise the error.

    Nothing else shows it: `doctor` names the file.
    """
    try:
        yield
    except Exception:
        import traceback  # Programs with an engine import this module.

        fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with open(fd, "w", encoding="utf-8", errors="replace") as file:
            traceback.print_exc(file=file)
        raise
