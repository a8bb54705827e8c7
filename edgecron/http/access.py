"""Decide who can use the API, by a token or by the user of a connection; and to what extent.

All users of the API can run commands as this user. Without a token it therefore answers only this
user and root. All users of the machine can read /healthz and /metrics, because monitoring runs as a
user of its own: they show names and counts of schedules, never commands. A token or a Unix socket
closes /metrics too. If the kernel does not tell the users of connections, all users are answered,
and a server of root does not start: see `serving`.

A browser lets any page send requests to this machine. Without a token, the Host header must
therefore be a name of this machine: any other belongs to a site that points its name here. Requests
of pages of other sites are refused. No answer has a header that lets such a page read it.
"""

from __future__ import annotations

import hmac
import os
import re
import socket
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping

from edgecron.base.sockets import end_of, find_user_of
from edgecron.base.values import dataclass
from edgecron.client.resources import MOST_BYTES
from edgecron.http.messages import JSON, MERGE_PATCH, Refused

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_OWN_SITES = ("same-origin", "none")  # of Sec-Fetch-Site: no page, or our own
OPEN_PATHS = ("/healthz",)  # open to everybody
_OPEN_TO_ALL_USERS = (*OPEN_PATHS, "/metrics")  # of this machine, if there is no token
_READING = ("GET", "HEAD")
FindUser = Callable[[], int | None]  # the user of a connection; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The conditions of a request. None means no condition.

    `users` are the ids of the users who can use the API.
    """

    token: str | None = None
    hosts: Collection[str] | None = LOOPBACK
    users: Collection[int] | None = None

    def check(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        find_user: FindUser = lambda: None,
    ) -> bool:
        """Raise Refused for a request that is not permitted, or whose body is not JSON.

        Return whether the request comes from the owner, and not from a stranger who reads an open
        path. `headers` have lower-case names; `find_user` is called if it matters.
        """
        host = headers.get("host", "")
        self._check_site(host, headers)
        if method not in _READING or path not in _OPEN_TO_ALL_USERS:
            self._check_user(find_user)
        if path not in OPEN_PATHS:
            self._check_token(headers)
        if has_body(headers):
            _check_type(method, headers.get("content-type", ""))
        if self.token is None:
            return method not in _READING or path not in _OPEN_TO_ALL_USERS
        return path not in OPEN_PATHS

    def _check_site(self, host: str, headers: Mapping[str, str]) -> None:
        name = re.sub(r":[0-9]*$", "", host).strip("[]").lower()
        if self.hosts is not None and name not in self.hosts:
            raise Refused(
                421,
                "wrong_host",
                f"host {host[:80]!a} is not a name of this server",
                hint=f"use {min(self.hosts)} as the host, or start the server with a token",
            )
        origin = headers.get("origin")
        is_own = origin is None or origin.lower() in (f"http://{host}", f"https://{host}")
        if not is_own or headers.get("sec-fetch-site", "none") not in _OWN_SITES:
            raise Refused(403, "wrong_origin", "requests from pages of other sites are refused")

    def _check_user(self, find_user: FindUser) -> None:
        if self.users is None:
            return
        user = find_user()
        if user not in self.users:
            raise Refused(
                403,
                "other_user",
                f"the server answers only user {os.geteuid()} and root, and the request is from "
                + ("an unknown user" if user is None else f"user {user}"),
                hint="send the request as one of these users; or start the server with a token"
                " (--token-file FILE), and send the token",
            )

    def _check_token(self, headers: Mapping[str, str]) -> None:
        if self.token is None:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        # As bytes: other text than ASCII can't be compared in constant time.
        is_right = hmac.compare_digest(given.strip().encode(), self.token.encode())
        if kind.lower() != "bearer" or not is_right:
            raise Refused(
                401,
                "unauthorized",
                "the token is wrong" if given else "the token is missing",
                hint="send the token of the server's token file, as: Authorization: Bearer TOKEN",
                headers={"www-authenticate": 'Bearer realm="edgecron"'},
            )


def has_body(headers: Mapping[str, str]) -> bool:
    """Whether a request has a body, by its headers."""
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _check_type(method: str, given: str) -> None:
    kind = given.partition(";")[0].strip().lower()
    allowed = (JSON, MERGE_PATCH) if method == "PATCH" else (JSON,)
    if kind not in allowed:
        raise Refused(
            415,
            "wrong_type",
            f"the body is {kind[:80]!a}, expected {allowed[0]}",
            hint=f"send the header Content-Type: {allowed[0]}",
        )


_NEXT_REQUEST_S = 0.005  # over a new connection, or after an answer
_MOST_PEERS = 1024  # whose new connections are counted
SLOT = "edgecron.slot"  # in the state of an ASGI scope: the slot of its connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds against clients that send too much, too slowly, or too often.

    `head_s` is from a connection, or the answer before, to the end of a request's head, `body_s`
    from there to the end of its body. `unread_s` is how long a client can leave an answer unread,
    `keep_alive_s` how long a stream of events is silent at most. Connections and heads are bounded
    only by our own server, not by one that mounts the application. Users of the API share
    `connections`. Each other user of the machine, or other address, has `peer_connections` and
    opens `new_at_once` and then `new_each_s`; all of them together have `strangers`. A body of
    edgecron's own clients, which apply whole files, can have `call_bytes`; `body_s` is then for
    each `body_bytes`.
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


class Slot:
    """One connection. `waits_since_s` is None while its request is answered."""

    def __init__(
        self, slots: Slots, link: socket.socket, hang_up: Callable[[], object], *, now_s: float
    ) -> None:
        self._slots = slots
        self._link = link
        self._user: int | None = None
        self.hang_up = hang_up
        self.is_own = False
        self.peer: Hashable = None
        self.waits_since_s: float | None = now_s

    def find_user(self) -> int | None:
        """Return the user at the other end; None if the kernel does not tell."""
        if self._user is None:
            self._user = find_user_of(self._link)
        return self._user

    def admit(self) -> None:
        """Count the connection as the owner's from now on."""
        self._slots.admit(self)

    def is_silent(self) -> bool:
        """Whether the server waits for the client, and nothing that it has sent is unread."""
        if self.waits_since_s is None:
            return False
        try:
            # asyncio lends a socket without `recv`.
            with socket.socket(fileno=os.dup(self._link.fileno())) as link:
                return not link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:  # Nothing has come, or the client has gone.
            return True


