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
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

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
    Picture("schedules-dark", _SMALL, _DARK, ("j",)),
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


def convert(svg: str, target: Path, *, columns: int) -> None:
    """Draw the SVG of a screen into a PNG file."""
    width = str(columns * _PIXELS_PER_COLUMN)
    subprocess.run(
        ["rsvg-convert", "--width", width, "--output", str(target)],
        input=svg.encode(),
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main())
