"""The glyphs of log, command line and dashboard; each means the same in all of them.

A front end adds only its style. A word always stands beside a glyph.
"""

from __future__ import annotations

import sys

from edgecron.base.values import NamedTuple
from edgecron.model.choices import Status
from edgecron.model.listing import ScheduleState


class Glyph(NamedTuple):
    """A narrow letter that every terminal font has, and its ASCII fallback."""

    letter: str
    plain: str


# Findings: of `doctor`, of a check of input, and events of the log that are not about a run.
OK = Glyph("✓", "+")
NOTE = Glyph("•", "#")
WARNING = Glyph("!", "!")
PROBLEM = Glyph("✗", "x")
UNKNOWN = Glyph("?", "?")
# What happens to a definition.
CREATED = Glyph("+", "+")
CHANGED = Glyph("~", "~")
REMOVED = Glyph("-", "-")

RUN_GLYPHS = {
    Status.QUEUED: Glyph("○", "o"),
    Status.RUNNING: Glyph("▸", ">"),
    Status.SUCCESS: OK,
    Status.FAILED: PROBLEM,
    Status.SKIPPED: Glyph("–", "-"),
    Status.CANCELLED: Glyph("⊘", "/"),
    Status.INTERRUPTED: WARNING,
}
SCHEDULE_GLYPHS = {
    ScheduleState.ACTIVE: Glyph("●", "*"),
    ScheduleState.PAUSED: Glyph("‖", "="),
    ScheduleState.VANISHED: UNKNOWN,
    ScheduleState.BROKEN: PROBLEM,
    ScheduleState.DONE: Glyph("·", "."),
}


def glyph(letter: str, plain: str) -> str:
    """Return a letter, or `plain` if the output can't show the letter."""
    try:
        # The dashboard replaces stdout; it runs only with UTF-8.
        letter.encode(getattr(sys.stdout, "encoding", "utf-8") or "ascii")
    except UnicodeEncodeError:
        return plain
    return letter
