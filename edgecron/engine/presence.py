"""Why a time was missed: what kept engines from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.units import format_ms
from edgecron.base.values import dataclass, replace
from edgecron.model.choices import Cause, MissedBy, Reason
from edgecron.planning.next_fire import FirePlan

if TYPE_CHECKING:
    from edgecron.store.contract import EnginePresence
    from edgecron.store.protocol import Store

_MOST_SPANS = 64
_SEEN_MS = 600_000  # how often a busy engine records that it runs: flash is not for writing


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch, by the time since the boot, in which this engine could run nothing."""

    from_ms: int
    to_ms: int
    missed_by: MissedBy
    words: str


class Presence:
    """What this engine knows of when engines were there.

    `is_alive` asks the kernel whether the engine of a key holds its lock.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        queues: tuple[str, ...],
        is_alive: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._queues = queues
        self._is_alive = is_alive
        self._began_ms: int | None = None  # by the time since the boot
        self._before: Sequence[EnginePresence] = ()
        self._living: frozenset[str] = frozenset()  # of those before, by their keys
        self._spans: deque[_Span] = deque(maxlen=_MOST_SPANS)
        self._seen_at_ms = 0  # by the monotonic clock

    def begin(self, engine_id: int) -> None:
        """Take in who was there before; to be called before what died is cleared away."""
        if self._began_ms is not None:
            return
        self._before = self._store.find_presence(self._queues, but=engine_id)
        open_keys = [one.key for one in self._before if one.stopped_ms is None]
        self._living = frozenset(key for key in open_keys if self._is_alive(key))
        self._began_ms = self._clock.boottime_ms()

    def note_asleep(self, since_ms: int, until_ms: int) -> None:
        """The machine was suspended between two looks, by the time since the boot."""
        self._note(since_ms, until_ms, MissedBy.ASLEEP, "the machine was asleep")

    def note_untrusted(self, since_ms: int, until_ms: int) -> None:
        """Nothing planned was run, as the clock could not be trusted."""
        self._note(since_ms, until_ms, MissedBy.CLOCK, "the clock could not be trusted")

    def note_set_forward(self, at_ms: int, by_ms: int) -> None:
        """The clock was set forward: the times that it passed never came."""
        self._note(at_ms - by_ms, at_ms, MissedBy.CLOCK, "the clock was set forward past it")

    def note_busy(self, engine_id: int) -> None:
        """Record now and then that this engine is certainly running; it writes something anyway."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._seen_at_ms:
            self._store.note_presence(engine_id, now_ms=self._clock.now_ms())
            self._seen_at_ms = now_ms + _SEEN_MS

    def explain(self, plan: FirePlan, *, now_ms: int) -> FirePlan:
        """A plan whose missed times say what kept engines from them."""
        has_missed = any(one.reason is Reason.MISFIRE for one in plan.missed)
        if not has_missed and not any(fire.cause is Cause.CATCH_UP for fire in plan.fires):
            return plan
        missed = []
        for one in plan.missed:
            if one.reason is Reason.MISFIRE:
                missed_by, words = self._find(one.from_ms, now_ms)
                one = replace(one, missed_by=missed_by, error_msg=words)
            missed.append(one)
        fires = tuple(
            fire._replace(missed_by=self._find(plan.due.due_ms, now_ms)[0])
            if fire.cause is Cause.CATCH_UP
            else fire
            for fire in plan.fires
        )
        return plan._replace(missed=tuple(missed), fires=fires)

    def _note(self, from_ms: int, to_ms: int, missed_by: MissedBy, words: str) -> None:
        self._spans.append(_Span(from_ms, to_ms, missed_by, words))

    def _find(self, at_ms: int, now_ms: int) -> tuple[MissedBy, str]:
        """What kept engines from a time, and the words for it."""
        since_boot_ms = self._clock.boottime_ms() - (now_ms - at_ms)
        for span in reversed(self._spans):
            if span.from_ms <= since_boot_ms <= span.to_ms:
                return span.missed_by, span.words
        if self._began_ms is None or since_boot_ms >= self._began_ms:
            return MissedBy.STALLED, "an engine was running, and did not get to it in time"
        return self._find_before(at_ms)

    def _find_before(self, at_ms: int) -> tuple[MissedBy, str]:
        for one in self._before:
            if one.started_ms > at_ms:
                continue
            if one.key in self._living:
                words = f"engine pid {one.pid} was running, and did not get to it in time"
                return MissedBy.STALLED, words
            if one.stopped_ms is not None and not one.has_died:
                words = (
                    f"no engine was running: the last one was stopped at {_shown(one.stopped_ms)}"
                )
                return MissedBy.STOPPED, words
            seen = f"it was last seen at {_shown(one.seen_ms or one.started_ms)}"
            if one.boot_id != self._clock.boot_id():
                return MissedBy.OFF, f"the machine was off or restarted; its engine {seen[3:]}"
            return MissedBy.OFF, f"no engine was running: the last one was killed; {seen}"
        return MissedBy.OFF, "no engine was running"


def _shown(at_ms: int) -> str:
    return str(format_ms(at_ms // 1000 * 1000))
