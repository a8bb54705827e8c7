"""Lists of any length: how columns share the width, and what keys do to the cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.strip import Strip

from edgecron.tui.early_keys import TypedAheadApp
from edgecron.tui.list_rows import GAP, Column, Line, Source, share_out
from edgecron.tui.list_view import LineView
from edgecron.tui.text_line import first_of, last_of
from tests.tui.pilot import read_lines

NAME = Column("NAME", 10, 20, share=1)
COLUMNS = (Column("", 1, 1), NAME, Column("WHEN", 8, 12, drop=2), Column("NOTE", 6, 30, drop=1))


class Letters(Source):
    """A source of many lines, which were all read."""

    def __init__(self, keys: Sequence[int]) -> None:
        self.keys: list[int] = list(keys)
        self.wanted: list[tuple[int, int]] = []

    def line(self, index: int) -> Line | None:
        key = self.keys[index]
        return Line(key=key, cells=((("●", "good"),), ((f"line {key}", ""),), (), ()))

    def want(self, first: int, last: int) -> None:
        self.wanted.append((first, last))


class Shown(TypedAheadApp):
    CSS = "LineView { height: 1fr; }"

    def __init__(self, source: Letters) -> None:
        super().__init__()
        self.view = LineView(source, COLUMNS, id="letters", empty="nothing")
        self.seen: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.source_changed()


def press(source: Letters, *keys: str) -> Shown:
    """A list of ten lines on the screen, after some keys."""
    app = Shown(source)

    async def story() -> None:
        async with app.run_test(size=(60, 11)) as pilot:
            await pilot.press(*keys)
            await pilot.pause()
            app.seen = [
                "".join(segment.text for segment in app.view.render_line(y)).rstrip()
                for y in range(11)
            ]

    asyncio.run(story())
    return app


def test_columns_grow_up_to_what_they_can_use_and_then_share_the_rest() -> None:
    widths = share_out(COLUMNS, 100)

    assert widths == [1, 100 - 1 - 12 - 30 - 3 * GAP, 12, 30]


def test_the_column_that_matters_least_is_left_out_first() -> None:
    assert share_out(COLUMNS, 30)[2] == 0
    assert share_out(COLUMNS, 30)[3] > 0
    assert share_out(COLUMNS, 14)[2:] == [0, 0]


@given(st.integers(1, 300))
def test_columns_never_take_more_than_there_is_unless_the_last_ones_need_it(width: int) -> None:
    widths = share_out(COLUMNS, width)
    shown = [size for size in widths if size]

    used = sum(shown) + GAP * (len(shown) - 1)

    assert used <= max(width, 1 + GAP + NAME.least)
    assert widths[1] >= NAME.least


def test_spans_that_do_not_fit_show_that_they_go_on() -> None:
    assert first_of([("abc", "x"), ("defgh", "y")], 6) == [("abc", "x"), ("de…", "y")]


def test_of_bars_the_newest_are_kept() -> None:
    assert last_of([("abc", "x"), ("def", "y")], 4) == [("c", "x"), ("def", "y")]


def test_keys_move_the_cursor_and_the_window_follows() -> None:
    source = Letters(range(1000))

    app = press(source, "G")

    assert app.view.cursor == 999
    assert app.seen[-1].split() == ["●", "line", "999"]
    assert source.wanted[-1][0] == 1000 - 10


def test_a_page_is_what_fits_beside_the_heading() -> None:
    assert press(Letters(range(50)), "ctrl+f", "j").view.cursor == 10 + 1
    assert press(Letters(range(50)), "ctrl+f", "k", "g").view.cursor == 0


def test_the_cursor_stays_on_its_line_when_others_come_before_it() -> None:
    source = Letters(range(50))
    app = Shown(source)

    async def story() -> tuple[int, int, int, int]:
        async with app.run_test(size=(60, 11)) as pilot:
            await pilot.press("ctrl+f", "ctrl+f")
            before = app.view.cursor - app.view.scroll_offset.y
            source.keys[:0] = [900, 901, 902]
            app.view.source_changed()
            await pilot.pause()
            after = app.view.cursor - app.view.scroll_offset.y
            return app.view.cursor, source.keys[app.view.cursor], before, after

    cursor, key, before, after = asyncio.run(story())

    assert (cursor, key) == (23, 20)
    assert before == after  # nothing jumps on the screen


def test_on_the_first_line_the_cursor_stays_on_the_newest() -> None:
    source = Letters(range(5))
    app = Shown(source)

    async def story() -> int:
        async with app.run_test(size=(60, 11)) as pilot:
            source.keys[:0] = [900]
            app.view.source_changed()
            await pilot.pause()
            line = app.view.current()
            return -1 if line is None else line.key

    assert asyncio.run(story()) == 900


def test_marked_lines_are_what_is_chosen() -> None:
    assert press(Letters(range(5)), "space", "j", "space").view.target_keys() == [0, 2]
    assert press(Letters(range(5)), "j").view.target_keys() == [1]
    assert press(Letters(range(5)), "*").view.target_keys() == [0, 1, 2, 3, 4]
    assert press(Letters(range(5)), "*", "*").view.target_keys() == [0]


def test_of_a_list_that_has_not_been_read_yet_nothing_is_said() -> None:
    view = LineView(Letters(()), COLUMNS, id="letters", empty="nothing")

    async def story() -> str:
        class Unread(App[None]):
            def compose(self) -> ComposeResult:
                yield view

        async with Unread().run_test(size=(60, 11)):
            return view.render_line(1).text.strip()

    assert asyncio.run(story()) == ""


def test_an_empty_list_says_so_and_no_key_does_harm() -> None:
    app = press(Letters(()), "j", "G", "enter", "space", "ctrl+f")

    assert app.seen[1].strip() == "nothing"
    assert app.view.cursor == 0


class Million(Letters):
    """A source of a million lines, which says which of them were made."""

    def __init__(self) -> None:
        super().__init__(())
        self.made: list[int] = []
        self.words = "line"

    @property
    def count(self) -> int:
        return 1_000_000

    def line(self, index: int) -> Line | None:
        self.made.append(index)
        return Line(key=index, cells=((), ((f"{self.words} {index}", ""),), (), ()))

    def index_of(self, key: int) -> int | None:
        return key


def test_of_a_million_lines_those_that_are_seen_are_made() -> None:
    source = Million()

    press(source, "G", "g", "ctrl+f", "j")

    seen = {*range(21), *range(1_000_000 - 10, 1_000_000)}
    assert set(source.made) <= seen
    assert len(source.made) < 20 * len(seen)


def test_a_step_of_the_cursor_draws_two_lines() -> None:
    source = Million()
    app = Shown(source)

    async def story() -> list[int]:
        async with app.run_test(size=(60, 11)) as pilot:
            await pilot.press("j")
            await pilot.pause()
            source.made.clear()
            app.view.refresh_line(0)
            await pilot.press("j")
            await pilot.pause()
            return source.made

    assert set(asyncio.run(story())) <= {1, 2}


class Counting(LineView):
    """A list that notes the lines of the screen that it draws."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, COLUMNS, id="letters", empty="nothing")
        self.drew: set[int] = set()

    def render_line(self, y: int) -> Strip:
        self.drew.add(y)
        return super().render_line(y)


