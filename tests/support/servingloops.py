"""A server of the HTTP API without its thread, for tests that turn its loop themselves."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from edgecron.base.clock import SystemClock
from edgecron.base.peers import own_users
from edgecron.http.app import application
from edgecron.http.connections import BoundedProtocol, Server
from edgecron.http.limits import Limits
from edgecron.http.shares import Shares


def server_of(database: Path, *, limits: Limits | None = None) -> Server:
    """A server of a database, which is served once `serve` is awaited."""
    limits = limits or Limits()

    def is_over() -> bool:
        return server.is_over

    shares = Shares(limits, users=own_users())
    protocol: Any = partial(
        BoundedProtocol,
        limits=limits,
        shares=shares,
        clock=SystemClock(),
        is_over=is_over,
    )
    config = uvicorn.Config(application(database), http=protocol, lifespan="off", log_config=None)
    server = Server(config, shares=shares)
    return server
