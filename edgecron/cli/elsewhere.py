"""The database of another machine: which one is meant, and a client of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.base.errors import NotSupported, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgecron.client.remote import HttpLines, RemoteClient
    from edgecron.client.remote_requests import Lines
    from edgecron.formats.config import Config

# They work on files and processes of the machine that they run on.
LOCAL_VERBS = frozenset({"backup", "daemon", "demo", "doctor", "prune", "restore", "service"})


def find_url(config: Config) -> str | None:
    """The server that is asked; None where a database of this machine is meant.

    Where both are named, that counts which is named more closely: a flag over a variable over a
    file. Raises UsageError where both are as close.
    """
    url, database = config.find("url"), config.find("database")
    if url is None:
        return None
    far, near = config.rank("url"), config.rank("database")
    if database is not None and near == far:
        raise UsageError(
            f"{database.what} and {url.what} are both given, and name two databases",
            hint="leave one of them out",
        )
    return str(url.text) if database is None or far < near else None


def lines_to(config: Config, url: str, *, warn: Callable[[str], None]) -> HttpLines:
    """Lines to a server, with the token that belongs to it. Raises InvalidInput.

    `warn` is told where the token travels in the open.
    """
    from edgecron.client.remote import HttpLines
    from edgecron.client.remote_server import read_server

    given = config.find("url")
    server = read_server(url, what="--url" if given is None else given.what)
    token_file = config.find("token_file")
    if token_file is None:
        return HttpLines(server)
    from edgecron.base.tokens import read_token

    token = read_token(str(token_file.text))
    if server.is_open:
        warn(f"the token travels to {server.url} in the open; https, or a tunnel, hides it")
    return HttpLines(server, token=token)


def opener(
    config: Config,
    url: str,
    *,
    warn: Callable[[str], None],
    tell: Callable[[str], None],
    is_patient: Callable[[], bool] | None = None,
) -> Callable[[], RemoteClient]:
    """What makes clients of a server, which share what is known of its time.

    With `is_patient` they wait, as long as that says so, for one that has ended to come back, and
    `tell` is told.
    """
    from edgecron.base.clock import SystemClock
    from edgecron.client.remote import RemoteClient
    from edgecron.client.remote_server import ServerTime

    lines: Lines = lines_to(config, url, warn=warn)
    if is_patient is not None:
        from edgecron.client.remote_requests import PatientLines

        lines = PatientLines(lines, tell=tell, is_patient=is_patient)
    time = ServerTime(SystemClock())
    return lambda: RemoteClient(lines, time=time)


def refuse_here(verb: str, url: str) -> NotSupported:
    """The error for what can't be done to a database elsewhere."""
    return NotSupported(
        f"{verb} works on the machine of the database alone, and can't be asked of {url}",
        hint=f"run it there: edgecron {verb}; or name a database of this machine: --db PATH",
    )
