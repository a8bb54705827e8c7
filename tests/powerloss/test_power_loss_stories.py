"""Cuts in the middle of what happens now and then: retries, catch-up, copies, other schemas."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.powerloss.disk import Loss
from tests.powerloss.laboratory import cuts
from tests.powerloss.recorder import Logged, Mark, Rename, Truncate, Write
from tests.powerloss.stories import PRUNING, STORIES, a_world
from tests.powerloss.trials import LOSSES, Trials, added_at, cut_twice
from tests.powerloss.world import record, seen_at
from tests.support.forms import tried

_APART = tried(4, 1)
# How many entries lie between two cuts, where not all are tried; in the short form, `_APART` times.
STEPS = {
    "retried": 19,
    "missed": 19,
    "together": 23,
    "checkpointed": 23,
    "migrated": 15,
    "backed-up": 15,
    "restored": 29,
}
LASTING = ("retried", "missed", "together", "checkpointed", "backed-up")


def told(name: str, folder: Path, *, seed: int = 1) -> Trials:
    story = STORIES[name]
    log = record(a_world(folder / "story", story, seed=seed), story.tell)
    return Trials(story, log, folder)


@pytest.mark.failure(16)
@pytest.mark.parametrize("name", STEPS)
def test_a_cut_anywhere_in_a_story_loses_nothing_that_was_acted_on(
    tmp_path: Path, name: str
) -> None:
    trials = told(name, tmp_path)
    numbers = range(added_at(trials.log), len(trials.log) + 1, _APART * STEPS[name])

    for cut in cuts(trials.log, numbers, losses=LOSSES, seed=1):
        trials.verify(cut)

    assert trials.bench.looked_at > 10


@pytest.mark.failure(16)
def test_a_cut_takes_ends_that_spare_the_disk_but_no_start_and_nothing_runs_twice(
    tmp_path: Path,
) -> None:
    trials = told("spared", tmp_path)
    numbers = range(added_at(trials.log), len(trials.log) + 1, tried(29, 9))
    lost = 0

    for cut in cuts(trials.log, numbers, losses=LOSSES, seed=1):
        bodies = seen_at(trials.log, cut.number).bodies
        content = trials.bench.content_of(cut.image)
        assert not content.lost_claims(bodies), cut.words
        unsaved = len(content.unsaved_ends(bodies))
        lost += unsaved
        if unsaved > 1:
            trials.recover(cut, tmp_path / f"{cut.number}-{lost}")

    assert lost > 5


@pytest.mark.failure(16)
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STORIES if name != "spared"])
def test_a_cut_after_every_entry_of_a_story_loses_nothing(tmp_path: Path, name: str) -> None:
    trials = told(name, tmp_path, seed=2)
    numbers = range(added_at(trials.log), len(trials.log) + 1)

    for cut in cuts(trials.log, numbers, losses=LOSSES, seed=2):
        trials.verify(cut)


@pytest.mark.failure(16)
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *((name, 1) for name in LASTING),
        *(pytest.param(n, s, marks=pytest.mark.slow) for n in LASTING for s in range(2, 20)),
    ],
)
def test_engines_go_on_from_a_cut_and_from_a_cut_while_they_do(
    tmp_path: Path, name: str, seed: int
) -> None:
    cut_twice(told(name, tmp_path, seed=seed), tmp_path, count=4, seed=seed)


@pytest.mark.failure(16)
def test_a_cut_while_the_past_is_removed_takes_nothing_more_and_tears_nothing(
    tmp_path: Path,
) -> None:
    trials = told("pruned", tmp_path)
    begun = number_of(trials.log, PRUNING)

    tried = list(cuts(trials.log, range(begun, len(trials.log) + 1, 2), losses=LOSSES, seed=1))

    for cut in tried:
        trials.verify(cut)
    assert len({trials.bench.content_of(cut.image).digest for cut in tried}) > 1


@pytest.mark.failure(16)
def test_wherever_names_got_to_a_restored_database_has_one_name_and_can_be_opened(
    tmp_path: Path,
) -> None:
    trials = told("restored", tmp_path)
    moves = [at for at, one in enumerate(trials.log, 1) if isinstance(one.entry, Rename)][-4:]

    for seed in range(20):
        for cut in cuts(trials.log, moves, losses=[Loss.REORDERED], seed=seed):
            trials.verify(cut)


def test_the_log_is_moved_into_the_database_in_the_middle_of_claims(tmp_path: Path) -> None:
    log = told("checkpointed", tmp_path).log

    # Between two writes of one transaction to the log, the database itself is written.
    database = 1
    writes = [one.entry for one in log if isinstance(one.entry, Write | Truncate)]
    files = [entry.file for entry in writes]
    wal = max(set(files) - {database}, key=files.count)
    turns = sum(pair in ((wal, database), (database, wal)) for pair in itertools.pairwise(files))
    assert turns > 20
    assert len(seen_at(log, len(log)).bodies) > 10


def number_of(log: Sequence[Logged], what: object) -> int:
    return next(at for at, one in enumerate(log, start=1) if one.entry == Mark(what=what))
