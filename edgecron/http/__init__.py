"""The HTTP API: what the command line can do, for programs in any language.

    app           the ASGI application: the door, the routes behind it, and their threads
    routes        which handler answers which method and path, and what it takes and gives
    schedules     schedules: listed, read, made, changed, removed, run, paused, moved, restored
    runs          runs, what they printed, and the fires to come
    resources     the other resources, from the table in `client/resources.py`
    streams       what a run prints, live, as server-sent events
    health        /healthz and /metrics
    asking        requests and answers as handlers see them, and what a route is
    showing       schedules, runs and fires as answers show them
    reading       a request's head and body, checked against the shape that its route has
    shapes        what a shape is; keyshapes of what is written, answershapes of what is read
    openapi       the document of all routes, made of their shapes
    conditions    entity tags, writes that depend on them, and the key of a request done once
    refusing      errors as answers
    guarding      who may ask: tokens, users of this machine, Host and Origin
    watching      whether anything has changed
    workers       threads with a Client each, on which handlers run
    serving       where the API is served, and the application served from a thread
    limits        what requests and connections may take
    connections   our connections, bounded so; shares: how many places each peer has

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
