"""Limit what a request, a connection and all connections together take."""

from __future__ import annotations

from edgecron.base.values import dataclass
from edgecron.client.resources import MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds against clients that send too much, too slowly, or too often.

    `head_s` is from a connection, or the answer before, to the end of a request's head, `body_s`
    from there to the end of its body. `unread_s` is how long a client can leave an answer unread,
    `keep_alive_s` how long a stream of events is silent at most. Connections and heads are bounded
    only by our own server, not by one that mounts the application. Those who may use the API share
    `connections`. Each other user of the machine, or other address, has `peer_connections`, and
    all of them together have `strangers`. A body of edgecron's own clients, which apply whole
    files, can have `call_bytes`; `body_s` is then for each `body_bytes`.
    """

    body_bytes: int = 1024 * 1024
    call_bytes: int = MOST_BYTES
    head_bytes: int = 16 * 1024
    path_bytes: int = 8 * 1024
    connections: int = 64
    strangers: int = 32
    peer_connections: int = 8
    streams: int = 16
    head_s: float = 10.0
    body_s: float = 10.0
    unread_s: float = 30.0
    keep_alive_s: float = 15.0
