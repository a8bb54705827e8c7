"""Rehearsals: what is due in a moment is gone through and undone, so that it begins faster."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.base.errors import DatabaseBusy
from edgecron.client import Client
from edgecron.engine.events import EventKind
from tests.support.olddatabases import everything
from tests.support.story import START_MS, Story

MINUTE_MS = 60_000


@pytest.mark.of_file
def test_a_rehearsal_changes_nothing_and_what_is_due_fires_once(story: Story) -> None:
    for name in ("one", "two"):
        story.add(name, "every 1m")
    story.engine.step()
    before = everything(story.client.path)
    calls = story.world.calls

    story.engine.rehearse(START_MS + MINUTE_MS)

    assert story.world.calls > calls
    assert everything(story.client.path) == before
    assert story.runs("one") == []
    story.after_s(60)
    assert [story.statuses(name) for name in ("one", "two")] == [["success"], ["success"]]


@pytest.mark.of_file
def test_a_rehearsal_tells_nothing_of_what_it_finds_broken(story: Story) -> None:
    story.add("broken", "every 1m")
    story.engine.step()
    with story.client.store.transaction():
        story.client.store.change("DELETE FROM schedule_revisions")
    story.engine.step()
    before = everything(story.client.path)

    story.engine.rehearse(START_MS + MINUTE_MS)

    assert everything(story.client.path) == before
    assert EventKind.BROKEN not in [event.kind for event in story.world.events]
    story.after_s(60)
    assert EventKind.BROKEN in [event.kind for event in story.world.events]


def test_a_rehearsal_waits_for_nobody_who_writes(story: Story) -> None:
    story.add("one", "every 1m")
    story.engine.step()

    with story.client.store.transaction():
        story.engine.rehearse(START_MS + MINUTE_MS)

    story.after_s(60)
    assert story.statuses("one") == ["success"]
    [failures] = story.client.store.row("SELECT lock_failures FROM meta") or ()
    assert failures == 0


def test_what_is_undone_can_be_done_after_it(tmp_path: Path) -> None:
    with Client(tmp_path / "e.db") as one, Client(tmp_path / "e.db") as other:
        database = one.store
        with one.store.rehearsal():
            database.change("UPDATE meta SET lock_failures = 7")
        assert database.row("SELECT lock_failures FROM meta") == (0,)

        with (
            other.store.transaction(),
            pytest.raises(DatabaseBusy),
            one.store.rehearsal(),
        ):
            raise AssertionError("somebody else writes")

        with database.transaction():
            database.change("UPDATE meta SET lock_failures = 8")
        assert database.row("SELECT lock_failures FROM meta") == (8,)
