"""The output on the screen: what is followed, and what each key and the mouse do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from zoneinfo import ZoneInfo

import pytest
from textual.app import App, ComposeResult
from textual.color import Color
from textual.pilot import Pilot

from edgecron.model.run import OutputChunk, Stream
from edgecron.tui.output_text import whole_text
from edgecron.tui.output_view import OutputView
from edgecron.tui.run_screen import output_title
from edgecron.tui.text_line import LEAST_CONTRAST, contrast
from tests.support.specs import ms

AT_MS = ms("2026-11-20T08:00:00Z")
HEIGHT, WIDTH = 10, 40

Piece = tuple[int, OutputChunk]


def out(text: str, *, stream: Stream = Stream.STDOUT, skipped: int = 0) -> Piece:
    return skipped, OutputChunk(stream=stream, at_ms=AT_MS, content=text.encode())


def numbered(*numbers: int) -> Piece:
    return out("".join(f"line {number}\n" for number in numbers))


class Shown(App[None]):
    CSS = """
    OutputView { height: 1fr; }
    .output--error { color: yellow; }
    .output--hit { background: blue; }
    .output--hit-now { background: red; }
    .output--selected { background: green; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.view = OutputView(zone=ZoneInfo("Europe/Berlin"), id="output")

    def get_css_variables(self) -> dict[str, str]:
        return super().get_css_variables() | {"muted": "gray"}

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()


class Story:
    """An output on a screen of ten lines: what is printed, pressed and seen."""

    def __init__(self, app: Shown, pilot: Pilot[None]) -> None:
        self.view = app.view
        self.pilot = pilot

    async def take(self, *pieces: Piece) -> None:
        self.view.take(pieces)
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        await self.pilot.resize_terminal(width, height)
        await self.pilot.pause()

    async def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        await self.pilot.mouse_down(offset=start)
        await self.pilot.hover(offset=end)
        await self.pilot.mouse_up(offset=end)
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        return [
            "".join(segment.text for segment in self.view.render_line(y)).rstrip()
            for y in range(self.view.size.height)
        ]

    def styles(self, y: int) -> str:
        """The background of each letter of a line, by the first letter of its colour."""
        names = {(0, 0, 255): "b", (255, 0, 0): "r", (0, 128, 0): "g"}
        found = ""
        for segment in self.view.render_line(y):
            color = None if segment.style is None else segment.style.bgcolor
            triplet = None if color is None else color.get_truecolor()
            found += names.get(tuple(triplet or ()), ".") * len(segment.text)  # type: ignore[arg-type]
        return found

    @property
    def state(self) -> str:
        """What the line above says at its right end, of a run that goes on."""
        _, right = output_title(self.view, is_live=True, printed_bytes=None, width=80)
        return "".join(text for text, _ in right).strip()

    @property
    def title(self) -> str:
        left, _ = output_title(self.view, is_live=True, printed_bytes=None, width=80)
        return "".join(text for text, _ in left).strip()


def play(story: Callable[[Story], Awaitable[None]]) -> None:
    async def run() -> None:
        app = Shown()
        async with app.run_test(size=(WIDTH, HEIGHT)) as pilot:
            await story(Story(app, pilot))

    asyncio.run(run())


def test_the_tail_is_followed_while_it_grows() -> None:
    async def story(seen: Story) -> None:
        await seen.take(numbered(*range(30)))
        assert seen.lines[-1] == "  line 29"
        await seen.take(numbered(30, 31))

        assert (seen.lines[0], seen.lines[-1]) == ("  line 22", "  line 31")
        assert seen.state == "following"

    play(story)


@pytest.mark.parametrize("key", ["k", "up", "pageup", "ctrl+b", "g", "home"])
def test_who_scrolls_up_stays_there_and_is_told(key: str) -> None:
    async def story(seen: Story) -> None:
        await seen.take(numbered(*range(30)))
        await seen.press(key)
        before = seen.lines
        await seen.take(numbered(30, 31))

        assert seen.lines == before
        assert before[-1] != "  line 29"
        assert seen.state == "paused: f follows"

    play(story)


@pytest.mark.parametrize("key", ["f", "G", "end"])
def test_a_key_follows_again(key: str) -> None:
    async def story(seen: Story) -> None:
        await seen.take(numbered(*range(30)))
        await seen.press("g", key)
        await seen.take(numbered(30))

        assert seen.lines[-1] == "  line 30"
        assert seen.state == "following"

    play(story)


def test_keys_move_by_lines_and_pages() -> None:
    async def story(seen: Story) -> None:
        await seen.take(numbered(*range(100)))
        tops = []
        for key in ("g", "j", "down", "ctrl+f", "pagedown", "k", "ctrl+b"):
            await seen.press(key)
            tops.append(seen.lines[0].strip())

        assert tops == [f"line {number}" for number in (0, 1, 2, 12, 22, 21, 11)]

    play(story)


def test_the_wheel_stops_following_too() -> None:
    async def story(seen: Story) -> None:
        await seen.take(numbered(*range(30)))
        seen.view.scroll_up(animate=False, immediate=True)
        await seen.pilot.pause()

        assert seen.state == "paused: f follows"

    play(story)


def test_stderr_has_a_mark_at_the_margin_and_a_look() -> None:
    async def story(seen: Story) -> None:
        await seen.take(out("fine\n"), out("bad\n", stream=Stream.STDERR))

        assert seen.lines[:2] == ["  fine", "▌ bad"]
        assert seen.title.endswith("▌ stderr")
        styles = [
            segment.style.color.name  # type: ignore[union-attr]
            for segment in seen.view.render_line(1)
            if segment.text.strip()
        ]
        plain = [
            segment.style.color.name  # type: ignore[union-attr]
            for segment in seen.view.render_line(0)
            if segment.text.strip()
        ]
        assert len(set(styles)) == 1
        assert set(styles).isdisjoint(plain)

    play(story)


def test_what_was_not_kept_is_said_in_its_place() -> None:
    async def story(seen: Story) -> None:
        await seen.take(out("head\n"), out("tail\n", skipped=5000))

        assert seen.lines[:3] == ["  head", "  … 5 KiB dropped …", "  tail"]

    play(story)


def test_long_lines_are_wrapped_on_request_and_the_top_line_stays() -> None:
    async def story(seen: Story) -> None:
        long = "x" * 50
        await seen.take(*(out(f"{number} {long}\n") for number in range(20)))
        await seen.press("g", "j", "j", "j")
        assert seen.lines[0].startswith("  3 xxx")
        assert len(seen.lines[0]) < WIDTH
        await seen.press("w")

        assert seen.lines[0].startswith("  3 xxx")
        assert "".join(line.strip() for line in seen.lines[:2]) == f"3 {long}"
        await seen.press("j", "w")
        assert seen.lines[0].startswith("  3 xxx")

    play(story)


def test_long_lines_are_moved_to_the_left_and_back() -> None:
    async def story(seen: Story) -> None:
        await seen.take(out("".join(f"{number:04d}" for number in range(30)) + "\n"))
        await seen.press("l")
        assert seen.lines[0].startswith("  0004")
        assert seen.title.endswith("from column 17")
        await seen.press(*["right"] * 20)
        assert seen.lines[0].endswith("0029")
        await seen.press(*["h"] * 20)

        assert seen.lines[0].startswith("  0000")

    play(story)


def test_times_stand_before_the_lines_on_request() -> None:
    async def story(seen: Story) -> None:
        await seen.take(out("one\n"), out("two\n", stream=Stream.STDERR))
        await seen.press("t")
        assert seen.lines[:2] == [" 09:00:00.000   one", " 09:00:00.000 ▌ two"]
        await seen.press("t")

        assert seen.lines[0] == "  one"

    play(story)


def test_a_search_shows_all_places_and_goes_through_them() -> None:
    async def story(seen: Story) -> None:
        await seen.take(
            *(out(f"{number} {'Error' if number % 20 == 7 else ''}\n") for number in range(60))
        )
        await seen.press("g")
        seen.view.search("error")
        seen.view.end_search()
        assert seen.state == "/error  1 of 3 lines  n N"
        assert seen.styles(7) == "....rrrrr" + "." * (WIDTH - 10)
        states = []
        for key in ("n", "n", "n", "N"):
            await seen.press(key)
            states.append((seen.view.hit, seen.state.split("  ")[1]))

        assert states == [
            (27, "2 of 3 lines"),
            (47, "3 of 3 lines"),
            (7, "1 of 3 lines"),
            (47, "3 of 3 lines"),
        ]
        assert any("47 Error" in line for line in seen.lines)
        await seen.take(out("more errors\n"))
        assert seen.state == "/error  3 of 4 lines  n N"

    play(story)


def test_a_search_that_finds_nothing_stays_where_it_was() -> None:
    async def story(seen: Story) -> None:
        await seen.take(numbered(*range(30)))
        for wanted in ("line 3", "line 3x"):
            seen.view.search(wanted)
            await seen.pilot.pause()

        assert seen.lines[-1] == "  line 29"
        assert seen.state == "/line 3x  not found"
        assert seen.view.clear_selection()
        assert seen.state == "following"
        assert not seen.view.clear_selection()

    play(story)


def test_a_search_says_that_a_part_was_dropped_instead_of_not_found() -> None:
    async def story(seen: Story) -> None:
        await seen.take(out("head\n"), out("tail\n", skipped=5 * 1024))
        seen.view.search("middle")
        await seen.pilot.pause()
        assert seen.state == "/middle  not in what was kept: 5 KiB dropped"

    play(story)


def test_a_place_in_a_long_line_is_brought_into_sight() -> None:
    async def story(seen: Story) -> None:
        await seen.take(out("x" * 100 + "needle" + "y" * 50 + "\n"))
        seen.view.search("needle")
        await seen.pilot.pause()
        assert "needle" in seen.lines[0]
        await seen.press("w")

        assert "needle" in seen.lines[2]

    play(story)


def test_lines_are_selected_with_keys() -> None:
    async def story(seen: Story) -> None:
        await seen.take(numbered(*range(30)))
        await seen.press("space", "k", "k")
        assert seen.view.selected_text() == "line 27\nline 28\nline 29\n"
        assert seen.state == "3 lines selected: y copies"
        assert [seen.styles(y)[2] for y in range(HEIGHT)] == ["."] * 7 + ["g"] * 3
        await seen.press("space", "k")
        assert seen.view.selected_text() == "line 26\nline 27\n"
        await seen.press("g")
        assert seen.view.selected_text().startswith("line 0\n")
        assert seen.lines[0] == "  line 0"
        await seen.press("G")
        assert seen.view.selected_text() == "line 27\nline 28\nline 29\n"
        assert seen.view.clear_selection()

        assert seen.view.selected_text() == ""

    play(story)


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        ((2, 0), (5, 0), "abcd"),
        ((5, 0), (2, 0), "abc"),
        ((3, 0), (3, 1), "bcdef\n漢"),
        ((4, 1), (0, 2), "字 wide\nl"),
        ((4, 1), (1, 0), "abcdef\n漢"),
        ((2, 0), (9, 9), "abcdef\n漢字 wide\nlast"),
    ],
)
def test_letters_are_selected_with_the_mouse(
    start: tuple[int, int], end: tuple[int, int], text: str
) -> None:
    async def story(seen: Story) -> None:
        await seen.take(out("abcdef\n漢字 wide\nlast"))
        await seen.drag(start, end)

        assert seen.view.selected_text() == text

    play(story)


