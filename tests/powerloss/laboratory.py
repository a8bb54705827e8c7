"""Stories told over a disk whose writes are logged, and what is found after a cut of the power."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from edgecron.api import Scheduler
from edgecron.errors import DatabaseBusy
from edgecron.store import SqliteStore
from edgecron.store.connection import Database
from powerloss.disk import Disk, Image, Loss, disks
from powerloss.journals import JournalFate, leave_journals, remember
from powerloss.recorder import Logged, Mark, Recorder, Sync, recording
from simulation.world import Body, Crash, World

DATABASE = "sim.db"
# Engines and supervisors are numbered on after a cut: nobody is taken for one who died.
_NUMBERS_OF_A_BOOT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A claim was acted on. The body knows by now when it ended, had the power stayed."""

    body: Body
    supervisor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A call of the store returned to an engine, or an answer to a person."""

    call: str


class _Bodies(list[Body]):
    """All bodies; `append` is the start of another one."""

    def __init__(self, note_start: Callable[[Body], None]) -> None:
        super().__init__()
        self._note_start = note_start

    def append(self, body: Body) -> None:
        super().append(body)
        self._note_start(body)


class PoweredWorld(World):
    """The virtual world on a machine whose disk is logged, and whose power may have been cut.

    `synchronous` is set in place of what the store chooses.
    """

    def __init__(
        self, path: Path, *, random: Random, start_ms: int, synchronous: str | None = None
    ) -> None:
        super().__init__(path, random=random, start_ms=start_ms)
        self.recorder: Recorder | None = None
        self.bodies = _Bodies(self.note_start)
        self._synchronous = synchronous

    def mark(self, what: object) -> None:
        if self.recorder is not None:
            self.recorder.mark(what)

    def maybe_crash(self, where: str) -> None:
        if where.startswith("after "):  # The store's call has returned, whoever may die now.
            self.mark(Returned(call=where))
        super().maybe_crash(where)

    def note_start(self, body: Body) -> None:
        [supervisor] = [
            key for key, one in self.supervisors.items() if one.journal.get(body.token) is body
        ]
        self.mark(Started(body=body, supervisor=supervisor))

    def start_engine(self, *, max_running: int = 4) -> str:
        key = super().start_engine(max_running=max_running)
        _, store = self.engines[key]
        self._choose_sync(store)
        return key

    def ask(self, question: Callable[[Scheduler], object]) -> None:
        """Let a person change something: once that is answered, it must not be lost."""
        with Scheduler(self.path, clock=self.clock) as scheduler:
            self._choose_sync(scheduler.store)
            question(scheduler)
            self.mark(Returned(call="answer"))

    def _choose_sync(self, store: SqliteStore) -> None:
        if self._synchronous is not None:
            store._database.rows(f"PRAGMA synchronous = {self._synchronous}")

    def tidy(self, key: str) -> None:
        """What an engine does before it sleeps, and the checkpoint that a long log gets."""
        engine, store = self.engines[key]
        try:
            engine.prepare()
        except DatabaseBusy:
            return
        except Crash:
            self.kill_engine(key)
            return
        assert store._checkpointer is not None
        store._checkpointer.checkpoint()
        self.mark(Returned(call="checkpoint"))

    def take_up(self, *, for_ms: int) -> None:
        """Two engines meet what is there, and go on for a while."""
        self.start_engine(max_running=3)
        self.start_engine(max_running=2)
        self.settle(for_ms=for_ms)

    def come_to_rest(self, *, for_ms: int) -> int:
        """No more schedules, and time for what runs to end; when there were none."""
        with Scheduler(self.path, clock=self.clock) as scheduler:
            for schedule in scheduler.schedules():
                scheduler.remove(schedule.name)
        removed_ms = self.clock.now_ms()
        self.settle(for_ms=for_ms)
        self.shut_down()
        return removed_ms

    def shut_down(self) -> None:
        """Let go of the databases."""
        for _, store in self.engines.values():
            store.close()
        self.engines.clear()


@dataclass(kw_only=True)
class Seen:
    """What the world knows at a cut: the bodies as it ended them, by supervisor too."""

    at_ms: int
    boot_id: str
    bodies: list[Body] = field(default_factory=list)
    journals: dict[str, tuple[str, list[Body]]] = field(default_factory=dict)  # boot, bodies


def seen_at(log: Sequence[Logged], cut: int, *, before: Seen | None = None) -> Seen:
    """The world after the first `cut` entries. `before`: what an earlier cut had left."""
    last = log[cut - 1]
    seen = Seen(at_ms=last.at_ms, boot_id=last.boot_id)
    if before is not None:
        seen.bodies.extend(before.bodies)
        seen.journals.update(before.journals)
    for logged in log[:cut]:
        match logged.entry:
            case Mark(what=Started(body=whole, supervisor=supervisor)):
                body = replace(whole)
                if body.ends_ms > seen.at_ms:
                    body.ends_ms, body.is_cut_short = seen.at_ms, True
                seen.bodies.append(body)
                seen.journals.setdefault(supervisor, (logged.boot_id, []))[1].append(body)
    return seen


def record(world: PoweredWorld, story: Callable[[PoweredWorld], None]) -> list[Logged]:
    """Tell a story; what was done to its disk, the same for the same dice but for WAL salts."""
    with pytest.MonkeyPatch.context() as patch, recording(world.clock) as recorder:
        patch.setattr("os.urandom", world.random.randbytes)  # Tokens and ids.
        world.recorder = recorder
        story(world)
        world.shut_down()
    return recorder.log


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
    log: Sequence[Logged], numbers: Iterable[int], *, losses: Sequence[Loss], seed: int
) -> Iterator[Cut]:
    """Images of the disk after these numbers of entries, in order."""
    chosen = {number: _commit_points(log, number) for number in numbers}
    wanted = {point for points in chosen.values() for point in points}
    kept: dict[int, Image] = {}
    for number, disk in disks(log):
        if number in wanted:
            kept[number] = _image(disk, Loss.KEPT, number, seed)
        if number in chosen:
            may_hold = tuple(kept[point] for point in chosen[number])
            for loss in losses:
                image = _image(disk, loss, number, seed)
                yield Cut(number=number, loss=loss, seed=seed, image=image, may_hold=may_hold)


def _image(disk: Disk, loss: Loss, number: int, seed: int) -> Image:
    return disk.image(loss, Random(f"{seed} {number} {loss}"))


def _commit_points(log: Sequence[Logged], number: int) -> list[int]:
    """From the latest mark on: whatever was committed by then must be there, and nothing torn."""
    mark = next((at for at in range(number, 0, -1) if isinstance(log[at - 1].entry, Mark)), 0)
    syncs = [at for at in range(mark, number) if isinstance(log[at].entry, Sync)]
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
        key = _key(image)
        if key not in self._known:
            path = lay_out(image, self._folder / "image")
            self._known[key] = read_content(path)
            shutil.rmtree(path.parent)
        return self._known[key]

    def verify(self, log: Sequence[Logged], cut: Cut) -> None:
        """Raise AssertionError where something is lost that somebody has acted on."""
        content = self.content_of(cut.image)
        lost = content.lost_claims(seen_at(log, cut.number).bodies)
        assert not lost, f"{cut.words}: lost {lost}"
        is_known = any(content.digest == self.content_of(image).digest for image in cut.may_hold)
        assert is_known, f"{cut.words}: not what was committed when a call had last returned"


def _key(image: Image) -> bytes:
    digest = hashlib.sha1(usedforsecurity=False)
    for name, content in image.items():
        digest.update(f"{name} {len(content)} ".encode())
        digest.update(content)
    return digest.digest()


def lay_out(image: Image, folder: Path) -> Path:
    """Make the files of an image in a new folder; the path of its database."""
    folder.mkdir(mode=0o700)
    for name, content in image.items():
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


def come_back(
    path: Path, seen: Seen, *, fate: JournalFate, random: Random, synchronous: str | None = None
) -> PoweredWorld:
    """The world on an image, once the power is there again: the clock goes on, nobody lives."""
    world = PoweredWorld(path, random=random, start_ms=seen.at_ms, synchronous=synchronous)
    boots = int(seen.boot_id.removeprefix("boot-"))
    for _ in range(boots):
        world.clock.reboot()
    world.clock.advance_ms(random.choice((200, 3000, 90_000, 7_200_000)))
    world._made = boots * _NUMBERS_OF_A_BOOT
    world.bodies.extend(replace(body) for body in seen.bodies)
    leave_journals(path.parent, seen.journals, fate=fate, random=random)
    for key, (_, bodies) in seen.journals.items():
        left = remember(path.parent, key, bodies, boot_id=world.clock.boot_id())
        if left is not None:
            world.supervisors[key] = left
    return world
