"""The screen of one schedule."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from edgecron.formats.config import Config
from edgecron.model.choices import Overlap
from edgecron.model.options import Policies
from edgecron.model.schedule import ScheduleSpec
from edgecron.tui.app import Appearance
from edgecron.tui.keys import keys_of, labels_of
from edgecron.tui.list_view import LineView
from edgecron.tui.run_screen import RunScreen
from edgecron.tui.schedule_screen import ScheduleScreen
from tests.support.scene import NOW, Scene
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, watch
from tests.tui.snapshots import check_sizes

SMALL, LARGE = (80, 24), (160, 48)
HOSTILE = "\x1b]52;c;eA==\x07 [red]\u202ebold[/] \x9b2J"


def look_at(
    scene: Scene,
    name: str,
    story: Callable[[Seen], Awaitable[None]],
    *,
    size: tuple[int, int] = SMALL,
    **options: Any,
) -> None:
    """Run a story on the screen of a schedule."""

    async def opened(seen: Seen) -> None:
        seen.app.push_screen(ScheduleScreen(name))
        await seen.settle()
        await story(seen)

    watch(opened, scene.path, scene.clock, size=size, **options)


def text_of(scene: Scene, name: str, *, size: tuple[int, int] = (240, 60)) -> str:
    """What the screen of a schedule shows where there is much room."""
    found: list[str] = []

    async def story(seen: Seen) -> None:
        found.append(seen.text())

    look_at(scene, name, story, size=size)
    return found[0]


@pytest.mark.parametrize("name", ["backup-home", "prune-snapshots", "picture-of-day"])
def test_it_looks_as_it_was_drawn(scene: Scene, name: str) -> None:
    async def story(seen: Seen) -> None:
        await check_sizes(seen, f"schedule-{name}", SMALL, LARGE)

    look_at(scene, name, story)


def test_all_fields_are_shown_on_request(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        assert "and 18 more" in seen.text()
        await seen.press("f")
        assert "treat these exit codes as a success" in seen.text()
        assert "and 18 more" not in seen.text()
        await seen.press("f")
        assert "and 18 more" in seen.text()

    look_at(scene, "backup-home", story, size=(160, 80))


def test_headings_name_the_configured_keys(scene: Scene) -> None:
    environ = {
        "EDGECRON_DASHBOARD_KEYS_FIELDS": "f6",
        "EDGECRON_DASHBOARD_KEYS_CHANGES": "none",
    }
    config = Config((), environ=environ)

    async def story(seen: Seen) -> None:
        assert "f6 all fields" in seen.text()
        assert re.search(r"Changes ─* all", seen.text())
        await seen.press("f6")
        assert "f6 main fields" in seen.text()

    look_at(
        scene,
        "backup-home",
        story,
        size=(160, 80),
        appearance=Appearance(keys=keys_of(config), labels=labels_of(config)),
    )


def test_enter_opens_it_from_the_list_and_escape_goes_back(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("j", "enter")
        assert isinstance(seen.app.screen, ScheduleScreen)
        assert seen.app.screen.schedule_name == "backup-photos"
        await seen.press("escape")
        assert not isinstance(seen.app.screen, ScheduleScreen)
        await seen.press("2", "enter")
        assert isinstance(seen.app.screen, ScheduleScreen)
        assert seen.app.screen.schedule_name == "poll-inverter"

    watch(story, scene.path, scene.clock, size=LARGE)


def test_where_all_is_one_column_keys_scroll_to_the_runs_and_back(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        assert " Next runs " in seen.text()
        assert "interrupted" not in seen.text()
        await seen.press("G")
        assert "interrupted" in seen.text()
        await seen.press("j", "j")
        [history] = seen.app.screen.query("#history").results(LineView)
        assert (history.has_focus, history.cursor) == (True, 1)
        await seen.press("k", "k")
        assert not history.has_focus
        await seen.press("g")
        assert " Next runs " in seen.text()

    look_at(scene, "backup-home", story)


def test_enter_on_a_run_opens_it(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("j", "enter")
        assert isinstance(seen.app.screen, RunScreen)
        assert "440" in seen.lines()[0]
        await seen.press("escape")
        assert isinstance(seen.app.screen, ScheduleScreen)

    look_at(scene, "backup-home", story, size=LARGE)


def test_what_others_change_is_shown_at_once(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        with scene.client() as other:
            other.pause("backup-home")
        seen.app.post_changed()
        await seen.settle()
        assert "‖ paused" in seen.lines()[0]
        assert "none: paused; resume it: edgecron resume backup-home" in seen.text()

    look_at(scene, "backup-home", story)


def test_a_schedule_is_followed_when_it_gets_another_name(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        with scene.client() as other:
            other.edit("weather", lambda spec: replace(spec, name="forecast"))
            other.add(make_spec("weather", "@yearly"))
        seen.app.post_changed()
        await seen.settle()
        assert "forecast" in seen.lines()[0]
        assert "every 30m" in seen.text()

    look_at(scene, "weather", story)


def test_a_schedule_that_is_removed_is_said_to_be_gone(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        with scene.client() as other:
            other.remove("weather")
        seen.app.post_changed()
        await seen.settle()
        assert "there is no schedule 'weather': it was removed" in seen.text()
        assert "Next runs" not in seen.text()

    look_at(scene, "weather", story)


def test_why_nothing_is_to_come_is_said(scene: Scene) -> None:
    assert "none: its triggers have no more times" in text_of(scene, "switch-tariff")
    assert "when the machine boots" in text_of(scene, "warm-cache")
    assert "after backup-home (next Nov 21 02:00, in 11h 28m)" in text_of(scene, "verify-backup")


def test_a_broken_schedule_says_what_is_wrong(scene: Scene) -> None:
    shown = text_of(scene, "picture-of-day")

    assert "✗ broken" in shown
    assert "US/Pacific-New" in shown


def test_the_end_of_a_pause_and_what_it_leaves_out_is_said(scene: Scene) -> None:
    with scene.client() as client:
        client.pause("speedtest", until=NOW + timedelta(hours=3))

    shown = text_of(scene, "speedtest")

    assert "until 2026-11-20 17:32:10; it skips 3 times" in shown
    assert "in 3h 36m   Fri 2026-11-20 18:07:54" in shown


def test_what_a_clock_change_does_is_noted(scene: Scene) -> None:
    with scene.client() as client:
        client.add(make_spec("twice", "30 2 * 3 SUN", timezone="Europe/Berlin"))

    shown = text_of(scene, "twice")

    assert "! clocks" in shown
    assert "2027-03-28: clocks go forward" in shown


def test_several_triggers_are_told_apart(scene: Scene) -> None:
    with scene.client() as client:
        client.add(make_spec("both", "0 9 * * *", "every 12h"))

    shown = text_of(scene, "both")

    assert "0 9 * * *   at 09:00 every day (UTC)" in shown
    assert "every 12h   every 12 hours" in shown
    assert "Sat 2026-11-21 09:00:00 UTC, 10:00:00 here  0 9 * * *" in shown


def test_what_differs_from_the_defaults_comes_first(scene: Scene) -> None:
    policies = Policies(timeout_s=90, overlap=Overlap.QUEUE, retries=3)
    with scene.client() as client:
        client.add(replace(make_spec("tuned"), policies=policies))

    shown = text_of(scene, "tuned").splitlines()

    at = next(number for number, line in enumerate(shown) if " Policies " in line)
    labels = [line[:16].strip() for line in shown[at + 1 : at + 5]]
    assert labels == ["overlap", "timeout", "retries", "defaults"]


@pytest.mark.failure(72)
def test_hostile_text_of_a_schedule_does_no_harm(scene: Scene) -> None:
    spec: ScheduleSpec = make_spec("evil")
    job = replace(spec.job, argv=("echo", HOSTILE), cwd=f"/tmp/{HOSTILE}", env={"A": HOSTILE})
    with scene.client() as client:
        client.add(replace(spec, job=job))

    shown = text_of(scene, "evil")

    assert "\\x1b]52;c;eA==\\x07 [red]\\u202ebold[/] \\x9b2J" in shown
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(shown)


def test_excluded_times_are_shown_beside_the_next_runs(scene: Scene, tmp_path: Path) -> None:
    calendar = tmp_path / "vacation.ics"
    days = "".join(
        f"BEGIN:VEVENT\r\nUID:{day}\r\nDTSTART;VALUE=DATE:{day}\r\nEND:VEVENT\r\n"
        for day in ("20261122", "20261123")
    )
    calendar.write_text(f"BEGIN:VCALENDAR\r\n{days}END:VCALENDAR\r\n")
    policies = Policies(between=("08:00-20:00",), except_days=(str(calendar),))
    with scene.client() as client:
        spec = make_spec("closed", "0 12,22 * * *", timezone="UTC")
        client.add(replace(spec, policies=policies))

    text = text_of(scene, "closed")

    assert "vacation.ics" in "".join(text.split())  # its path can be folded
    assert " = 2026-11-22" not in text
    assert "5 times until 2026-11-23 22:00:00" in text
    labels = [line for line in text.splitlines() if "excluded   " in line]
    assert len(labels) == 1 < text.count(" 22:00:00")


def test_the_output_of_the_run_under_the_cursor_is_below_the_runs(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("1", "enter")
        assert "run 975" in seen.text()
        assert "snapshot 1de3a0a0 saved" in seen.text()
        await seen.press("j", "j", "j", "j")
        await seen.settle()
        assert "run 70 " in seen.text()
        assert "snapshot 1de3a0a0 saved" not in seen.text()
        await seen.press("o")
        assert "o hide" not in seen.text()

    watch(story, scene.path, scene.clock, size=(160, 48))


def test_the_runs_of_a_schedule_are_sorted_by_each_column(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        screen = seen.app.screen
        assert isinstance(screen, ScheduleScreen)

        def durations() -> list[int]:
            assert screen.history is not None
            runs = [screen.history.execution(key) for key in keys()]
            return [run.duration_ms for run in runs if run is not None and run.duration_ms]

        def keys() -> list[int]:
            assert screen.history is not None
            lines = [screen.history.line(at) for at in range(screen.history.count)]
            return [line.key for line in lines if line is not None]

        newest = keys()
        await seen.press("s")
        assert "DURATION▾" in seen.text()
        assert durations() == sorted(durations(), reverse=True)
        await seen.press("I")
        assert "DURATION▴" in seen.text()
        assert durations() == sorted(durations())
        await seen.press(*"ssss")
        assert keys() == newest
        await seen.press("I")
        assert keys() == newest[::-1]

    look_at(scene, "backup-home", story, size=LARGE)
