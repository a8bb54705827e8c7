"""The power is cut at every write of a story, and the disk holds whatever it may hold then."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from edgecron.client import Client
from tests.powerloss.disk import Loss
from tests.powerloss.laboratory import DATABASE, Bench, cuts, lay_out, read_content
from tests.powerloss.recorder import Logged, Mark
from tests.powerloss.stories import CORE, STORIES, a_world
from tests.powerloss.trials import Trials, added_at, cut_twice
from tests.powerloss.world import record, seen_at
from tests.simulation.test_simulation import START_MS, model_of, spec
from tests.support.clock import FakeClock
from tests.support.forms import tried


@cache
def core_log(synchronous: str | None = None) -> list[Logged]:
    with TemporaryDirectory() as folder:
        story = STORIES["core"]
        return record(a_world(Path(folder), story, seed=1, synchronous=synchronous), story.tell)


def core_trials(folder: Path) -> Trials:
    return Trials(STORIES["core"], core_log(), folder)


@pytest.mark.failure(16)
@pytest.mark.parametrize(
    ("loss", "first", "step"),
    [
        (Loss.DROPPED, 1, tried(11, 2)),
        (Loss.TORN, 1, tried(15, 3)),
        (Loss.REORDERED, 2, tried(11, 2)),
        pytest.param(Loss.DROPPED, 1, 1, marks=pytest.mark.slow),
        pytest.param(Loss.TORN, 1, 1, marks=pytest.mark.slow),
        pytest.param(Loss.REORDERED, 1, 1, marks=pytest.mark.slow),
    ],
)
def test_a_claim_that_was_acted_on_survives_a_cut_after_any_write(
    tmp_path: Path, loss: Loss, first: int, step: int
) -> None:
    trials = core_trials(tmp_path)

    for cut in cuts(trials.log, range(first, len(trials.log) + 1, step), losses=[loss], seed=1):
        trials.verify(cut)

    assert len(trials.log) > 500, "the story is too short to tell anything"
    assert trials.bench.looked_at > 40


@pytest.mark.failure(16)
def test_a_database_that_was_being_made_is_made_after_the_cut(tmp_path: Path) -> None:
    log = core_log()

    for cut in cuts(log, range(1, added_at(log), 4), losses=[Loss.REORDERED], seed=4):
        path = lay_out(cut.image, tmp_path / str(cut.number))
        with Client(path, clock=FakeClock(START_MS)) as client:
            client.add(spec("first", 60, lasts_s=1))
            names = {schedule.name for schedule in client.schedules()}

        # All that were being added, or none.
        assert names in ({"first"}, {"first", "doomed", *model_of(CORE)}), cut.words
        read_content(path)


@pytest.mark.failure(16)
def test_what_is_left_of_shared_memory_is_not_believed(tmp_path: Path) -> None:
    log = core_log()
    bench = Bench(tmp_path)
    middle = range(added_at(log), len(log), 25)

    for cut in cuts(log, middle, losses=[Loss.REORDERED], seed=5):
        stale = Random(cut.number).randbytes(32_768)
        content = bench.content_of(cut.image)
        cut.image[f"{DATABASE}-shm"] = stale

        assert bench.content_of(cut.image) == content, cut.words


@pytest.mark.failure(16)
@pytest.mark.parametrize("beside", Loss)
def test_after_a_cut_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path, beside: Loss) -> None:
    trials = core_trials(tmp_path)
    log = trials.log
    numbers = Random(f"cuts {beside}").sample(range(added_at(log), len(log) + 1), 3)

    for cut in cuts(log, numbers, losses=[Loss.REORDERED], seed=2, beside=beside):
        trials.recover(cut, tmp_path / str(cut.number))


@pytest.mark.failure(16)
@pytest.mark.parametrize(
    ("beside", "statuses"),
    [(Loss.KEPT, {"success", "failed"}), (Loss.DROPPED, {"interrupted"})],
)
def test_an_end_that_only_a_journal_knew_is_the_truth_while_there_is_a_journal(
    tmp_path: Path, beside: Loss, statuses: set[str]
) -> None:
    trials = core_trials(tmp_path)
    log = trials.log
    numbers = [at for at, one in enumerate(log, start=1) if isinstance(one.entry, Mark)]
    ends = 0

    for cut in cuts(log, numbers[-40::4], losses=[Loss.DROPPED], seed=3, beside=beside):
        bodies = seen_at(log, cut.number).bodies
        unsaved = {b.execution_id for b in trials.bench.content_of(cut.image).unsaved_ends(bodies)}
        if unsaved:
            rows = trials.recover(cut, tmp_path / str(cut.number))
            assert {row["status"] for row in rows if row["id"] in unsaved} <= statuses
            ends += len(unsaved)

    assert ends >= 3


@pytest.mark.failure(16)
def test_the_laboratory_sees_what_is_lost_when_commits_are_not_synced(tmp_path: Path) -> None:
    log = core_log("NORMAL")
    trials = Trials(STORIES["core"], log, tmp_path)
    cut_short: Counter[str] = Counter()

    for cut in cuts(log, range(added_at(log), len(log) + 1, 5), losses=[Loss.DROPPED], seed=1):
        bodies = seen_at(log, cut.number).bodies
        cut_short["cuts"] += 1
        cut_short["claims"] += bool(trials.bench.content_of(cut.image).lost_claims(bodies))
        try:
            trials.verify(cut)
        except AssertionError:
            cut_short["something"] += 1

    # Answers to people and ends of runs get lost besides claims.
    assert cut_short["cuts"] > cut_short["something"] > cut_short["claims"] > 0


_MOST = tried(1, 2)
SEEDS = [
    *range(1, _MOST + 1),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_MOST + 1, 101)),
]


@pytest.mark.failure(16)
@pytest.mark.parametrize("seed", SEEDS)
def test_cuts_of_hard_stories_and_cuts_while_recovering_from_them(
    tmp_path: Path, seed: int
) -> None:
    story = STORIES["hard"]
    log = record(a_world(tmp_path / "story", story, seed=seed), story.tell)

    cut_twice(Trials(story, log, tmp_path), tmp_path, count=10, seed=seed)
