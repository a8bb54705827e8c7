"""The disk refuses the Nth file that a backup, a restore or a migration opens.

The database is there, as it was or as it is to be; what went wrong is said as an error of ours; and
the next try does it, with nothing left of the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from edgecron.base.errors import EdgecronError
from edgecron.client import Client
from edgecron.store.sqlite.store import open_store
from tests.powerloss.faults import Duration, Faults, Op, Trouble
from tests.powerloss.recorder import recording
from tests.support.clock import FakeClock
from tests.support.olddatabases import make_version_1
from tests.support.specs import make_spec

MOST = 40
DATABASE, BACKUP = "edge.db", "backup.db"
BEFORE = ["first", "later"]


def make_two(folder: Path) -> None:
    """A database, and a backup of before it had its second schedule."""
    with Client(folder / DATABASE, clock=FakeClock()) as client:
        client.add(make_spec("first"))
        client.backup(folder / BACKUP)
        client.add(make_spec("later"))


def make_old(folder: Path) -> None:
    make_version_1(folder / DATABASE)


def back_up(folder: Path) -> None:
    with Client(folder / DATABASE, clock=FakeClock()) as client:
        client.backup(folder / "another.db", replace=True)


def restore(folder: Path) -> None:
    with (
        Client(folder / DATABASE, clock=FakeClock()) as client,
        client.restoring(folder / BACKUP) as restoration,
    ):
        restoration.carry_out(skip_missed=False)


def migrate(folder: Path) -> None:
    open_store(folder / DATABASE, now_ms=FakeClock().now_ms()).close()


def names(folder: Path) -> list[str]:
    with Client(folder / DATABASE, clock=FakeClock()) as client:
        return [schedule.name for schedule in client.schedules()]


@pytest.mark.failure(51)
@pytest.mark.parametrize(
    ("trouble", "duration"),
    [(Trouble.IOERR, Duration.ONCE), (Trouble.READONLY, Duration.LASTING)],
)
@pytest.mark.parametrize(
    ("prepare", "act"), [(make_two, back_up), (make_two, restore), (make_old, migrate)]
)
def test_a_copy_that_can_not_be_opened_is_said_and_made_by_the_next_try(
    tmp_path: Path,
    prepare: Callable[[Path], None],
    act: Callable[[Path], None],
    trouble: Trouble,
    duration: Duration,
) -> None:
    refused = 0

    for nth in range(1, MOST, 2):
        folder = tmp_path / str(nth)
        folder.mkdir()
        prepare(folder)
        refusing = Faults(trouble=trouble, op=Op.OPEN, nth=nth, duration=duration)
        with recording(FakeClock(), folder, faults=refusing):
            refusing.arm()
            with suppress(EdgecronError):  # and no other
                act(folder)
            refusing.heal()
        if not refusing.met:
            break
        refused += 1
        if act is back_up:
            assert names(folder) == BEFORE
        elif act is restore:
            assert names(folder) in (BEFORE, ["first"])
        if act is not restore or names(folder) == BEFORE:
            act(folder)
        left = [path.name for path in folder.iterdir() if path.name.endswith((".partial", ".new"))]
        assert left == []

    assert refused > 3
