"""The pictures in the README: `python -m tests.pictures [FOLDER]`.

Those of the dashboard show the small home server of the tests, at one moment, so that they change
only if the dashboard does. `demo-dark` shows what `edgecron demo` prints. Drawing needs
rsvg-convert (librsvg2-bin) and the font DejaVu Sans Mono (fonts-dejavu-core). FOLDER is
packaging/pictures unless it is given.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from html import escape, unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unicodedata import name

if __name__ == "__main__":
    os.environ["EDGECRON_CONFIG"] = "none"

from rich.console import Console
from rich.text import Text

from edgecron.tui.app import Appearance
from tests.support.scene import make_scene
from tests.tui.pilot import on_screen, run

ROOT = Path(__file__).parents[1]


class Picture(NamedTuple):
    """A screen after some keys."""

    name: str
    size: tuple[int, int]
    theme: str
    keys: tuple[str, ...] = ()


_WIDE, _SMALL = (160, 48), (80, 24)
_DARK, _LIGHT = "edgecron-dark", "edgecron-light"
PICTURES = (
    Picture("home-dark", _WIDE, _DARK),
    Picture("home-light", _WIDE, _LIGHT),
    Picture("schedules-dark", _SMALL, _DARK, ("1", "j")),
    Picture("upcoming-light", _SMALL, _LIGHT, ("2",)),
    Picture("run-dark", _SMALL, _DARK, ("3", *"jjjjjjjj", "enter")),
    Picture("schedule-light", _WIDE, _LIGHT, ("enter",)),
    Picture("form-dark", _SMALL, _DARK, ("e",)),
)
DEMO = "demo-dark"
_DEMO_COLUMNS = 96
# Textual names a font of the web; this one is on every Debian.
_FONT = "DejaVu Sans Mono"
_PIXELS_PER_COLUMN = 9


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.pictures", description="Draw the pictures of the README."
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "packaging" / "pictures")
    parser.add_argument("--only", metavar="NAME", action="append", help="this one; repeatable")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        for picture in PICTURES:
            if arguments.only and picture.name not in arguments.only:
                continue
            home = Path(folder, picture.name)
            os.environ["HOME"] = str(home)  # What lies there is shown as from there on.
            path = home / ".local" / "share" / "edgecron" / "edgecron.db"
            path.parent.mkdir(parents=True)
            svg = run(draw(picture, path))
            target = arguments.folder / f"{picture.name}.png"
            convert(svg, target, columns=picture.size[0])
            print(target)
    if not arguments.only or DEMO in arguments.only:
        target = arguments.folder / f"{DEMO}.png"
        convert(draw_demo(), target, columns=_DEMO_COLUMNS)
        print(target)
    return 0


async def draw(picture: Picture, path: Path) -> str:
    """The screen as SVG."""
    with make_scene(path) as scene:
        async with on_screen(
            scene.path, scene.clock, size=picture.size, appearance=Appearance(picture.theme)
        ) as seen:
            await seen.press(*picture.keys)
            return _with_font(seen.app.export_screenshot(title="edgecron"))


def draw_demo() -> str:
    """The output of `edgecron demo` as SVG."""
    shown = subprocess.run(
        [sys.executable, "-m", "edgecron", "--color", "always", "demo", "--seconds", "9"],
        env={**os.environ, "COLUMNS": str(_DEMO_COLUMNS)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    console = Console(
        record=True,
        width=_DEMO_COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
    )
    console.print(Text.from_ansi(f"$ edgecron demo --seconds 9\n{shown}"))
    return _with_font(console.export_svg(title="edgecron demo"))


def _with_font(svg: str) -> str:
    # Without it the blanks at both ends of a text are dropped.
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return svg.replace("Fira Code, monospace", _FONT).replace("Fira Code", _FONT)


_CELL = (12.2, 24.4)  # of Rich's pictures
_ABOVE = 18.5  # from the top of a cell to the foot of its letters
_LETTERS = re.compile(
    r'<text class="([^"]*)" x="([\d.]+)" y="([\d.]+)"([^>]*)>([^<]*)</text>', re.DOTALL
)
_COLORS = re.compile(r"\.(\S+) \{ fill: (#\w+)")
_SIDES = {
    "LEFT": ("LEFT",),
    "RIGHT": ("RIGHT",),
    "UP": ("UP",),
    "DOWN": ("DOWN",),
    "HORIZONTAL": ("LEFT", "RIGHT"),
    "VERTICAL": ("UP", "DOWN"),
}
_NOT_DRAWN = {"DASH", "DOUBLE", "DIAGONAL"}


def draw_shapes(svg: str) -> str:
    """Draw blocks and lines of boxes as shapes that meet, not as letters with gaps between."""

    colors = dict(_COLORS.findall(svg))

    def drawn(found: re.Match[str]) -> str:
        style, left, foot, rest, text = found.groups()
        letters, shapes = [], []
        for at, letter in enumerate(unescape(text)):
            place = (float(left) + at * _CELL[0], float(foot) - _ABOVE)
            shape = _shape(letter, *place)
            letters.append(letter if shape is None else "\u00a0")
            if shape is not None:
                color = colors[style]
                shapes.append(f'<g fill="{color}" stroke="{color}">{shape}</g>')
        kept = escape("".join(letters))
        return f'<text class="{style}" x="{left}" y="{foot}"{rest}>{kept}</text>{"".join(shapes)}'

    return _LETTERS.sub(drawn, svg)


def _shape(letter: str, x: float, y: float) -> str | None:
    """Return a block or a part of a box as SVG; None for other letters."""
    code, (width, height) = ord(letter), _CELL
    if 0x2581 <= code <= 0x2588:
        part = height * (code - 0x2580) / 8
        return _rectangle(x, y + height - part, width, part)
    if 0x2589 <= code <= 0x258F:
        return _rectangle(x, y, width * (0x2590 - code) / 8, height)
    if 0x2591 <= code <= 0x2593:
        return _rectangle(x, y, width, height, opacity=(code - 0x2590) / 4)
    if letter in "▀▐":
        return _rectangle(
            *((x, y, width, height / 2) if letter == "▀" else (x + width / 2, y, width / 2, height))
        )
    if 0x2500 <= code <= 0x257F:
        return _box_lines(name(letter).split(), x + width / 2, y + height / 2)
    return None


def _rectangle(x: float, y: float, width: float, height: float, *, opacity: float = 1) -> str:
    # Without smooth edges: neighbours must not show a seam.
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
        f' fill-opacity="{opacity}" stroke="none" shape-rendering="crispEdges"/>'
    )


def _box_lines(words: Sequence[str], x: float, y: float) -> str | None:
    """Return the lines from the middle of a cell to its edges, by the name of the letter."""
    if not _NOT_DRAWN.isdisjoint(words):
        return None
    edges = {
        "LEFT": (x - _CELL[0] / 2, y),
        "RIGHT": (x + _CELL[0] / 2, y),
        "UP": (x, y - _CELL[1] / 2),
        "DOWN": (x, y + _CELL[1] / 2),
    }
    sides = [side for word in words for side in _SIDES.get(word, ())]
    thick = 1.6 if "HEAVY" in words else 0.8
    if "ARC" in words:
        (first_x, first_y), (last_x, last_y) = (edges[side] for side in sides)
        return (
            f'<path d="M{first_x:.2f} {first_y:.2f} Q{x:.2f} {y:.2f} {last_x:.2f} {last_y:.2f}"'
            f' fill="none" stroke-width="{2 * thick}"/>'
        )
    lines = []
    for side in sides:
        end_x, end_y = edges[side]
        lines.append(
            _rectangle(
                min(x, end_x) - thick * (end_x == x),
                min(y, end_y) - thick * (end_y == y),
                abs(end_x - x) + 2 * thick * (end_x == x),
                abs(end_y - y) + 2 * thick * (end_y == y),
            )
        )
    return "".join(lines)


def convert(svg: str, target: Path, *, columns: int) -> None:
    """Draw the SVG of a screen into a PNG file."""
    width = str(columns * _PIXELS_PER_COLUMN)
    subprocess.run(
        ["rsvg-convert", "--width", width, "--output", str(target)],
        input=draw_shapes(svg).encode(),
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main())
