"""--durability: which transactions wait for the disk, and what is stored of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from edgecron.model.choices import Durability
from edgecron.model.options import Policies
from tests.support.story import Story


class Commits:
    """The level at which each transaction of this process commits, by SQLite's own report."""

    def __init__(self) -> None:
        self.levels: list[str] = []
        apsw.connection_hooks.append(self._watch)

    def _watch(self, connection: apsw.Connection) -> None:
        def note() -> bool:
            level = connection.pragma("synchronous")
            self.levels.append({1: "normal", 2: "full"}[level])
            return False

        connection.set_commit_hook(note)

    def close(self) -> None:
        apsw.connection_hooks.remove(self._watch)


@pytest.fixture
def commits() -> Iterator[Commits]:
    found = Commits()
    yield found
    found.close()


@pytest.mark.parametrize("level", Durability)
def test_a_start_waits_for_the_disk_and_an_end_does_unless_the_schedule_spares_it(
    tmp_path: Path, commits: Commits, level: Durability
) -> None:
    story = Story(tmp_path / "story.db")
    story.add("job", "every 1m", lasts_s=5, policies=Policies(durability=level))
    commits.levels.clear()

    story.after_s(60)
    start = list(commits.levels)
    commits.levels.clear()
    story.after_s(5)
    end = list(commits.levels)

    assert set(start) == {"full"}
    assert end == (["full"] if level is Durability.FULL else ["normal"])
    assert story.statuses("job") == ["success"]


def test_an_end_waits_if_its_place_goes_to_a_run_that_waits(
    tmp_path: Path, commits: Commits
) -> None:
    story = Story(tmp_path / "story.db", max_running=1)
    normal = Policies(durability=Durability.NORMAL)
    story.add("first", "every 1m", lasts_s=5, policies=normal)
    story.add("second", "every 1m", lasts_s=5, policies=normal)
    story.after_s(60)
    commits.levels.clear()

    story.after_s(5)

    assert set(commits.levels) == {"full"}
    assert sorted(story.statuses("first") + story.statuses("second")) == ["running", "success"]


def test_a_follower_of_a_spared_end_starts_in_a_transaction_that_waits(
    tmp_path: Path, commits: Commits
) -> None:
    story = Story(tmp_path / "story.db")
    normal = Policies(durability=Durability.NORMAL)
    story.add("job", "every 1h", lasts_s=5, policies=normal)
    story.add("next", "after job", lasts_s=5, policies=normal)
    story.after_s(3600)
    commits.levels.clear()

    story.after_s(5)

    assert commits.levels == ["normal", "full"]
    assert story.statuses("next") == ["running"]


@pytest.mark.parametrize("level", Durability)
def test_a_run_by_hand_waits_for_the_disk_unless_the_schedule_spares_it(
    tmp_path: Path, commits: Commits, level: Durability
) -> None:
    story = Story(tmp_path / "story.db")
    story.add("job", "on demand", policies=Policies(durability=level))
    commits.levels.clear()

    story.client.run_now("job")

    assert commits.levels == ["full" if level is Durability.FULL else "normal"]
