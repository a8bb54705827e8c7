"""Who may have how many connections open: other users of the machine a few of their own.

Without a token any of them can connect, be it that little is told to them. All that one of them
holds open would be missing to those who are answered. So it is looked at whose a connection is as
it comes, before anything was read from it, and what is one too many takes nobody's place.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.http.guarding import FindUser
    from edgecron.http.limits import Limits


class Shares:
    """Counts the open connections of a server. For one thread.

    `users` are the numbers of those who may ask, None for any: then all of them share alike.
    """

    def __init__(self, limits: Limits, *, users: Collection[int] | None) -> None:
        self._limits = limits
        self._users = users
        self._own: set[object] = set()
        self._others: set[object] = set()

    def take(self, connection: object, find_user: FindUser) -> str | None:
        """Count a connection until `leave`; None, or why it is one too many, and is not counted.

        Whose it is that can't be told is another user's.
        """
        if self._users is None or find_user() in self._users:
            taken, most, whose = self._own, self._limits.connections, ""
        else:
            taken, most, whose = self._others, self._limits.others, " of other users"
        if len(taken) >= most:
            return f"{most} connections{whose} are open already"
        taken.add(connection)
        return None

    def leave(self, connection: object) -> None:
        """A connection has ended; harmless where it was not counted."""
        self._own.discard(connection)
        self._others.discard(connection)
