"""The dashboard's list of notices: what was sent, what waits, and why. Read-only."""

from __future__ import annotations

import pytest

from edgecron.client import Client
from tests.support.scene import Scene
from tests.tui.pilot import Seen, watch

DETAIL = (
    '{"sentence": "Run 7 started at 02:00, because [red]it was due; it failed.",'
    ' "trouble": "3 fires failed in a row.", "output_tail": ["no space left"]}'
)


def add_notices(scene: Scene, *events: str) -> None:
    """Add notices as the process that sends them leaves them: the first one is sent."""
    with Client(scene.path, clock=scene.clock) as client, client.store.transaction():
        for number, event in enumerate(events):
            client.store.change(
                """INSERT INTO notices (rule, event, at, schedule_id, execution_id, detail, status,
                       due_at, tries, sent_at, message, error)
                   SELECT 'ops', :event, :at, min(id), 7, :detail, :status, :due, 1, :sent, 'm.1',
                       :error FROM schedules""",
                {
                    "event": event,
                    "at": scene.clock.now_ms() - 60_000,
                    "detail": DETAIL,
                    "status": "waiting" if number else "sent",
                    "due": scene.clock.now_ms() + 60_000 if number else None,
                    "sent": None if number else scene.clock.now_ms(),
                    "error": "no network" if number else None,
                },
            )


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
def test_notices_are_listed_newest_first_with_their_deliveries(
    scene: Scene, size: tuple[int, int]
) -> None:
    add_notices(scene, "failed", "missed")

    async def story(seen: Seen) -> None:
        await seen.press("5")
        await seen.until(lambda: "2 notices, 1 not sent yet" in seen.text())
        assert any("missed" in line and "waiting" in line for line in seen.lines())
        await seen.press("enter")
        for words in ("[red]it was due", "3 fires failed in a row", "no space left", "no network"):
            assert words in seen.text()
        await seen.press("escape", "escape")
        assert "read-only" not in seen.text()

    watch(story, scene.path, scene.clock, size=size)


def test_a_notice_that_comes_is_shown(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("5")
        words = "no notices yet: a rule [notify.NAME] sends them; see edgecron help alerts"
        await seen.until(lambda: words in seen.lines()[2])
        add_notices(scene, "failed")
        await seen.until(lambda: "1 notice, 0 not sent yet" in seen.text())

    watch(story, scene.path, scene.clock, size=(80, 24))
