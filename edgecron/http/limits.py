"""What a request, a connection and all of them together may take."""

from __future__ import annotations

from edgecron.base.values import dataclass
from edgecron.client.resources import MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds against whoever sends too much, too slowly, or too often.

    `head_s` is from a connection, or the answer before, to the end of a request's head, `body_s`
    from there to the end of its body; `unread_s` is how long a client may leave unread what was
    sent to it, `keep_alive_s` how long a stream of events is silent at most. Connections and heads
    are bounded where we serve ourselves, not where an application is mounted in another server.
    Those who may ask share `connections`. Each other user of the machine, or other address, has
    `peer_connections`, opens `new_at_once` and then `new_each_s`; all of them together have
    `strangers`.
    Of edgecron's own clients, which apply a file of schedules as a whole, a body may have
    `call_bytes`, and then `body_s` is for each `body_bytes` of it.
    """

    body_bytes: int = 1024 * 1024
    call_bytes: int = MOST_BYTES
    head_bytes: int = 16 * 1024
    path_bytes: int = 8 * 1024
    connections: int = 64
    strangers: int = 32
    peer_connections: int = 8
    new_at_once: int = 20
    new_each_s: int = 10
    streams: int = 16
    head_s: float = 10.0
    body_s: float = 10.0
    unread_s: float = 30.0
    keep_alive_s: float = 15.0
