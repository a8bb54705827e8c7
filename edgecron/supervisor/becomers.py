"""Runs whose process is on its way to be another user's command: none of them holds up the others.

Each has PATIENCE_MS. What has not become its command by then is killed, and its run could not be
started. It is reaped whenever it has gone: a disk may hold it for ever. What became its command at
that very moment has run, and was killed: that is how its run ended.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from edgecron.base.clock import Clock
from edgecron.supervisor import becoming
from edgecron.supervisor.becoming import Becoming, NotBecome
from edgecron.supervisor.deadlines import Deadlines
from edgecron.supervisor.reactor import Reactor
from edgecron.supervisor.records import StartRequest
from edgecron.supervisor.run import LiveRun

_WAKE = "become "  # before a token: the deadline by which it is to be its command


class Becomers:
    """By token, until each is its command (`on_become`) or can't be (`on_refused`).

    `on_become` is told too why it was killed, where it became that only as it was given up.
    """

    def __init__(
        self,
        reactor: Reactor,
        *,
        clock: Clock,
        deadlines: Deadlines,
        on_become: Callable[[LiveRun, NotBecome | None], None],
        on_refused: Callable[[StartRequest, NotBecome], None],
    ) -> None:
        self._reactor = reactor
        self._clock = clock
        self._deadlines = deadlines
        self._on_become = on_become
        self._on_refused = on_refused
        self._held: dict[str, tuple[StartRequest, LiveRun, Becoming]] = {}

    @property
    def tokens(self) -> list[str]:
        return list(self._held)

    def __contains__(self, token: str) -> bool:
        return token in self._held

    def __bool__(self) -> bool:
        return bool(self._held)

    def add(self, request: StartRequest, run: LiveRun, process: Becoming) -> None:
        self._held[run.token] = (request, run, process)
        self._reactor.watch(process.heard_fd, partial(self._hear, run.token))
        until_ms = self._clock.monotonic_ms() + becoming.PATIENCE_MS
        self._deadlines.set(_WAKE + run.token, until_ms)

    def on_deadline(self, key: str) -> bool:
        """End one that takes too long; False where the deadline is none of ours."""
        token = key.removeprefix(_WAKE)
        if token == key:
            return False
        self._hear(token)  # It may be its command since the last look.
        if token in self._held:
            self._give_up(token)
        return True

    def _give_up(self, token: str) -> None:
        request, run, process = self._held[token]
        process.end()
        self._hear(token)  # It may have become its command between that look and its end.
        if token in self._held:
            del self._held[token]
            self._reactor.change(process.heard_fd, partial(self._bury, process))
            self._refuse(request, run, process.held_up())

    def _hear(self, token: str) -> None:
        request, run, process = self._held[token]
        try:
            if not process.hear():
                return
        except NotBecome as refused:
            self._forget(token, process)
            self._refuse(request, run, refused)
        else:
            self._forget(token, process)
            self._on_become(run, process.held_up() if process.is_ended else None)

    def _refuse(self, request: StartRequest, run: LiveRun, refused: NotBecome) -> None:
        run.abandon()
        self._on_refused(request, refused)

    def _forget(self, token: str, process: Becoming) -> None:
        del self._held[token]
        self._deadlines.clear(_WAKE + token)
        self._reactor.close(process.heard_fd)

    def _bury(self, process: Becoming) -> None:
        if process.has_gone():
            self._reactor.close(process.heard_fd)
