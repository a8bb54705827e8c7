"""What must hold of an image: at once, and once engines have gone on from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from edgecron.base.errors import EdgecronError
from edgecron.store.sqlite.migrate import SCHEMA_VERSION
from edgecron.store.sqlite.store import open_store
from tests.powerloss.disk import Image, Loss
from tests.powerloss.laboratory import DATABASE, Bench, Cut, cuts, lay_out, read_content
from tests.powerloss.recorder import Logged, Mark
from tests.powerloss.stories import BACKUP, Copied, Story
from tests.powerloss.world import PoweredWorld, Returned, Seen, come_back, record, seen_at
from tests.simulation.invariants import check, read_rows
from tests.simulation.test_simulation import START_MS, model_of
from tests.support.olddatabases import everything, make_version_1, version_of

ANSWER = Mark(what=Returned(call="answer"))
LOSSES = (Loss.DROPPED, Loss.TORN, Loss.REORDERED)


def added_at(log: Sequence[Logged]) -> int:
    """The number of entries after which the schedules are there for good."""
    return next((at for at, one in enumerate(log, start=1) if one.entry == ANSWER), 1)


@dataclass
class Trials:
    """Verifies cuts of one story. `folder` is where images are laid out, one after the other."""

    story: Story
    log: Sequence[Logged]
    folder: Path
    bench: Bench = field(init=False)
    recoveries: int = 0

    def __post_init__(self) -> None:
        self.bench = Bench(self.folder)

    def verify(self, cut: Cut) -> None:
        """Raise AssertionError where something is lost that somebody has acted on."""
        copies = [
            (at, one.entry.what)
            for at, one in enumerate(self.log, start=1)
            if isinstance(one.entry, Mark) and isinstance(one.entry.what, Copied)
        ]
        try:
            self._verify_database(cut, is_replaced=self.story.name == "restored")
            if copies:
                self._verify_backup(cut, copies)
            if self.story.name == "migrated":
                self._verify_migration(cut)
            if self.story.name == "restored":
                self._verify_restore(cut, *copies[-1])
        except Exception as error:
            error.add_note(f"story {self.story.name}, {cut.words}")
            raise

    def recover(
        self, cut: Cut, folder: Path, *, before: Seen | None = None
    ) -> list[dict[str, Any]]:
        """Let engines go on where the power was cut, and check all that must hold; the rows."""
        return recover(cut, seen_at(self.log, cut.number, before=before), folder, story=self.story)

    def _verify_database(self, cut: Cut, *, is_replaced: bool) -> None:
        content = self.bench.content_of(cut.image)
        may_hold = [self.bench.content_of(image).digest for image in cut.may_hold]
        assert content.digest in may_hold, "less than when a call had last returned"
        if not is_replaced and self.story.specs:
            lost = content.lost_claims(seen_at(self.log, cut.number).bodies)
            assert not lost, f"lost {lost}"

    def _verify_backup(self, cut: Cut, copies: Sequence[tuple[int, Copied]]) -> None:
        """A backup that was said to be there is, and what has its name is whole."""
        made = [(at, copied.digest) for at, copied in copies if copied.before is None]
        done = [digest for at, digest in made if at <= cut.number]
        coming = [digest for at, digest in made if at > cut.number]
        if BACKUP not in cut.image:
            assert not done, "the backup is gone"
            return
        digest = self.bench.content_of(_only(cut.image, BACKUP)).digest
        assert digest in [*done[-1:], *coming[:1]], "the backup holds something else"

    def _verify_migration(self, cut: Cut) -> None:
        """Version 1 as it was, or brought up to date with a copy of before; then it can be."""
        folder = self.folder / "migrated"
        old = self.folder / "old.db"
        if not old.exists():
            make_version_1(old)
        path = lay_out(cut.image, folder)
        copies = sorted(path.parent.glob(f"{DATABASE}.v1-backup*"))
        if version_of(path) == SCHEMA_VERSION:
            open_store(path, now_ms=START_MS).close()
        else:
            assert everything(path) == everything(old)
            open_store(path, now_ms=START_MS).close()
            copies = [path.with_name(f"{DATABASE}.v1-backup")]
        whole = [copy for copy in copies if not copy.name.endswith(".new")]
        assert whole, "no copy of before"
        assert all(everything(copy) == everything(old) for copy in whole), "a torn copy"
        read_content(path)
        _remove(folder)

    def _verify_restore(self, cut: Cut, at: int, restored: Copied) -> None:
        """The database is there under its one name, and what it replaced is not lost."""
        content = self.bench.content_of(cut.image)
        if cut.number >= at:
            assert content.digest == restored.digest, "the restored database is gone"
        if content.digest == restored.digest:
            asides = [name for name in cut.image if "-replaced-" in name]
            assert asides, "what was replaced is gone"
            beside = _only(cut.image, asides[0])
            assert self.bench.content_of(beside).digest == restored.before, "and now it differs"
        folder = self.folder / "restored"
        path = lay_out(cut.image, folder)
        try:
            open_store(path, now_ms=START_MS).close()
        except EdgecronError as error:
            raise AssertionError(f"it can't be opened: {error}") from error
        finally:
            _remove(folder)


def recover(cut: Cut, seen: Seen, folder: Path, *, story: Story) -> list[dict[str, Any]]:
    path = lay_out(cut.image, folder)
    dice = Random(cut.words)
    world = come_back(path, seen, random=dice, synchronous="OFF")  # No second cut.

    world.take_up(for_ms=story.quiet_ms)
    removed_ms = world.come_to_rest(for_ms=story.quiet_ms)

    try:
        check(world, model_of(story.specs), made_ms=START_MS, until_ms=removed_ms)
    except AssertionError as error:
        error.add_note(f"story {story.name}, {cut.words}, in {folder}")
        raise
    return read_rows(world)


def try_cuts(trials: Trials, numbers: Iterable[int], *, seed: int) -> Cut:
    """Verify every kind of loss at each of these cuts; one of them to go on from."""
    tried = list(cuts(trials.log, numbers, losses=LOSSES, seed=seed))
    for cut in tried:
        trials.verify(cut)
    return Random(f"go on {seed} {len(trials.log)}").choice(tried)


def cut_twice(trials: Trials, folder: Path, *, count: int, seed: int) -> Trials:
    """Verify cuts of a story, then cuts of the recovery from one of them, then recover from one."""
    dice = Random(f"cuts {seed}")
    story, log = trials.story, trials.log
    first = try_cuts(trials, _sample(dice, added_at(log), len(log), count), seed=seed)
    seen = seen_at(log, first.number)
    path = lay_out(first.image, folder / "once")
    world = come_back(path, seen, random=Random(seed))
    again = Trials(story, record(world, _take_up), trials.folder)
    numbers = [1, *_sample(dice, 2, len(again.log), count // 2)]
    second = try_cuts(again, numbers, seed=seed)
    again.recover(second, folder / "twice", before=seen)
    return again


def _take_up(world: PoweredWorld) -> None:
    world.take_up(for_ms=10_000)


def _sample(dice: Random, first: int, last: int, count: int) -> list[int]:
    numbers = range(first, last + 1)
    return sorted(dice.sample(numbers, min(count, len(numbers))))


def _only(image: Image, name: str) -> Image:
    """One file of an image, with what SQLite reads with it, as if it were the database."""
    found = Image()
    for beside in ("", "-wal", "-journal"):
        if name + beside in image:
            found[DATABASE + beside] = image[name + beside]
    return found


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder)
