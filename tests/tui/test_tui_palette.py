"""The palette, help, and the line of keys: every action with its name and key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgecron.client import Client
from edgecron.formats.config import Config
from edgecron.formats.config_keys import ACTIONS
from edgecron.model.filters import rank_of
from edgecron.tui.app import Appearance
from edgecron.tui.keys import DEFAULT_LABELS, keys_of, labels_of
from edgecron.tui.palette import Item, find_items, help_lines
from edgecron.tui.status import footer_spans
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, watch


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(
        new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms()), clock=clock
    ) as client:
        client.add_all(
            [make_spec(name, "0 2 * * *") for name in ("backup", "night.report", "sync")]
        )
        yield client


# Ranks.


def test_the_nearer_a_text_is_the_less_its_rank() -> None:
    texts = ["report", "reporting", "night.report", "wireport", "r-e-port"]

    ranks = [rank_of(text, "REP") for text in texts]

    assert None not in ranks
    assert ranks == sorted(ranks, key=lambda rank: rank or 0)
    assert rank_of("per", "rep") is None


def test_actions_come_before_schedules_that_are_as_near() -> None:
    assert find_items(["resume", "run"], ["resume-vm", "run"], "r") == [
        *(Item("run"), Item("open", "run"), Item("resume"), Item("open", "resume-vm")),
    ]


# The palette.


@pytest.mark.parametrize("key", ["ctrl+p", "colon"])
def test_the_palette_lists_actions_with_their_keys(
    client: Client, clock: FakeClock, key: str
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("1")
        await seen.press(key)

        lines = seen.text()
        assert "pause           pause a schedule, with or without an end" in lines
        assert any(line.split()[-3:-1] == ["now", "r"] for line in seen.lines() if "run " in line)

    watch(story, client.path, clock)


def test_an_action_is_done_by_its_name_where_one_was_before(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("j", "colon")
        await seen.write("pau")
        await seen.press("enter")

        assert "Pause night.report" in seen.text()

    watch(story, client.path, clock)


def test_the_palette_goes_to_a_schedule_by_some_of_its_letters(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("3", "colon")
        await seen.write("nrep")
        await seen.until(lambda: "go to schedule  night.report" in seen.text())
        await seen.press("enter")
        assert "night.report" in seen.lines()[0], "all about it is shown"
        await seen.press("escape", "r")

        assert "run 1 of night.report: queued" in seen.told(), "and the list is at it"

    watch(story, client.path, clock)


def test_to_go_to_a_schedule_can_be_written_out(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("colon")
        await seen.write("go to")
        await seen.until(lambda: "sync" in seen.text().split("ACTION")[1].split("╰")[0])
        await seen.write(" schedule syn")
        await seen.until(lambda: "backup" not in seen.text().split("ACTION")[1].split("╰")[0])
        await seen.press("enter", "r")

        assert "run 1 of sync: queued" in seen.told()

    watch(story, client.path, clock)


def test_what_nothing_is_called_like_is_said_and_enter_does_nothing(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("1")
        await seen.press("colon")
        await seen.write("xyzzy")
        await seen.press("enter")
        assert "no match" in seen.text()
        await seen.press("escape")

        assert "SCHEDULE ▴" in seen.text()

    watch(story, client.path, clock)


# Help.


@pytest.mark.parametrize("key", ["question_mark", "f1"])
def test_help_is_scrolled_and_closed(client: Client, clock: FakeClock, key: str) -> None:
    async def story(seen: Seen) -> None:
        await seen.press(key)
        assert "move up one line" in seen.text()
        await seen.press("G")
        assert "Filters" in seen.text()
        assert "move up one line" not in seen.text()
        await seen.press("g")
        assert "move up one line" in seen.text()
        for leave in ("q", "escape", "question_mark"):
            await seen.press(leave)
            assert "move up one line" not in seen.text()
            await seen.press(key)

    watch(story, client.path, clock, size=(80, 24))


def test_help_explains_every_action_once() -> None:
    shown = help_lines(DEFAULT_LABELS, known=("run",))
    lines = ["".join(text for text, _ in line) for line in shown]

    for action in ACTIONS.values():
        assert len([line for line in lines if line.endswith(f"  {action.help}")]) == 1
    assert any(line.startswith(" ^p  :  ") for line in lines)
    assert max(len(line) for line in lines) <= 73, "on 80 columns nothing is cut"
    styles = {line[-1][0]: line[-1][1] for line in shown if line}
    assert (styles[ACTIONS["run"].help], styles[ACTIONS["wrap"].help]) == ("", "dim")


# Keys of the configuration.


def config_of(**keys: str) -> Config:
    return Config(
        (), environ={f"EDGECRON_DASHBOARD_KEYS_{name.upper()}": key for name, key in keys.items()}
    )


def test_keys_of_the_configuration_take_the_place_of_the_others(
    client: Client, clock: FakeClock
) -> None:
    config = config_of(run="R", sort="none", palette="f5", back="f8")

    async def story(seen: Seen) -> None:
        await seen.press("1")
        await seen.press("r", "s")
        assert seen.told() == ""
        assert "SCHEDULE ▴" in seen.text()
        assert "R run now" in seen.lines()[-1]
        assert "sort" not in seen.lines()[-1]
        assert "f5 all actions" in seen.lines()[-1]
        for leave in ("f8", "escape"):
            await seen.press("p")
            assert "Pause backup" in seen.text()
            await seen.press(leave)
            assert "Pause backup" not in seen.text()
        await seen.press("R")
        assert "run 1 of backup: queued" in seen.told()

        await seen.press("question_mark")
        assert "R   " in next(line for line in seen.lines() if "run now" in line)
        await seen.press("escape", "f5")
        await seen.write("sort")
        await seen.press("enter")
        assert "WHEN ▴" in seen.text(), "what has no key is still in the palette"

    watch(
        story,
        client.path,
        clock,
        size=(120, 60),
        appearance=Appearance(keys=keys_of(config), labels=labels_of(config)),
    )


# The line of keys.


@pytest.mark.parametrize("width", range(20, 121, 7))
def test_the_line_of_keys_leaves_out_whole_entries_and_keeps_help(width: int) -> None:
    spans = footer_spans("schedules", labels=DEFAULT_LABELS, width=width)

    text = "".join(text for text, _ in spans).rstrip()
    assert len(text) <= width
    assert text.endswith("? keys")
    entries = text.split("   ")
    whole = "".join(
        text for text, _ in footer_spans("schedules", labels=DEFAULT_LABELS, width=500)
    ).split("   ")
    assert all(entry.strip() in [one.strip() for one in whole] for entry in entries)


def test_a_click_on_a_key_does_what_it_says(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("1")
        at = seen.lines()[-1].index("pause")
        await seen.click("#keys", at, 0)

        assert "Pause backup" in seen.text()
        row = next(y for y, line in enumerate(seen.lines()) if "go back" in line)
        await seen.click(None, seen.lines()[row].index("go back"), row)
        assert "Pause backup" not in seen.text()

    watch(story, client.path, clock)


def test_a_theme_is_chosen_while_the_dashboard_runs(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("T", "k")
        assert seen.app.theme == "dracula"  # It is shown before it is chosen.
        await seen.press("escape")
        assert seen.app.theme == "edgecron-dark"
        await seen.press("T", "j", "enter")
        assert seen.app.theme == "edgecron-light"
        assert "theme = 'edgecron-light'" in seen.told()

    watch(story, client.path, clock)


@pytest.mark.parametrize("keys", [("enter",), ("e",), ("3", "enter"), ("2",)])
def test_every_screen_has_the_status_line(
    client: Client, clock: FakeClock, keys: tuple[str, ...]
) -> None:
    client.run_now("backup")

    async def story(seen: Seen) -> None:
        await seen.press(*keys)
        assert seen.lines()[-2].startswith(" ✗ no engine")

    watch(story, client.path, clock, size=(80, 24))
