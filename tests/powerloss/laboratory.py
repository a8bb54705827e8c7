"""The cuts of a story's log, and what the store finds on the disk after one."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from edgecron.store.sqlite.connection import Database
from tests.powerloss.disk import Image, Loss, disks
from tests.powerloss.recorder import Found, Logged, Mark, Sync, SyncFailed
from tests.powerloss.world import seen_at
from tests.simulation.world import Body

DATABASE = "sim.db"
_OURS = frozenset({DATABASE, f"{DATABASE}-wal", f"{DATABASE}-journal", f"{DATABASE}-shm"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What an image holds: all rows as one digest, and who runs or ran what."""

    digest: str
    runs: dict[int, tuple[str, str | None]]  # status and token by execution id

    def lost_claims(self, bodies: Iterable[Body]) -> list[Body]:
        """The bodies whose row is missing, or knows nothing of their start."""
        return [body for body in bodies if self._token_of(body) != body.token]

    def unsaved_ends(self, bodies: Iterable[Body]) -> list[Body]:
        """The bodies that ended by themselves, of which the database does not know yet."""
        return [
            body
            for body in bodies
            if not body.is_cut_short and self.runs[body.execution_id][0] == "running"
        ]

    def _token_of(self, body: Body) -> str | None:
        _, token = self.runs.get(body.execution_id, ("", None))
        return token


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One image after `number` entries, and those of the states that it may hold."""

    number: int
    loss: Loss
    seed: int
    image: Image
    may_hold: tuple[Image, ...]

    @property
    def words(self) -> str:
        """What makes the same image again."""
        return f"cut {self.number}, {self.loss}, seed {self.seed}"


def cuts(
    log: Sequence[Logged],
    numbers: Iterable[int],
    *,
    losses: Sequence[Loss],
    seed: int,
    beside: Loss | None = None,
) -> Iterator[Cut]:
    """Images of the disk after these numbers of entries, in order.

    `beside` is another kind of loss for what lies in folders beside the database, as journals do.
    """
    chosen = {number: _commit_points(log, number) for number in numbers}
    wanted = {point for points in chosen.values() for point in points}
    kept: dict[int, Image] = {}
    for number, disk in disks(log):
        if number in wanted:
            kept[number] = _databases(disk.image(Loss.KEPT, Random(seed)))
        if number in chosen:
            may_hold = tuple(kept[point] for point in chosen[number])
            for loss in losses:
                image = disk.image(loss, Random(f"{seed} {number} {loss}"), beside=beside)
                yield Cut(number=number, loss=loss, seed=seed, image=image, may_hold=may_hold)


def _databases(image: Image) -> Image:
    """What of an image SQLite reads when it opens the database."""
    found = Image()
    found.update({name: content for name, content in image.items() if name in _OURS})
    return found


def _commit_points(log: Sequence[Logged], number: int) -> list[int]:
    """From the latest mark on, before any sync that was refused: what was committed by then must be
    there, and nothing torn."""
    first = number
    for at in range(number, 0, -1):
        # What a sync refused looks committed until it is lost: go back to before it.
        if isinstance(log[at - 1].entry, Sync):
            break
        if isinstance(log[at - 1].entry, SyncFailed):
            first = at
    is_sure = (at for at in range(first, 0, -1) if isinstance(log[at - 1].entry, Mark | Found))
    mark = next(is_sure, 0)
    syncs = [at for at in range(mark, number) if isinstance(log[at].entry, Sync | SyncFailed)]
    return [mark, *syncs, number]


class Bench:
    """Where images are laid out and opened by the store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[bytes, Content] = {}

    @property
    def looked_at(self) -> int:
        """How many different images were opened."""
        return len(self._known)

    def content_of(self, image: Image) -> Content:
        databases = _databases(image)
        key = _key(databases)
        if key not in self._known:
            path = lay_out(databases, self._folder / "image")
            self._known[key] = read_content(path)
            shutil.rmtree(path.parent)
        return self._known[key]

    def verify(self, log: Sequence[Logged], cut: Cut) -> None:
        """Raise AssertionError where something is lost that somebody has acted on."""
        try:
            content = self.content_of(cut.image)
            lost = content.lost_claims(seen_at(log, cut.number).bodies)
            assert not lost, f"lost {lost}"
            may_hold = (self.content_of(image).digest for image in cut.may_hold)
            assert content.digest in may_hold, "less than when a call had last returned"
        except Exception as error:
            error.add_note(cut.words)
            raise


def _key(image: Image) -> bytes:
    digest = hashlib.sha1(usedforsecurity=False)
    for name, content in image.items():
        digest.update(f"{name} {len(content)} ".encode())
        digest.update(content)
    return digest.digest()


def lay_out(image: Image, folder: Path) -> Path:
    """Make the files of an image in a new folder; the path of its database."""
    folder.mkdir(mode=0o700)
    for name in image.folders:
        (folder / name).mkdir(mode=0o700)
    for name, content in image.items():
        if name in image.links:
            os.link(folder / image.links[name], folder / name)
        else:
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
    return folder / DATABASE


def read_content(path: Path) -> Content:
    """Everything in the database, after SQLite's own checks of it."""
    database = Database(path)
    try:
        database.rows("PRAGMA synchronous = OFF")  # What we do to this copy needs no disk.
        assert database.rows("PRAGMA integrity_check") == [("ok",)]
        assert database.rows("PRAGMA foreign_key_check") == []
        schema = database.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
        tables = [name for kind, name, _ in schema if kind == "table"]
        rows = [database.rows(f"SELECT * FROM {name}") for name in tables]
        runs = []
        if "executions" in tables:
            runs = database.rows("SELECT id, status, lease_token FROM executions")
    finally:
        database.close()
    digest = hashlib.sha1(repr((schema, rows)).encode(), usedforsecurity=False)
    return Content(
        digest=digest.hexdigest(), runs={number: (status, token) for number, status, token in runs}
    )
