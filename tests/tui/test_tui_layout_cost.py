"""How often a screen is laid out."""

from __future__ import annotations

import asyncio

from textual.app import App, ComposeResult

from edgecron.tui.queries import QueryScreen
from edgecron.tui.text_line import LineInput


class Sized(QueryScreen[None]):
    """A screen that notes the classes that it has when its widgets are there."""

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (40, "-wide")]
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-tall")]
        self.first_classes: frozenset[str] = frozenset()

    def compose(self) -> ComposeResult:
        yield LineInput()

    def on_mount(self) -> None:
        self.first_classes = self.classes


def test_a_screen_has_the_classes_of_its_size_before_it_is_laid_out() -> None:
    async def run() -> None:
        screen = Sized()
        async with App[None]().run_test(size=(40, 19)) as pilot:
            await pilot.app.push_screen(screen)
            assert screen.first_classes >= {"-wide", "-low"}
            await pilot.resize_terminal(39, 20)
            await pilot.pause()
            assert screen.classes >= {"-narrow", "-tall"}
            assert not screen.classes & {"-wide", "-low"}

    asyncio.run(run())


def test_a_typed_letter_does_not_lay_out_the_screen_again() -> None:
    laid_out: list[object] = []

    async def run() -> None:
        screen = Sized()
        async with App[None]().run_test() as pilot:
            await pilot.app.push_screen(screen)
            await pilot.pause()
            screen.screen_layout_refresh_signal.subscribe(screen, laid_out.append, immediate=True)
            await pilot.press("a", "b")
            assert screen.query_one(LineInput).value == "ab"

    asyncio.run(run())

    assert laid_out == []
