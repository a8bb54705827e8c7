"""The screen of one run: what is told of it, what it prints while one looks, and each key."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from edgecron.base.clock import SystemClock
from edgecron.formats.config import Config
from edgecron.model.choices import JobKind, Status
from edgecron.model.job import Job
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.retention import Retention
from edgecron.tui.app import Appearance
from edgecron.tui.form import ScheduleForm
from edgecron.tui.keys import keys_of, labels_of
from edgecron.tui.output_view import OutputView
from edgecron.tui.run_screen import RunScreen
from tests.support.engines import Place
from tests.support.scene import Scene
from tests.support.standins import script
from tests.tui.pilot import Seen, watch
from tests.tui.snapshots import check_screen, check_sizes

SMALL, LARGE = (80, 24), (160, 48)
LEAST_OUTPUT = 14  # lines of it at 80x24
# Runs of the scene: an attempt that failed, one with much output and some of it on stderr, one
# that goes on, one that waits, one that was left out.
FAILED, LONG, RUNNING, QUEUED, SKIPPED = 6, 51, 1673, 1675, 446
NAMES = {FAILED: "failed", LONG: "long", RUNNING: "running", QUEUED: "queued", SKIPPED: "skipped"}

Story = Callable[[Seen], Awaitable[None]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


def screen_of(seen: Seen) -> RunScreen:
    screen = seen.app.screen
    assert isinstance(screen, RunScreen)
    return screen


def is_read(seen: Seen) -> bool:
    """Whether all is there that the screen of a run shows at first."""
    screen = seen.app.screen
    if not isinstance(screen, RunScreen) or screen.found is None:
        return False
    return screen.end is not None or screen.view.count > 0 or bool(screen.view.empty)


async def arrive(seen: Seen, execution_id: int) -> None:
    """Wait until the screen of another run is there."""
    await seen.until(lambda: is_read(seen) and screen_of(seen).execution_id == execution_id)


async def open_run(seen: Seen, execution_id: int) -> None:
    seen.app.push_screen(RunScreen(execution_id))
    await seen.until(lambda: is_read(seen))
    await seen.settle()


def look_at(
    scene: Scene,
    execution_id: int,
    story: Story,
    size: tuple[int, int] = SMALL,
    **options: Any,
) -> None:
    """Run a story on the screen of a run of the scene."""

    async def opened(seen: Seen) -> None:
        await open_run(seen, execution_id)
        if execution_id == RUNNING:
            await seen.until(lambda: screen_of(seen).view.count > 0)
        elif execution_id != QUEUED:
            await seen.until(lambda: screen_of(seen).end is not None)
        await seen.settle()
        await story(seen)

    watch(opened, scene.path, scene.clock, size=size, **options)


def look_live(place: Place, execution_id: int, story: Story) -> None:
    """Run a story on the screen of a run of a real engine."""

    async def opened(seen: Seen) -> None:
        await open_run(seen, execution_id)
        await story(seen)

    watch(opened, place.database, SystemClock(), size=SMALL)


# What it shows.


def test_the_title_names_the_configured_keys_of_the_runs_beside_it(scene: Scene) -> None:
    keys = {"EDGECRON_DASHBOARD_KEYS_OLDER_RUN": "P", "EDGECRON_DASHBOARD_KEYS_NEWER_RUN": "none"}
    config = Config((), environ=keys)
    execution_id = next(iter(NAMES))

    async def story(seen: Seen) -> None:
        assert seen.lines()[0].endswith(f"P run {execution_id} >")

    appearance = Appearance(keys=keys_of(config), labels=labels_of(config))
    look_at(scene, execution_id, story, appearance=appearance)


def above_keys(seen: Seen) -> list[str]:
    """The screen without its bottom line, which has a test of its own."""
    return seen.lines()[:-1]


@pytest.mark.parametrize("execution_id", NAMES, ids=NAMES.get)
def test_it_looks_as_it_was_drawn_and_most_of_a_small_screen_is_output(
    scene: Scene, execution_id: int
) -> None:
    async def story(seen: Seen) -> None:
        assert screen_of(seen).view.size.height >= LEAST_OUTPUT
        await check_sizes(seen, f"run-{NAMES[execution_id]}", SMALL, LARGE, lines=above_keys)

    look_at(scene, execution_id, story)


def test_how_far_it_is_shows_as_a_bar(scene: Scene) -> None:
    with scene.client() as client:
        client.report_progress(RUNNING, 0.4, "copied 12 of 30: photos/2024/07/IMG_2291.jpg")

    async def story(seen: Seen) -> None:
        await check_sizes(seen, "run-progress", LARGE, SMALL, lines=above_keys)

    look_at(scene, RUNNING, story, LARGE)


def test_how_far_it_is_shows_while_it_is_told(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        with scene.client() as client:
            client.report_progress(RUNNING, None, "reading the catalogue")
            await seen.until(lambda: "progress  reading the catalogue" in seen.text())
            client.store.report_progress(RUNNING, '{"fraction":0.9999,"text":""}')
            await seen.until(lambda: " 99%" in seen.text())
        assert screen_of(seen).view.size.height >= LEAST_OUTPUT

    look_at(scene, RUNNING, story)


def test_all_facts_look_as_they_were_drawn(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("i")
        check_screen(seen.lines()[:-1], "run-failed-facts-80x24")

    look_at(scene, FAILED, story)


def test_the_bottom_line_names_the_keys_of_the_output(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        for key in ("esc back", "/ search", "w wrap", "y copy", "o save", "i facts"):
            assert key in seen.lines()[-1]

    look_at(scene, LONG, story)


def test_a_tiny_screen_shows_how_it_went_and_some_output(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        lines = seen.lines()
        assert "backup-photos" in lines[0]
        assert any("took" in line for line in lines)
        assert lines[-2].strip() == "snapshot 3cc77ed4 saved"

    look_at(scene, LONG, story, (40, 10))


def test_other_attempts_are_named(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("i")
        text = " ".join(seen.text().split())
        assert "attempt 2 of 3; previous: run 6; next: run 8" in text

    look_at(scene, FAILED + 1, story)


def test_a_run_that_is_not_there_is_told(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        seen.app.push_screen(RunScreen(999_999))
        await seen.until(lambda: "there is no run 999999" in seen.text())
        for key in ("i", "slash", "escape", "space", "y", "[", "]", "w", "t", "f"):
            await seen.press(key)
        await seen.press("escape")
        assert not isinstance(seen.app.screen, RunScreen)

    watch(story, scene.path, scene.clock, size=SMALL)


def test_what_retention_has_removed_is_said(scene: Scene) -> None:
    with scene.client() as client:
        client.prune(retention=Retention(output_bytes=0))

    async def story(seen: Seen) -> None:
        assert "run 51 printed 5 KiB, which retention removed at 2026-11-20" in seen.text()

    look_at(scene, LONG, story)


def test_values_of_variables_that_look_like_secrets_are_hidden(place: Place) -> None:
    env = {"API_TOKEN": "hunter2", "COLOR": "green"}
    job = Job(kind=JobKind.SHELL, argv=("true",), env=env)
    place.client.add(ScheduleSpec(name="job", triggers=("@yearly",), job=job))
    [run] = place.client.run_now("job")

    async def story(seen: Seen) -> None:
        await seen.press("i", "G")
        assert "hunter2" not in seen.text()
        assert "API_TOKEN=(hidden" in seen.text()
        assert "COLOR=green" in seen.text()
        assert f"EDGECRON_RUN_ID={run.id}" in seen.text()

    look_live(place, run.id, story)


# While it runs.


def test_a_run_is_followed_to_its_end(place: Place) -> None:
    place.add("job", "@yearly", f"echo one; {place.gate.line}; echo two >&2; exit 7")
    place.daemon()
    [run] = place.client.run_now("job")
    place.gate.wait_arrival()

    async def story(seen: Seen) -> None:
        await seen.until(lambda: "one" in seen.text())
        assert "following" in seen.text()
        assert "▸ running" in seen.lines()[0]
        place.gate.open()
        await seen.until(lambda: "✗ failed" in seen.lines()[0])
        await seen.until(lambda: screen_of(seen).end is not None)
        await seen.settle()

        assert "▌ two" in seen.lines()
        assert "exit code 7" in seen.text()
        assert "following" not in seen.text()

    look_live(place, run.id, story)


def test_a_run_that_waits_is_followed_when_it_starts(place: Place) -> None:
    place.add("job", "@yearly", "echo late")
    [run] = place.client.run_now("job")

    async def story(seen: Seen) -> None:
        assert "○ queued" in seen.lines()[0]
        assert "has not started yet: no engine is running" in seen.text()
        place.daemon()
        await seen.until(lambda: "✓ success" in seen.lines()[0])
        await seen.until(lambda: "  late" in seen.lines())

    look_live(place, run.id, story)


@pytest.mark.failure(72)
def test_hostile_output_and_errors_stay_inside(place: Place) -> None:
    hostile = r"\033]52;c;eA==\007 \033[31m [red]x[/] \302\2332J \342\200\256 \377 \000 \r\n"
    place.add("job", "@yearly", f"printf '{hostile}'; printf '{hostile}' >&2; exit 1")
    daemon = place.daemon()
    [run] = place.client.run_now("job")
    daemon.wait_for("ended")

    async def story(seen: Seen) -> None:
        await seen.until(lambda: screen_of(seen).end is not None)
        for key in ("t", "w", "i", "space"):
            await seen.press(key)
            assert "[red]x[/]" in seen.text()
            assert all(letter.isprintable() or letter == "\n" for letter in seen.text())

    look_live(place, run.id, story)


def test_leaving_it_ends_its_thread_and_leaves_the_run_alone(place: Place) -> None:
    place.add("job", "@yearly", f"echo one; {place.gate.line}")
    place.daemon()
    [run] = place.client.run_now("job")
    place.gate.wait_arrival()

    async def story(seen: Seen) -> None:
        name = f"dashboard-output-{run.id}"
        await seen.until(lambda: "one" in seen.text())
        assert name in [thread.name for thread in threading.enumerate()]
        await seen.press("escape")
        await seen.until(lambda: name not in [thread.name for thread in threading.enumerate()])
        assert place.client.execution(run.id).status is Status.RUNNING

    look_live(place, run.id, story)


# Keys.


def test_enter_in_the_list_of_runs_opens_it_and_escape_goes_back(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("3", "enter")
        await seen.until(lambda: is_read(seen))
        newest = screen_of(seen).execution_id
        await seen.press("escape")
        assert not isinstance(seen.app.screen, RunScreen)
        await seen.press("j", "enter")
        await seen.until(lambda: is_read(seen))

        assert screen_of(seen).execution_id < newest

    watch(story, scene.path, scene.clock, size=SMALL)


def test_brackets_go_to_the_other_runs_of_the_schedule(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        for key, execution_id in (("]", 7), ("]", 8), ("[", 7), ("[", 6)):
            await seen.press(key)
            await seen.until(lambda: is_read(seen))
            assert screen_of(seen).execution_id == execution_id
            assert "backup-home" in seen.lines()[0]
        await seen.press("[")
        assert seen.told() == "this is the schedule's oldest run"
        await seen.press("escape")
        assert not isinstance(seen.app.screen, RunScreen)

    look_at(scene, FAILED, story)


def test_a_click_on_a_bracket_goes_there_too(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        for bracket, execution_id in (("]", 7), ("[", 6)):
            await seen.pilot.click("#top", offset=(seen.lines()[0].index(bracket), 0))
            await arrive(seen, execution_id)

    look_at(scene, FAILED, story)


def test_the_scroll_bar_is_right_if_it_appears_after_a_move(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        view, before = screen_of(seen).view, seen.text()
        view.show_vertical_scrollbar = False
        view.scroll_to(y=0, animate=False, force=True)
        view.show_vertical_scrollbar = True
        assert view.vertical_scrollbar.position == 0
        await seen.press("G")
        assert seen.text() == before

    look_at(scene, LONG, story)


def test_facts_unfold_and_fold(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        folded = seen.text()
        await seen.press("i")
        assert "supervisor" not in folded
        assert " Times ──" in seen.text()
        await seen.press("G")
        assert "EDGECRON_IDEMPOTENCY_KEY" in seen.text()
        await seen.press("i", "k")
        assert seen.text() != folded  # Keys are for the output again.
        await seen.press("G")
        assert seen.text() == folded

    look_at(scene, LONG, story)


def test_a_search_is_written_below_and_gone_through(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("slash")
        await seen.write("meanwhile")
        assert seen.lines()[-1] == " /meanwhile"
        assert "of 4 lines" in seen.text()
        await seen.press("enter")
        first = screen_of(seen).view.hit
        await seen.press("n")
        assert screen_of(seen).view.hit != first
        await seen.press("N")
        assert screen_of(seen).view.hit == first
        await seen.press("escape")
        assert "/meanwhile" not in seen.text()
        assert isinstance(seen.app.screen, RunScreen)

    look_at(scene, LONG, story)


def test_a_search_that_is_left_goes_back_to_where_it_began(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        before = seen.text()
        await seen.press("slash")
        await seen.write("open repository")
        assert seen.text() != before
        await seen.press("escape")
        assert seen.text() == before

    look_at(scene, LONG, story)


def test_wrap_times_and_follow_are_keys_of_the_screen(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        view = screen_of(seen).view
        await seen.press("w", "t", "k")
        assert (view.is_wrapped, view.has_times, view.is_following) == (True, True, False)
        await seen.press("f")
        assert view.is_following

    look_at(scene, LONG, story)


def test_what_is_selected_is_copied_to_the_terminal(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)

    async def story(seen: Seen) -> None:
        await seen.press("space", "k", "y")
        assert seen.app.clipboard.splitlines()[-1] == "snapshot 3cc77ed4 saved"
        assert len(seen.app.clipboard.splitlines()) == 2
        assert seen.told() == "copied 2 lines to the terminal's clipboard"
        assert screen_of(seen).view.selection is None

    look_at(scene, LONG, story)


def test_without_a_selection_the_whole_output_is_copied(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("y")
        view = screen_of(seen).view
        assert len(seen.app.clipboard.splitlines()) == view.count > 3
        assert f"copied {view.count} lines" in seen.told()

    with monkeypatch.context() as without:  # The scene's end needs the variables again.
        without.setattr(os, "environ", {})
        look_at(scene, 80, story)


def test_a_run_that_has_ended_is_neither_followed_nor_cancelled(scene: Scene) -> None:
    async def ended(seen: Seen) -> None:
        assert "follow" not in seen.lines()[-1]
        assert "cancel" not in seen.lines()[-1]

    async def running(seen: Seen) -> None:
        assert "f follow" in seen.lines()[-1]
        assert "x cancel" in seen.lines()[-1]

    look_at(scene, 80, ended, size=(160, 48))
    look_at(scene, 1673, running, size=(160, 48))


def test_the_schedule_of_a_run_is_edited_from_its_screen(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("e")
        assert isinstance(seen.app.screen, ScheduleForm)
        assert seen.app.screen.texts["name"] == "backup-home"

    look_at(scene, 80, story)


def test_a_program_of_the_desktop_takes_the_copy_too(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, f"cat >{tmp_path}/got", name="wl-copy")
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    async def story(seen: Seen) -> None:
        await seen.press("space", "y")
        await seen.until(lambda: seen.told() == "copied 1 line with wl-copy")
        assert (tmp_path / "got").read_text(encoding="utf-8") == "snapshot 3cc77ed4 saved\n"

    look_at(scene, LONG, story)


def test_the_output_is_saved_under_a_name_that_is_asked_for(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = folder / "backup-photos-51.log"

    async def story(seen: Seen) -> None:
        await seen.press("o")
        assert "backup-photos-51.log" in seen.text()
        await seen.press("enter")
        await seen.until(lambda: seen.told().startswith("wrote "))
        size_bytes = path.stat().st_size
        assert f"wrote {size_bytes:,} bytes" in seen.told()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text(encoding="utf-8").endswith("saved\n")

    look_at(scene, LONG, story)


def test_a_file_is_replaced_only_after_a_question(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "backup-photos-51.log"
    path.write_text("mine", encoding="utf-8")

    async def story(seen: Seen) -> None:
        await seen.press("o", "enter")
        await seen.until(lambda: "already exists" in seen.text())
        await seen.press("n")
        assert path.read_text(encoding="utf-8") == "mine"
        await seen.press("o", "enter")
        await seen.until(lambda: "already exists" in seen.text())
        await seen.press("y")
        await seen.until(lambda: path.read_text(encoding="utf-8") != "mine")

    look_at(scene, LONG, story)


@pytest.mark.failure(72)
def test_a_planted_name_is_harmless_where_its_output_is_saved(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(apsw.Connection(str(scene.path))) as connection:
        connection.execute(
            "UPDATE schedules SET name = ? WHERE name = 'backup-photos'", ("../\x1b]52;c;eA==\x07",)
        )

    async def story(seen: Seen) -> None:
        await seen.press("o")
        assert "..-\\x1b]52;c;eA==\\x07-51.log" in seen.text()
        assert "\x1b" not in seen.text()

    look_at(scene, LONG, story)


def test_saving_asks_for_a_place_in_a_folder_that_was_removed(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "removed"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()

    async def story(seen: Seen) -> None:
        await seen.press("o", "enter")
        await seen.until(lambda: "the current folder, which was removed" in seen.told())

    look_at(scene, LONG, story)


def test_a_pager_is_refused_where_there_is_no_terminal(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("v")
        assert seen.told() == "a pager needs a terminal of its own"

    look_at(scene, LONG, story)


def test_a_run_can_be_ended_from_its_screen(place: Place) -> None:
    place.add("job", "@yearly", f"echo one; {place.gate.line}")
    place.daemon()
    [run] = place.client.run_now("job")
    place.gate.wait_arrival()

    async def story(seen: Seen) -> None:
        await seen.press("x", "y")
        await seen.until(lambda: "⊘ cancelled" in seen.lines()[0])

    look_live(place, run.id, story)


def test_a_run_is_opened_from_its_schedule(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("enter")
        await seen.settle()
        await seen.press("tab", "enter")
        await seen.until(lambda: is_read(seen))
        assert isinstance(seen.app.screen.focused, OutputView)

    watch(story, scene.path, scene.clock, size=LARGE)


def test_a_job_without_limit_is_looked_at_in_flat_memory(place: Place) -> None:
    flood = "head -c 100000000 /dev/zero | tr '\\0' 'a' | fold -w 100"
    job = Job(kind=JobKind.SHELL, argv=(f"{place.gate.line}; {flood}; echo; echo over",))
    place.client.add(ScheduleSpec(name="job", triggers=("@yearly",), job=job))
    place.daemon()
    [run] = place.client.run_now("job")
    place.gate.wait_arrival()

    async def story(seen: Seen) -> None:
        place.gate.open()
        await seen.until(lambda: screen_of(seen).end is not None)
        await seen.settle()
        view = screen_of(seen).view
        kept = sum(len(line.text) for line in view.printed.lines())
        assert kept < 24 * 1024 * 1024
        assert "  over" in seen.lines()

    look_live(place, run.id, story)
