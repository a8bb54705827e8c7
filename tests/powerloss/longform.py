"""The long form: fresh seeds, many cuts and many faults, figures at the end.

    python -m tests.powerloss --seed N --cuts K [--faults F] [--story NAME]... [--json FILE]

Each round takes the next seed, tells every story by it, and tries cuts of it until K images were
verified in all; then F stories are told on a disk that refuses. What is violated is told with the
command that tries the same again, and the command ends with 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import apsw

from edgecron.base.errors import EdgecronError
from tests.powerloss.faults import Duration, Faults, Trouble
from tests.powerloss.laboratory import cuts
from tests.powerloss.refusing import COUNTS, REFUSED, live_through
from tests.powerloss.stories import STORIES, Story, a_world
from tests.powerloss.trials import LOSSES, Trials, added_at, cut_twice
from tests.powerloss.world import Started, record

CUTS_A_ROUND = 90  # images of one story and seed
_PROGRESS_S = 10
# What a story may end with where edgecron, or this laboratory, is wrong; the others go on.
_VIOLATIONS = (AssertionError, EdgecronError, apsw.Error, OSError, LookupError, ValueError,
               TypeError, AttributeError)  # fmt: skip


class Figures:
    """What was done, and what was violated."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.violations: list[dict[str, str]] = []
        self._began_s = time.monotonic()
        self._told_s = self._began_s

    def to_json(self) -> dict[str, object]:
        return {
            "seconds": round(time.monotonic() - self._began_s, 1),
            **self.counts,
            "violations": self.violations,
        }

    def show_progress(self, seed: int) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s >= _PROGRESS_S:
            self._told_s = now_s
            print(f"seed {seed}: {self.in_words()}", file=sys.stderr, flush=True)

    def in_words(self) -> str:
        counted = ", ".join(f"{count} {what}" for what, count in self.counts.items())
        return f"{counted}, {len(self.violations)} violations"

    def show(self) -> None:
        for what, value in self.to_json().items():
            shown = len(value) if isinstance(value, list) else value
            print(f"{what:<12} {shown:>10}")


def main(argv: Sequence[str]) -> int:
    options = _read(argv)
    figures = Figures()
    stories = [STORIES[name] for name in options.story or STORIES]
    seed = options.seed
    while figures.counts["images"] < options.cuts:
        for story in stories:
            _attempt(figures, story.name, seed, partial(_cut, figures, story, seed))
            figures.show_progress(seed)
            if figures.counts["images"] >= options.cuts:
                break
        seed += 1
    for number in range(options.faults):
        seed = options.seed + number
        _attempt(figures, "refused", seed, partial(_refuse, figures, seed))
        figures.show_progress(seed)
    figures.show()
    if options.json:
        Path(options.json).write_text(json.dumps(figures.to_json(), indent=2) + "\n", "utf-8")
    return 1 if figures.violations else 0


def _read(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.powerloss", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--cuts", type=int, default=5000, help="images to verify in all")
    parser.add_argument("--faults", type=int, default=500, help="stories on a disk that refuses")
    parser.add_argument("--story", action="append", choices=list(STORIES), help="only this one")
    parser.add_argument("--json", metavar="FILE", help="the figures go there too")
    return parser.parse_args(argv)


def _attempt(figures: Figures, name: str, seed: int, trial: Callable[[Path], None]) -> None:
    with TemporaryDirectory(prefix="powerloss-") as folder:
        try:
            trial(Path(folder))
        except _VIOLATIONS as error:
            what_again = (
                "--cuts 0 --faults 1"
                if name == "refused"
                else f"--story {name} --cuts 1 --faults 0"
            )
            replay = f"python -m tests.powerloss --seed {seed} {what_again}"
            notes = "; ".join(getattr(error, "__notes__", ()))
            what = f"{type(error).__name__}: {error} ({notes})"
            figures.violations.append({"story": name, "replay": replay, "what": what})
            traceback.print_exc()
            print(f"violated in story {name}, seed {seed}; again: {replay}", file=sys.stderr)


def _cut(figures: Figures, story: Story, seed: int, folder: Path) -> None:
    log = record(a_world(folder / "story", story, seed=seed), story.tell)
    figures.counts["stories"] += 1
    figures.counts["fires"] += sum(
        isinstance(getattr(one.entry, "what", None), Started) for one in log
    )
    figures.counts["entries"] += len(log)
    trials = Trials(story, log, folder)
    numbers = range(added_at(log), len(log) + 1)
    chosen = sorted(Random(seed).sample(numbers, min(CUTS_A_ROUND // 3, len(numbers))))
    for cut in cuts(log, chosen, losses=LOSSES, seed=seed):
        trials.verify(cut)
        figures.counts["images"] += 1
    figures.counts["opened"] += trials.bench.looked_at
    if story.specs:
        again = cut_twice(trials, folder, count=6, seed=seed)
        figures.counts["images"] += 3 * (6 + 4)
        figures.counts["recoveries"] += 2
        figures.counts["opened"] += again.bench.looked_at


def _refuse(figures: Figures, seed: int, folder: Path) -> None:
    dice = Random(f"refuse {seed}")
    names = dice.choice(list(COUNTS))
    op = dice.choice(list(COUNTS[names]))
    faults = Faults(
        trouble=dice.choice(list(Trouble)),
        op=op,
        nth=dice.randint(1, COUNTS[names][op]),
        duration=dice.choice(list(Duration)),
        names=names,
    )
    try:
        lived = live_through(folder / "refused", faults, seed=seed)
        figures.counts["refused"] += 1
        figures.counts["faults"] += lived.met
        figures.counts["fires"] += lived.fires
        trials = Trials(REFUSED, lived.log, folder)
        first = added_at(lived.log)
        numbers = sorted(dice.sample(range(first, len(lived.log) + 1), 4))
        for cut in cuts(lived.log, numbers, losses=LOSSES, seed=seed):
            trials.verify(cut)
            figures.counts["images"] += 1
        figures.counts["opened"] += trials.bench.looked_at
    except _VIOLATIONS as error:
        error.add_note(f"{faults.trouble} of {op} {faults.nth} {faults.duration} {names}")
        raise
