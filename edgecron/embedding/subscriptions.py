"""Report events of runs to a program: to callbacks, or to asynchronous iterators.

The engine never waits for a subscriber. Each subscriber has its own inbox. If it is full, the
oldest event is dropped, and the next event reports how many were.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self
from weakref import finalize

from edgecron.base.errors import InvalidInput
from edgecron.embedding.events import Origins, RunEvent, Told, Wants, kind_of, run_event
from edgecron.embedding.program import Program

if TYPE_CHECKING:
    from edgecron.base.clock import Clock
    from edgecron.embedding.events import RunEvent, Wanted
    from edgecron.embedding.job import Scheduled
    from edgecron.engine.events import Event
    from edgecron.model.run import Execution


MOST = 1000  # events that wait for who listens
_CLOSE_S = 2.0  # so long a callback is waited for that is being called

Make = Callable[[Told, int], RunEvent | None]  # what is told, and how much before it was dropped


class Inbox:
    """Events that somebody has not been told of yet. `wake` is called when one has come.

    Put by the engine's thread, taken by another.
    """

    def __init__(self, wants: Wants) -> None:
        self.wants = wants
        self.wake: Callable[[], object] = _nothing
        self.dropped = 0  # of all
        self.is_ended = False  # no more will come
        self._lock = threading.Lock()
        self._waiting: deque[Told] = deque()
        self._dropped = 0  # before the first that waits

    def put(self, told: Told) -> None:
        with self._lock:
            if len(self._waiting) >= MOST:
                self._waiting.popleft()
                self._dropped += 1
                self.dropped += 1
            self._waiting.append(told)
        self.wake()

    def take(self, make: Make) -> RunEvent | None:
        """The next one; None where none waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    return None
                told, dropped = self._waiting.popleft(), self._dropped
                self._dropped = 0
            event = make(told, dropped)
            if event is not None:
                return event

    def end(self) -> None:
        """Say that no more will come; what waits can be taken still."""
        self.is_ended = True
        self.wake()

    def forget(self) -> None:
        """Drop what waits, uncounted."""
        with self._lock:
            self._waiting.clear()


class Subscription:
    """One callback, which is called on a thread of its own until `close`, or the end of `with`."""

    def __init__(
        self, callback: Callable[[RunEvent], object], wants: Wants, told_by: Subscribers
    ) -> None:
        self._callback = callback
        self._told_by = told_by
        self._begin(wants)

    def _begin(self, wants: Wants) -> None:
        self.inbox = Inbox(wants)
        self.inbox.wake = self._wake
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._news = threading.Event()
        self._is_closed = False
        self._may_end = False

    def __repr__(self) -> str:
        name = getattr(self._callback, "__qualname__", repr(self._callback))
        return f"<Subscription of {name}{', closed' if self._is_closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dropped(self) -> int:
        """How many events it was not told of, because it was too slow."""
        return self.inbox.dropped

    def close(self) -> None:
        """Be told of nothing more, also not of what waits; a call that goes on is waited for."""
        self._told_by.remove(self.inbox)
        self._is_closed = True
        self.inbox.forget()
        self.finish(wait_s=_CLOSE_S)

    def finish(self, *, wait_s: float) -> None:
        """Tell what waits, and end the thread; the next event starts another one."""
        with self._lock:
            thread = self._thread
            self._may_end = True
        self._news.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(wait_s)

    def deliver(self) -> None:
        """Tell what waits, here."""
        while not self._is_closed:
            try:
                event = self.inbox.take(self._told_by.make)
                if event is None:
                    return
                self._callback(event)
            except BaseException:  # SystemExit, too: the next event is told all the same
                from logging import getLogger

                getLogger("edgecron").exception("%r could not be told of an event", self)

    def begin_anew(self) -> None:
        """In a forked child: nothing waits, and no thread is ours."""
        if not self._is_closed:
            self._begin(self.inbox.wants)

    def _wake(self) -> None:
        if self._told_by.is_by_hand:
            return
        with self._lock:
            self._may_end = False
            if self._thread is None:
                # Daemon: a callback that hangs must not keep the interpreter from its end.
                thread = threading.Thread(target=self._run, name="edgecron-events", daemon=True)
                with suppress(RuntimeError):  # no thread can be had: the next event tries again
                    thread.start()
                    self._thread = thread
        self._news.set()

    def _run(self) -> None:
        while True:
            self._news.clear()
            self.deliver()
            with self._lock:
                if self._may_end and not self._news.is_set():
                    self._thread = None
                    return
            self._news.wait()


class EventStream:
    """What becomes of runs, for `async for`: from when it was made until the Scheduler stops.

    For one task at a time. `aclose`, the end of `async with`, or that nobody has it any more,
    ends it.
    """

    def __init__(self, wants: Wants, told_by: Subscribers) -> None:
        self._inbox = Inbox(wants)
        self._make = told_by.make
        self._is_awaited = False
        # Who leaves a loop by `break` closes nothing.
        self._close = finalize(self, told_by.remove, self._inbox)
        self._close.atexit = False
        told_by.add(self._inbox)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        import asyncio

        if self._is_awaited:
            raise RuntimeError("these events are waited for already; make a stream for each task")
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(news.set)

        self._is_awaited = True
        self._inbox.wake = wake
        try:
            while True:
                is_ended = self._inbox.is_ended
                event = self._inbox.take(self._make)
                if event is not None:
                    return event
                if is_ended:
                    raise StopAsyncIteration
                await news.wait()
                news.clear()
        finally:
            self._inbox.wake = _nothing
            self._is_awaited = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def dropped(self) -> int:
        """How many events were not told here, because who listens was too slow."""
        return self._inbox.dropped

    async def aclose(self) -> None:
        """End it; who waits for the next event is told so."""
        self._close()
        self._inbox.forget()
        self._inbox.end()


