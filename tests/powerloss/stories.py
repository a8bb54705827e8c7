"""What engines and people do to a disk, for the power to be cut in the middle of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from edgecron.client import Client
from edgecron.model.choices import CatchUp, Durability, OnInterrupt, Overlap, Status
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.retention import Retention, limits_at
from edgecron.store.sql.retention import prune
from edgecron.store.sqlite.connection import Database
from edgecron.store.sqlite.store import open_store
from tests.powerloss.faults import Op
from tests.powerloss.laboratory import DATABASE, read_content
from tests.powerloss.world import PoweredWorld, Returned
from tests.simulation.test_simulation import SPECS, START_MS, act, spec
from tests.support.olddatabases import make_version_1

CORE = (
    spec("plain", 2, lasts_s=1),
    spec("failing", 3, lasts_s=2, code=3),
    spec("waiting", 3, lasts_s=4, overlap=Overlap.QUEUE),
    spec("beside", 4, lasts_s=5, overlap=Overlap.ALLOW),
)
RETRIED = (
    spec("flaky", 5, lasts_s=1, code=1, retries=2, retry_delay_s=1.0, retry_factor=1.0),
    spec("again", 7, lasts_s=3, on_interrupt=OnInterrupt.RETRY),
    spec("both", 6, lasts_s=1, code=2, retries=1, retry_delay_s=1.0,
         on_interrupt=OnInterrupt.RETRY, overlap=Overlap.QUEUE),
)  # fmt: skip
SPARED = tuple(
    replace(one, policies=replace(one.policies, durability=Durability.NORMAL)) for one in CORE
)
MISSED = (
    spec("latest", 2, lasts_s=1),
    spec("all", 3, lasts_s=1, catch_up=CatchUp.ALL, max_late_s=3600.0),
    spec("none", 4, lasts_s=1, catch_up=CatchUp.SKIP),
    spec("scoped", 5, lasts_s=2),
)
TOGETHER = tuple(spec(f"together{number}", 6, lasts_s=2) for number in range(12))
BACKUP = "backup.db"
PRUNING = Returned(call="begin to prune")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A backup was made, or has taken the place of the database; what it holds, as a digest."""

    digest: str
    before: str | None = None  # what the database held that it has replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """`tell` is logged; `prepare` comes before. `specs` are those that are judged at the end, when
    engines have gone on; of a story without, only what the disk holds is."""

    name: str
    tell: Callable[[PoweredWorld], None]
    specs: tuple[ScheduleSpec, ...] = ()
    prepare: Callable[[Path], None] = lambda path: None
    quiet_ms: int = 8000


def a_world(
    folder: Path, story: Story, *, seed: int, synchronous: str | None = None
) -> PoweredWorld:
    folder.mkdir(exist_ok=True)
    story.prepare(folder / DATABASE)
    return PoweredWorld(
        folder / DATABASE, random=Random(seed), start_ms=START_MS, synchronous=synchronous
    )


def core_story(world: PoweredWorld) -> None:
    """Everything that engines and people write, once or twice, in half a minute."""
    world.fix_seed()
    world.ask(lambda s: s.add_all([*CORE, spec("doomed", 60, lasts_s=1)]))
    one = world.start_engine(max_running=3)
    go_on(world, 4)
    world.ask(lambda s: s.run_now("doomed"))
    world.ask(lambda s: s.pause("plain"))
    go_on(world, 2)
    world.tidy(one)
    two = world.start_engine(max_running=2)
    world.ask(lambda s: s.edit("plain", lambda old: replace(old, description="edited")))
    world.ask(lambda s: s.resume("plain"))
    go_on(world, 4)
    world.ask(cancel_another)
    world.tidy(two)
    world.ask(lambda s: s.remove("doomed"))
    go_on(world, 3)
    world.kill_engine(one)
    go_on(world, 4)


def spared_story(world: PoweredWorld) -> None:
    """Engines run schedules whose ends do not wait for the disk."""
    world.fix_seed()
    world.ask(lambda s: s.add_all(SPARED))
    world.start_engine(max_running=3)
    go_on(world, 16)


def cancel_another(client: Client) -> None:
    [queued] = client.run_now("beside")
    assert client.cancel(queued.id).status is Status.CANCELLED


def go_on(world: PoweredWorld, rounds: int) -> None:
    for _ in range(rounds):
        for key in list(world.engines):
            world.step(key)
        world.clock.advance_ms(700)


def hard_story(world: PoweredWorld) -> None:
    """Crashes, faults, reboots and people, as the dice say, with the log moved now and then.

    For a part of it somebody reads, which keeps a checkpoint from moving all of the log.
    """
    world.fix_seed()
    world.ask(lambda s: s.add_all(SPECS))
    world.crash_chance = world.random.choice((0.0, 0.01))
    world.fault_chance = world.random.choice((0.0, 0.01))
    world.wait_chance = world.random.choice((0.0, 0.3))
    run_wild(world, 50)
    with closing(Database(world.path)) as reader:
        reader.rows("BEGIN")
        reader.rows("SELECT count(*) FROM executions")
        run_wild(world, 50)
    run_wild(world, 50)


def run_wild(world: PoweredWorld, moves: int) -> None:
    for _ in range(moves):
        act(world)
        world.mark(Returned(call="act"))
        if world.engines and world.random.random() < 0.1:
            world.tidy(world.random.choice(sorted(world.engines)))


def retried_story(world: PoweredWorld) -> None:
    """Failures are tried again, and what was interrupted by the end of its supervisor."""
    world.fix_seed()
    world.ask(lambda s: s.add_all(RETRIED))
    one = world.start_engine(max_running=4)
    go_on(world, 12)
    world.kill_supervisor(world.random.choice(sorted(world.supervisors)))
    go_on(world, 8)
    world.tidy(one)
    world.kill_supervisor(sorted(world.supervisors)[-1])
    go_on(world, 8)


def missed_story(world: PoweredWorld) -> None:
    """Nobody is there for a while, twice; then all that was missed is decided and caught up."""
    world.fix_seed()
    world.ask(lambda s: s.add_all(MISSED))
    key = world.start_engine(max_running=3)
    go_on(world, 3)
    world.kill_engine(key)
    world.clock.advance_ms(100_000)
    key = world.start_engine(max_running=3)
    go_on(world, 6)
    world.tidy(key)
    world.clock.advance_ms(world.random.choice((70_000, 3_000_000)))
    go_on(world, 6)


def together_story(world: PoweredWorld) -> None:
    """Many end at once: their ends are written in groups, and others take their places."""
    world.fix_seed()
    world.ask(lambda s: s.add_all(TOGETHER))
    one = world.start_engine(max_running=5)
    go_on(world, 12)
    two = world.start_engine(max_running=5)
    go_on(world, 10)
    world.tidy(one)
    world.tidy(two)
    go_on(world, 10)


def checkpointed_story(world: PoweredWorld) -> None:
    """Somebody moves the log into the database while claims and ends are written to it."""
    world.fix_seed()
    world.ask(lambda s: s.add_all(CORE))
    one = world.start_engine(max_running=3)
    two = world.start_engine(max_running=2)
    world.tidy(one)
    world.tidy(two)
    with checkpoints_between(world, chance=0.1):
        go_on(world, 25)


@contextmanager
def checkpoints_between(world: PoweredWorld, *, chance: float) -> Iterator[None]:
    """Let a connection of its own move the log between two writes to it, as another process may."""
    assert world.recorder is not None
    other = Database(world.path)
    is_at_it = False

    def maybe_checkpoint(op: Op, path: str) -> None:
        nonlocal is_at_it
        is_of_the_log = op is Op.WRITE and path.endswith("-wal")
        if is_of_the_log and not is_at_it and world.random.random() < chance:
            is_at_it = True
            other.checkpoint()
            is_at_it = False

    world.recorder.before_each = maybe_checkpoint
    try:
        yield
    finally:
        world.recorder.before_each = None
        other.close()


def pruned_story(world: PoweredWorld) -> None:
    """Half a minute of everything, of which a person then keeps little."""
    core_story(world)
    world.settle(for_ms=20_000)
    world.mark(PRUNING)
    store = open_store(world.path, now_ms=world.clock.now_ms())
    limits = limits_at(Retention(history_count=1), world.clock.now_ms(), is_trusted=True)
    removed = [one for one in prune(store, limits, schedule_id=None, is_trial=False) if one]
    store.close()
    assert sum(one.count for one in removed if one.kind == "run") >= 5
    world.mark(Returned(call="prune"))


def migrated_story(world: PoweredWorld) -> None:
    """A database of the first version is brought up to date, and goes on."""
    open_store(world.path, now_ms=world.clock.now_ms()).close()
    world.mark(Returned(call="migrated"))
    with Client(world.path, clock=world.clock) as client:
        client.add(spec("new", 60, lasts_s=1))
    world.mark(Returned(call="added"))


def backed_up_story(world: PoweredWorld) -> None:
    """Two backups of one name while engines run; the second takes the place of the first."""
    world.fix_seed()
    world.ask(lambda s: s.add_all(CORE))
    world.start_engine(max_running=3)
    go_on(world, 4)
    back_up(world, replace=False)
    go_on(world, 6)
    back_up(world, replace=True)
    go_on(world, 2)


def back_up(world: PoweredWorld, *, replace: bool) -> None:
    backup = world.path.with_name(BACKUP)
    with Client(world.path, clock=world.clock) as client:
        client.backup(backup, replace=replace, on_progress=lambda *_: go_on(world, 1))
    world.mark(Copied(digest=digest_of(backup)))


def restored_story(world: PoweredWorld) -> None:
    """A backup takes the place of the database, with nobody alive; then engines go on."""
    backed_up_story(world)
    world.shut_down()
    with (
        Client(world.path, clock=world.clock) as client,
        client.restoring(world.path.with_name(BACKUP)) as restoration,
    ):
        done = restoration.carry_out(skip_missed=False)
    assert done.aside is not None
    world.mark(Copied(digest=digest_of(world.path), before=digest_of(done.aside)))


def digest_of(path: Path) -> str:
    """What a plain database file holds, which is left as it is."""
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copyfile(path, Path(folder) / path.name))
        return read_content(copy).digest


STORIES = {
    story.name: story
    for story in (
        Story(name="core", tell=core_story, specs=CORE),
        Story(name="spared", tell=spared_story, specs=SPARED),
        Story(name="hard", tell=hard_story, specs=SPECS, quiet_ms=30_000),
        Story(name="retried", tell=retried_story, specs=RETRIED, quiet_ms=15_000),
        Story(name="missed", tell=missed_story, specs=MISSED, quiet_ms=60_000),
        Story(name="together", tell=together_story, specs=TOGETHER),
        Story(name="checkpointed", tell=checkpointed_story, specs=CORE),
        Story(name="pruned", tell=pruned_story),
        Story(name="migrated", tell=migrated_story, prepare=make_version_1),
        Story(name="backed-up", tell=backed_up_story, specs=CORE),
        Story(name="restored", tell=restored_story),
    )
}
