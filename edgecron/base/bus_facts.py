"""The reports of services of the system bus, as values."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from edgecron.base.values import NamedTuple


class Connectivity(StrEnum):
    """How far NetworkManager gets. It is not used if NetworkManager manages no connection."""

    PORTAL = "portal"  # to a login page
    LIMITED = "limited"  # to a network that does not lead to the internet
    FULL = "full"


class BusFacts(NamedTuple):
    """The reports of services. None: no service reports this.

    `networks` are the names of active connections and of joined wireless networks. `idle_since_ms`
    is a wall time, and 0 if no user is logged in.
    """

    connectivity: Connectivity | None = None
    is_metered: bool | None = None
    networks: frozenset[str] = frozenset()
    is_on_battery: bool | None = None
    battery_percent: float | None = None
    is_idle: bool | None = None
    idle_since_ms: int = 0


NO_FACTS = BusFacts()


class Bus(Protocol):
    """The services of a bus, for one caller, which is one thread."""

    def look(self, *, wait_s: float) -> BusFacts | None:
        """The newest reports. None: there is no answer yet.

        The first question waits for an answer, for a bounded time. From then on, the reports are
        kept up to date until `forget`.
        """

    def filenos(self) -> list[int]:
        """A descriptor that is readable after a change; empty before `look`."""

    def clear(self) -> None:
        """Forget that there were changes."""

    def forget(self) -> None:
        """Stop listening."""
