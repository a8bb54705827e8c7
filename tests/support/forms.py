"""How much the short form of a search tries: more while a mutation is hunted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

HUNT = "TESTS_HUNT"  # set while a mutation is hunted

T = TypeVar("T")


def tried(shortly: T, hunting: T) -> T:
    """What to try: `shortly` in the short form that runs with all tests."""
    return hunting if HUNT in os.environ else shortly


def some_of(cases: Iterable[tuple[Any, ...]], each: int) -> list[Any]:
    """Parameters for each n-th of these cases; the others are slow."""
    return [
        case if number % each == 0 else pytest.param(*case, marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]
