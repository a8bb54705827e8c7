"""Make one file of a launcher and a one-dir build.

    pack.py --tree DIST --launcher LAUNCHER --version VERSION --output FILE

The tree is made fit first: debugging symbols go, and each library finds those beside it by where it
is, so that no LD_LIBRARY_PATH is needed. The same tree gives the same file, byte for byte.
launcher/launcher.h has the layout.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import zstandard

MAGIC = b"edgecron bundle\0"
PROGRAM = "edgecron"
LIST = "files.txt"
WINDOW_LOG = 26  # 64 MiB: all of it; the launcher holds as much, once
# Each start looks at every file but these, of which there are hundreds.
UNCHECKED = ("_internal/tzdata/", "_internal/licences/")


class File(NamedTuple):
    """One file of the tree. `path` is relative to it."""

    path: str
    mode: int
    content: bytes

    @property
    def is_checked(self) -> bool:
        return not self.path.startswith(UNCHECKED)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("--tree", "--launcher", "--version", "--output"):
        parser.add_argument(name, required=True)
    given = parser.parse_args()
    tree = Path(given.tree)
    make_fit(tree)
    files = read_tree(tree)
    Path(given.output).write_bytes(
        packed(files, launcher=Path(given.launcher).read_bytes(), version=given.version)
    )
    os.chmod(given.output, 0o755)


def elf_files(tree: Path) -> Iterator[Path]:
    """The programs and libraries of a tree."""
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def make_fit(tree: Path) -> None:
    """Strip the libraries, and have each look for others in `_internal` alone."""
    libraries = tree / "_internal"
    for path in elf_files(libraries):
        subprocess.run(["strip", "--strip-unneeded", path], check=True)
        up = os.path.relpath(libraries, path.parent)
        # DT_RPATH: it goes before LD_LIBRARY_PATH, where somebody's own libraries may be.
        origin = "$ORIGIN" if up == "." else f"$ORIGIN/{up}"
        subprocess.run(["patchelf", "--force-rpath", "--set-rpath", origin, path], check=True)


def read_tree(tree: Path) -> list[File]:
    """All files, those that are alike beside each other, with the list of those to be checked."""
    files = []
    for path in tree.rglob("*"):
        if path.is_file():
            mode = 0o700 if os.access(path, os.X_OK) else 0o600
            files.append(File(path.relative_to(tree).as_posix(), mode, path.read_bytes()))
    names = sorted(file.path for file in files)
    files.append(File(LIST, 0o600, "".join(f"{name}\n" for name in names).encode()))
    return sorted(files, key=lambda file: (Path(file.path).suffix, file.path))


def packed(files: list[File], *, launcher: bytes, version: str, level: int = 22) -> bytes:
    """The bytes of the one file. `level` is how hard zstd tries."""
    lines = "".join(
        f"{file.mode:o} {'c' if file.is_checked else '-'} {len(file.content)} {file.path}\n"
        for file in files
    ).encode()
    content = b"".join(file.content for file in files)
    name = f"{version}-{hashlib.sha256(lines + content).hexdigest()[:16]}".encode()
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, window_log=WINDOW_LOG, source_size=len(content), write_checksum=1
    )
    frame = zstandard.ZstdCompressor(compression_params=parameters).compress(content)
    launcher += b"\0" * (-len(launcher) % 4096)
    trailer = struct.pack(
        "<16sQQQQ64s", MAGIC, len(launcher), len(frame), len(lines), len(content), name
    )
    return launcher + frame + lines + trailer


if __name__ == "__main__":
    main()
