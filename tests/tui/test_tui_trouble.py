"""A database that is locked, lost, replaced, damaged or not there yet: told until it is well."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from errno import EIO
from pathlib import Path

import apsw
import pytest
from textual.drivers.headless_driver import HeadlessDriver

from edgecron.base.clock import Clock, SystemClock
from edgecron.client import Client
from edgecron.client.protocol import Client as AnyClient
from edgecron.tui.app import Dashboard
from edgecron.tui.database_app import DatabaseApp
from edgecron.tui.quick_add import QuickAdd
from edgecron.tui.upcoming import WeekView
from tests.support.clock import FakeClock, PacedClock
from tests.support.specs import make_spec
from tests.tui.pilot import ZONE, Seen, watch

_READ_WAIT_S = 0.1
_WRITE_WAIT_S = 20.0

Story = Callable[[Seen], Awaitable[None]]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "edgecron.db"
    make(path, "backup")
    return path


def make(path: Path, *names: str, clock: Clock | None = None) -> None:
    """A database in one file."""
    with Client(path, clock=clock or SystemClock()) as client:
        client.add_all([make_spec(name, "0 2 * * *") for name in names])


@pytest.fixture
def holder(database: Path) -> Iterator[apsw.Connection]:
    """Another program's connection."""
    with closing(apsw.Connection(str(database))) as connection:
        connection.set_busy_timeout(10_000)
        yield connection


def see(database: Path, story: Story, *, is_readable: bool = True) -> None:
    """Run a story on the dashboard as the command line opens it, with less patience."""
    watch(
        story,
        database,
        SystemClock(),
        is_readable=is_readable,
        busy_wait_s=_READ_WAIT_S,
        writing=lambda must_exist: Client(
            database, must_exist=must_exist, busy_wait_s=_WRITE_WAIT_S
        ),
    )


def words_of(seen: Seen) -> str:
    """What the screen shows, however its lines are folded."""
    return " ".join(seen.text().split())


def is_well(seen: Seen) -> bool:
    return not seen.app.screen.query_one("#banner").display


@pytest.mark.failure(74)
def test_what_is_to_be_written_waits_for_another_program_and_a_banner_tells_it(
    database: Path, holder: apsw.Connection
) -> None:
    async def story(seen: Seen) -> None:
        holder.execute("BEGIN IMMEDIATE")
        await seen.pilot.press("r")
        await seen.until(lambda: "another program holds the database lock" in seen.text())
        assert "backup" in seen.text()
        holder.execute("ROLLBACK")
        await seen.until(lambda: is_well(seen))

    see(database, story)


@pytest.mark.failure(74)
def test_undo_pressed_while_an_action_waits_never_undoes_a_later_change(
    database: Path, holder: apsw.Connection
) -> None:
    async def story(seen: Seen) -> None:
        holder.execute("BEGIN IMMEDIATE")
        await seen.pilot.press("r", "z", "z", "z")
        holder.execute("ROLLBACK")
        await seen.until(lambda: "nothing to undo" in seen.told())
        await seen.press("p", "enter")

    see(database, story)
    with Client(database) as client:
        assert not client.schedule("backup").enabled


@pytest.mark.failure(74)
def test_undo_pressed_while_an_action_waits_asks_once_about_several_schedules(
    database: Path, holder: apsw.Connection
) -> None:
    make(database, "report")

    async def story(seen: Seen) -> None:
        await seen.press("*", "p", "enter")
        holder.execute("BEGIN IMMEDIATE")
        await seen.pilot.press("r", "z", "z")
        holder.execute("ROLLBACK")
        await seen.until(lambda: "Undo the last change of 2 schedules?" in seen.text())
        await seen.press("enter")
        assert "Undo the last change" not in seen.text()

    see(database, story)
    with Client(database) as client:
        assert all(one.enabled for one in client.schedules())


