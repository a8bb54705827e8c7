"""A small home server as it stands at one moment, after ten days that a real engine was told.

    with make_scene(folder / "edgecron.db") as scene, scene.client() as client:
        ...

It is the same each time: for the dashboard's pictures, its snapshot tests and trials by hand.
`python -m tests.support.scene FOLDER` writes one that ends now, for the real program: its jobs
only print and wait. With `--hold` its engine, and what runs, seem to be alive until Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self
from zoneinfo import ZoneInfo

if __name__ == "__main__":
    os.environ["EDGECRON_CONFIG"] = "none"

from edgecron.base.clock import Clock, SystemClock, now
from edgecron.base.paths import DATABASE_NAME, state_dir
from edgecron.client import Client
from tests.support.attendants import Attendants
from tests.support.sharing import made_once
from tests.support.telling import Teller, Told

ZONE = "Europe/Berlin"  # the machine's own, within the scene
NOW = datetime(2026, 11, 20, 14, 32, 10, tzinfo=ZoneInfo(ZONE))  # a Friday


class Scene:
    """The database as it stands, and the clock at which it does.

    Within `with` the supervisor of what runs is alive, and so is the engine where the scene has
    one: they hold their locks and hear who calls, but start and end nothing. The machine's zone
    is then `zone`, None being the one that it has.
    """

    def __init__(
        self, path: Path, told: Told, *, clock: Clock, has_engine: bool, zone: str | None
    ) -> None:
        self.path = path
        self.clock = clock
        self.has_engine = has_engine
        self._told = told
        self._zone = zone
        self._stack = ExitStack()
        if not has_engine:
            self._retire_engine()

    def client(self) -> Client:
        """One more connection, by the scene's clock; to be closed by who asks for it."""
        return Client(self.path, clock=self.clock, must_exist=True)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self._zone is not None:
                stack.enter_context(local_zone(self._zone))
            attendants = Attendants(
                state_dir(self.path),
                engine_key=self._told.engine_key if self.has_engine else None,
                supervisor_id=self._told.supervisor_id,
                said=self._told.said,
            )
            stack.enter_context(attendants)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _retire_engine(self) -> None:
        with self.client() as client:
            for engine in client.store.find_engines():
                client.store.retire_engine(engine.id, now_ms=self.clock.now_ms())


def make_scene(path: Path, *, has_engine: bool = True) -> Scene:
    """The scene of NOW in a new database, by a clock that stands still.

    The first of a test run takes a second or two, the others next to nothing.
    """
    content, told = _tell_once()
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(content)
    return Scene(path, told, clock=copy(told.clock), has_engine=has_engine, zone=ZONE)


def make_trial(path: Path, *, has_engine: bool) -> Scene:
    """A scene that ends now, in the zone that the machine has, with harmless jobs."""
    clock = SystemClock()
    told = Teller(path, end=now(clock), is_harmless=True).tell()
    return Scene(path, told, clock=clock, has_engine=has_engine, zone=None)


@contextmanager
def local_zone(name: str) -> Iterator[None]:
    """Within it this process is in a zone; those that it starts are there as well."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


@cache
def _tell_once() -> tuple[bytes, Told]:
    return made_once("scene", _tell)


def _tell() -> tuple[bytes, Told]:
    with TemporaryDirectory(prefix="edgecron-scene-") as folder, local_zone(ZONE):
        path = Path(folder) / DATABASE_NAME
        told = Teller(path, end=NOW, is_harmless=False).tell()
        return path.read_bytes(), told


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.scene", description="A home server that ends now."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new one")
    parser.add_argument("--hold", action="store_true", help="seem to be its engine until Ctrl-C")
    options = parser.parse_args()
    options.folder.mkdir(mode=0o700, parents=True)
    path = options.folder.absolute() / DATABASE_NAME
    scene = make_trial(path, has_engine=options.hold)
    print(f"export EDGECRON_DB={path}", flush=True)
    if options.hold:
        with scene, suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
