"""A server of the HTTP API without its thread, for tests that turn its loop themselves."""

from __future__ import annotations

from pathlib import Path

import uvicorn

from edgecron.base.sockets import own_users
from edgecron.http.access import Limits
from edgecron.http.app import application
from edgecron.http.connections import Server


def server_of(database: Path, *, limits: Limits | None = None) -> Server:
    """A server of a database, which is served once `serve` is awaited."""
    config = uvicorn.Config(application(database), lifespan="off", log_config=None)
    return Server(config, limits=limits or Limits(), users=own_users())