@pytest.mark.failure(74)
def test_it_is_asked_before_what_waits_to_be_written_is_left(
    database: Path, holder: apsw.Connection
) -> None:
    async def story(seen: Seen) -> None:
        home = seen.app.screen
        holder.execute("BEGIN IMMEDIATE")
        await seen.pilot.press("r")
        await seen.until(lambda: "another program holds the database lock" in seen.text())
        await seen.pilot.press("q")
        await seen.until(lambda: "Leave now?" in seen.text())
        await seen.pilot.press("n")
        await seen.until(lambda: seen.app.screen is home)
        holder.execute("ROLLBACK")
        await seen.until(lambda: is_well(seen))
        await seen.pilot.press("q")
        await seen.until(lambda: not seen.app.is_running)

    see(database, story)


@pytest.mark.failure(74)
def test_a_database_that_nobody_else_may_read_is_told_until_it_may_be_read_again(
    database: Path,
) -> None:
    async def story(seen: Seen) -> None:
        await seen.until(lambda: "backup" in seen.text())

    see(database, story)

    with closing(apsw.Connection(str(database))) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN IMMEDIATE; UPDATE schedules SET description = 'x'; COMMIT")

        async def locked(seen: Seen) -> None:
            await seen.until(lambda: not is_well(seen))
            assert "lock" in seen.text()
            holder.close()
            await seen.until(lambda: is_well(seen) and "backup" in seen.text())

        see(database, locked, is_readable=False)


@pytest.mark.failure(74)
def test_a_database_that_is_lost_is_told_and_shown_when_it_is_back(database: Path) -> None:
    aside = database.with_name("aside.db")

    async def story(seen: Seen) -> None:
        database.rename(aside)
        await seen.until(
            lambda: (
                "does not exist: another program removed or replaced it (put the file back"
                in words_of(seen)
            )
        )
        assert "backup" in seen.text()  # what was known of it
        await seen.pilot.press("r")
        await seen.until(lambda: "does not exist" in seen.told())
        assert "restore a backup" in seen.told()
        assert not database.exists()  # no other one takes its place
        database.touch()
        await seen.until(lambda: "is an empty file: another program removed" in words_of(seen))
        await seen.pilot.press("r")
        await seen.until(lambda: "is an empty file" in seen.told())
        assert "restore a backup" in seen.told()
        aside.rename(database)
        await seen.until(lambda: is_well(seen))
        await seen.settle()
        assert "backup" in seen.text()

    see(database, story)


