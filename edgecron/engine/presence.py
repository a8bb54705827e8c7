"""Say who an engine is: its settings, its row in the database, and when engines were there."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from edgecron.base.clock import Clock
from edgecron.base.errors import LeaseLost
from edgecron.base.machine import read_written_bytes
from edgecron.base.units import format_ms
from edgecron.base.values import NamedTuple, dataclass, replace
from edgecron.base.zones import local_zone_mark
from edgecron.engine.other_engines import OtherEngines
from edgecron.model.choices import COMMAND_QUEUE, Cause, MissedBy, OnLost, OnShutdown, Reason
from edgecron.model.engine import Offers
from edgecron.model.run import OUTPUT_CAP_BYTES
from edgecron.planning.corrections import CLOCK_WAIT_MS
from edgecron.planning.next_fire import FirePlan, Missed, Timing, last_planned, missed_until
from edgecron.planning.retention import Retention
from edgecron.store.contract import (
    BEAT_MS,
    LEASE_MS,
    LEFT_LEASE_MS,
    RENEW_MS,
    EnginePresence,
    Lease,
)

if TYPE_CHECKING:
    from edgecron.store.protocol import Store


_MOST_SPANS = 64
_SEEN_MS = 600_000  # how often a busy engine records that it is running: spare flash memory


_CORES = os.cpu_count() or 1  # Asked once: to ask takes a twentieth of a pass.
_UNTRUSTED = "the clock could not be trusted"
_ENDLESS = 2**63
_CALL_GRACE_MS = 10_000
_RENEW_EARLY_MS = 50  # A sleep can end a moment early, and would ask the server twice.


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How an engine works.

    Claims: `max_running` runs at the same time (None: 4 per core, at least 8), and at most `burst`
    starts a second (None: no limit), from `queues`, and from those placed on this machine or on one
    of its `labels`; with `only`, only that execution. Such an
    engine adopts no supervisor, and its row names no queue. After `clock_wait_ms`, intervals go by
    a clock that can't be trusted (None: never). With `finds_subjects`, each event has its subject,
    which costs one read of the store. With `starts_on_time`, runs are claimed a moment before they
    are due.

    Commands: `output_cap_bytes` of the output of each are kept. With
    `starts_supervisor`, a program's engine does not wait for its first command to start one.

    Shutdown: `on_shutdown` says what becomes of runs; after `shutdown_timeout_ms` of waiting they
    are ended. Functions of the program that are still running are waited for up to `call_wait_ms`,
    then asked to stop, and waited for up to `call_grace_ms` more. `on_lost` says what becomes of
    runs that other machines took over.
    """

    queues: tuple[str, ...] = (COMMAND_QUEUE,)
    labels: tuple[str, ...] = ()
    max_running: int | None = None
    burst: int | None = None
    only: int | None = None
    clock_wait_ms: int | None = CLOCK_WAIT_MS
    retention: Retention = Retention()
    finds_subjects: bool = False
    starts_on_time: bool = False
    output_cap_bytes: int = OUTPUT_CAP_BYTES
    starts_supervisor: bool = False
    on_shutdown: OnShutdown = OnShutdown.LEAVE
    shutdown_timeout_ms: int | None = None
    on_lost: OnLost = OnLost.END
    call_wait_ms: int = 0
    call_grace_ms: int = _CALL_GRACE_MS

    @property
    def places(self) -> int:
        """How many runs the engine has at the same time, at most."""
        return self.max_running or max(8, 4 * _CORES)

    @property
    def is_for_one_run(self) -> bool:
        """Whether the engine exists for one run: it fires nothing, and none counts on it."""
        return self.only is not None


class EngineIdentity(NamedTuple):
    """Which engine this is: `key` names its files beside the database.

    `machine` is the one that it runs on: the name of its host and, if engines of several machines
    share a database, what `name_machine` adds. '' is none: the engine takes no placed schedules.
    """

    key: str
    pid: int
    machine: str = ""

    @property
    def host(self) -> str:
        return self.machine.partition("/")[0]


