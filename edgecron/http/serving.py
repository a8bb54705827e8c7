"""The API served from a thread of this process, until it is closed."""

from __future__ import annotations

import socket
import threading
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgecron.clock import SystemClock
from edgecron.errors import InvalidInput, NotSupported
from edgecron.http.guarding import LOOPBACK
from edgecron.http.limits import Limits
from edgecron.http.places import Place, UnixPlace, bind, words
from edgecron.tokens import MAKE

if TYPE_CHECKING:
    from edgecron.http.app import Application
    from edgecron.http.connections import Server

_END_S = 10  # so long its end is waited for
_GRACE_S = 2  # so long answers may still take


def check_served(place: Place, *, has_token: bool) -> None:
    """Refuse what would be open to others, and what needs packages that are not there.

    Raises InvalidInput and NotSupported.
    """
    if not place.is_private and not has_token:
        raise InvalidInput(
            f"{words(place)} can be reached from other machines, and whoever reaches it could run"
            " commands as you",
            hint=f"make a token, {MAKE}, and give --token-file FILE; or serve 127.0.0.1",
        )
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise NotSupported(
            "the HTTP API needs starlette and uvicorn, which are not installed",
            hint="pip install 'edgecron[http]'",
        )


class HttpService:
    """The API of a database at a place. `start` binds, and raises InvalidInput where it can't."""

    def __init__(
        self, database: Path, place: Place, *, token: str | None, limits: Limits | None = None
    ) -> None:
        self._database = database
        self._place = place
        self._token = token
        self._limits = limits or Limits()
        self._listener: socket.socket | None = None
        self._server: Server | None = None
        self._application: Application | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is served, with the port that it was given."""
        return words(self._place, self._listener)

    @property
    def is_open_to_all_users(self) -> bool:
        """Whether whoever is on this machine may ask."""
        return self._token is None and not isinstance(self._place, UnixPlace)

    def start(self) -> None:
        """Bind, and serve from a thread from now on."""
        import uvicorn

        from edgecron.http.app import application
        from edgecron.http.connections import BoundedProtocol, Server

        self._listener = bind(self._place)
        hosts = None if isinstance(self._place, UnixPlace) else (*LOOPBACK, self._place.host)
        self._application = application(
            self._database, token=self._token, hosts=hosts, limits=self._limits
        )
        protocol: Any = partial(
            BoundedProtocol, limits=self._limits, clock=SystemClock(), is_over=self._is_over
        )
        config = uvicorn.Config(
            self._application,
            loop="asyncio",
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=self._limits.head_bytes,
        )
        self._server = Server(config)
        self._thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [self._listener]},
            name="edgecron-http",
        )
        self._thread.start()

    def _is_over(self) -> bool:
        return self._server is None or self._server.is_over

    def close(self) -> None:
        """Serve no longer: what is being answered has a moment. Harmless when it is closed."""
        if self._server is not None and self._thread is not None:
            self._server.stop()
            if self._application is not None:
                self._application.close()
            self._thread.join(_END_S)
        if self._listener is not None:
            self._listener.close()
            if isinstance(self._place, UnixPlace):
                self._place.path.unlink(missing_ok=True)
        self._server = self._thread = self._listener = None
