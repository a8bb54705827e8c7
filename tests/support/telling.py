"""The story of a small home server: ten days, told to a real engine from due time to due time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from edgecron.base.units import format_instant, to_ms
from edgecron.base.zones import load_zone
from edgecron.client import Client
from edgecron.engine.presence import EngineIdentity, EngineSettings
from edgecron.engine.runners import Runners
from edgecron.engine.step import Engine
from edgecron.model.choices import Cause, Status
from edgecron.model.listing import RunChoice
from edgecron.model.run import OutputChunk
from edgecron.model.schedule import Author, ScheduleSpec
from edgecron.planning.next_fire import Fire
from edgecron.planning.retention import UNLIMITED
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.migrate import migrate
from edgecron.store.sqlite.store import SqliteStore
from tests.support.clock import FakeClock
from tests.support.household import (
    DISK,
    GONE_ZONE,
    PRESENT_ZONE,
    Role,
    first_roles,
    harmless,
    inverter,
    pollers,
    tariff,
)
from tests.support.seeming import SeemingEngines, SeemingRunner
from tests.support.specs import enqueue

DAYS = 10
_PID = 812  # as small as that of a service that starts with the machine
_SEED = bytes(range(16))
_UUID = "0e7ab1e5-0000-4000-8000-00000000cafe"


def _key_of(what: str, boot: int) -> str:
    """The key of the engine of a boot, or of its supervisor."""
    return sha256(f"{what} {boot}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is left of a story: the clock at its end, the keys of who is alive, and what each
    running command has printed so far, by lease token."""

    clock: FakeClock
    engine_key: str
    supervisor_id: str
    said: dict[str, tuple[OutputChunk, ...]]


class Teller:
    """Tells a story into a new database, so that it ends at an instant. Times of day are those of
    the machine's own zone. `is_harmless`: the jobs are such that anybody may run them."""

    def __init__(self, path: Path, *, end: datetime, is_harmless: bool) -> None:
        self._path = path
        self._zone = load_zone("local")
        self._end = end.astimezone(self._zone)
        self._is_harmless = is_harmless
        self._cast: dict[str, Role] = {}
        self._clock = FakeClock(self._at(DAYS, "09:00"))
        self._boots = 0
        self._prepare()
        self._client = Client(path, clock=self._clock)
        self._client.author = Author("cli", "anna")
        self._store = self._client.store
        self._start_engine()

    def tell(self) -> Told:
        """The whole story, in order."""
        self._add(*first_roles(self._end))
        self._client.limit_group(DISK, 1)
        self._until(self._at(8, "18:41"))
        self._run_by_hand("prune-snapshots")
        self._until(self._at(5, "21:15"))
        self._client.pause("transcode-videos")
        self._add(tariff(format_instant(self._at(4, "00:00").astimezone(UTC))))
        self._until(self._at(2, "10:00"))
        self._add(*pollers())
        self._until(self._at(1, "02:07"))
        self._lose_power(minutes=40)
        self._until(self._at(1, "11:26"))
        self._cancel("index-media")
        self._until(self._at(1, "14:20"))
        self._client.pause("mirror-packages", until=self._at(-3, "08:00"))
        self._until((self._end - timedelta(hours=7)).replace(second=0, microsecond=0))
        self._add(inverter())
        self._until(self._end - timedelta(minutes=4))
        self._run_by_hand("backup-photos")
        self._until(self._end)
        return self._close()

    # Time.

    def _at(self, days_ago: int, clock: str) -> datetime:
        """A time of day, so many days before the last one."""
        hour, minute = map(int, clock.split(":"))
        date = (self._end - timedelta(days=days_ago)).date()
        return datetime(date.year, date.month, date.day, hour, minute, tzinfo=self._zone)

    def _until(self, instant: datetime) -> None:
        """Let the engine work until an instant, from one due time to the next."""
        until_ms = to_ms(instant)
        while True:
            wake_ms = self._engine.step().wake_ms
            waits = [one for one in (wake_ms, self._runner.next_end_ms) if one is not None]
            next_ms = max(min(waits, default=until_ms), self._clock.now_ms() + 1)
            if next_ms > until_ms:
                break
            self._clock.advance_to(next_ms)
        self._clock.advance_to(until_ms)
        self._engine.step()

    # What people and the machine do.

    def _add(self, *newcomers: Role) -> None:
        self._cast |= {role.spec.name: role for role in newcomers}
        self._client.add_all([self._spec_of(role) for role in newcomers], origin="cli")

    def _spec_of(self, role: Role) -> ScheduleSpec:
        return harmless(role) if self._is_harmless else role.spec

    def _run_by_hand(self, name: str) -> None:
        """As `run` does, with a key that is the same each time."""
        now_ms = self._clock.now_ms()
        key = f"manual:{now_ms:012x}"
        fire = Fire(plan_ms=now_ms, due_ms=now_ms, cause=Cause.MANUAL, source=None, fire_key=key)
        enqueue(self._store, self._store.get_schedule(name), fire, now_ms=now_ms)

    def _cancel(self, name: str) -> None:
        """As `cancel` does of what runs of a schedule, of which there is something."""
        runs = self._client.history(name, choice=RunChoice(statuses=(Status.RUNNING,)))
        assert runs, f"nothing of {name} runs"
        for run in runs:
            self._store.request_cancel(run.id, now_ms=self._clock.now_ms())

    def _lose_power(self, *, minutes: int) -> None:
        """All that runs is cut off, and the machine comes back with another tzdata."""
        self._engine_store.close()
        self._clock.reboot(down_ms=minutes * 60_000)
        database = Database(self._path)
        zones = {"present": PRESENT_ZONE, "gone": GONE_ZONE}
        with database.transaction():
            # No edit by SQL, which would be a revision at the time of this machine: an UPDATE that
            # raises the revision is not taken for one.
            database.change(
                "UPDATE schedules SET timezone = replace(timezone, :present, :gone),"
                " revision = revision + 1",
                zones,
            )
            database.change("UPDATE schedules SET revision = revision - 1", {})
            database.change(
                "UPDATE schedule_revisions SET snapshot = replace(snapshot, :present, :gone)", zones
            )
        database.close()
        self._start_engine()

    # The engine.

    def _prepare(self) -> None:
        """Make the database, with a seed that is the same each time: so is jitter then."""
        database = Database(self._path)
        migrate(database, now_ms=self._clock.now_ms())
        with database.transaction():
            database.change(
                "UPDATE meta SET seed = :seed, uuid = :uuid", {"seed": _SEED, "uuid": _UUID}
            )
        database.close()

    def _start_engine(self) -> None:
        self._boots += 1
        key, supervisor_id = _key_of("engine", self._boots), _key_of("supervisor", self._boots)
        self._engine_store = SqliteStore(self._path)
        # No power can be lost in a story.
        self._engine_store.rows("PRAGMA synchronous = OFF")
        self._runner = SeemingRunner(supervisor_id, clock=self._clock, cast=self._cast)
        self._engine = Engine(
            EngineSettings(max_running=8, retention=UNLIMITED),
            EngineIdentity(key, _PID),
            store=self._engine_store,
            clock=self._clock,
            others=SeemingEngines(key, supervisor_id=supervisor_id),
            runners=Runners(lambda: self._runner, clock=self._clock),
            report=lambda event: None,
        )

    def _close(self) -> Told:
        said = self._runner.said()
        self._engine_store.close()
        self._client.close()
        return Told(
            clock=self._clock,
            engine_key=_key_of("engine", self._boots),
            supervisor_id=self._runner.supervisor_id,
            said=said,
        )
