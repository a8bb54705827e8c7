"""A database as front ends see it: `Client` on this machine, `RemoteClient` on another one.

`local` lists the subjects that `Client` consists of. It is loaded when you first use it: an engine
within a program needs `declaring` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.client.local import Client

__all__ = ["Client"]


def __getattr__(name: str) -> object:
    if name != "Client":
        raise AttributeError(f"module 'edgecron.client' has no attribute {name!r}")
    from edgecron.client.local import Client

    globals()[name] = Client
    return Client
