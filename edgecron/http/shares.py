"""Which connections a server holds, and whose they are: nobody takes the places of others.

A peer is a user of this machine, as the kernel tells it, or an address. Connections of those who
may ask are the owner's: they share a number of places that no one else can take. A connection
becomes the owner's with its first request that carries the token. Each other peer has a few places,
and a few new connections per second.

If no place is free, the connection that has kept the server waiting longest ends for the new one:
a client that is silent, slow, or does not read keeps nobody out.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Hashable, Iterable
from ipaddress import IPv6Address, ip_network
from typing import TYPE_CHECKING

from edgecron.base.peers import Peer, end_of

if TYPE_CHECKING:
    from edgecron.http.limits import Limits

SEAT = "edgecron.seat"  # in the state of an ASGI scope: the Seat of its connection
_ABOUT_TO_COME_S = 0.005  # a request over a new connection, or one after the other
_MOST_PEERS = 1024  # whose new connections are counted


class Seat:
    """The place of one connection. `waits_since_s` is None while its request is answered."""

    def __init__(
        self, shares: Shares, link: socket.socket, peer: Peer, whose: Hashable, *, now_s: float
    ) -> None:
        self._shares = shares
        self._link = link
        self.peer = peer
        self.whose = whose
        self.is_own = False
        self.is_taken = True
        self.waits_since_s: float | None = now_s
        self.hang_up: Callable[[], object] = lambda: None

    def admit(self) -> None:
        """Count the connection as the owner's from now on."""
        self._shares.admit(self)

    def is_silent(self) -> bool:
        """Whether the server waits for the client, and nothing that it has sent is unread."""
        if self.waits_since_s is None:
            return False
        try:
            return not self._link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return True  # The client has gone.


class Shares:
    """Gives and takes the places of a server. For one thread.

    `users` are the numbers of the users who may ask, None if the kernel tells no users.
    """

    def __init__(self, limits: Limits, *, users: Collection[int] | None) -> None:
        self._limits = limits
        self._users = users
        self._own: set[Seat] = set()
        self._strangers: dict[Hashable, set[Seat]] = {}
        self._allowances: dict[Hashable, tuple[float, float]] = {}  # connections left, and when

    def is_own_busy(self, now_s: float) -> bool:
        """Whether a request of the owner is being answered, or about to come."""
        return any(
            seat.waits_since_s is None or now_s - seat.waits_since_s < _ABOUT_TO_COME_S
            for seat in self._own
        )

    def take(self, link: socket.socket, *, now_s: float) -> Seat | None:
        """Give a new connection its place until `leave`, None if it gets none."""
        peer = Peer(link)
        if link.family == socket.AF_UNIX:
            whose: Hashable = "socket"
            is_own = True  # The file system decides who can open it.
        else:
            user = None if self._users is None else peer.find_user()
            whose = _network_of(link) if user is None else user
            is_own = self._users is not None and user in self._users
        seat = Seat(self, link, peer, whose, now_s=now_s)
        if is_own:
            seat.is_own = True
            if not self._make_room(self._own, self._limits.connections):
                return None
            self._own.add(seat)
            return seat
        if not self._is_within_rate(whose, now_s) or not self._make_room_for(whose):
            return None
        self._strangers.setdefault(whose, set()).add(seat)
        return seat

    def leave(self, seat: Seat) -> None:
        """Free the place of a connection that has ended. Harmless if it has none."""
        seat.is_taken = False
        self._own.discard(seat)
        others = self._strangers.get(seat.whose)
        if others is not None:
            others.discard(seat)
            if not others:
                del self._strangers[seat.whose]

    def admit(self, seat: Seat) -> None:
        """Move a connection to the places of the owner, if one of them can be had."""
        if seat.is_own or not seat.is_taken:
            return
        if self._make_room(self._own, self._limits.connections):
            self.leave(seat)
            self._own.add(seat)
            seat.is_own = seat.is_taken = True
        left, at_s = self._allowances.get(seat.whose, (0.0, 0.0))
        self._allowances[seat.whose] = (left + 1, at_s)  # Only what is refused is counted.

    def _make_room_for(self, whose: Hashable) -> bool:
        mine = self._strangers.get(whose, set())
        if not self._make_room(mine, self._limits.peer_connections):
            return False
        if sum(map(len, self._strangers.values())) < self._limits.strangers:
            return True
        largest = max(self._strangers.values(), key=len)
        return self._make_room(largest, len(largest))

    def _make_room(self, seats: Collection[Seat], most: int) -> bool:
        """Whether one of these places is free, be it that a silent client loses it."""
        if len(seats) < most:
            return True
        silent = _longest_silent(seats)
        if silent is None:
            return False
        self.leave(silent)
        silent.hang_up()
        return True

    def _is_within_rate(self, whose: Hashable, now_s: float) -> bool:
        """Count a new connection of a stranger; False if too many came in too short a time."""
        most, each_s = self._limits.new_at_once, self._limits.new_each_s
        if len(self._allowances) >= _MOST_PEERS:
            self._allowances = {
                peer: (left, at_s)
                for peer, (left, at_s) in self._allowances.items()
                if left + (now_s - at_s) * each_s < most
            }
        left, at_s = self._allowances.get(whose, (most, now_s))
        left = min(most, left + (now_s - at_s) * each_s)
        is_within = left >= 1
        self._allowances[whose] = (left - 1 if is_within else left, now_s)
        return is_within


def _longest_silent(seats: Iterable[Seat]) -> Seat | None:
    waiting = [seat for seat in seats if seat.waits_since_s is not None]
    waiting.sort(key=lambda seat: seat.waits_since_s or 0.0)
    return next((seat for seat in waiting if seat.is_silent()), None)


def _network_of(link: socket.socket) -> Hashable:
    """The address at the other end; of IPv6 the network that one customer usually has."""
    try:
        address = end_of(link.getpeername()).address
    except (OSError, ValueError):
        return None  # It has gone already.
    return ip_network((address, 64), strict=False) if isinstance(address, IPv6Address) else address
