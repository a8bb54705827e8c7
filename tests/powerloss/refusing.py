"""An engine in its real loop, on a disk that refuses for a while, and people who try again."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import apsw

from edgecron.base.errors import EdgecronError
from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.engine.events import Event, EventKind
from edgecron.engine.loop import Loop
from edgecron.engine.presence import EngineSettings
from edgecron.engine.state_folder import EngineFiles
from edgecron.supervisor.state_files import prepare_state_dir
from tests.powerloss.faults import Faults, Op
from tests.powerloss.laboratory import DATABASE
from tests.powerloss.recorder import Logged
from tests.powerloss.stories import CORE, Story
from tests.powerloss.world import PoweredWorld, record
from tests.simulation.invariants import check
from tests.simulation.test_simulation import START_MS, model_of
from tests.simulation.world import Body

STORY_MS = 16_000
LASTS_MS = 6_000  # so long a trouble goes on that does not heal at once
BOUND_MS = 3_000  # within it an engine is well again, once the disk is
Names = tuple[str, ...]  # ends of paths; none for all
DATABASES: Names = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-journal")
JOURNALS: Names = (".journal", ".journal.new")
EVERYTHING: Names = ()
# About how many of each there are in a story, when nothing is refused.
COUNTS: dict[Names, dict[Op, int]] = {
    DATABASES: {Op.WRITE: 395, Op.SYNC: 29, Op.OPEN: 30},
    JOURNALS: {Op.WRITE: 41, Op.OPEN: 1},
    EVERYTHING: {Op.WRITE: 459, Op.SYNC: 29, Op.OPEN: 34, Op.DELETE: 3},
}
_LONG_LOG_PAGES = 10_000
_STEP_MS = 1_000  # nobody sleeps for longer: somebody else may be at it

_OF_THE_LOOP = frozenset(
    {
        EventKind.ENGINE_STARTED,
        EventKind.ENGINE_STOPPED,
        EventKind.DATABASE_TROUBLE,
        EventKind.DATABASE_WELL,
        EventKind.STATE_RESTORED,
    }
)
REFUSED = Story(name="refused", tell=lambda world: None, specs=CORE)  # told by `live_through`

Act = Callable[[Client], object]
ACTS: tuple[tuple[int, Act], ...] = (
    (3_000, lambda s: s.run_now("beside")),
    (5_000, lambda s: s.pause("plain")),
    (7_000, lambda s: s.resume("plain")),
    (9_000, lambda s: s.edit("failing", lambda old: replace(old, description="edited"))),
    (11_000, lambda s: s.run_now("waiting")),
)


@dataclass(kw_only=True)
class Refused:
    """What came of a story: its log, what was told, and how often the disk refused."""

    log: list[Logged] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    met: int = 0
    fires: int = 0


class RefusingWorld(PoweredWorld):
    """A world with one engine in a loop, another one by hand, and people."""

    def __init__(self, path: Path, *, faults: Faults, seed: int) -> None:
        super().__init__(path, random=Random(seed), start_ms=START_MS)
        self.faults = faults
        self.on_since_ms: int | None = None
        self.healed_ms: int | None = None
        self.acts = list(ACTS)
        self.loop: Loop | None = None
        self.loop_since_ms = 0

    def note_start(self, body: Body) -> None:
        super().note_start(body)
        # By SQLite's own VFS: nobody refuses us, and it shows what is committed, and no more.
        flags = apsw.SQLITE_OPEN_READONLY
        onlooker = apsw.Connection(str(self.path), flags=flags, vfs="unix")
        row = onlooker.execute(
            "SELECT status, lease_token FROM executions WHERE id = ?", (body.execution_id,)
        ).fetchall()
        onlooker.close()
        assert row == [("running", body.token)], f"started without a committed claim: {row} {body}"

    def step(self, key: str) -> bool:
        try:
            return super().step(key)
        except (EdgecronError, OSError):
            return True  # As its loop would outlive it.

    @property
    def told(self) -> list[Event]:
        """What the loop told of itself; an engine that is stepped by hand tells of runs only."""
        return [event for event in self.events if event.kind in _OF_THE_LOOP]

    # A sleeper, for the loop.

    def wait(self, fds: Iterable[int], *, until_ms: int | None) -> set[int]:
        """Let time pass to what comes next, and others do what they do then."""
        now_ms = self.clock.now_ms()
        ends = [body.ends_ms for body in self.bodies if body.ends_ms > now_ms]
        upcoming = [now_ms + _STEP_MS, *ends, *([] if until_ms is None else [until_ms])]
        self.clock.advance_ms(max(0, min(upcoming) - now_ms))
        self.turn_all()
        self._mind_the_disk()
        self._let_people_act()
        for _, store in self.engines.values():
            if self.clock.now_ms() % 4_000 < _STEP_MS:
                store.wal_pages = _LONG_LOG_PAGES  # It is to be moved, by a checkpoint.
        if self.clock.now_ms() >= self._ends_ms() and self.loop is not None:
            self.faults.heal()
            self.loop.stop()
        return {-1}.intersection(fds)  # The link of each supervisor may have news.

    def close(self) -> None: ...

    def turn_all(self) -> None:
        self.write_exits()
        for supervisor in list(self.supervisors.values()):
            self.turn(supervisor)

    def _ends_ms(self) -> int:
        """A while after the disk has healed; a trouble that never came needs no healing."""
        if self.on_since_ms is not None and self.healed_ms is None:
            return self.clock.now_ms() + 1
        return max(START_MS + STORY_MS, (self.healed_ms or 0) + 2 * BOUND_MS)

    def _mind_the_disk(self) -> None:
        now_ms = self.clock.now_ms()
        if self.faults.is_on and self.on_since_ms is None:
            self.on_since_ms = now_ms
        if self.faults.is_on and now_ms >= (self.on_since_ms or 0) + LASTS_MS:
            self.faults.heal()
            self.healed_ms = now_ms

    def _let_people_act(self) -> None:
        if not self.acts or self.clock.now_ms() < START_MS + self.acts[0][0]:
            return
        try:
            self.ask(self.acts[0][1])
        except (EdgecronError, apsw.Error):
            return  # They try again, whatever has come of it.
        del self.acts[0]


def live_through(folder: Path, faults: Faults, *, seed: int = 1) -> Refused:
    """Tell the story on a disk that refuses, and check all that must hold during and after it."""
    folder.mkdir(exist_ok=True)
    world = RefusingWorld(folder / DATABASE, faults=faults, seed=seed)
    log = record(world, _tell, faults=faults)
    return Refused(
        log=log,
        told=Counter(event.kind.value for event in world.told),
        counts=Counter({op.value: count for op, count in faults.counts.items()}),
        met=faults.met,
        fires=len(world.bodies),
    )


def _tell(world: PoweredWorld) -> None:
    assert isinstance(world, RefusingWorld)
    world.fix_seed()
    world.ask(lambda s: s.add_all(CORE))
    files = EngineFiles(prepare_state_dir(state_dir(world.path)), "a1")
    world.faults.arm()
    try:
        key = _start(world)
        world.loop = Loop(
            world.engines[key][0],
            EngineSettings(),
            clock=world.clock,
            sleeper=world,
            files=files,
        )
        world.loop_since_ms = world.clock.now_ms()
        world.loop.run()
        world.kill_engine(key)
    finally:
        world.faults.heal()
        files.close()
    _check_service(world)
    _check_told(world)
    # What runs goes on under its supervisors, for the next engines.
    removed_ms = world.come_to_rest(for_ms=8_000)
    check(world, model_of(CORE), made_ms=START_MS, until_ms=removed_ms)


def _start(world: RefusingWorld) -> str:
    """Start an engine; where it is refused, the service manager tries again."""
    for _ in range(60):
        try:
            return world.start_engine(max_running=3)
        except (EdgecronError, apsw.Error):
            world.wait((), until_ms=None)
    raise AssertionError("no engine could be started within a minute")


def _check_told(world: RefusingWorld) -> None:
    """Trouble is told, and so is its end: soon after the disk is well again."""
    kinds = (EventKind.DATABASE_TROUBLE, EventKind.DATABASE_WELL)
    told = [event for event in world.told if event.kind in kinds]
    if world.on_since_ms is not None:
        since_ms = max(world.on_since_ms, world.loop_since_ms)
        was_at_work = (world.healed_ms or 0) - since_ms >= BOUND_MS
        # Of a journal that can't be written each run says so, which is not started.
        not_started = any(one.kind is EventKind.NOT_STARTED for one in world.events)
        is_told = bool(told) or not_started or not was_at_work
        assert is_told, "the disk refused for seconds, and nobody says so"
    for trouble, well in itertools.zip_longest(told[::2], told[1::2]):
        assert trouble.kind is EventKind.DATABASE_TROUBLE
        assert well is not None, f"never well again after {trouble}"
        late_ms = well.at_ms - max(trouble.at_ms, world.healed_ms or 0)
        assert late_ms <= BOUND_MS, f"I16 well only {late_ms} ms after the disk was"


def _check_service(world: RefusingWorld) -> None:
    """At the end all that is due has been decided."""
    with Client(world.path, clock=world.clock) as client:
        due_ms = client.store.next_due_ms(("command",), now_ms=world.clock.now_ms())
    assert due_ms is None or due_ms >= world.clock.now_ms() - _STEP_MS, "I16 still behind"
