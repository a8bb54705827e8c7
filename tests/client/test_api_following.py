"""Following a run that is still to start: nothing is looked at before something was committed."""

from __future__ import annotations

from pathlib import Path

from edgecron.client import Client
from edgecron.model.run import Execution
from tests.support.specs import make_spec


def queue_run(path: Path) -> Execution:
    with Client(path) as client:
        client.add(make_spec())
        [queued] = client.run_now("backup")
    return queued


def test_a_queued_run_is_looked_at_again_when_it_is_time_for_a_check(tmp_path: Path) -> None:
    queued = queue_run(tmp_path / "edge.db")

    with Client(tmp_path / "edge.db") as client, client.follower(queued.id) as follower:
        follower.read(queued)
        follower.wait()

        assert follower.is_due_for_check


def test_a_queued_run_is_looked_at_again_as_soon_as_somebody_has_committed(tmp_path: Path) -> None:
    queued = queue_run(tmp_path / "edge.db")

    with Client(tmp_path / "edge.db") as client, client.follower(queued.id) as follower:
        follower.read(queued)
        with Client(tmp_path / "edge.db") as other:
            other.pause("backup")
        follower.wait()

        assert not follower.is_due_for_check
        assert follower.wait() == set()
        assert follower.is_due_for_check
