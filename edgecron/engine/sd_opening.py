"""The feeds of our own daemon, and of a program that is nothing but its engine."""

from __future__ import annotations

import os
from collections.abc import Callable

from edgecron.base.clock import Clock
from edgecron.engine.sd_feed import Feed
from edgecron.engine.sd_manager import find_manager, take_manager


def take_feed(*, clock: Clock, warn: Callable[[str], object]) -> Feed | None:
    """The feed of a process that is an engine alone; what it starts does not see the variables.

    None where nobody wants to be told. Where somebody watches, who ends an engine that hangs by
    SIGABRT, that says on stderr where it hung.
    """
    manager = take_manager(os.environ, pid=os.getpid())
    if manager is None:
        return None
    if manager.watchdog_ms is not None:
        import faulthandler

        faulthandler.enable()
    return Feed(manager, clock=clock, main_pid=os.getpid(), warn=warn)


def find_feed(*, clock: Clock, warn: Callable[[str], object]) -> Feed | None:
    """The feed of a program's engine. Which process to watch is not ours to say, and the
    variables are the program's, too."""
    manager = find_manager(os.environ, pid=os.getpid())
    return None if manager is None else Feed(manager, clock=clock, main_pid=None, warn=warn)
