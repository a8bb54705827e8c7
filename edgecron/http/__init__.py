"""The HTTP API: what the command line can do, for programs in any language.

    app              the ASGI application: checks, routes, and the threads of handlers
    routes           the handler of each method and path, and what it takes and gives; the resources
                     of `client/resources.py`, from the table there
    schedules        handlers of schedules: list, read, change, remove, run, pause, move, restore;
                     schedules, runs and fires as answers show them
    runs             handlers of runs, their output, why they ran, and fires to come; /healthz and
                     /metrics
    messages         requests, answers and errors as handlers see them, routes and operations
    request_checks   read a request, and check it against the schema of its route
    document_schema  the schema of a schedule as clients write it
    openapi          the OpenAPI document of all routes, with the schemas of answers
    access           who can use the API: tokens, users of this machine, Host and Origin;
                     and how much requests and connections can take
    client_threads   threads with a Client each: handlers run on them, one watches changes, others
                     send the output of a run, live, as server-sent events
    serving          where the API is served, from a thread
    connections      connections of our own server

This is the extra `http`. `application(DATABASE, token=...)` is for your own server, as it is or
mounted in another application:

    from edgecron.http import application
    app.mount("/jobs", application("app.db", token="..."))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.http.app import application

__all__ = ["application"]


def __getattr__(name: str) -> object:
    # `serving` is loaded before it is known whether Starlette is installed.
    if name != "application":
        raise AttributeError(f"module 'edgecron.http' has no attribute {name!r}")
    from edgecron.http.app import application

    globals()[name] = application
    return application
