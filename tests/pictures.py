"""The pictures of the dashboard in the README: `python -m tests.pictures [FOLDER]`.

They show the small home server of the tests, at one moment, so that they change only where the
dashboard does. It needs rsvg-convert (librsvg2-bin) and the font DejaVu Sans Mono
(fonts-dejavu-core). FOLDER is packaging/pictures unless it is given.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

if __name__ == "__main__":
    os.environ["EDGECRON_CONFIG"] = "none"

from edgecron.tui.app import Appearance
from tests.support.scene import make_scene
from tests.tui.pilot import on_screen

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
            svg = asyncio.run(draw(picture, path))
            target = arguments.folder / f"{picture.name}.png"
            convert(svg, target, width=picture.size[0] * _PIXELS_PER_COLUMN)
            print(target)
    return 0


async def draw(picture: Picture, path: Path) -> str:
    """The screen as SVG."""
    with make_scene(path) as scene:
        async with on_screen(
            scene.path, scene.clock, size=picture.size, appearance=Appearance(picture.theme)
        ) as seen:
            await seen.press(*picture.keys)
            svg = seen.app.export_screenshot(title="edgecron")
    # Without it the blanks at both ends of a text are dropped.
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return svg.replace("Fira Code, monospace", _FONT).replace("Fira Code", _FONT)


def convert(svg: str, target: Path, *, width: int) -> None:
    """Draw an SVG into a PNG file of so many pixels."""
    subprocess.run(
        ["rsvg-convert", "--width", str(width), "--output", str(target)],
        input=svg.encode(),
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main())
