"""The HTTP API: what the command line can do, for programs in any language.

    app           the ASGI application: the door, the routes behind it, and their threads
    routes        which handler answers which method and path, and what it takes and gives
    schedules     schedules: listed, read, made, changed, removed; acts: fired, paused, moved
    runs, coming  runs and what they printed; what comes next
    streams       what a run prints, live; sending: as an ASGI answer
    health        whether it is well
    asking        a request, as handlers see it, and what a route is
    answers       an answer, as handlers give it; showing: with which fields
    reading       a request's head and body, where they are of the shape that its route says
    shapes        what that is; keyshapes of what is written, answershapes of what is read
    openapi       the document of all routes, made of their shapes
    conditions    entity tags, and writes that depend on them
    idempotency   the key by which a request is done once
    refusing      what goes wrong, as answers
    guarding      who may ask: tokens, users of this machine, Host and Origin
    calls         what edgecron's own clients ask; watching: whether anything has changed
    workers       threads with a Client each, on which handlers run
    places        where it is served: an address, or a Unix socket
    serving       the application served from a thread of this process
    limits        what requests and connections may take
    connections   ours, bounded so; shares: how many places each peer has, and who loses one

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
