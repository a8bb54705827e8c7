"""What questions, the filter line, the palette and help look like, over a small home server."""

from __future__ import annotations

import pytest

from edgecron.model.choices import Status
from edgecron.tui.dialogs import Dialog
from edgecron.tui.list_filter import FilterLine
from tests.support.scene import Scene
from tests.tui.pilot import Seen, watch
from tests.tui.snapshots import check_sizes

SMALL, LARGE = (80, 24), (160, 48)


def shown(seen: Seen) -> list[str]:
    """The box that asks, or else the line below the list that is filtered."""
    parts = [*seen.app.screen.query("#box"), *seen.app.screen.query(FilterLine)]
    region = next(part.region for part in parts if part.region)
    return [
        line[region.x : region.right].rstrip() for line in seen.lines()[region.y : region.bottom]
    ]


# Keys, and what is written after them.
QUESTIONS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "pause": (("p",), "tomorrow 09:00", "in 18h"),
    "move": (("m",), "in 20 parsecs", "✗ "),
    "remove": (("d",), "", "the history stays"),
    "remove-marked": (("asterisk", "d"), "", "to remove them"),
    "backfill": (("b",), "2026-11-01", "Backfill"),
    "filter": (("3", "slash"), "status:failed,interrupted", "matches"),
    "filter-wrong": (("slash",), "stat:x", "✗ "),
    "palette": (("colon",), "", "ACTION"),
    "palette-backup": (("colon",), "back", "verify-backup"),
    "help": (("question_mark",), "", "Move"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_is_asked_is_seen_as_a_whole(scene: Scene, name: str) -> None:
    keys, text, awaited = QUESTIONS[name]

    async def story(seen: Seen) -> None:
        await seen.press(*keys)
        if text:
            await seen.paste(text)
        await seen.until(lambda: awaited in seen.text())
        await seen.settle()
        await check_sizes(seen, name, SMALL, LARGE, lines=shown)

    watch(story, scene.path, scene.clock, size=SMALL)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("p", ("until", "until you resume it", "⏎ pause", "esc go back")),
        ("m", ("next", "to  ", "⏎ move")),
        ("b", ("from", "to  ", "⏎ queue runs")),
        ("d", ("Remove", "⏎ remove it", "esc keep it")),
        ("colon", ("ACTION", "KEYS")),
    ],
)
def test_the_smallest_screen_has_room_for_all_that_is_to_be_answered(
    scene: Scene, key: str, parts: tuple[str, ...]
) -> None:
    async def story(seen: Seen) -> None:
        seen.app.show_notice("said before", severity="warning")
        await seen.press(key)
        await seen.settle()

        assert [part for part in parts if part not in seen.text()] == []

    watch(story, scene.path, scene.clock, size=(40, 10))


def test_a_long_problem_is_shown_to_its_end(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("m")
        await seen.write("soonish")
        await seen.until(lambda: "or 'tomorrow 09:00')" in seen.text())

        assert "…" not in "\n".join(shown(seen))

    watch(story, scene.path, scene.clock, size=SMALL)


def test_before_a_running_run_is_ended_it_is_asked(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("3", "slash")
        await seen.write("status:running")
        await seen.until(lambda: "1 match\n" in seen.text())
        await seen.press("enter", "x")
        assert "Cancel run 1673 of backup-photos?" in seen.text()
        assert isinstance(seen.app.screen, Dialog)
        assert seen.app.screen.has_class("-danger")
        await seen.press("n")

        assert not isinstance(seen.app.screen, Dialog)

    watch(story, scene.path, scene.clock)

    with scene.client() as client:
        assert client.execution(1673).status is Status.RUNNING
        assert client.execution(1673).cancel_requested_at is None
