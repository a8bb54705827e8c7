"""How much the short form of a search tries: more while a mutation is hunted."""

from __future__ import annotations

import os
from typing import TypeVar

HUNT = "TESTS_HUNT"  # set while a mutation is hunted

T = TypeVar("T")


def tried(shortly: T, hunting: T) -> T:
    """What to try: `shortly` in the short form that runs with all tests."""
    return hunting if HUNT in os.environ else shortly
