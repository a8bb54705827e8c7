"""Report events of runs to a program: to callbacks, or to asynchronous iterators.

No engine waits for a subscriber. Each subscriber has its own inbox. If it is full, the
oldest event is dropped, and the next event reports how many were.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from weakref import finalize

from edgecron.base.errors import EdgecronError
from edgecron.embedding.concurrency import engine_logger
from edgecron.embedding.events import Origins, PendingEvent, RunEvent, Wants, run_event

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from edgecron.base.clock import Clock
    from edgecron.client import Client
    from edgecron.embedding.run_watch import RunWatch
    from edgecron.engine.events import Event
    from edgecron.model.run import Execution


MOST = 1000  # events that wait for one subscriber
_CLOSE_S = 2.0  # the wait for a callback that is being called

Make = Callable[
    [PendingEvent, int], RunEvent | None
]  # from an event, and how many before it were dropped


class Inbox:
    """Events that wait for one subscriber. The engine's thread puts them and calls `wake`."""

    def __init__(self, wants: Wants) -> None:
        self.wants = wants
        self.wake: Callable[[], object] = _nothing
        self.dropped = 0  # in total
        self.is_ended = False  # no more events will come
        self._lock = threading.Lock()
        self._waiting: deque[PendingEvent] = deque()
        self._dropped = 0  # before the first waiting event

    def put(self, pending: PendingEvent) -> None:
        with self._lock:
            if len(self._waiting) >= MOST:
                self._waiting.popleft()
                self._dropped += 1
                self.dropped += 1
            self._waiting.append(pending)
        self.wake()

    def take(self, make: Make) -> RunEvent | None:
        """Return the next event; None if none waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    return None
                pending, dropped = self._waiting.popleft(), self._dropped
                self._dropped = 0
            event = make(pending, dropped)
            if event is not None:
                return event

    def end(self) -> None:
        """Note that no more events will come. Waiting events can still be taken."""
        self.is_ended = True
        self.wake()

    def forget(self) -> None:
        """Drop the waiting events without counting them."""
        with self._lock:
            self._waiting.clear()


class Subscription:
    """One callback, called on a thread of its own until `close`, or the end of `with`."""

    def __init__(
        self, callback: Callable[[RunEvent], object], wants: Wants, source: Subscribers
    ) -> None:
        self._callback = callback
        self._source = source
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
        """How many events it missed because it was too slow."""
        return self.inbox.dropped

    def close(self) -> None:
        """End it, and drop waiting events. Waits a moment for a call in progress."""
        self._source.remove(self.inbox)
        self._is_closed = True
        self.inbox.forget()
        self.finish(wait_s=_CLOSE_S)

    def finish(self, *, wait_s: float) -> None:
        """Deliver waiting events, and end the thread. The next event starts a new one."""
        with self._lock:
            thread = self._thread
            self._may_end = True
        self._news.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(wait_s)

    def deliver(self) -> None:
        """Deliver waiting events, on this thread."""
        while not self._is_closed:
            try:
                event = self.inbox.take(self._source.make)
                if event is None:
                    return
                self._callback(event)
            except BaseException:  # noqa: BLE001  SystemExit, too: the next event is still delivered
                engine_logger().exception("%r could not receive an event", self)

    def reset_in_child(self) -> None:
        """Forget waiting events and the thread, in a forked child."""
        if not self._is_closed:
            self._begin(self.inbox.wants)

    def _wake(self) -> None:
        if self._source.is_by_hand:
            return
        with self._lock:
            self._may_end = False
            if self._thread is None:
                # Daemon: a callback that hangs must not keep the interpreter from ending.
                thread = threading.Thread(target=self._run, name="edgecron-events", daemon=True)
                with suppress(
                    RuntimeError
                ):  # No thread could be started: the next event tries again.
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
    """Events of runs for `async for`, from its creation until the Scheduler stops.

    One task at a time can read it. `aclose`, the end of `async with`, or its garbage collection
    ends it.
    """

    def __init__(self, wants: Wants, source: Subscribers) -> None:
        self._inbox = Inbox(wants)
        self._make = source.make
        self._is_awaited = False
        # A loop that is left by `break` closes nothing.
        self._close = finalize(self, source.remove, self._inbox)
        self._close.atexit = False
        source.add(self._inbox)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        import asyncio  # 30 ms and 11 MB; the caller has it loaded

        if self._is_awaited:
            raise RuntimeError("another task waits for these events; make a stream for each task")
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # The loop is closed, and nobody waits.
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
        """How many events it missed because its task was too slow."""
        return self._inbox.dropped

    async def aclose(self) -> None:
        """End it, also for a task that waits for its next event."""
        self._close()
        self._inbox.forget()
        self._inbox.end()


class Subscribers:
    """The subscribers of a program: they get the events of all engines of the database.

    `find` reads a run from the database, `lend` lends a Client, `open_client` makes one.
    """

    def __init__(
        self,
        find: Callable[[int], Execution],
        *,
        lend: Callable[[], AbstractContextManager[Client]],
        open_client: Callable[[], Client],
        clock: Clock,
    ) -> None:
        self._find = find
        self._lend = lend
        self._open_client = open_client
        self._clock = clock
        self._lock = threading.Lock()
        self._inboxes: tuple[Inbox, ...] = ()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._origins = Origins()
        self._watch: RunWatch | None = None  # since the first subscriber
        self._is_paused = False  # the Scheduler has stopped
        self.is_by_hand = False  # a test calls `deliver`: no threads

    def note(self, event: Event) -> None:
        """Put an event of our engine into the inboxes of subscribers that want it. Never waits."""
        pending = self._origins.pending_event(event) if self._inboxes else None
        if pending is None:
            return
        if self._watch is None or self.is_by_hand:
            self._put(pending)
        else:
            self._watch.note(pending)

    def _put(self, pending: PendingEvent) -> None:
        for inbox in self._inboxes:
            if inbox.wants.includes(pending):
                inbox.put(pending)

    def subscribe(self, callback: Callable[[RunEvent], object], wants: Wants) -> Subscription:
        subscription = Subscription(callback, wants, self)
        self._look()
        with self._lock:
            self._subscriptions += (subscription,)
            self._inboxes += (subscription.inbox,)
        self._follow()
        return subscription

    def add(self, inbox: Inbox) -> None:
        self._look()
        with self._lock:
            self._inboxes += (inbox,)
        self._follow()

    def resume(self) -> None:
        """Follow the engines of the database again, after `stop`."""
        if self._inboxes:
            self._look()
            self._follow()

    def _look(self) -> None:
        """Deliver what happened up to now, so that a new subscriber gets only what follows."""
        if self.is_by_hand:
            return
        if self._watch is None:
            from edgecron.embedding.run_watch import RunWatch  # For programs that subscribe.

            self._watch = RunWatch(
                lend=self._lend,
                open_client=self._open_client,
                deliver=self._put,
                is_needed=self._has_subscribers,
                clock=self._clock,
            )
        self._watch.look_now()

    def _follow(self) -> None:
        if self._watch is not None and not self.is_by_hand:
            self._is_paused = False
            self._watch.start()

    def _has_subscribers(self) -> bool:
        return bool(self._inboxes) and not self._is_paused

    def remove(self, inbox: Inbox) -> None:
        with self._lock:
            self._inboxes = tuple(one for one in self._inboxes if one is not inbox)
            self._subscriptions = tuple(
                one for one in self._subscriptions if one.inbox is not inbox
            )
        if self._watch is not None and not self._inboxes:
            self._watch.wake()  # It ends.

    def deliver(self) -> None:
        """Deliver waiting events to callbacks, on this thread."""
        for subscription in self._subscriptions:
            subscription.deliver()

    def stop(self, *, wait_s: float = _CLOSE_S) -> None:
        """Deliver waiting events to callbacks, at most `wait_s`, and end threads and streams.

        The next engine calls the callbacks again.
        """
        if self._watch is not None and self._inboxes and not self.is_by_hand:
            with suppress(EdgecronError):  # The next engine delivers what is missing.
                self._watch.look_now()
            self._is_paused = True
            self._watch.stop(wait_s=wait_s)
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

    def reset_in_child(self) -> None:
        """Keep the callbacks for the engine of a forked child, and forget the streams."""
        self._lock = threading.Lock()
        self._origins = Origins()
        if self._watch is not None:
            self._watch.reset_in_child()
        for subscription in self._subscriptions:
            subscription.reset_in_child()
        self._inboxes = tuple(one.inbox for one in self._subscriptions)

    def make(self, pending: PendingEvent, dropped: int) -> RunEvent | None:
        """Make the event that a subscriber gets; None if its run no longer exists."""
        return run_event(pending, self._find, dropped=dropped)


def _nothing() -> None:
    """Do nothing: no subscriber waits."""
