"""Small single binaries: the real launcher before a program that does what a test tells it.

They are packed as the real one is, and made within a second.
"""

from __future__ import annotations

import importlib.util
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

from tests.support.processes import BOUND_S

PACKAGING = Path(__file__).parents[2] / "packaging" / "binary"

# `:try` is the launcher's, before it uses what it unpacked; a FIFO named TRY holds it there.
PROGRAM = r"""#!/bin/sh
case $1 in
:try) [ -z "$TRY" ] || read go <"$TRY"; exit "${TRIED:-0}" ;;
where) dirname "$0" ;;
environment) env ;;
hold) echo held; read go ;;
*) echo "$@" ;;
esac
"""


def packing() -> ModuleType:
    """`packaging/binary/pack.py`, which is no module of a package."""
    spec = importlib.util.spec_from_file_location("pack", PACKAGING / "pack.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_launcher(folder: Path) -> bytes:
    """The launcher as it is built for a release."""
    made = folder / "launcher"
    subprocess.run([PACKAGING / "compile", "2.31", made], check=True)
    return made.read_bytes()


def wait_for_lock(process: subprocess.Popen[str]) -> None:
    """Until a process waits for a lock that another one holds."""
    until = time.monotonic() + BOUND_S
    while f" {process.pid} " not in _waiting_lines():
        assert process.poll() is None, "it ended, and waited for no lock"
        assert time.monotonic() < until, "it waits for no lock"
        os.sched_yield()


def _waiting_lines() -> str:
    """Of each lock that somebody waits for a line: "1: -> FLOCK ADVISORY WRITE 123 ..."."""
    lines = Path("/proc/locks").read_text("ascii").splitlines()
    return "\n".join(line for line in lines if "->" in line)


class Binary:
    """A single binary in a folder of its own, and the user who starts it."""

    def __init__(self, path: Path, *, content: bytes, places: Path) -> None:
        self.path = path
        self.places = places
        path.write_bytes(content)
        path.chmod(0o755)

    @property
    def program(self) -> Path:
        """The folder where its versions lie."""
        return self.places / "program"

    def versions(self) -> list[Path]:
        """What lies there: whole versions, and whatever else was left."""
        return sorted(path for path in self.program.iterdir() if path.name != ".lock")

    def environment(self, **variables: str) -> dict[str, str]:
        return {**os.environ, "EDGECRON_UNPACK_DIR": str(self.places), **variables}

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.path, *words],
            env=self.environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Start it, and wait for its end."""
        return subprocess.run(
            [self.path, *words],
            env=self.environment(**variables),
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )

    def snapshot(self) -> dict[str, tuple[int, int, int]]:
        """Of each file and folder its mode, size and the time of its last change."""
        found = {}
        for path in (self.program, *self.program.rglob("*")):
            seen = path.lstat()
            found[str(path)] = (stat.S_IMODE(seen.st_mode), seen.st_size, seen.st_ctime_ns)
        return found


def small_files(pack: ModuleType, *, program: str = PROGRAM, **more: str) -> list[object]:
    """A program and some files beside it."""
    texts = {"_internal/lib/one.so": "one" * 1000, "_internal/two.txt": "", **more}
    return [
        pack.File("edgecron", 0o700, program.encode()),
        *(pack.File(path, 0o600, text.encode()) for path, text in texts.items()),
    ]


def package_files(pack: ModuleType, *, entry: str | None = None) -> list[object]:
    """The real package with what starts it in the single binary, run by this Python."""
    root = PACKAGING.parents[1]
    real = (PACKAGING / "entry.py").read_text("utf-8")
    program = f"""#!{sys.executable} -I
import os, sys
sys.executable = os.path.abspath(__file__)
sys.path.insert(0, os.path.dirname(sys.executable) + "/_internal")
with open(os.path.dirname(sys.executable) + "/_internal/entry.py") as entry:
    exec(compile(entry.read(), entry.name, "exec"))
"""
    files = [
        pack.File("edgecron", 0o700, program.encode()),
        pack.File("_internal/entry.py", 0o600, (entry or real).encode()),
    ]
    for path in sorted((root / "edgecron").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = f"_internal/{path.relative_to(root).as_posix()}"
            files.append(pack.File(name, 0o600, path.read_bytes()))
    listed = "".join(f"{file.path}\n" for file in files)
    return [*files, pack.File(pack.LIST, 0o600, listed.encode())]