def test_a_step_that_scrolls_draws_the_lines_of_the_cursor_and_moves_the_others() -> None:
    app = Shown(Letters(range(50)))
    app.view = view = Counting(app.view.source)

    async def story() -> list[str]:
        async with app.run_test(size=(60, 11)) as pilot:
            await pilot.press("down", *["j"] * 8)
            await pilot.pause()
            view.drew.clear()
            await pilot.press("j")
            await pilot.pause()
            assert view.drew == {0, 9, 10}
            await pilot.press("ctrl+f", "ctrl+b", "k")
            await pilot.pause()
            return [line.split()[-1] for line in read_lines(app)[1:]]

    assert asyncio.run(story()) == [str(number) for number in range(9, 19)]


@pytest.mark.parametrize(
    ("keys", "drawn", "words"),
    [
        ([*range(40), *range(90, 100)], {0}, "line 0"),  # below the screen: only the heading
        ([*range(3), 90, *range(4, 50)], {0, 4}, "line 0"),
        ([0, 1], set(range(11)), "line 0"),  # the scrollbar changes, too
        ([], set(range(11)), "nothing"),
    ],
)
def test_a_change_draws_the_lines_that_it_changes(
    keys: list[int], drawn: set[int], words: str
) -> None:
    source = Letters(range(50))
    app = Shown(source)
    app.view = view = Counting(source)

    async def story() -> list[str]:
        async with app.run_test(size=(60, 11)) as pilot:
            await pilot.pause()
            view.drew.clear()
            source.keys = keys
            view.source_changed()
            await pilot.pause()
            assert view.drew == drawn
            return read_lines(app)

    lines = asyncio.run(story())
    assert words in lines[1]
    assert [line.split()[-1] for line in lines[2:] if line] == [str(n) for n in keys[1:10]]


