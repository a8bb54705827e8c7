"""The form to add a schedule, or to change one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from textual.color import Color
from textual.events import Key, Paste

from edgecron.base.errors import NotFound
from edgecron.formats.document_tables import schedule_table
from edgecron.model.schedule import Schedule
from edgecron.tui.dialogs import ConfirmDialog
from edgecron.tui.form import ScheduleForm
from edgecron.tui.form_widgets import Choice, FieldLine, FieldLines, FieldRow, SectionHead
from edgecron.tui.home import HomeScreen
from edgecron.tui.schedule_screen import ScheduleScreen
from edgecron.tui.text_line import LEAST_CONTRAST, LineInput, contrast
from tests.support.scene import Scene
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, watch
from tests.tui.snapshots import check_sizes

SMALL, LARGE = (80, 24), (160, 48)
Tale = Callable[[Seen], Awaitable[None]]


def add(scene: Scene, tale: Tale, *, size: tuple[int, int] = LARGE, **options: Any) -> None:
    """Tell a tale that begins in the form for a new schedule."""

    async def opened(seen: Seen) -> None:
        await seen.press("A")
        assert isinstance(seen.app.screen, ScheduleForm)
        await tale(seen)

    watch(opened, scene.path, scene.clock, size=size, **options)


def edit(scene: Scene, name: str, tale: Tale, *, size: tuple[int, int] = LARGE) -> None:
    """Tell a tale that begins in the form of a schedule."""

    async def opened(seen: Seen) -> None:
        seen.app.push_screen(ScheduleScreen(name))
        await seen.settle()
        await seen.press("e")
        assert isinstance(seen.app.screen, ScheduleForm)
        await tale(seen)

    watch(opened, scene.path, scene.clock, size=size)


async def fill(seen: Seen, **texts: str) -> None:
    """Write into fields in the place of what stands there, and wait until all are checked."""
    for field, text in texts.items():
        editor = seen.app.screen.query_one(f"#row-{field}", FieldRow).editor
        assert isinstance(editor, FieldLine | FieldLines)
        editor.focus(scroll_visible=False)  # To scroll, all fields would be laid out again.
        editor.clear()
        editor.post_message(Paste(text))
    await seen.settle()


def told(seen: Seen, field: str) -> str:
    """What is said below a field."""
    row = seen.app.screen.query_one(f"#row-{field}", FieldRow)
    shown = [part.region for part in row.query(".message") if part.display]
    if not shown:
        return ""
    [region] = shown
    lines = seen.lines()[region.y : region.bottom]
    return " ".join(line[region.x : region.right].strip() for line in lines)


def schedule(scene: Scene, name: str) -> Schedule:
    with scene.client() as client:
        return client.schedule(name)


def origins(scene: Scene) -> Mapping[str, str]:
    with scene.client() as client:
        return client.store.find_origins()


def test_a_new_one_looks_as_it_was_drawn(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        await fill(
            seen,
            name="report",
            when="30 2 * * SUN\nevery 15 parsecs",
            job="/bin/true",
            cwd="/nowhere",
        )
        await check_sizes(seen, "form-new", LARGE, SMALL)

    add(scene, tale)


def test_one_that_is_changed_looks_as_it_was_drawn(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        await check_sizes(seen, "form-edit", SMALL, LARGE)

    edit(scene, "prune-snapshots", tale, size=SMALL)


def test_keys_alone_make_a_schedule(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        await seen.write("report")
        await seen.press("tab")
        await seen.write("@daily")
        await seen.press("enter")
        await seen.write("every 6h")
        await seen.press("tab", "right", "down")
        await seen.write("date; uptime")
        await seen.press("ctrl+s")
        assert "added report; next" in seen.told()
        assert isinstance(seen.app.screen, HomeScreen)
        line = seen.app.screen.current_view().current()
        assert "report" in str(line)

    add(scene, tale, size=SMALL)

    made = schedule(scene, "report")
    assert made.spec.triggers == ("@daily", "every 6h")
    assert schedule_table(made) == {
        "cron": "@daily",
        "every": "6h",
        "shell": "date; uptime",
    }
    assert origins(scene)["report"] == "dashboard"


def test_sections_are_folded_until_they_are_opened_or_have_a_value(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        assert "▸ End of a run, and retries" in seen.text()
        assert "timeout" not in seen.text()
        await seen.press("tab", "tab", "tab", "tab", "enter")
        assert "▾ Zone, folder, environment and group" in seen.text()
        await fill(seen, timeout="5m")
        assert "▾ End of a run, and retries" in seen.text()
        head = seen.app.screen.query_one("#section-3", SectionHead)
        head.focus()
        await seen.press("enter")
        assert "▸ End of a run, and retries" in seen.text()
        assert "timeout 5m" in seen.text()

    add(scene, tale)


def test_each_field_is_reached_by_tab_and_seen_to_be_on_small_screens(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        form = seen.app.screen
        rows = list(form.query(FieldRow))

        def is_reached(row: FieldRow) -> bool:
            shown = form.query_one("#form-fields").region
            return row.has_class("-focused") and row.region in shown  # type: ignore[comparison-overlap]

        async def resize(size: tuple[int, int]) -> None:
            await seen.resize(size)
            *_, keys = seen.lines()
            assert keys.startswith(" ^s save   esc back")
            assert "…" not in keys

        async def walk() -> None:
            for row in rows:
                if isinstance(form.focused, SectionHead):
                    await seen.press("tab")
                await seen.until(partial(is_reached, row))
                await seen.pilot.press("tab")
            await seen.until(lambda: form.focused is form.query_one("#save"))
            await seen.press("shift+tab", "up")
            await seen.until(partial(is_reached, rows[-2]))
            await seen.press("tab", "tab", "tab")

        for head in form.query(SectionHead):
            if "▸" in str(head.lines()):
                head.action_fold()
        await seen.settle()
        await resize((60, 14))
        await resize((40, 10))
        await walk()

    add(scene, tale, size=SMALL)


def test_nothing_is_written_before_it_is_saved_and_leaving_asks_about_changes_only(
    scene: Scene,
) -> None:
    before = schedule(scene, "weather")

    async def tale(seen: Seen) -> None:
        await fill(seen, timeout="5m")
        await fill(seen, timeout="")
        await seen.press("escape")
        assert isinstance(seen.app.screen, ScheduleScreen)

        await seen.press("e")
        await fill(seen, timeout="5m", when="@hourly")
        await seen.press("escape")
        assert isinstance(seen.app.screen, ConfirmDialog)
        assert "⏎ discard changes    esc keep editing" in seen.text()
        await seen.press("n")
        assert isinstance(seen.app.screen, ScheduleForm)
        await seen.press("escape", "y")
        assert isinstance(seen.app.screen, ScheduleScreen)

    edit(scene, "weather", tale)

    assert schedule(scene, "weather") == before


def test_a_change_is_saved_and_shown(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        await fill(seen, timeout="5m", env="LANG=C\nTZ=UTC", name="forecast")
        await seen.press("ctrl+s")
        assert "changed forecast: name, env.LANG, env.TZ, timeout; next" in seen.told()
        assert isinstance(seen.app.screen, ScheduleScreen)
        assert "forecast" in seen.lines()[0]
        assert " timeout         5m" in seen.text()

    edit(scene, "weather", tale)

    made = schedule(scene, "forecast")
    assert made.spec.policies.timeout_s == 300
    assert made.spec.job.env == {"LANG": "C", "TZ": "UTC"}
    assert origins(scene)["forecast"] == "dashboard"


def test_one_whose_time_has_passed_can_be_changed_and_is_saved_by_the_button(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        await fill(seen, description="it is over")
        seen.app.screen.query_one("#save").scroll_visible(animate=False)
        await seen.settle()
        await seen.pilot.click("#save")
        await seen.settle()
        assert "changed switch-tariff: description" in seen.told()

    edit(scene, "switch-tariff", tale)


def test_saving_what_was_not_changed_changes_nothing_and_a_removed_secret_is_said_to_stay(
    scene: Scene,
) -> None:
    before = schedule(scene, "weather")

    async def tale(seen: Seen) -> None:
        await seen.press("ctrl+s")
        assert seen.told() == "nothing changed in schedule weather"
        assert schedule(scene, "weather") == before

        await seen.press("e")
        await fill(seen, env="TOKEN=s3cret")
        await seen.press("ctrl+s")
        assert "keeps the former" not in seen.told()

        await seen.press("e")
        await fill(seen, env="")
        await seen.press("ctrl+s")
        assert "the database keeps the former env.TOKEN" in seen.told()
        assert "edgecron prune --forget weather" in seen.told()

    edit(scene, "weather", tale)


def test_another_change_than_of_times_keeps_the_next_time(scene: Scene) -> None:
    before = schedule(scene, "poll-meter")

    async def tale(seen: Seen) -> None:
        await fill(seen, description="the meter in the cellar")
        await seen.press("ctrl+s")
        assert "changed poll-meter: description" in seen.told()

    edit(scene, "poll-meter", tale)

    after = schedule(scene, "poll-meter")
    assert after.spec.description == "the meter in the cellar"
    assert after.next_run_at == before.next_run_at


# What may be written at one time, and what is said below each field.
SAID = (
    {
        "timezone": ("Mars/Base", "✗ timezone 'Mars/Base' is unknown"),
        "job": ("echo 'a", "✗ the command can't be split into words: no closing quotation"),
        "env": ("A", "✗ a line of env is not KEY=VALUE"),
        "group": ("disk:x", "✗ group NAME:N is 'x', expected a whole number"),
        "max_late": ("soon", "✗ max_late: duration 'soon'"),
        "max_running": ("0", "✗ max_running is '0', expected a whole number from 1"),
        "timeout": ("-1", "✗ timeout: duration '-1'"),
        "retries": ("many", "✗ retries is 'many', expected a whole number from 0"),
        "ok_codes": ("0, 256", "✗ ok_codes is '256', expected a whole number from 0 to 255"),
        "priority": ("top", "✗ priority is 'top', expected low, normal, high"),
        "from": ("someday", "✗ from:"),
        "until": ("someday", "✗ until:"),
        "max_runs": ("0", "✗ max_runs is '0', expected a whole number"),
        "scope": ("pump", "✗ scope is 'pump', expected KIND:ID"),
    },
    {
        "name": ("a b", "✗ schedule name 'a b' is not usable (did you mean a-b?)"),
        "job": ("", "✗ the command is missing"),
    },
    {
        "name": ("weather", "✗ schedule 'weather' exists already"),
        "job": ("/no/such", "! command '/no/such' does not exist yet"),
        "cwd": ("/no/such", "! folder '/no/such' does not exist yet"),
        "env": ("API_TOKEN=x", "! the database stores API_TOKEN in plain text"),
    },
    {"retry_delay": ("2h", "✗ retry_delay is 2h, which is more than retry_max_delay, 1h")},
    {"payload": ("{", "✗ payload is not JSON")},
    {"needs": ("success:nobody", "✗ schedule 'report' needs 'success:nobody', but there is no")},
)


def test_what_is_wrong_is_said_beside_its_field(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        right = {"name": "report", "when": "@daily", "job": "/bin/true", "timezone": "local"}
        await fill(seen, **right)
        wrong = {}
        mended: dict[str, str] = {}
        for texts in (*SAID, {}):
            written = {field: text for field, (text, _) in texts.items()}
            await fill(seen, **(mended | written))
            for field, (text, words) in texts.items():
                if not told(seen, field).startswith(words):
                    wrong[field, text] = told(seen, field)
            for field in mended.keys() - texts.keys():
                assert told(seen, field) == ""
            mended = {field: right.get(field, "") for field in texts}
        assert wrong == {}

    add(scene, tale, size=(160, 100))


def test_what_is_wrong_is_not_saved_but_counted_and_reached(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        form = seen.app.screen
        # What was not reached yet is not called wrong before it is saved.
        assert not any("✗" in line for line in seen.lines()[:-3])
        await seen.press("ctrl+s")
        assert "✗ not saved: 3 fields have problems" in seen.lines()[1]
        assert told(seen, "when").startswith("✗ it has no time to run at")
        assert form.query_one("#row-name").has_class("-focused")

        # A command that can't be split is one wrong field.
        await fill(seen, name="report", when="@daily", job="echo 'a")
        await seen.press("ctrl+s")
        assert "✗ not saved: 1 field has a problem" in seen.lines()[1]
        assert told(seen, "job").startswith("✗ the command can't be split into words")

        await fill(seen, job="/bin/true", priority="top", retries="many", description="a")
        await seen.press("ctrl+s")
        assert "✗ not saved: 2 fields have problems" in seen.lines()[1]
        assert form.query_one("#row-retries").has_class("-focused")

    add(scene, tale)

    with scene.client() as client, pytest.raises(NotFound):
        client.schedule("report")


def test_times_are_read_back_with_the_next_ones_and_what_is_wrong_with_them(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        await fill(
            seen,
            name="report",
            when="30 2 * 3,10 SUN\nat tomorrow 09:00\nafter weather",
            timezone="Europe/Berlin",
        )
        shown = seen.text()
        assert "✓ at 02:30, Sunday, in March and October (Europe/Berlin)" in shown
        assert "✓ once, at 2026-11-21T08:00:00Z" in shown
        assert "✓ each time weather has succeeded" in shown
        assert re.search(r"in 18h \d+m +Sat 2026-11-21 09:00:00", shown)
        assert "! 2027-03-28: clocks go forward" in shown
        await fill(seen, until="2026-11-30")
        assert "clocks go forward" not in seen.text()

        await fill(seen, when="0 25 * * *\nat yesterday\n@daily\nat noon", until="")
        shown = " ".join(line[92:].strip() for line in seen.lines())
        assert "✗ hour is '25', expected 0-23" in shown
        assert "✗ at is 'yesterday', that is" in shown
        assert "✗ at: time 'noon'" in shown
        assert "✓ at 00:00 every day" in shown
        await fill(seen, when="after nobody")
        await seen.press("ctrl+s")
        assert "✓ each time nobody has succeeded" in seen.text()

    add(scene, tale)


def test_what_the_configuration_has_by_default_stands_in_a_new_one(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        await fill(seen, name="report", when="@daily", job="/bin/true")
        await seen.press("ctrl+s")

    defaults = {
        "timeout": "1h",
        "catch_up": "skip",
        "needs": ["success:weather"],
        "ok_codes": "0,2",
    }
    add(scene, tale, defaults=lambda: defaults)

    policies = schedule(scene, "report").spec.policies
    assert (policies.timeout_s, policies.catch_up, policies.ok_codes) == (3600, "skip", (0, 2))
    assert policies.needs == ("success:weather",)


def change_meanwhile(scene: Scene, **policies: Any) -> None:
    with scene.client() as other:
        other.edit(
            "weather",
            lambda spec: replace(spec, policies=replace(spec.policies, **policies)),
            origin="test",
        )


def test_what_others_changed_is_told_and_only_what_was_written_is_saved_over_it(
    scene: Scene,
) -> None:
    async def tale(seen: Seen) -> None:
        await fill(seen, timeout="5m")
        change_meanwhile(scene, timeout_s=60.0, retries=3)
        await seen.press("ctrl+s")
        assert isinstance(seen.app.screen, ScheduleForm)
        said = " ".join(line.strip() for line in seen.lines()[1:4])
        assert "since you opened it: timeout, retries;" in said
        assert "press ^s again to overwrite their changes" in said
        assert schedule(scene, "weather").spec.policies.timeout_s == 60
        await seen.press("ctrl+s")
        assert "changed weather: timeout" in seen.told()

    edit(scene, "weather", tale, size=SMALL)

    policies = schedule(scene, "weather").spec.policies
    assert (policies.timeout_s, policies.retries) == (300, 3)


def test_what_others_do_is_told_as_soon_as_it_is_known_and_nothing_removed_comes_back(
    scene: Scene,
) -> None:
    async def tale(seen: Seen) -> None:
        change_meanwhile(scene, retries=3)
        seen.app.post_changed()
        await seen.settle()
        assert "! others changed this schedule meanwhile: retries" in seen.lines()[1]
        await fill(seen, timeout="5m")
        with scene.client() as other:
            other.remove("weather")
        await seen.press("ctrl+s")
        assert "not saved: schedule 'weather' was removed" in seen.lines()[1]

    edit(scene, "weather", tale)

    with scene.client() as client, pytest.raises(NotFound):
        client.schedule("weather")


def test_a_choice_is_made_by_arrows_and_by_the_mouse(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        row = seen.app.screen.query_one("#row-overlap", FieldRow)
        choice = row.query_one(Choice)
        choice.focus()
        await seen.press("right")
        assert (row.text, "○ skip  ● queue" in seen.text()) == ("queue", True)
        await seen.press("left", "left")
        assert row.text == "replace"
        await seen.pilot.click(choice, offset=(18, 0))
        assert row.text == "allow"
        # The program is not left with something unsaved.
        await seen.press("q")
        assert isinstance(seen.app.screen, ConfirmDialog)
        await seen.press("n")
        assert isinstance(seen.app.screen, ScheduleForm)

    add(scene, tale)


@pytest.mark.failure(72)
def test_hostile_text_is_shown_harmless_and_stays_as_it_is(scene: Scene) -> None:
    hostile = "\x1b]52;c;eA==\x07[red]\x9b2J"
    spec = make_spec("evil")
    with scene.client() as client:
        client.add(replace(spec, job=replace(spec.job, argv=("echo", hostile))))

    async def tale(seen: Seen) -> None:
        assert "\\x1b]52;c;eA==\\x07[red]\\x9b2J" in seen.text()
        await fill(seen, description="a\x1b[31mred\tone", timeout="5\x1bm")
        assert not {"\x1b", "\x07", "\x9b", "\t"} & set(seen.text())
        await fill(seen, timeout="5m")
        await seen.press("ctrl+s")

    edit(scene, "evil", tale)

    made = schedule(scene, "evil").spec
    assert made.job.argv == ("echo", hostile)
    assert made.description == "a\\x1b[31mred    one"


def test_the_hint_is_that_of_the_field_with_the_focus(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        assert seen.lines()[-3].startswith(" when: ")

    edit(scene, "weather", tale)


def test_a_time_that_has_passed_leaves_the_preview(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        assert re.search(r"in \d+s +Fri 2026-11-20 14:33:00", seen.text())
        scene.clock.advance_ms(60_000)  # type: ignore[attr-defined]
        await seen.resize((LARGE[0], LARGE[1] - 1))
        form = seen.app.screen
        assert isinstance(form, ScheduleForm)
        form.refresh_times()
        await seen.settle()
        assert not any(" ago" in line for line in seen.lines()[:-3])
        assert "14:33:00" not in seen.text()

    edit(scene, "poll-inverter", tale)


@pytest.mark.parametrize("name", ["👩\u200d💻 at work", "🏳\ufe0f\u200d🌈"])
def test_emoji_of_several_parts_are_no_control_characters(scene: Scene, name: str) -> None:
    async def tale(seen: Seen) -> None:
        await fill(seen, name="report", when="every 1h", description=name, job="true")
        assert told(seen, "description") == ""
        await seen.press("ctrl+s")
        assert not isinstance(seen.app.screen, ScheduleForm)

    add(scene, tale)
    with scene.client() as client:
        assert client.schedule("report").spec.description == name


def test_emoji_of_several_parts_can_be_typed_in_a_field_of_lines(scene: Scene) -> None:
    async def tale(seen: Seen) -> None:
        field = seen.app.screen.query(FieldLines).first()
        field.focus()
        for letter in "👩\u200d💻":
            seen.app.post_message(Key("emoji", letter))
        await seen.settle()
        assert field.text == "👩\u200d💻"

    add(scene, tale)


@pytest.mark.parametrize("theme", ["edgecron-dark", "edgecron-light"])
def test_the_default_in_an_empty_field_can_be_read(scene: Scene, theme: str) -> None:
    async def story(seen: Seen) -> None:
        seen.app.theme = theme
        await seen.press("A")
        for field in seen.app.screen.query(LineInput):
            style = field.get_component_rich_style("input--placeholder")
            assert style.color is not None
            assert style.bgcolor is not None
            text, ground = map(Color.from_rich_color, (style.color, style.bgcolor))
            assert contrast(text, ground) >= LEAST_CONTRAST

    watch(story, scene.path, scene.clock)
