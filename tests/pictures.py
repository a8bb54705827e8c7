"""The pictures in the README: `python -m tests.pictures [FOLDER]`.

Those of the dashboard show the small home server of the tests, at one moment, so that they change
only if the dashboard does. `demo-dark` shows what `edgecron demo` prints; `tour-dark` moves: an
animated PNG of the dashboard while keys are pressed. Drawing needs rsvg-convert (librsvg2-bin) and
the font DejaVu Sans Mono (fonts-dejavu-core). FOLDER is packaging/pictures unless it is given.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import struct
import subprocess
import sys
import zlib
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


class Step(NamedTuple):
    """A moment of the moving picture: keys, a text to type, and how long the screen then stays."""

    keys: tuple[str, ...]
    seconds: float
    text: str = ""


TOUR = Picture("tour-dark", (92, 26), _DARK)
STEPS = (
    Step((), 2.0),
    *(Step(("j",), 0.4) for _ in range(6)),
    Step(("h",), 1.5),
    Step(("escape", "-"), 1.5),
    Step(("+",), 1.0),
    Step(("7",), 2.0),
    Step(("enter",), 3.0),
    Step(("escape", "escape"), 0.8),
    Step(("a",), 1.0),
    *(Step((), 0.5, text) for text in ("every", " weekday", " at 9", " run")),
    Step((), 3.5, " ./sync.sh"),
)
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
        if not arguments.only or TOUR.name in arguments.only:
            os.environ["HOME"] = str(Path(folder, TOUR.name))
            path = Path(folder, TOUR.name, "edgecron.db")
            path.parent.mkdir(parents=True)
            frames = run(draw_steps(path))
            drawn = [_pixels(rasterized(svg, columns=TOUR.size[0])) for svg in frames]
            target = arguments.folder / f"{TOUR.name}.png"
            target.write_bytes(animated(drawn, [step.seconds for step in STEPS]))
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


async def draw_steps(path: Path) -> list[str]:
    """The screen as SVG after each step of the moving picture."""
    frames = []
    with make_scene(path) as scene:
        async with on_screen(
            scene.path, scene.clock, size=TOUR.size, appearance=Appearance(TOUR.theme)
        ) as seen:
            for step in STEPS:
                await seen.press(*step.keys)
                await seen.write(step.text)
                frames.append(_with_font(seen.app.export_screenshot(title="edgecron")))
    return frames


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
    target.write_bytes(rasterized(svg, columns=columns))


def rasterized(svg: str, *, columns: int) -> bytes:
    """Return the SVG of a screen as PNG."""
    return subprocess.run(
        ["rsvg-convert", "--width", str(columns * _PIXELS_PER_COLUMN)],
        input=draw_shapes(svg).encode(),
        stdout=subprocess.PIPE,
        check=True,
    ).stdout


# The moving picture: https://www.w3.org/TR/png-3/ (APNG). Each frame has only what has changed.


class Pixels(NamedTuple):
    """Rows of pixels, four bytes each: red, green, blue, alpha."""

    width: int
    rows: list[bytes]


_BYTES = 4  # of a pixel
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Fewer shades of the edges of letters make a file a third as large.
_SHADES = bytes(min(255, (value + 8) // 16 * 16) for value in range(256))


def _pixels(png: bytes) -> Pixels:
    """Read a PNG with eight bits of red, green, blue and alpha, without interlacing."""
    chunks: dict[bytes, bytes] = {}
    at = len(_SIGNATURE)
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        chunks[kind] = chunks.get(kind, b"") + png[at + 8 : at + 8 + length]
        at += length + 12
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert form == [8, 6, 0, 0, 0], form
    content = zlib.decompress(chunks[b"IDAT"])
    step = width * _BYTES
    before, rows = bytes(step), []
    for number in range(height):
        begin = number * (step + 1)
        before = _unfiltered(content[begin], content[begin + 1 : begin + 1 + step], before)
        rows.append(before.translate(_SHADES))
    return Pixels(width, rows)


def _unfiltered(kind: int, row: bytes, above: bytes) -> bytes:
    if kind == 0:
        return row
    found = bytearray(_BYTES) + row  # with a pixel of zeros before the first one
    above = bytes(_BYTES) + above
    for at in range(_BYTES, len(found)):
        left, up, corner = found[at - _BYTES], above[at], above[at - _BYTES]
        nearest = min((left, up, corner), key=lambda one: abs(left + up - corner - one))
        found[at] = (found[at] + (left, up, (left + up) // 2, nearest)[kind - 1]) & 255
    return bytes(found[_BYTES:])


def animated(frames: Sequence[Pixels], seconds: Sequence[float]) -> bytes:
    """Return a PNG that shows each frame for its time, again and again."""
    size = (frames[0].width, len(frames[0].rows))
    parts = [_SIGNATURE, _chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 6, 0, 0, 0))]
    parts.append(_chunk(b"acTL", struct.pack(">II", len(frames), 0)))
    number, shown = 0, None
    for frame, duration_s in zip(frames, seconds, strict=True):
        left, top, right, bottom = _changed(frame, shown)
        control = (number, right - left, bottom - top, left, top, round(duration_s * 1000), 1000)
        parts.append(_chunk(b"fcTL", struct.pack(">IIIIIHHBB", *control, 0, 0)))
        number += 1
        place = slice(left * _BYTES, right * _BYTES)
        rows = b"".join(b"\0" + row[place] for row in frame.rows[top:bottom])
        content = zlib.compress(rows, 9)
        if shown is None:
            parts.append(_chunk(b"IDAT", content))
        else:
            parts.append(_chunk(b"fdAT", struct.pack(">I", number) + content))
            number += 1
        shown = frame
    return b"".join([*parts, _chunk(b"IEND", b"")])


def _changed(frame: Pixels, shown: Pixels | None) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of what differs from the frame before."""
    if shown is None:
        return 0, 0, frame.width, len(frame.rows)
    rows = [at for at, row in enumerate(frame.rows) if row != shown.rows[at]] or [0]
    columns = {
        at // _BYTES
        for number in rows
        for at, byte in enumerate(frame.rows[number])
        if byte != shown.rows[number][at]
    } or {0}
    return min(columns), rows[0], max(columns) + 1, rows[-1] + 1


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)


if __name__ == "__main__":
    sys.exit(main())
