"""The dashboard's list of engines: machine, state, load and labels. Read-only."""

from __future__ import annotations

import fcntl
import os

import pytest

from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.engine.state_folder import engine_lock_path
from tests.support.scene import Scene
from tests.tui.pilot import Seen, watch

KEY = "e" * 16


def add_engine(scene: Scene) -> int:
    """Add a drained engine as it is recorded; the descriptor of its lock."""
    with Client(scene.path, clock=scene.clock) as client, client.store.transaction():
        client.store.change("UPDATE engines SET stopped_at = started_at WHERE stopped_at IS NULL")
        client.store.change(
            """INSERT INTO engines (key, pid, boot_id, queues, former_queues, drained_at, version,
                   max_running, started_at)
               VALUES (:key, 1, 'b', '[]', '["command", "command on web1",
                   "command on label:[red]berlin"]', :now, '1.0', 8, :now)""",
            {"key": KEY, "now": scene.clock.now_ms()},
        )
    folder = state_dir(scene.path)
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(engine_lock_path(folder, KEY), os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 48), (200, 60)])
def test_engines_are_listed_with_their_machines_and_how_to_undo_a_drain(
    scene: Scene, size: tuple[int, int]
) -> None:
    lock = add_engine(scene)

    async def story(seen: Seen) -> None:
        await seen.press("8")
        await seen.until(lambda: "1 engine on 1 machine" in seen.text())
        assert any("web1" in line and "drained" in line for line in seen.lines())
        assert "of 8" in seen.text()
        await seen.press("enter")
        assert "edgecron engine resume web1" in seen.text()
        assert "[red]berlin" in seen.text()
        await seen.press("escape", "escape")
        assert "read-only" not in seen.text()

    watch(story, scene.path, scene.clock, size=size)
    os.close(lock)


def test_without_an_engine_the_list_says_so(scene: Scene) -> None:
    with Client(scene.path, clock=scene.clock) as client, client.store.transaction():
        client.store.change("UPDATE engines SET stopped_at = started_at WHERE stopped_at IS NULL")

    async def story(seen: Seen) -> None:
        await seen.press("8")
        words = "no engine is running: start one by edgecron daemon"
        await seen.until(lambda: words in seen.lines()[2])

    watch(story, scene.path, scene.clock, size=(80, 24))