@pytest.mark.failure(74)
def test_a_database_that_is_replaced_is_shown_at_once(database: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    make(other, "restored")

    async def story(seen: Seen) -> None:
        for suffix in ("-wal", "-shm"):
            database.with_name(f"{database.name}{suffix}").unlink(missing_ok=True)
        other.replace(database)
        await seen.until(lambda: "restored" in seen.text() and is_well(seen))
        assert "backup" not in seen.text()

    see(database, story)


@pytest.mark.failure(74)
def test_a_damaged_database_is_told_and_shown_when_a_good_one_takes_its_place(
    database: Path, tmp_path: Path
) -> None:
    good = tmp_path / "good.db"
    shutil.copy(database, good)
    good.chmod(0o600)
    database.write_bytes(database.read_bytes()[:1024] + b"\xa5" * 40_000)

    async def story(seen: Seen) -> None:
        await seen.until(lambda: not is_well(seen) and "damaged" in seen.text())
        good.replace(database)
        await seen.until(lambda: is_well(seen) and "backup" in seen.text())

    see(database, story, is_readable=False)


def test_where_there_is_no_database_yet_the_screen_says_how_to_begin(tmp_path: Path) -> None:
    database = tmp_path / "new.db"

    async def story(seen: Seen) -> None:
        await seen.until(lambda: not is_well(seen))
        assert "does not exist yet: press a to create it with a first schedule" in words_of(seen)
        assert not database.exists()
        await seen.pilot.press("a")
        await seen.until(lambda: isinstance(seen.app.screen, QuickAdd))
        await seen.press("escape")
        await seen.until(lambda: is_well(seen) and "no schedules yet" in seen.text())
        make(database, "backup")
        await seen.until(lambda: "backup" in seen.text())

    see(database, story, is_readable=False)


def test_a_week_whose_counting_was_cut_off_is_counted_anew(tmp_path: Path) -> None:
    database, aside, clock = tmp_path / "edgecron.db", tmp_path / "aside.db", FakeClock()
    make(database, *(f"job-{number}" for number in range(300)), clock=clock)

    async def story(seen: Seen) -> None:
        await seen.press("1")
        await seen.until(lambda: "300 /h" in seen.text())
        clock.advance_ms(60_000)
        seen.app.screen.query_one(WeekView).read()
        seen.app.ask("aside", lambda client: database.rename(aside), lambda _: None)
        await seen.until(lambda: not is_well(seen))
        aside.rename(database)
        await seen.until(lambda: is_well(seen))
        await seen.settle()
        make(database, "one-more", clock=clock)
        clock.advance_ms(60_000)
        await seen.until(lambda: "301 /h" in seen.text())

    watch(story, database, clock, size=(160, 48))


def test_a_week_is_counted_to_its_end_though_keys_are_typed_meanwhile(tmp_path: Path) -> None:
    database, clock = tmp_path / "edgecron.db", PacedClock()
    clock.pace_ms = 3
    make(database, *(f"job-{number}" for number in range(300)), clock=clock)

    async def story(seen: Seen) -> None:
        await seen.press("1", "j", "k")
        await seen.until(lambda: "300 /h" in seen.text())

    watch(story, database, clock, size=(160, 48))


def test_what_changes_right_after_a_week_was_counted_is_counted_when_it_is_time_to(
    tmp_path: Path,
) -> None:
    database, clock = tmp_path / "edgecron.db", FakeClock()
    make(database, "backup", clock=clock)
    with Client(database, clock=clock) as client:
        client.add(
            make_spec("often", "every 30s")
        )  # due so soon that the screen is drawn each second

    async def story(seen: Seen) -> None:
        await seen.press("1")
        await seen.until(lambda: "▒ 1 /h" in seen.text())
        make(database, "one-more", clock=clock)
        await seen.until(lambda: "one-more" in seen.text())
        assert "▒ 1 /h" in seen.text()
        clock.advance_ms(20_000)
        await seen.until(lambda: "▒ 2 /h" in seen.text())

    watch(story, database, clock, size=(160, 48))


def test_a_defect_on_the_thread_that_asks_ends_the_dashboard_with_it(database: Path) -> None:
    def ask(client: AnyClient) -> None:
        raise RuntimeError("a defect")

    async def story(seen: Seen) -> None:
        assert isinstance(seen.app, DatabaseApp)
        seen.app.ask("defect", ask, lambda _: None)
        await seen.until(lambda: seen.app.crash is not None)

    with pytest.raises(RuntimeError, match="a defect"):
        see(database, story)


class _GoneDriver(HeadlessDriver):
    """A terminal that is gone when the dashboard starts, and when it gives the terminal back."""

    def start_application_mode(self) -> None:
        raise OSError(EIO, os.strerror(EIO))

    def disable_input(self) -> None:
        raise OSError(EIO, os.strerror(EIO))


def test_no_thread_outlives_a_terminal_that_is_gone(database: Path) -> None:
    dashboard = Dashboard(
        lambda: Client(database), clock=SystemClock(), zone=ZONE, driver_class=_GoneDriver
    )

    with pytest.raises(OSError, match=os.strerror(EIO)):
        dashboard.run()
    names = [one.name for one in threading.enumerate()]
    dashboard.stop_threads()

    assert not [name for name in names if name.startswith("dashboard-")]