class Slots:
    """Give each connection of a server a slot, so that no client keeps the owner out.

    A peer is a user of this machine, if the kernel tells it, or an address. Connections of users of
    the API are the owner's: they share slots that no one else can take. A connection becomes the
    owner's with its first request that is admitted. All other peers are strangers: each has a few
    slots and a few new connections per second, and all of them together have a bounded number.

    If no slot is free, the server ends the connection that has kept it waiting longest. So a client
    that is silent, slow, or does not read locks no other out. For one thread.

    `users` are the users whose connections are the owner's from the start; None if that is
    unknown before a request.
    """

    def __init__(self, limits: Limits, *, users: Collection[int] | None) -> None:
        self._limits = limits
        self._users = users
        self._taken: set[Slot] = set()
        self._allowances: dict[Hashable, tuple[float, float]] = {}  # connections left, and when

    def take(
        self, link: socket.socket, hang_up: Callable[[], object], *, now_s: float
    ) -> Slot | None:
        """Give a new connection its slot until `leave`; None if it gets none."""
        slot = Slot(self, link, hang_up, now_s=now_s)
        if link.family == socket.AF_UNIX:
            slot.is_own = True  # The file system decides who can open it.
        else:
            user = None if self._users is None else slot.find_user()
            slot.peer = _network_of(link) if user is None else user
            slot.is_own = self._users is not None and user in self._users
        if slot.is_own:
            has_room = self._make_room_for_own()
        else:
            has_room = self._is_within_rate(slot.peer, now_s) and self._make_room_for(slot.peer)
        if not has_room:
            return None
        self._taken.add(slot)
        return slot

    def has(self, slot: Slot) -> bool:
        """Return whether a connection still has its slot."""
        return slot in self._taken

    def leave(self, slot: Slot) -> None:
        """Free the slot of a connection that has ended. Harmless if it has none."""
        self._taken.discard(slot)

    def admit(self, slot: Slot) -> None:
        """Move a connection to the owner's slots, if one of them is free."""
        if not slot.is_own and slot in self._taken:
            slot.is_own = self._make_room_for_own()
            left, at_s = self._allowances.get(slot.peer, (0.0, 0.0))
            self._allowances[slot.peer] = (left + 1, at_s)  # The rate is for strangers only.

    def is_owner_active(self, now_s: float) -> bool:
        """Whether a request of the owner is being answered, or likely to come now."""
        return any(
            one.waits_since_s is None or now_s - one.waits_since_s < _NEXT_REQUEST_S
            for one in self._taken
            if one.is_own
        )

    def _is_within_rate(self, peer: Hashable, now_s: float) -> bool:
        """Count a new connection of a stranger; False if too many came in too short a time."""
        most, each_s = self._limits.new_at_once, self._limits.new_each_s
        if len(self._allowances) >= _MOST_PEERS:
            self._allowances = {
                one: (left, at_s)
                for one, (left, at_s) in self._allowances.items()
                if left + (now_s - at_s) * each_s < most
            }
        left, at_s = self._allowances.get(peer, (most, now_s))
        left = min(most, left + (now_s - at_s) * each_s)
        is_within = left >= 1
        self._allowances[peer] = (left - 1 if is_within else left, now_s)
        return is_within

    def _make_room_for_own(self) -> bool:
        return self._make_room([one for one in self._taken if one.is_own], self._limits.connections)

    def _make_room_for(self, peer: Hashable) -> bool:
        strangers = [one for one in self._taken if not one.is_own]
        same = [one for one in strangers if one.peer == peer]
        if len(same) >= self._limits.peer_connections:
            return self._make_room(same, self._limits.peer_connections)
        if len(strangers) < self._limits.strangers:
            return True
        [(largest, count)] = Counter(one.peer for one in strangers).most_common(1)
        return self._make_room([one for one in strangers if one.peer == largest], count)

    def _make_room(self, slots: Collection[Slot], most: int) -> bool:
        """Return whether one of these slots is free; a silent client can lose its slot for it."""
        if len(slots) < most:
            return True
        for slot in sorted(slots, key=lambda one: one.waits_since_s or 0.0):
            if slot.is_silent():
                self.leave(slot)
                slot.hang_up()
                return True
        return False


def _network_of(link: socket.socket) -> Hashable:
    """Return the address of the client; of IPv6 the network that one customer usually has."""
    try:
        address = end_of(link.getpeername()).address
    except (OSError, ValueError):
        return None  # The client has gone already.
    return address[:8] if len(address) == 16 else address
