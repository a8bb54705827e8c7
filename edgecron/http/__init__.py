"""The HTTP API: what the command line can do, for programs in any language.

    app           the ASGI application, and what stands around its routes
    routes        which handler answers which method and path
    asking        a request and its answer, as handlers see them
    refusing      what goes wrong, as answers
    guarding      who may ask: tokens, Host and Origin
    workers       threads with a Client each, on which handlers run
    places        where it is served: an address, or a Unix socket
    serving       the application served from a thread of this process
    connections   what a connection may take: time, bytes, others' places

An extra: `pip install 'edgecron[http]'`. `application(DATABASE, token=...)` is for a server of your
own, alone or mounted in another application:

    from edgecron.http import application
    app.mount("/jobs", application("app.db", token="..."))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.http.app import application

__all__ = ["application"]


def __getattr__(name: str) -> object:
    # What the daemon asks before it is served, such as where, needs no Starlette.
    if name != "application":
        raise AttributeError(f"module 'edgecron.http' has no attribute {name!r}")
    from importlib import import_module

    value: object = import_module("edgecron.http.app").application
    globals()[name] = value
    return value