class Subscribers:
    """All who are told by the engine of a program. `note` is told what that did, and `find` looks
    for a run on record."""

    def __init__(self, find: Callable[[int], Execution], *, clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self._lock = threading.Lock()
        self._inboxes: tuple[Inbox, ...] = ()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._origins = Origins()
        self.is_by_hand = False  # `deliver` is called instead of threads

    def note(self, event: Event) -> None:
        """Put an event into the inboxes of those who want it. Never waits."""
        inboxes = self._inboxes
        if not inboxes:
            return
        origin = self._origins.note(event)
        kind = kind_of(event)
        if kind is None:
            return
        told = Told(event=event, kind=kind, origin=origin)
        for inbox in inboxes:
            if inbox.wants.includes(told):
                inbox.put(told)

    def subscribe(self, callback: Callable[[RunEvent], object], wants: Wants) -> Subscription:
        subscription = Subscription(callback, wants, self)
        with self._lock:
            self._subscriptions += (subscription,)
            self._inboxes += (subscription.inbox,)
        return subscription

    def add(self, inbox: Inbox) -> None:
        with self._lock:
            self._inboxes += (inbox,)

    def remove(self, inbox: Inbox) -> None:
        with self._lock:
            self._inboxes = tuple(one for one in self._inboxes if one is not inbox)
            self._subscriptions = tuple(
                one for one in self._subscriptions if one.inbox is not inbox
            )

    def deliver(self) -> None:
        """Tell callbacks what waits, here."""
        for subscription in self._subscriptions:
            subscription.deliver()

    def stop(self, *, wait_s: float = _CLOSE_S) -> None:
        """Tell callbacks what waits, for so long at most, and end their threads and all streams.

        Callbacks are called again when an engine runs again.
        """
        until_ms = self._clock.monotonic_ms() + wait_s * 1000
        subscriptions = self._subscriptions
        for subscription in subscriptions:
            subscription.finish(wait_s=0)
        for subscription in subscriptions:
            left_s = (until_ms - self._clock.monotonic_ms()) / 1000
            subscription.finish(wait_s=max(left_s, 0))
        callbacks = {one.inbox for one in subscriptions}
        for inbox in self._inboxes:
            if inbox not in callbacks:
                self.remove(inbox)
                inbox.end()

    def begin_anew(self) -> None:
        """In a forked child: its callbacks will be told by its own engine, and no stream."""
        self._lock = threading.Lock()
        self._origins = Origins()
        for subscription in self._subscriptions:
            subscription.begin_anew()
        self._inboxes = tuple(one.inbox for one in self._subscriptions)

    def make(self, told: Told, dropped: int) -> RunEvent | None:
        """What is told of what the engine said; None where it is not on record any more."""
        return run_event(told, self._find, dropped=dropped)


def _nothing() -> None:
    """Nobody waits."""


class Listener(Program):
    """A program that is told what becomes of runs, while an engine of it is at work."""

    _told: Subscribers | None = None  # before somebody wants to be

    def subscribe(
        self,
        callback: Callable[[RunEvent], object],
        *kinds: Wanted,
        job: Scheduled[Any] | str | None = None,
    ) -> Subscription:
        """Have a function called with what becomes of runs: of these kinds, or all; of one job.

            scheduler.subscribe(lambda event: alert(event.schedule, event.error), "failed")

        It is told what an engine of this process does, while one runs, on a thread of its own:
        what it raises is logged, and one that is slow holds up nobody. Raises InvalidInput for a
        kind that there is not.
        """
        from edgecron.embedding.events import wants_of
        from edgecron.embedding.signatures import is_coroutine_function

        if is_coroutine_function(callback):
            raise InvalidInput(
                f"{callback.__qualname__} is a coroutine, expected a function",
                hint="use: async for event in scheduler.events(...)",
            )
        return self._subscribers.subscribe(callback, wants_of(kinds, _name_of(job)))

    def events(self, *kinds: Wanted, job: Scheduled[Any] | str | None = None) -> EventStream:
        """The same for a coroutine, from now on, until the Scheduler stops:

        async for event in scheduler.events("finished", job="backup"): ...
        """
        from edgecron.embedding.events import wants_of

        return EventStream(wants_of(kinds, _name_of(job)), self._subscribers)

    @property
    def _subscribers(self) -> Subscribers:
        """Those who are told of runs; loaded when there are some."""
        with self._lock:
            if self._told is None:
                self._told = Subscribers(
                    lambda run_id: self.run(run_id).execution, clock=self._clock
                )
            return self._told


def _name_of(job: Scheduled[Any] | str | None) -> str | None:
    return job if job is None or isinstance(job, str) else job.name
