"""Choose between a server (--url) and a file, and connect to the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from edgecron.base.clock import ServerTime, SystemClock
from edgecron.base.errors import NotSupported, UsageError
from edgecron.base.files import read_token

if TYPE_CHECKING:
    from edgecron.client.remote import RemoteClient
    from edgecron.client.remote_connection import Connector
    from edgecron.formats.config import Config


def find_url(config: Config) -> str | None:
    """Return the URL of the server; None if a database of this machine is meant.

    If both are named, a flag wins over a variable, and a variable over a file. Raises UsageError if
    both are named in the same way.
    """
    url, database = config.find("url"), config.find("database")
    if url is None:
        return None
    far, near = config.rank("url"), config.rank("database")
    if database is not None and near == far:
        raise UsageError(
            f"{database.what} and {url.what} are both given, expected one of them",
            hint="remove one of them",
        )
    return str(url.text) if database is None or far < near else None


def connector_to(config: Config, url: str, *, warn: Callable[[str], None]) -> Connector:
    """Return what connects to a server, with its token. Raises InvalidInput.

    `warn` is called if the token is sent unencrypted.
    """
    # http.client takes 20 ms.
    from edgecron.client.remote_connection import Connector
    from edgecron.client.remote_link import read_server

    given = config.find("url")
    server = read_server(url, what="--url" if given is None else given.what)
    token_file = config.find("token_file")
    if token_file is None:
        return Connector(server)

    token = read_token(str(token_file.text), is_for_client=True)
    if server.is_open:
        warn(
            f"the connection to {server.url} is not encrypted, so others can read the token;"
            " use https or a tunnel"
        )
    return Connector(server, token)


def opener(
    config: Config,
    url: str,
    *,
    warn: Callable[[str], None],
    tell: Callable[[str], None],
    waits: Callable[[], bool] | None = None,
) -> Callable[[], RemoteClient]:
    """Return a function that opens clients of a server; they share its clock offset.

    While `waits` returns True, the clients wait for a lost server and report it by `tell`.
    """
    from edgecron.client.remote import RemoteClient  # http.client takes 20 ms
    from edgecron.client.remote_link import ServerWait

    connector = connector_to(config, url, warn=warn)
    if waits is not None:
        connector = connector._replace(wait=ServerWait(tell, is_on=waits))
    time = ServerTime(SystemClock())
    return lambda: RemoteClient(connector, time=time)


def refuse_here(command: str, url: str) -> NotSupported:
    """Return the error for a command that needs the machine of the database."""
    return NotSupported(
        f"{command} only works on the machine of the database, not through {url}",
        hint=f"run it there: edgecron {command}; or name a database of this machine: --db PATH",
    )