class Registration:
    """Keep this engine's row in its database. The first pass makes it, each pass updates it.

    `find_offers` returns what the engine takes of its program's queue, which can change; None:
    everything in it.
    """

    def __init__(
        self,
        settings: EngineSettings,
        identity: EngineIdentity,
        *,
        store: Store,
        clock: Clock,
        others: OtherEngines,
        find_offers: Callable[[], Offers] | None,
    ) -> None:
        self.engine_id: int | None = None  # before the first pass
        self.offers: Offers | None = None  # as recorded
        self.polls_ms: int | None = None  # how often its loop looks for changes, if it does
        self._settings = settings
        self._identity = identity
        self._store = store
        self._clock = clock
        self._others = others
        self._find_offers = find_offers
        self._beat_at_ms: int | None = None
        self._local_timezone: str | None = None  # as recorded
        self.is_drained = False  # by `engine drain`: it takes no new runs until `engine resume`
        self._is_closed = False  # it is stopping
        self._renew_at_ms = 0  # the lease
        self._held_since_ms: int | None = None  # the lease, without a break

    def get_id(self) -> int:
        """The engine's id in the database, after the first `keep`."""
        assert self.engine_id is not None
        return self.engine_id

    def ring_others(self) -> None:
        """Wake the other engines of the database."""
        self._others.ring()

    def keep(self) -> int:
        """Record what has changed; the engine's id."""
        offers = None if self._find_offers is None else self._find_offers()
        if self.engine_id is None:
            self._local_timezone = local_zone_mark()
            self.engine_id = self._store.register_engine(
                key=self._identity.key,
                pid=self._identity.pid,
                boot_id=self._clock.boot_id(),
                queues=()
                if self._is_closed or self._settings.is_for_one_run
                else self._settings.queues,
                now_ms=self._clock.now_ms(),
                offers=offers,
                max_running=self._settings.places,
                local_timezone=self._local_timezone,
                boottime_ms=self._clock.boottime_ms(),
            )
            if self.is_drained:  # It lost its lease meanwhile.
                self._store.drain_engine(self.engine_id, now_ms=self._clock.now_ms())
            self._others.announce()  # Before anything is claimed: they watch us, should we die.
        elif offers is not None and offers != self.offers:
            self._store.note_offers(self.engine_id, offers, now_ms=self._clock.now_ms())
        self.offers = offers
        return self.engine_id

    def look(self) -> None:
        """Read whether the engine was drained or resumed."""
        self.is_drained = self._store.is_drained(self.get_id())

    def renew(self) -> Lease | None:
        """Renew this engine's lease, if it has one and it is time; None if not.

        Raises LeaseLost if engines of other machines took this one for dead. The next `keep` then
        registers it again.
        """
        now_ms = self._clock.monotonic_ms()
        if self._store.leases is None or now_ms < self._renew_at_ms - _RENEW_EARLY_MS:
            return None
        lease = self._renew_for(LEASE_MS)
        if lease is None:
            self.note_lease_lost()
            raise LeaseLost("other machines could not reach this engine, and took its runs over")
        if lease.was_stale or self._held_since_ms is None:
            self._held_since_ms = now_ms
        self._renew_at_ms = now_ms + RENEW_MS
        return lease

    def _renew_for(self, lease_ms: int) -> Lease | None:
        leases = self._store.leases
        assert leases is not None
        return leases.renew_lease(
            self.get_id(),
            machine=self._identity.machine,
            lease_ms=lease_ms,
            polls_ms=self.polls_ms,
        )

    def note_lease_lost(self) -> None:
        """Have the next `keep` register this engine again."""
        self.engine_id = None
        self.note_trouble()

    def note_trouble(self) -> None:
        """Note that the database could not be used: other engines might not reach it either."""
        self._held_since_ms = None
        self._renew_at_ms = 0

    @property
    def renew_in_ms(self) -> int | None:
        """In how long to call `renew`; None if there is no lease."""
        if self._store.leases is None:
            return None
        return max(0, self._renew_at_ms - self._clock.monotonic_ms())

    @property
    def judges_others(self) -> bool:
        """Whether a lease that has ended shows that an engine is dead.

        Not before we have held our own for a whole term: if the server was away, no engine could
        renew its lease.
        """
        now_ms = self._clock.monotonic_ms()
        return self._held_since_ms is not None and now_ms - self._held_since_ms >= LEASE_MS

    def note_zone(self, local_timezone: str | None) -> None:
        """Record this engine's zone if it has changed; None: it has not looked at it yet."""
        if local_timezone not in (None, self._local_timezone):
            self._store.note_zone(self.get_id(), local_timezone)
            self._local_timezone = local_timezone

    def beat(self, *, is_running: bool) -> None:
        """Renew the heartbeat of our runs now and then."""
        if not is_running:
            self._beat_at_ms = None
            return
        now_ms = self._clock.monotonic_ms()
        if self._beat_at_ms is None:
            self._beat_at_ms = now_ms + BEAT_MS
        elif now_ms >= self._beat_at_ms:
            self._store.beat(self.get_id(), now_ms=self._clock.now_ms())
            self._beat_at_ms = now_ms + BEAT_MS

    def close_queues(self) -> None:
        """Record that this engine claims nothing more."""
        self._is_closed = True
        if self.engine_id is not None:
            self._store.close_queues(
                self.engine_id,
                now_ms=self._clock.now_ms(),
                boottime_ms=self._clock.boottime_ms(),
            )

    def end(self, *, leaves_runs: bool) -> None:
        """Record that this engine has stopped. Runs that it leaves wait for its machine's next."""
        if self.engine_id is not None:
            if leaves_runs and self._store.leases is not None:
                self._renew_for(LEFT_LEASE_MS)
            self._store.retire_engine(
                self.engine_id,
                now_ms=self._clock.now_ms(),
                boottime_ms=self._clock.boottime_ms(),
            )


