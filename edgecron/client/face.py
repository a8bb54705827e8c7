"""RemoteClient: the database of another machine, asked over HTTP as a Client is asked here.

    places      what --url names: an address, or a Unix socket
    tls         whom https trusts
    line        one connection, kept for the next question; HTTP/1.1 as far as our server speaks it
    lines       who gives such lines: a server, or for tests a Client of this process
    patience    lines that outlast their server
    servertime  the clock of the other machine
    asking      a question and its answer over a line
    reading, browsing, writing, following     the parts of RemoteClient

A `Face` is a database as programs see it, here or elsewhere: what takes one asks nothing that
only one of the two can answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.client.follow import Follower, LaterRuns
    from edgecron.client.remote import RemoteClient
    from edgecron.client.remote_follow import RemoteFollower, RemoteLaterRuns

Face: TypeAlias = "Client | RemoteClient"
FollowerFace: TypeAlias = "Follower | RemoteFollower"
LaterRunsFace: TypeAlias = "LaterRuns | RemoteLaterRuns"
