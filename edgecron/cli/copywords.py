"""What `backup` and `restore` say of copies, and how far they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.cli.session import Session
    from edgecron.store.copies import Contents

_LEAST_STEPS = 50  # below it is done before it could be read
_PARTS = 100


def contents_words(contents: Contents) -> str:
    """`12 schedules and 4,711 runs`."""
    from edgecron.views.phrases import count_words

    return f"{count_words(contents.schedules, 'schedule')} and {_runs(contents.runs)}"


def progress_of(cli: Session, word: str) -> Callable[[int, int], object]:
    """What tells a person at a terminal how far it is, where that takes a while."""
    if cli.is_json or not sys.stderr.isatty():
        return lambda done, count: None
    told = steps = 0

    def show(done: int, count: int) -> None:
        nonlocal told, steps
        steps += 1
        part = _PARTS * done // max(1, count)
        if done == count:
            if told:
                print(f"\r{word}, and looking it through", file=sys.stderr, flush=True)
        elif steps > _LEAST_STEPS and part != told:
            told = part
            print(f"\r{word}: {part}%", end="", file=sys.stderr, flush=True)

    return show


def _runs(count: int) -> str:
    return f"{count:,} run" if count == 1 else f"{count:,} runs"