def test_a_click_selects_nothing_and_forgets_what_was_selected() -> None:
    async def story(seen: Story) -> None:
        await seen.take(numbered(*range(3)))
        await seen.drag((2, 0), (5, 1))
        assert seen.view.selection is not None
        await seen.pilot.click(offset=(4, 1))
        await seen.pilot.pause()

        assert seen.view.selection is None

    play(story)


def test_what_is_forgotten_at_the_beginning_moves_nothing() -> None:
    async def story(seen: Story) -> None:
        long = "x" * 4000
        await seen.take(*(out(f"{number} {long}\n") for number in range(9200)))
        await seen.press("k")
        before = seen.lines
        await seen.take(*(out(f"{number} {long}\n") for number in range(9200, 9900)))

        assert seen.view.printed.first > 0
        assert seen.lines == before
        assert " are not loaded" in seen.title

    play(story)


def test_a_screen_of_another_size_shows_the_same_line_or_the_tail() -> None:
    async def story(seen: Story) -> None:
        await seen.take(numbered(*range(100)))
        await seen.resize(20, 5)
        assert seen.lines[-1] == "  line 99"
        await seen.press("g", "j", "j")
        await seen.resize(60, 20)

        assert seen.lines[0] == "  line 2"

    play(story)


def test_an_output_without_a_line_says_why_and_takes_every_key() -> None:
    keys = ("j", "k", "g", "G", "h", "l", "w", "t", "f", "n", "N", "space", "ctrl+f", "ctrl+b")

    async def story(seen: Story) -> None:
        seen.view.finish("run 7 printed nothing (success)")
        await seen.press(*keys)
        await seen.drag((2, 0), (5, 1))
        seen.view.search("x")
        await seen.pilot.pause()

        assert seen.lines[0] == "  run 7 printed nothing (success)"
        assert not any(seen.lines[1:])

    play(story)


