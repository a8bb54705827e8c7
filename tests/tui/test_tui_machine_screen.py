"""The dashboard's list of the machine's other schedules: what `scan` reports, read-only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from edgecron.base.paths import user_name
from edgecron.tui.app import OwnMachine
from tests.support.clock import FakeClock
from tests.support.machines import Machine
from tests.support.scene import Scene
from tests.tui.pilot import Seen, watch

SMALL, WIDE = (80, 24), (160, 48)
LINES = (
    "30 2 * * * /opt/copy all\n0 3 * * * /opt/one\n0 3 * * * /opt/two\n0 3 * * * /opt/three\n"
    "0~9 3 * * * /opt/random\n@reboot /opt/up\n"
)

NAMES = ["copy", "one", "two", "three", "random", "up", "off"]  # by their next times


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "root")
    machine.write(f"var/spool/cron/crontabs/{user_name()}", LINES)
    machine.add_timer("off", is_enabled=False)
    return machine


Story = Callable[[Seen], Awaitable[None]]


def look_at(scene: Scene, root: Path | None, story: Story, *, size: tuple[int, int]) -> None:
    """Run a story on the list of a machine's other schedules."""

    async def opened(seen: Seen) -> None:
        await seen.press("4")
        await seen.until(lambda: root is None or "can be adopted" in seen.text())
        await seen.settle()
        await story(seen)

    machine = None if root is None else OwnMachine(scene.path, root=root)
    watch(opened, scene.path, scene.clock, size=size, machine=machine)


@pytest.mark.parametrize("size", [SMALL, (120, 36), WIDE, (200, 60)])
def test_jobs_are_listed_by_their_next_times(
    scene: Scene, machine: Machine, size: tuple[int, int]
) -> None:
    async def story(seen: Seen) -> None:
        lines = seen.lines()
        found = [
            next(at for at, line in enumerate(lines) if f" {name}  " in line) for name in NAMES
        ]

        assert found == sorted(found)
        assert "6 jobs, 5 can be adopted" in seen.text()
        assert "1 off" in seen.text()

    look_at(scene, machine.root, story, size=size)


def test_the_facts_of_a_job_follow_the_cursor(scene: Scene, machine: Machine) -> None:
    async def story(seen: Seen) -> None:
        assert "edgecron adopt copy" in seen.text()
        assert "30 2 * * *   at 02:30" in seen.text()
        assert "the job is not run later" in seen.text()
        await seen.press("j")
        assert "one, two, three" in seen.text()
        await seen.press("G", "k", "k")
        assert "minute is '0~9'" in seen.text()

    look_at(scene, machine.root, story, size=WIDE)


def test_a_small_terminal_shows_all_facts_on_enter(scene: Scene, machine: Machine) -> None:
    machine.write("Library/LaunchAgents/broken.plist", "no list\n")

    async def story(seen: Seen) -> None:
        assert "1 file not read" in seen.text()
        await seen.press("enter")
        assert "edgecron adopt copy" in seen.text()
        await seen.press("G")
        assert "broken.plist" in seen.text()
        await seen.press("escape")
        assert "read-only" in seen.text()
        await seen.press("escape")
        assert "read-only" not in seen.text()

    look_at(scene, machine.root, story, size=SMALL)


def test_the_list_is_read_again_when_a_time_has_passed(scene: Scene, machine: Machine) -> None:
    async def story(seen: Seen) -> None:
        machine.write(f"var/spool/cron/crontabs/{user_name()}", "0 4 * * * /opt/later\n")
        assert isinstance(scene.clock, FakeClock)
        scene.clock.advance_ms(86_400_000)
        await seen.press("enter", "escape")
        await seen.until(lambda: "later" in seen.text())

    look_at(scene, machine.root, story, size=SMALL)


def test_names_of_others_are_never_markup(scene: Scene, machine: Machine) -> None:
    machine.write(
        f"var/spool/cron/crontabs/{user_name()}", "0 4 * * * /opt/x [red]\x1b]52;c;eA==\x07[/]\n"
    )

    async def story(seen: Seen) -> None:
        assert "\x1b" not in seen.text()
        assert "/opt/x [red]" in seen.text()

    look_at(scene, machine.root, story, size=WIDE)


def test_a_machine_without_other_schedules_says_so(scene: Scene, tmp_path: Path) -> None:
    async def story(seen: Seen) -> None:
        assert "no jobs of cron, systemd or launchd were found" in seen.text()
        await seen.press("enter", "j", "G")
        assert "read-only" in seen.text()

    (tmp_path / "empty").mkdir()
    look_at(scene, tmp_path / "empty", story, size=SMALL)


def test_the_dashboard_of_another_machine_refuses_it(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        assert "works only on their own machine" in seen.told()
        assert "read-only" not in seen.text()

    look_at(scene, None, story, size=SMALL)
