"""The dashboard on a screen of a test: keys are pressed, and what it shows is read."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from rich.cells import cell_len
from textual.app import App
from textual.pilot import Pilot

import edgecron.tui.app
from edgecron.base.clock import Clock
from edgecron.client import Client
from edgecron.tui.app import Dashboard

ZONE = ZoneInfo("Europe/Berlin")
_BOUND_S = 60.0  # what costs much is asked seldom: on a busy machine not twice in 20 s
_LOOK_S = 0.02
_REST_S = 0.1
_ROUNDS = 8  # an answer can be followed by another question; clocks that tick never end
# A piece of a line in a picture of the screen: where it begins, its row and its text.
_PIECE = re.compile(r'<text [^>]*\bx="([\d.]+)" [^>]*-line-(\d+)\)">(.*?)</text>', re.DOTALL)
_LETTER_WIDTH = 12.2  # in that picture


def read_lines(app: App[Any]) -> list[str]:
    """What a screen shows, without blanks at the ends of its lines."""
    lines = [""] * app.size.height
    for x, row, text in _PIECE.findall(app.export_screenshot()):
        line = lines[int(row)]
        gap = round(float(x) / _LETTER_WIDTH) - cell_len(line)
        lines[int(row)] = line + " " * gap + html.unescape(text).replace("\xa0", " ")
    return [line.rstrip() for line in lines]


class Seen:
    """The dashboard as somebody sees it."""

    def __init__(self, app: CountingDashboard, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys, and wait for what becomes of each."""
        for key in keys:
            await self.pilot.press(key)
            await self.settle()

    async def write(self, text: str) -> None:
        """Press the keys of a text, as fast as they are taken."""
        await self.pilot.press(*("space" if letter == " " else letter for letter in text))
        await self.settle()

    async def resize(self, size: tuple[int, int]) -> None:
        """Change the size of the terminal."""
        await self.pilot.resize_terminal(*size)
        await self.settle()

    async def settle(self) -> None:
        """Wait until the dashboard has every answer that it asked for, and shows it."""
        for _ in range(_ROUNDS):
            asked = self.app.asked
            for ask in (self._ask_reader, self._ask_doer):
                answered = asyncio.Event()
                ask(answered.set)
                await asyncio.wait_for(answered.wait(), _BOUND_S)
            # An answer can be followed by another question.
            await self.pilot.pause(0)
            if self.app.asked == asked + 2:
                # Details of a line are read once the cursor has rested on it.
                await asyncio.sleep(_REST_S)
                await self.pilot.pause(0)
                if self.app.asked == asked + 2:
                    break

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so that others bring about, bounded."""

        async def wait() -> None:
            while not is_so():
                await self.pilot.pause(_LOOK_S)

        try:
            await asyncio.wait_for(wait(), _BOUND_S)
        except TimeoutError:
            raise AssertionError(f"not so: {self.told()}\n{self.text()}") from None

    async def click(self, selector: str | None, x: int, y: int) -> None:
        """Click on a place of a part of the screen, or of all of it."""
        await self.pilot.click(selector, offset=(x, y))
        await self.settle()

    def _ask_reader(self, told: Callable[[], None]) -> None:
        self.app.ask("test", lambda client: None, lambda _: told())

    def _ask_doer(self, told: Callable[[], None]) -> None:
        self.app.do("test", lambda client: None, done=lambda _: told(), refused=lambda _: told())

    def lines(self) -> list[str]:
        """What the screen shows, without blanks at the ends of its lines."""
        return read_lines(self.app)

    def text(self) -> str:
        """The same as one text."""
        return "\n".join(self.lines())

    def told(self) -> str:
        """What was said last of something that was done."""
        return "\n".join(self.app.notices)


class CountingDashboard(Dashboard):
    """A dashboard that counts its questions.

    Its notices stay until the end: on a busy machine a test reads them late.
    """

    CSS_PATH = str(Path(edgecron.tui.app.__file__).with_name("dashboard.tcss"))
    asked = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.notices: list[str] = []

    def ask(self, topic: str, *arguments: Any, **options: Any) -> None:
        self.asked += 1
        super().ask(topic, *arguments, **options)

    def do(self, topic: str, *arguments: Any, **options: Any) -> None:
        self.asked += 1
        super().do(topic, *arguments, **options)

    def notify(self, message: str, **options: Any) -> None:
        self.notices.append(message)
        super().notify(message, **{**options, "timeout": 3600})

    def clear_notifications(self) -> None:
        self.notices.clear()
        super().clear_notifications()


@asynccontextmanager
async def on_screen(
    database: Path,
    clock: Clock,
    *,
    size: tuple[int, int] = (100, 30),
    is_readable: bool = True,
    busy_wait_s: float = 30.0,
    **options: Any,
) -> AsyncIterator[Seen]:
    """The dashboard of a database; `is_readable`: it can be read from the beginning."""
    app = CountingDashboard(
        lambda: Client(database, clock=clock, must_exist=True, busy_wait_s=busy_wait_s),
        clock=clock,
        zone=ZONE,
        **options,
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        seen = Seen(app, pilot)
        if is_readable:
            await seen.settle()
        yield seen


def watch(
    story: Callable[[Seen], Awaitable[None]],
    database: Path,
    clock: Clock,
    **options: Any,
) -> None:
    """Run a story on a screen."""

    async def run() -> None:
        async with on_screen(database, clock, **options) as seen:
            await story(seen)

    asyncio.run(run())
