"""Each status and state has a glyph, and its ASCII fallback is as clear."""

from __future__ import annotations

import io
import sys

import pytest

from edgecron.model.choices import Status
from edgecron.model.listing import ScheduleState
from edgecron.views import phrases
from edgecron.views.phrases import RUN_GLYPHS, SCHEDULE_GLYPHS, Glyph, display_width, glyph

FINDINGS = (phrases.OK, phrases.NOTE, phrases.WARNING, phrases.PROBLEM, phrases.UNKNOWN)
ALL = {*RUN_GLYPHS.values(), *SCHEDULE_GLYPHS.values(), *FINDINGS}


def test_every_status_and_every_state_has_a_glyph_of_its_own() -> None:
    assert len(set(RUN_GLYPHS.values())) == len(RUN_GLYPHS) == len(Status)
    assert len(set(SCHEDULE_GLYPHS.values())) == len(SCHEDULE_GLYPHS) == len(ScheduleState)


def test_two_glyphs_share_neither_a_letter_nor_a_fallback() -> None:
    assert len({one.letter for one in ALL}) == len(ALL)
    assert len({one.plain for one in ALL}) == len(ALL)


@pytest.mark.parametrize("one", sorted(ALL))
def test_a_glyph_takes_one_column_and_its_fallback_is_ascii(one: Glyph) -> None:
    assert display_width(one.letter) == 1
    assert len(one.plain) == 1
    assert one.plain.isascii()


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "✗"), ("latin-1", "x"), ("ascii", "x")])
def test_an_output_gets_the_letter_if_it_can_show_it(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))

    assert glyph(*phrases.PROBLEM) == shown
