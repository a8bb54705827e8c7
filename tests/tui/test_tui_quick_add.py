"""A schedule in one line: what it means, its preview, and what is saved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from edgecron.base.errors import NotFound
from edgecron.formats.document_tables import schedule_table
from edgecron.tui.form import ScheduleForm
from edgecron.tui.home import HomeScreen
from edgecron.tui.quick_add import QuickAdd, find_shell_sign, split_line
from tests.support.scene import Scene
from tests.tui.pilot import Seen, watch
from tests.tui.snapshots import check_sizes

SMALL, LARGE = (80, 24), (160, 48)


def add(
    scene: Scene, story: Callable[[Seen], Awaitable[None]], *, size: tuple[int, int] = SMALL
) -> None:
    """Tell a story that begins with the line."""

    async def opened(seen: Seen) -> None:
        await seen.press("a")
        assert isinstance(seen.app.screen, QuickAdd)
        await story(seen)

    watch(opened, scene.path, scene.clock, size=size)


def table_of(scene: Scene, name: str) -> dict[str, object]:
    with scene.client() as client:
        return schedule_table(client.schedule(name))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("every weekday at 9 run ./sync.sh", ("", "every weekday at 9", "./sync.sh")),
        ("sync: daily run ./sync.sh -v", ("sync", "daily", "./sync.sh -v")),
        ("daily at 9; at boot run ls", ("", "daily at 9\nat boot", "ls")),
        ("0 2 * * * -- ls -- x", ("", "0 2 * * *", "ls -- x")),
        ("after backup:failure run ls", ("", "after backup:failure", "ls")),
        ("daily RUN npm run build", ("", "daily", "npm run build")),
        ("daily run", ("", "daily", "")),
        ("daily runner", ("", "daily runner", "")),
        ("run ls", ("", "", "ls")),
        ("", ("", "", "")),
    ],
)
def test_a_line_is_split_into_name_time_and_job(text: str, parts: tuple[str, str, str]) -> None:
    assert split_line(text) == parts


@pytest.mark.parametrize(
    ("command", "sign"),
    [
        ("tar czf /srv/x.tgz /home", ""),
        ("echo 'a | b; $x' \"c & d\" e\\|f", ""),
        ("curl x | grep ok", "|"),
        ("a && b", "&"),
        ("a; b", ";"),
        ("echo \"$HOME\"", "$"),
        ("ls *.txt", "*"),
        ("date > /tmp/x", ">"),
        ("LANG=C sort x", "LANG="),
        ("ls ~", "~"),
        ("ls ~/photos", "~"),
        ("tar czf a.tgz b # weekly", "#"),
        ("rm log.?", "?"),
        ("rm log.[0-9]", "["),
        ("curl -fsS example.org/a#top", ""),
        ("rsync a~ b", ""),
        (r"ls \~ '?' '#'", ""),
    ],
)  # fmt: skip
def test_a_sign_that_only_a_shell_reads_is_found(command: str, sign: str) -> None:
    assert find_shell_sign(command) == sign


def test_a_line_looks_as_it_was_drawn(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.write("every weekday at 9 run curl -fsS example.org | grep ok")
        await check_sizes(seen, "quick-add", SMALL, LARGE, (40, 12))

    add(scene, story)


def test_enter_adds_the_schedule_and_the_cursor_goes_to_it(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.write("every weekday at 9 run ./sync.sh --all")
        await seen.press("enter")
        assert "added sync; next" in seen.told()
        assert isinstance(seen.app.screen, HomeScreen)
        assert "sync" in str(seen.app.screen.current_view().current())

    add(scene, story)

    assert table_of(scene, "sync") == {"cron": "0 9 * * MON-FRI", "command": ["./sync.sh", "--all"]}


def test_undo_takes_the_new_schedule_back(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.write("hourly run ./sync.sh")
        await seen.press("enter", "z")

    add(scene, story)

    with scene.client() as client, pytest.raises(NotFound):
        client.schedule("sync")


def test_shell_syntax_makes_a_shell_line_and_a_key_changes_that(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.write("piped: hourly run cat x | wc")
        assert "shell line  (it has |" in seen.text()
        await seen.press("ctrl+t")
        assert "as       command" in seen.text()
        await seen.press("ctrl+t", "enter")

    add(scene, story)

    assert table_of(scene, "piped") == {"cron": "@hourly", "shell": "cat x | wc"}


def test_a_name_that_is_taken_gets_a_number_unless_it_was_written(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.write("hourly run weather")
        assert "name     weather-2" in seen.text()
        await seen.press("home")
        await seen.write("weather: ")
        assert "exists already" in seen.text()
        await seen.press("enter")
        assert isinstance(seen.app.screen, QuickAdd)
        assert "not added" in seen.text()

    add(scene, story)


def test_enter_says_what_is_missing(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.write("hourly")
        await seen.press("enter")
        assert "not added: write run COMMAND" in seen.text()
        await seen.write(" run ls")
        assert "not added" not in seen.text()
        await seen.press("escape")
        assert isinstance(seen.app.screen, HomeScreen)

    add(scene, story)


def test_tab_goes_on_in_the_form_with_what_was_written(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.write("photos: first monday at 9; at boot run ls | wc")
        await seen.press("tab")
        form = seen.app.screen
        assert isinstance(form, ScheduleForm)
        texts = form.texts
        assert (texts["name"], texts["kind"], texts["job"]) == ("photos", "shell", "ls | wc")
        await seen.press("ctrl+s")
        assert isinstance(seen.app.screen, HomeScreen)

    add(scene, story, size=LARGE)

    assert table_of(scene, "photos") == {
        "cron": "0 9 * * MON#1",
        "on_boot": True,
        "shell": "ls | wc",
    }
