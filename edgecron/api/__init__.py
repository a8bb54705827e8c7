"""Client: a database as programs see it, and the only wiring of store, clock and engine.

The command line and the dashboard see a database through this and nothing else. `client` puts its
parts together: `opening`, `reading`, `prospects`, `busy`, `compiling`, `writing` (schedules),
`applying` (several of them at once), `declaring` and `withdrawing` (those of a program), `acting`
(runs), `backfill`, `browsing`, `copying` (backups), `explaining`, `measuring`, `retaining` and
`tallying`. It is loaded when it is first used: an engine within a program needs `declaring` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.api.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> object:
    if name != "Client":
        raise AttributeError(f"module 'edgecron.api' has no attribute {name!r}")
    from edgecron.api.client import Client

    globals()[name] = Client
    return Client
