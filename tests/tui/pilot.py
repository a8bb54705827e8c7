"""The dashboard on a screen of a test: keys are pressed, and what it shows is read."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar
from unittest.mock import patch
from zoneinfo import ZoneInfo

from rich.console import Console
from textual import events
from textual.app import App
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.css.tokenize import tokenize_values
from textual.pilot import Pilot

import edgecron.tui.app
from edgecron.base.clock import Clock
from edgecron.client import Client
from edgecron.tui.app import Dashboard
from tests.support.scene import Scene

T = TypeVar("T")

ZONE = ZoneInfo("Europe/Berlin")
_BOUND_S = 60.0  # what costs much is asked seldom: on a busy machine not twice in 20 s
_LOOK_S = 0.25  # so often is_so() is asked where nothing happens in the event loop
_DRAWN_S = 0.02  # shorter pauses are not skipped: Textual counts frames by a clock of its own
_RESTED_S = 0.15  # a filter is read 0.12 s after its last letter, details of a line after 0.08 s
_RENDER = resolve_name("textual.screen:Compositor").render_update
_PARSED: dict[tuple[Any, ...], list[RuleSet]] = {}
_ROUNDS = 8  # an answer can be followed by another question; clocks that tick never end


class _IdleSelector(selectors.DefaultSelector):
    """The selector of an event loop, which knows when the loop has nothing to do.

    A loop asks with a timeout of 0 if something is ready to run, else until its next timer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rested: asyncio.Future[None] | None = None
        self.stirred: asyncio.Future[None] | None = None
        self.near_s = 0.0
        self.skipped_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self.stirred is not None and not self.stirred.done():
            found = super().select(_LOOK_S if timeout is None else min(timeout, _LOOK_S))
            self.stirred.set_result(None)
            return found
        if self.rested is None or self.rested.done():
            return super().select(timeout)
        found = super().select(0)
        if found:
            return found
        if timeout is None or timeout > self.near_s:
            self.rested.set_result(None)
        elif timeout <= _DRAWN_S:
            return super().select(timeout)
        else:
            self.skipped_s += timeout
        return []


class RestingLoop(asyncio.SelectorEventLoop):
    """An event loop that tells a test when nothing is left to do.

    So no test guesses how long a machine takes, and none waits longer than that. What is left to do
    after a pause is done without the pause: by this loop's time it has passed.
    """

    def __init__(self) -> None:
        self._idle = _IdleSelector()
        super().__init__(self._idle)

    def time(self) -> float:
        return super().time() + self._idle.skipped_s

    async def rest(self, near_s: float = 0.0) -> None:
        """Wait until nothing is ready to run, and no timer ends within so many seconds."""
        self._idle.near_s = near_s
        self._idle.rested = self.create_future()
        await self._idle.rested

    async def stir(self) -> None:
        """Wait until something happens after a rest, or for a moment."""
        self._idle.stirred = self.create_future()
        await self._idle.stirred


def run(story: Coroutine[Any, Any, T]) -> T:
    """Run a story with the dashboard, on a loop that knows when it rests."""
    with asyncio.Runner(loop_factory=RestingLoop) as runner:
        return runner.run(story)


async def rest(near_s: float = 0.0) -> None:
    """Wait until the running loop rests."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, RestingLoop)
    await loop.rest(near_s)


def read_lines(app: App[Any]) -> list[str]:
    """What a screen shows, without blanks at the ends of its lines."""
    # Textual draws on a console of rich, whose text is made in a tenth of the time of its picture.
    with patch.object(Console, "export_svg", lambda self, **_: self.export_text()):
        return [line.rstrip() for line in app.export_screenshot().splitlines()]


@contextmanager
def _hurried() -> Iterator[None]:
    """Have Textual do for a test what is needed for it, once.

    It lays screens out but draws nothing on them, unless a test reads one: to draw takes longer
    than all else that follows a key. After a key it would sleep until the process rests; the loop
    knows when that is. Each application would parse the same rules of style.
    """
    with (
        patch("textual.screen.Compositor.render_update", _render_screenshot),
        patch("textual.app.wait_for_idle", rest),
        patch("textual.pilot.wait_for_idle", rest),
        patch("textual.css.stylesheet.tokenize_values", lambda all: _tokenize(*all.items())),
        patch("textual.css.stylesheet.parse", _parse),
    ):
        yield


def _render_screenshot(compositor: Any, *, full: bool = False, **options: Any) -> Any:
    return _RENDER(compositor, full=True, **options) if full else None


@cache
def _tokenize(*variables: tuple[str, str]) -> Any:
    return tokenize_values(dict(variables))


def _parse(
    scope: str, css: str, read_from: Any, *, variable_tokens: Any, **options: Any
) -> list[RuleSet]:
    # `_tokenize` keeps the tokens, so that no others get their number.
    key = (scope, css, read_from, id(variable_tokens), *options.items())
    if key not in _PARSED:
        rules = parse(scope, css, read_from, variable_tokens=variable_tokens, **options)
        _PARSED[key] = list(rules)
    return _PARSED[key]


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

    async def paste(self, text: str) -> None:
        """Paste a text, all of which comes at once on a busy machine, too."""
        self.app.post_message(events.Paste(text))
        await self.pilot.pause()
        await self.settle()

    async def resize(self, size: tuple[int, int]) -> None:
        """Change the size of the terminal."""
        await self.pilot.resize_terminal(*size)
        await self.settle()

    async def settle(self) -> None:
        """Wait until the dashboard has every answer that it asked for, and shows it."""
        for _ in range(_ROUNDS):
            asked = self.app.asked
            # The reader last: it sees what the doer has written.
            for ask in (self._ask_doer, self._ask_reader):
                answered = asyncio.Event()
                ask(answered.set)
                await asyncio.wait_for(answered.wait(), _BOUND_S)
            # An answer can be followed by another question.
            await rest(_RESTED_S)
            if self.app.asked == asked + 2:
                break

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so that others bring about, bounded."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, RestingLoop)

        async def wait() -> None:
            await loop.rest()
            while not is_so():
                await loop.stir()
                await loop.rest()

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
    with _hurried():
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

    async def show() -> None:
        async with on_screen(database, clock, **options) as seen:
            await story(seen)

    run(show())


def look_at(scene: Scene, story: Callable[[Seen], Awaitable[None]], **options: Any) -> None:
    """Run a story on a screen that shows a scene."""
    watch(story, scene.path, scene.clock, **options)
