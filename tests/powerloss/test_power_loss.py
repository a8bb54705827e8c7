"""The power is cut at every write of a story, and the disk holds whatever it may hold then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from edgecron.api import Scheduler
from edgecron.model import Overlap, ScheduleSpec, Status
from edgecron.retention import Retention, limits_at
from edgecron.store import open_store
from edgecron.store.connection import Database
from powerloss.disk import Loss
from powerloss.journals import JournalFate
from powerloss.laboratory import DATABASE, Bench, Cut, cuts, lay_out, read_content
from powerloss.recorder import Logged, Mark
from powerloss.world import PoweredWorld, Returned, Seen, come_back, record, seen_at
from simulation.invariants import check, read_rows
from simulation.test_simulation import SPECS, START_MS, act, model_of, spec
from support.clock import FakeClock

STORY = (
    spec("plain", 2, lasts_s=1),
    spec("failing", 3, lasts_s=2, code=3),
    spec("waiting", 3, lasts_s=4, overlap=Overlap.QUEUE),
    spec("beside", 4, lasts_s=5, overlap=Overlap.ALLOW),
)


ANSWER = Mark(what=Returned(call="answer"))
PRUNING = Returned(call="begin to prune")
CUT_LOSSES = (Loss.DROPPED, Loss.TORN, Loss.REORDERED)
FATES = tuple(JournalFate)


def a_world(folder: Path, *, seed: int, synchronous: str | None = None) -> PoweredWorld:
    folder.mkdir(exist_ok=True)
    return PoweredWorld(
        folder / DATABASE, random=Random(seed), start_ms=START_MS, synchronous=synchronous
    )


def core_story(world: PoweredWorld) -> None:
    """Everything that engines and people write, once or twice, in half a minute."""
    world.fix_seed()
    world.ask(lambda s: s.add_all([*STORY, spec("doomed", 60, lasts_s=1)]))
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


def cancel_another(scheduler: Scheduler) -> None:
    [queued] = scheduler.run_now("beside")
    assert scheduler.cancel(queued.id).status is Status.CANCELLED


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


@cache
def core_log(synchronous: str | None = None) -> list[Logged]:
    with TemporaryDirectory() as folder:
        return record(a_world(Path(folder), seed=1, synchronous=synchronous), core_story)


def added_at(log: list[Logged]) -> int:
    """The number of entries after which the schedules are there for good."""
    return log.index(next(one for one in log if one.entry == ANSWER)) + 1


def recover(
    cut: Cut,
    seen: Seen,
    folder: Path,
    *,
    fate: JournalFate,
    specs: Sequence[ScheduleSpec] = STORY,
    quiet_ms: int = 8000,
) -> list[dict[str, Any]]:
    """Let engines go on where the power was cut, and check all that must hold; the rows."""
    path = lay_out(cut.image, folder)
    dice = Random(cut.words)
    world = come_back(path, seen, fate=fate, random=dice, synchronous="OFF")  # No second cut.

    world.take_up(for_ms=quiet_ms)
    removed_ms = world.come_to_rest(for_ms=quiet_ms)

    try:
        check(world, model_of(specs), made_ms=START_MS, until_ms=removed_ms)
    except AssertionError as error:
        error.add_note(f"{cut.words}, journals {fate}, in {folder}")
        raise
    return read_rows(world.path)


@pytest.mark.failure(16)
@pytest.mark.parametrize(
    ("loss", "first", "step"),
    [
        (Loss.DROPPED, 1, 1),
        (Loss.TORN, 1, 2),
        (Loss.REORDERED, 2, 2),
        pytest.param(Loss.TORN, 1, 1, marks=pytest.mark.slow),
        pytest.param(Loss.REORDERED, 1, 1, marks=pytest.mark.slow),
    ],
)
def test_a_claim_that_was_acted_on_survives_a_cut_after_any_write(
    tmp_path: Path, loss: Loss, first: int, step: int
) -> None:
    log = core_log()
    bench = Bench(tmp_path)

    for cut in cuts(log, range(first, len(log) + 1, step), losses=[loss], seed=1):
        bench.verify(log, cut)

    assert len(log) > 500, "the story is too short to tell anything"
    assert bench.looked_at > 40


@pytest.mark.failure(16)
def test_a_database_that_was_being_made_is_made_after_the_cut(tmp_path: Path) -> None:
    log = core_log()

    for cut in cuts(log, range(1, added_at(log), 4), losses=[Loss.REORDERED], seed=4):
        path = lay_out(cut.image, tmp_path / str(cut.number))
        with Scheduler(path, clock=FakeClock(START_MS)) as scheduler:
            scheduler.add(spec("first", 60, lasts_s=1))
            names = {schedule.name for schedule in scheduler.schedules()}

        # All that were being added, or none.
        assert names in ({"first"}, {"first", "doomed", *model_of(STORY)}), cut.words
        read_content(path)


@pytest.mark.failure(16)
def test_what_is_left_of_shared_memory_is_not_believed(tmp_path: Path) -> None:
    log = core_log()
    bench = Bench(tmp_path)
    middle = range(added_at(log), len(log), 25)

    for cut in cuts(log, middle, losses=[Loss.REORDERED], seed=5):
        stale = Random(cut.number).randbytes(32_768)
        with_stale = {**cut.image, f"{DATABASE}-shm": stale}

        assert bench.content_of(with_stale) == bench.content_of(cut.image), cut.words


@pytest.mark.failure(16)
@pytest.mark.parametrize("fate", JournalFate)
def test_after_a_cut_nothing_is_lost_and_nothing_runs_twice(
    tmp_path: Path, fate: JournalFate
) -> None:
    log = core_log()
    numbers = Random(f"cuts {fate}").sample(range(added_at(log), len(log) + 1), 3)

    for cut in cuts(log, numbers, losses=[Loss.REORDERED], seed=2):
        recover(cut, seen_at(log, cut.number), tmp_path / str(cut.number), fate=fate)


@pytest.mark.failure(16)
@pytest.mark.parametrize(
    ("fate", "statuses"),
    [(JournalFate.WHOLE, {"success", "failed"}), (JournalFate.MISSING, {"interrupted"})],
)
def test_an_end_that_only_a_journal_knew_is_the_truth_while_there_is_a_journal(
    tmp_path: Path, fate: JournalFate, statuses: set[str]
) -> None:
    log = core_log()
    bench = Bench(tmp_path)
    numbers = [at for at, one in enumerate(log, start=1) if isinstance(one.entry, Mark)]
    ends = 0

    for cut in cuts(log, numbers[-40::4], losses=[Loss.DROPPED], seed=3):
        seen = seen_at(log, cut.number)
        unsaved = {b.execution_id for b in bench.content_of(cut.image).unsaved_ends(seen.bodies)}
        if unsaved:
            rows = recover(cut, seen, tmp_path / str(cut.number), fate=fate)
            assert {row["status"] for row in rows if row["id"] in unsaved} <= statuses
            ends += len(unsaved)

    assert ends >= 3


@pytest.mark.failure(16)
def test_the_laboratory_sees_what_is_lost_when_commits_are_not_synced(tmp_path: Path) -> None:
    log = core_log("NORMAL")
    bench = Bench(tmp_path)
    cut_short: Counter[str] = Counter()

    for cut in cuts(log, range(added_at(log), len(log) + 1, 5), losses=[Loss.DROPPED], seed=1):
        bodies = seen_at(log, cut.number).bodies
        cut_short["cuts"] += 1
        cut_short["claims"] += bool(bench.content_of(cut.image).lost_claims(bodies))
        try:
            bench.verify(log, cut)
        except AssertionError:
            cut_short["something"] += 1

    # Answers to people and ends of runs get lost besides claims.
    assert cut_short["cuts"] > cut_short["something"] > cut_short["claims"] > 0


SEEDS = [
    *(1, 2),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 101)),
]


@pytest.mark.failure(16)
@pytest.mark.parametrize("seed", SEEDS)
def test_cuts_of_hard_stories_and_cuts_while_recovering_from_them(
    tmp_path: Path, seed: int
) -> None:
    log = record(a_world(tmp_path / "story", seed=seed), hard_story)
    dice = Random(f"cuts {seed}")
    bench = Bench(tmp_path)

    numbers = dice.sample(range(added_at(log), len(log) + 1), 10)
    first = try_cuts(bench, log, numbers, seed=seed)
    seen = seen_at(log, first.number)
    path = lay_out(first.image, tmp_path / "once")
    world = come_back(path, seen, fate=dice.choice(FATES), random=Random(seed))
    again = record(world, lambda world: world.take_up(for_ms=10_000))
    numbers = [1, *dice.sample(range(2, len(again) + 1), 5)]
    second = try_cuts(bench, again, numbers, seed=seed)
    seen = seen_at(again, second.number, before=seen)
    fate = dice.choice(FATES)
    recover(second, seen, tmp_path / "twice", fate=fate, specs=SPECS, quiet_ms=30_000)


def try_cuts(bench: Bench, log: list[Logged], numbers: list[int], *, seed: int) -> Cut:
    """Verify every kind of loss at each of these cuts; one of them to go on from."""
    tried = list(cuts(log, numbers, losses=CUT_LOSSES, seed=seed))
    for cut in tried:
        bench.verify(log, cut)
    return Random(f"go on {seed} {len(log)}").choice(tried)


def pruned_story(world: PoweredWorld) -> None:
    """Half a minute of everything, of which a person then keeps little."""
    core_story(world)
    world.settle(for_ms=20_000)
    world.mark(PRUNING)
    store = open_store(world.path, now_ms=world.clock.now_ms())
    limits = limits_at(Retention(history_count=1), world.clock.now_ms(), is_trusted=True)
    removed = [one for one in store.prune(limits, schedule_id=None, is_trial=False) if one]
    store.close()
    assert sum(one.count for one in removed if one.kind == "run") >= 5


@pytest.mark.failure(16)
def test_a_cut_while_the_past_is_removed_takes_nothing_more_and_tears_nothing(
    tmp_path: Path,
) -> None:
    log = record(a_world(tmp_path / "story", seed=1), pruned_story)
    bench = Bench(tmp_path)
    begun = log.index(next(one for one in log if one.entry == Mark(what=PRUNING))) + 1

    tried = list(cuts(log, range(begun, len(log) + 1), losses=CUT_LOSSES, seed=1))

    for cut in tried:
        may_hold = {bench.content_of(image).digest for image in cut.may_hold}
        assert bench.content_of(cut.image).digest in may_hold, cut.words
    assert len({bench.content_of(cut.image).digest for cut in tried}) > 1