def test_a_line_that_reads_otherwise_by_now_is_drawn_anew_wherever_the_list_stands() -> None:
    source = Million()
    app = Shown(source)

    async def story() -> list[str]:
        async with app.run_test(size=(60, 11)) as pilot:
            await pilot.press("G")
            await pilot.pause()
            source.words = "now"
            app.view.tick()
            await pilot.pause()
            return [line.strip() for line in read_lines(app)]

    assert asyncio.run(story())[1:] == [f"now {n}" for n in range(1_000_000 - 10, 1_000_000)]


@pytest.mark.parametrize("is_burst", [False, True])
def test_keys_for_the_end_of_a_list_wait_until_all_of_it_is_read(*, is_burst: bool) -> None:
    source = Letters(range(10))
    source.is_whole = False
    app = Shown(source)

    async def story() -> tuple[int, int]:
        async with app.run_test(size=(60, 11)) as pilot:
            if is_burst:
                for key in "jGk":
                    app.post_message(events.Key(key, key))
                await pilot.pause()
            else:
                await pilot.press(*"jGk")
            early = app.view.cursor
            source.keys, source.is_whole = list(range(100)), True
            app.view.source_changed()
            await pilot.pause()
            return early, app.view.cursor

    assert asyncio.run(story()) == (1, 98)


class Unread(Letters):
    """A hundred lines, of which the first ten are read."""

    read = range(10)

    def __init__(self) -> None:
        super().__init__(range(100))

    def line(self, index: int) -> Line | None:
        return super().line(index) if index in self.read else None


class Acting(Shown):
    """A list whose keys act on the line under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "run", id="run")]

    def __init__(self, source: Letters) -> None:
        super().__init__(source)
        self.done: list[tuple[str, list[int]]] = []

    def on_line_view_opened(self, message: LineView.Opened) -> None:
        assert message.line is not None
        self.done.append(("open", [message.line.key]))

    def action_run(self) -> None:
        self.done.append(("run", self.view.target_keys()))


@pytest.mark.parametrize(("key", "action"), [("enter", "open"), ("r", "run")])
def test_a_key_that_acts_waits_for_the_lines_of_a_new_filter(key: str, action: str) -> None:
    source = Letters(range(10))
    app = Acting(source)

    async def story() -> None:
        async with app.run_test(size=(60, 11)) as pilot:
            source.is_awaited = True
            await pilot.press(key, "j")
            app.view.source_changed()  # Other lines of the list as it was were read.
            await pilot.pause()
            assert app.done == []
            source.keys, source.is_awaited = [70, 80], False
            app.view.source_changed()
            await pilot.pause()
            assert app.done == [(action, [70])]
            assert app.view.cursor == 1

    asyncio.run(story())


def test_a_key_that_moves_waits_for_the_lines_of_a_new_filter() -> None:
    source = Letters(range(10))
    app = Acting(source)

    async def story() -> None:
        async with app.run_test(size=(60, 11)) as pilot:
            source.is_awaited = True
            await pilot.press("j", "r")
            source.keys, source.is_awaited = [1, 2, 3], False  # where j would lead now
            app.view.source_changed()
            await pilot.pause()
            assert app.done == [("run", [2])]

    asyncio.run(story())


@pytest.mark.parametrize(("key", "action"), [("enter", "open"), ("r", "run")])
@pytest.mark.parametrize("then", [(), ("k",), ("k", "k", "g")])
def test_a_key_that_acts_waits_for_the_line_that_a_key_before_it_moves_to(
    key: str, action: str, then: tuple[str, ...]
) -> None:
    source = Unread()
    app = Acting(source)

    async def story() -> None:
        async with app.run_test(size=(60, 11)) as pilot:
            for each in ("G", key, *then):
                app.post_message(events.Key(each, None))
            await pilot.pause()
            assert app.done == []
            source.read = range(100)
            app.view.source_changed()
            await pilot.pause()
            assert app.done == [(action, [99])]

    asyncio.run(story())