def test_colours_of_a_job_are_drawn_and_can_be_read_on_their_ground() -> None:
    async def story(seen: Story) -> None:
        await seen.take(
            out(
                "\x1b[1;38;2;20;20;20mdark\x1b[0m \x1b[30;40mblack\x1b[0m"
                " \x1b[48;2;250;250;250mwhite\x1b[0m plain\n"
            )
        )
        drawn = {one.text.strip(): one.style for one in seen.view.render_line(0)}
        grounds = {"dark": seen.view.background_colors[1], "black": Color(0, 0, 0)}
        for word, ground in {**grounds, "white": Color(250, 250, 250)}.items():
            style = drawn[word]
            assert style is not None
            assert style.color is not None
            if style.bgcolor is not None:
                ground = Color(*style.bgcolor.get_truecolor(seen.view.app.ansi_theme))
            assert contrast(Color(*style.color.get_truecolor()), ground) >= LEAST_CONTRAST
        assert drawn["dark"] is not None
        assert drawn["dark"].bold

    play(story)


@pytest.mark.failure(72)
def test_nothing_that_a_terminal_obeys_is_drawn() -> None:
    hostile = (
        b"\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07 \x1b]0;title\x1b\\ [bold]markup[/] \x00\x07\x08\n"
        b"gone\r\xc2\x9b31m \x9b \xe2\x80\xae\xe2\x81\xa6 \xff\xfe e" + b"\xcc\x81" * 50 + b"\n"
    )

    async def story(seen: Story) -> None:
        chunks = [hostile[at : at + 3] for at in range(0, len(hostile), 3)]
        await seen.take(
            *((0, OutputChunk(stream=Stream.STDOUT, at_ms=AT_MS, content=one)) for one in chunks)
        )
        assert "[bold]markup[/]" in whole_text(seen.view.printed)
        assert "\r" not in whole_text(seen.view.printed)
        for key in ("t", "w", "l"):
            await seen.press(key)
            texts = [segment.text for y in range(HEIGHT) for segment in seen.view.render_line(y)]
            assert all(
                letter.isprintable() or letter == "\u0301" for text in texts for letter in text
            )
            assert all(
                segment.control is None
                for y in range(HEIGHT)
                for segment in seen.view.render_line(y)
            )

    play(story)


def _rows(texts: Sequence[str]) -> list[Piece]:
    return [out("\n".join(texts[at : at + 1000]) + "\n") for at in range(0, len(texts), 1000)]


def test_of_twenty_thousand_lines_only_those_are_drawn_that_are_seen() -> None:
    async def story(seen: Story) -> None:
        await seen.take(
            *_rows([f"line {number} {'漢' * (number % 40)}" for number in range(20_000)])
        )
        drawn: list[int] = []
        line = seen.view.printed.line
        seen.view.printed.line = lambda number: drawn.append(number) or line(number)  # type: ignore[method-assign]
        for key in ("g", "w", "G", "k", "ctrl+b", "w", "g"):
            await seen.press(key)

        assert seen.lines[0] == "  line 0"
        assert len(drawn) < 100 * HEIGHT

    play(story)