@dataclass(frozen=True, slots=True)
class _Span:
    """A span, by the time since the boot, in which this engine could start nothing."""

    from_ms: int
    to_ms: int
    missed_by: MissedBy
    words: str


class Presence:
    """Know when engines were there, to say why a time was missed."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        others: OtherEngines,
        queues: tuple[str, ...],
    ) -> None:
        self._store = store
        self._clock = clock
        self._others = others
        self._queues = queues
        self._engine_id: int | None = None  # before `begin`
        self._began_ms = 0  # by the time since the boot
        self._before: Sequence[EnginePresence] = ()
        self._living: frozenset[str] = frozenset()  # of those before, by their keys
        self._spans: deque[_Span] = deque(maxlen=_MOST_SPANS)
        self._seen_at_ms = 0  # by the monotonic clock
        self._drained_ms: int | None = None  # since when it is drained, by the time since the boot
        self._passed_ms = 0  # when the last pass ended well, by the time since the boot
        self._trouble = range(0)  # when the database was last unusable, by the same clock

    def begin(self, engine_id: int) -> None:
        """Read which engines were there before; call it when the dead ones are recorded as dead."""
        if self._engine_id is not None:
            self._engine_id = engine_id  # Another one, if its lease was lost.
            return
        self._before = self._store.find_presence(self._queues, but=engine_id)
        open_keys = [one.key for one in self._before if one.stopped_ms is None]
        engines = () if self._store.leases is None else self._store.find_engines()
        elsewhere = {
            one.key
            for one in engines
            if self._others.is_elsewhere(one.machine) and not one.is_stale
        }
        self._living = frozenset(
            key for key in open_keys if key in elsewhere or self._others.engine_is_alive(key)
        )
        self._began_ms = self._clock.boottime_ms()
        self._engine_id = engine_id
        for one in reversed(self._before):
            if one.boot_id == self._clock.boot_id() and one.untrusted_since_ms is not None:
                until_ms = one.untrusted_until_ms
                self._note_untrusted(
                    one.untrusted_since_ms, self._began_ms if until_ms is None else until_ms
                )

    def note_asleep(self, since_ms: int, until_ms: int) -> None:
        """Note that the machine was suspended between two looks, by the time since the boot."""
        self._note(since_ms, until_ms, MissedBy.ASLEEP, "the machine was asleep")

    def note_drained(self, *, is_drained: bool) -> None:
        """Note whether this engine is drained from now on."""
        now_ms = self._clock.boottime_ms()
        if is_drained and self._drained_ms is None:
            self._drained_ms = now_ms
        elif not is_drained and self._drained_ms is not None:
            self._note(self._drained_ms, now_ms, MissedBy.STOPPED, "the engine was drained")
            self._drained_ms = None

    def note_trouble(self) -> None:
        """Note that a pass has failed: the database could not be used."""
        if self._trouble.stop != _ENDLESS:
            self._trouble = range(self._passed_ms, _ENDLESS)

    def note_pass(self) -> None:
        """Note that a pass has ended well."""
        self._passed_ms = self._clock.boottime_ms()
        if self._trouble.stop == _ENDLESS:
            self._trouble = range(self._trouble.start, self._passed_ms)

    def begin_distrust(self, since_ms: int) -> None:
        """Record that no plan time is run from now on, as the clock can't be trusted."""
        assert self._engine_id is not None
        self._store.note_distrust(self._engine_id, since_ms=since_ms)

    def end_distrust(self, since_ms: int, until_ms: int, *, now_ms: int) -> None:
        """Record that the clock can be trusted again, and is right: `now_ms` is now."""
        assert self._engine_id is not None
        started_ms = now_ms - (until_ms - self._began_ms)
        self._store.note_trust(self._engine_id, started_ms=started_ms)
        self._note_untrusted(since_ms, until_ms)

    def note_set_forward(self, at_ms: int, by_ms: int) -> None:
        """Note that the clock was set forward: the times that it passed never came."""
        self._note(at_ms - by_ms, at_ms, MissedBy.CLOCK, "the clock was set forward past it")

    def note_busy(self, engine_id: int) -> None:
        """Record now and then that this engine is running, when it writes something anyway."""
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._seen_at_ms:
            self._store.note_presence(
                engine_id, now_ms=self._clock.now_ms(), written_bytes=read_written_bytes()
            )
            self._seen_at_ms = now_ms + _SEEN_MS

    def explain(self, plan: FirePlan, timing: Timing, *, queue: str, now_ms: int) -> FirePlan:
        """Return the plan of a schedule in a queue with the cause of each missed time.

        A range is divided at the time when the clock became untrusted: later times have another
        cause.
        """
        booted_ms = now_ms - self._clock.boottime_ms()
        cuts_ms = sorted(
            booted_ms + span.from_ms for span in self._spans if span.words == _UNTRUSTED
        )
        missed = []
        for one in plan.missed:
            if one.reason is not Reason.MISFIRE:
                missed.append(one)
                continue
            for part in _split(timing, one, cuts_ms):
                missed_by, words = self._find(part.from_ms, queue, now_ms)
                missed.append(replace(part, missed_by=missed_by, error_msg=words))
        fires = []
        for fire in plan.fires:
            if fire.cause is Cause.CATCH_UP:
                passed_ms = (cut_ms for cut_ms in cuts_ms if cut_ms <= fire.due_ms)
                from_ms = max(plan.due.due_ms, max(passed_ms, default=0))
                fire = fire._replace(missed_by=self._find(from_ms, queue, now_ms)[0])
            fires.append(fire)
        return plan._replace(missed=tuple(missed), fires=tuple(fires))

    def _note(self, from_ms: int, to_ms: int, missed_by: MissedBy, words: str) -> None:
        self._spans.append(_Span(from_ms, to_ms, missed_by, words))

    def _note_untrusted(self, from_ms: int, to_ms: int) -> None:
        self._note(from_ms, to_ms, MissedBy.CLOCK, _UNTRUSTED)

    def _find(self, at_ms: int, queue: str, now_ms: int) -> tuple[MissedBy, str]:
        """Return what kept engines from a time of a queue, and the words for it."""
        since_boot_ms = self._clock.boottime_ms() - (now_ms - at_ms)
        for span in reversed(self._spans):
            if span.from_ms <= since_boot_ms <= span.to_ms:
                return span.missed_by, span.words
        if self._engine_id is None or since_boot_ms >= self._began_ms:
            if since_boot_ms in self._trouble:
                return MissedBy.DATABASE, "the engine could not use the database"
            return MissedBy.STALLED, "an engine was running, but did not start it in time"
        return self._find_before(at_ms, queue, since_boot_ms, booted_ms=at_ms - since_boot_ms)

    def _find_before(
        self, at_ms: int, queue: str, since_boot_ms: int, *, booted_ms: int
    ) -> tuple[MissedBy, str]:
        """As `_find`, for a time before this engine."""
        boot_id, is_doubtful = self._clock.boot_id(), False
        for one in self._before:
            if queue not in one.queues:
                continue  # It does not run this schedule, such as an engine of another machine.
            if one.boot_id != boot_id and one.untrusted_since_ms is not None:
                is_doubtful = True  # Its times are those of a wrong clock, of another boot.
                continue
            if one.boot_id == boot_id and one.began_boottime_ms is not None:
                is_later = one.began_boottime_ms > since_boot_ms
            else:
                is_later = one.started_ms > at_ms
            if is_later:
                continue
            if one.key in self._living:
                words = f"engine pid {one.pid} was running, but did not start it in time"
                return MissedBy.STALLED, words
            if one.stopped_ms is not None and not one.has_died:
                until_ms = one.untrusted_until_ms
                stopped_ms = one.stopped_ms if until_ms is None else booted_ms + until_ms
                stop = f"the last one was stopped at {_shown(stopped_ms)}"
                return _or_untrusted(
                    is_doubtful, MissedBy.STOPPED, f"no engine was running: {stop}"
                )
            seen = f"was last seen at {_shown(one.seen_ms or one.started_ms)}"
            if one.boot_id != boot_id:
                words = f"the machine was off or restarted; its engine {seen}"
            else:
                words = f"no engine was running: the last one was killed; it {seen}"
            return _or_untrusted(is_doubtful, MissedBy.OFF, words)
        return _or_untrusted(is_doubtful, MissedBy.OFF, "no engine was running")


def _split(timing: Timing, missed: Missed, cuts_ms: Sequence[int]) -> Iterator[Missed]:
    """Divide a range, so that a part begins with the first plan time after each of these."""
    for cut_ms in cuts_ms:
        later = None
        if missed.from_ms < cut_ms <= missed.to_ms:
            later = missed_until(
                timing,
                decided_until_ms=cut_ms - 1,
                until_ms=missed.to_ms,
                reason=missed.reason,
            )
        if later is not None:
            last_ms = last_planned(timing, missed.from_ms, cut_ms - 1)
            yield replace(
                missed,
                to_ms=missed.from_ms if last_ms is None else last_ms,
                count=missed.count - later.count,
            )
            missed = later
    yield missed


def _or_untrusted(is_doubtful: bool, missed_by: MissedBy, words: str) -> tuple[MissedBy, str]:
    """The cause, if an engine of an earlier boot might have been there without a trusted clock."""
    if not is_doubtful:
        return missed_by, words
    return MissedBy.CLOCK, f"an engine ran, and could not trust its clock; before, {words}"


def _shown(at_ms: int) -> str:
    return str(format_ms(at_ms // 1000 * 1000))
