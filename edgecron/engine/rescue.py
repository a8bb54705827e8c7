"""When an engine looks for what others left, and what it then does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.values import dataclass
from edgecron.engine.adopted import Adopt, Adoption
from edgecron.engine.events import EventKind
from edgecron.engine.liveness import Liveness
from edgecron.engine.liveruns import LiveRuns
from edgecron.engine.recovery import Taker, recover
from edgecron.engine.telling import Teller
from edgecron.model.engine import EngineInfo

if TYPE_CHECKING:
    from edgecron.store.protocol import Store

_LOOK_MS = 30_000  # how often peers are looked at
_ORPHAN_MS = 1_000  # and while runs are alive whose engine died, and that can't be adopted
_ADOPT_MS = 30_000  # at most so long until an adoption that failed is tried again


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a look did: adopted runs, queued some again or what follows an end, or wrote ends whose
    followers replace what runs."""

    has_adopted: bool = False
    has_queued: bool = False
    has_replaced: bool = False


class Rescue:
    """Looks now and then, and whenever something is suspected. `adopt` None adopts nobody."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        liveness: Liveness,
        live: LiveRuns,
        teller: Teller,
        adopt: Adopt | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._liveness = liveness
        self._live = live
        self._teller = teller
        self._adopt = adopt
        self._is_suspected = False
        self._look_at_ms = 0
        self._adopt_at_ms = 0
        self._adopt_pause_ms = _ORPHAN_MS
        self.peers: tuple[EngineInfo, ...] = ()  # those that lived at the last look
        self._is_urgent = False  # the next look is waited for

    @property
    def wake_ms(self) -> int | None:
        """How long to sleep at most, None where nothing is urgent."""
        if not self._is_urgent:
            return None
        return max(0, self._look_at_ms - self._clock.monotonic_ms())

    def suspect(self) -> None:
        """Have the next `look` look at once."""
        self._is_suspected = True

    def adopt_nobody(self) -> None:
        """From now on only take ends over."""
        self._adopt = None

    def is_due(self) -> bool:
        return self._is_suspected or self._clock.monotonic_ms() >= self._look_at_ms

    def has_work(self, engine_id: int) -> bool:
        """Whether a look would find anything, asked by who has nothing running.

        `engine_id` is our own. Where it would not, the next one is due as after a look.
        """
        if self._is_suspected or self._is_urgent:
            return True
        engines = self._store.find_engines()
        others = tuple(one for one in engines if one.id != engine_id)
        if others != self.peers or not all(self._liveness.engine_is_alive(o.key) for o in others):
            return True
        known = {one.id for one in others}
        if any(row.engine_id not in known for row in self._store.find_running()):
            return True
        if self._liveness.dead_supervisors():
            return True
        self._clear_strays(engines)
        self._look_at_ms = self._clock.monotonic_ms() + _LOOK_MS
        return False

    def look(self, engine_id: int) -> Looked:
        """Take over what dead engines left, where it is time to look.

        `engine_id` is our own.
        """
        if not self.is_due():
            return Looked()
        # First: who dies from here on is watched, and told of, should `recover` come too early.
        dead = self._look_at_peers(engine_id)
        taker = self._taker(engine_id)
        done = recover(self._store, self._liveness, taker, now_ms=self._clock.now_ms)
        for row, outcome, ended in done.ended:
            self._teller.tell_end(outcome, row.schedule, ended)
        for requeued in done.requeued:
            self._teller.tell_requeued(requeued)
        for row in done.adopted:
            why: dict[str, object] = {"reason": "engine_gone"}
            self._teller.tell(EventKind.ADOPTED, row.execution_id, row.schedule, why)
        for engine in dead:
            self._store.retire_engine(engine.id, now_ms=self._clock.now_ms(), has_died=True)
            self._liveness.forget_engine(engine.key)
        self._is_suspected = False
        self._is_urgent = done.left_running > 0
        pause_ms = _ORPHAN_MS if self._is_urgent else _LOOK_MS
        self._look_at_ms = self._clock.monotonic_ms() + pause_ms
        if taker.adopt is not None:
            self._note_adoption(has_failed=done.left_running > 0)
        ends = [ended for _, _, ended in done.ended]
        ends += [one.ended for one in done.requeued if one.ended is not None]
        return Looked(
            has_adopted=bool(done.adopted),
            has_queued=bool(done.requeued) or any(ended.decided for ended in ends),
            has_replaced=any(ended.has_replaced for ended in ends),
        )

    def _taker(self, engine_id: int) -> Taker:
        may_adopt = self._clock.monotonic_ms() >= self._adopt_at_ms
        return Taker(
            engine_id=engine_id,
            supervisor_id=self._live.supervisor_id if self._live.has_supervisor else None,
            adopted=self._live.adopted_ids,
            revoked=self._live.revoked,
            live=self._live.tokens(),
            adopt=self._adopt if may_adopt else None,
            on_adopted=self._take,
        )

    def _take(self, adoption: Adoption) -> None:
        self._live.adopt(adoption)

    def _note_adoption(self, *, has_failed: bool) -> None:
        """Try again later and later: each try may take a while, where a supervisor is stopped."""
        if not has_failed:
            self._adopt_pause_ms = _ORPHAN_MS
            return
        self._adopt_at_ms = self._clock.monotonic_ms() + self._adopt_pause_ms
        self._adopt_pause_ms = min(2 * self._adopt_pause_ms, _ADOPT_MS)

    def _clear_strays(self, engines: Sequence[EngineInfo]) -> None:
        known = {engine.key for engine in engines}
        self._liveness.clear_strays(known=known, now_ms=self._clock.now_ms())

    def _look_at_peers(self, engine_id: int) -> list[EngineInfo]:
        """Note who lives, and say who does not."""
        engines = self._store.find_engines()
        self._clear_strays(engines)
        others = [engine for engine in engines if engine.id != engine_id]
        peers = [one for one in others if self._liveness.engine_is_alive(one.key)]
        self.peers = tuple(peers)
        return [one for one in others if one not in peers]
