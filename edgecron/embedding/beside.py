"""Calls from coroutines: on a thread beside the event loop, or with a short wait on the loop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

MOST_WAIT_S = 0.1  # for another's lock, on the thread of an event loop
AWAIT_HINT = "in a coroutine, await the call's counterpart: await job.arun_now(), job.apause(), ..."


def is_on_loop() -> bool:
    """Whether this thread runs an event loop now, which a wait would freeze."""
    # Whoever has not loaded asyncio runs no loop. A module that another thread is still loading is
    # listed already, without its names.
    running = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    return running is not None and running() is not None


async def beside(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function on a thread beside the loop.

    If the await is cancelled, the call goes on and may take effect.
    """
    import asyncio

    return await asyncio.to_thread(function, *args, **kwargs)
