"""Files in the state folder that nobody comes back to, and those that are not what they seem."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgecron.base.paths import state_dir
from edgecron.engine.other_engines import LocalEngines
from edgecron.engine.state_folder import engine_lock_path, take_engine_lock
from edgecron.model.choices import Reason
from edgecron.supervisor.journal import Interrupted
from edgecron.supervisor.state_files import journal_path, lock_path
from tests.support.engines import Place

NOW_MS = 1_773_000_000_000


def test_files_of_engines_that_no_database_knows_are_cleared_away(tmp_path: Path) -> None:
    others = LocalEngines(tmp_path, boot_id="b")
    for key in ("dead", "known"):
        (tmp_path / f"engine-{key}.lock").touch()
        os.mkfifo(tmp_path / f"engine-{key}.fifo")
    held = take_engine_lock(tmp_path, "alive")
    os.mkfifo(tmp_path / "engine-alive.fifo")
    old, young = tmp_path / "engine-old.lock.new", tmp_path / "engine-young.lock.new"
    for path, age_s in ((old, 4000), (young, 60)):
        path.touch()
        os.utime(path, (NOW_MS / 1000 - age_s, NOW_MS / 1000 - age_s))

    others.remove_dead_files(known={"known"}, now_ms=NOW_MS)

    os.close(held)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "engine-alive.fifo",
        "engine-alive.lock",
        "engine-known.fifo",
        "engine-known.lock",
        "engine-young.lock.new",
    ]


@pytest.mark.failure(63)
def test_a_link_in_the_place_of_a_lock_stops_no_engine(place: Place) -> None:
    daemon = place.daemon()
    daemon.wait_for("engine_started")
    daemon.stop()
    key = "0123456789abcdef"
    lock_path(state_dir(place.database), key).symlink_to("/dev/null")
    engine_lock_path(state_dir(place.database), key).symlink_to("/dev/null")

    place.add("next", "every 1s", "true")
    daemon = place.daemon()
    ended = daemon.wait_for("ended", schedule="next")

    assert ended["status"] == "success"
    assert [line for line in daemon.lines if line["event"] == "database_trouble"] == []


def test_a_journal_that_can_not_be_read_is_as_one_that_is_damaged(tmp_path: Path) -> None:
    key = "0123456789abcdef"
    journal_path(tmp_path, key).symlink_to("/dev/null")

    verdicts = LocalEngines(tmp_path, boot_id="b").judge(key, ["t"])

    assert verdicts == {"t": Interrupted(reason=Reason.LOST)}
