"""What a child that a program forks begins anew: connections, and an engine of its own.

A server that forks workers (gunicorn, uwsgi, multiprocessing) may have used a Scheduler before it
did. The child finds it as if it had just been made: not started, with nothing open.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    def begin_anew(self) -> None:
        """In the child: forget threads and connections, without a word to anybody."""


_KNOWN: WeakSet[Forked] = WeakSet()


def begin_anew_in_children(one: Forked) -> None:
    """Have it begin anew in each child that is forked from now on."""
    _KNOWN.add(one)


def _begin_all() -> None:
    for one in list(_KNOWN):
        one.begin_anew()


os.register_at_fork(after_in_child=_begin_all)
