"""Functions that begin when they are due: what is to be written before is written right before."""

from __future__ import annotations

from edgecron.base.clock import Clock
from edgecron.engine.core import Engine
from edgecron.engine.sleep import Sleeper

# The rehearsal finds a processor that has slept, and takes 2 ms.
_REHEARSAL_MS = 3
_FIRST_MS = 2  # which functions that were started have for themselves
# What a claim is given: at least, at most, and more than the last one took. What was needed once
# is given back one by one.
_LEAD_MS, _MOST_LEAD_MS, _SPARE_MS = 3, 20, 2


class Ahead:
    """Waits for what is due, rehearses it a few milliseconds before, then claims it, and has it
    start at its time.

    It hangs on the disk what a claim takes, which is waited for before each start: 1 ms, or 30 ms.
    The next one is given as long as the last one took, up to 20 ms. Where anything else than a
    start would come of it, as of a run that is left out for the one before it, it is decided when
    it is due, and not before.
    """

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._lead_ms = _LEAD_MS

    def wait(self, sleeper: Sleeper, fds: list[int], *, until_ms: int) -> set[int]:
        """Wait for descriptors, or until it is due; those that are readable, as Sleeper.wait."""
        lead_ms = self._lead_ms
        is_sure = False
        for before_ms in (lead_ms + _REHEARSAL_MS, lead_ms):
            if until_ms - self._clock.now_ms() <= before_ms:
                continue
            ready = sleeper.wait(fds, until_ms=until_ms - before_ms)
            if ready or not 0 < until_ms - self._clock.now_ms() <= before_ms:
                return ready  # Something else has ended the wait, or it lasted too long.
            if is_sure:
                self._claim(sleeper, until_ms)
                # What we do next would keep the functions from the interpreter.
                sleeper.wait(fds, until_ms=self._clock.now_ms() + _FIRST_MS)
                return set()
            is_sure = self._engine.rehearse(until_ms)
        return sleeper.wait(fds, until_ms=until_ms)

    def _claim(self, sleeper: Sleeper, until_ms: int) -> None:
        begun_ms = self._clock.monotonic_ms()
        self._engine.claim_ahead(until_ms)
        took_ms = self._clock.monotonic_ms() - begun_ms
        wanted_ms = max(took_ms + _SPARE_MS, self._lead_ms - 1, _LEAD_MS)
        self._lead_ms = min(wanted_ms, _MOST_LEAD_MS)
        try:
            # A clock that is set, by however little, ends a wait. Where it is set back by more than
            # we would wait, it starts at once: its time is decided. A bell is for the step that
            # follows.
            while 0 < until_ms - self._clock.now_ms() <= _MOST_LEAD_MS:
                sleeper.wait([], until_ms=until_ms)
        finally:
            self._engine.start_claimed()
