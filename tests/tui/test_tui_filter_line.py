"""Filters, marks and the order of lists, as somebody at the keyboard meets them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import takewhile
from pathlib import Path

import apsw
import pytest
from textual import events

from edgecron.base.units import from_ms
from edgecron.client import Client
from edgecron.model.listing import RunSort
from edgecron.tui.list_view import LineView
from edgecron.tui.run_list import RunSource
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.scene import local_zone, make_scene
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, watch

NAMES = ("backup", "beta", "carl", "report")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[Client]:
    """Four schedules; one is paused, one has a run that waits."""
    with Client(
        new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms()), clock=clock
    ) as client:
        client.add_all([make_spec(name, f"{number} 2 * * *") for number, name in enumerate(NAMES)])
        client.pause("carl")
        client.run_now("beta")
        yield client


def names_shown(seen: Seen) -> list[str]:
    """The schedules of the list in front, from above."""
    return [name for line in seen.lines()[2:-4] for name in line.split() if name in NAMES]


async def filtered(seen: Seen, text: str) -> None:
    """Paste a filter, and wait until it was looked for.

    Letters are looked for when no other one follows for a moment: on a busy machine that is so
    within a word.
    """
    await seen.press("slash")
    assert seen.app.focused is not None
    seen.app.focused.post_message(events.Paste(text))
    await seen.until(lambda: "match" in seen.text() or "✗ " in seen.text())
    await seen.settle()


def test_a_filter_shows_what_matches_while_it_is_written(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await filtered(seen, "b")
        await seen.until(lambda: "2 matches" in seen.text())
        assert names_shown(seen) == ["backup", "beta"]

        await seen.write("e")
        await seen.until(lambda: "1 match\n" in seen.text())
        assert names_shown(seen) == ["beta"]

    watch(story, client.path, clock)


def test_the_line_below_the_runs_names_those_that_can_not_be_read(
    client: Client, clock: FakeClock
) -> None:
    client.run_now("carl")
    client.cancel(2)
    connection = apsw.Connection(str(client.path))
    connection.execute("DROP TRIGGER executions_final")
    connection.execute("UPDATE executions SET error_msg = CAST(x'ff' AS TEXT) WHERE id = 2")
    connection.close()

    async def story(seen: Seen) -> None:
        await seen.press("3")
        await seen.until(lambda: "run 2 can't be read" in seen.text())
        assert "beta" in seen.text()

    watch(story, client.path, clock)


@pytest.mark.parametrize("key", ["0", "1", "2", "3"])
def test_an_empty_filter_shows_an_example_that_its_list_knows(
    client: Client, clock: FakeClock, key: str
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press(key, "slash")
        (shown,) = (line for line in seen.lines() if "letters of a name, or " in line)
        example = shown.partition(", or ")[2]
        await seen.press("escape")
        await filtered(seen, example)
        assert example in seen.text()
        assert "no effect" not in seen.text()
        assert "✗" not in seen.text().partition(example)[2].splitlines()[1]

    watch(story, client.path, clock)


def test_enter_keeps_a_filter_and_escape_clears_it(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await filtered(seen, "state:paused")
        await seen.press("enter")
        assert "state:paused" in seen.text()
        assert isinstance(seen.app.focused, LineView)
        await seen.press("slash")
        await seen.press("escape")

        assert "match" not in seen.text()
        assert names_shown(seen) == list(NAMES)
        assert isinstance(seen.app.focused, LineView)

    watch(story, client.path, clock)


def test_escape_takes_marks_away_before_the_filter(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await filtered(seen, "b")
        await seen.press("enter", "asterisk")
        assert "2 matches  ▌2 marked   r run  p pause  u resume" in seen.text()
        await seen.press("slash")
        assert "▌2 marked\n" in seen.text(), "keys are letters of the filter"
        await seen.press("enter", "escape")
        assert "marked" not in seen.text()
        assert "2 matches" in seen.text()
        await seen.press("escape")

        assert "matches" not in seen.text()

    watch(story, client.path, clock)


def test_what_a_filter_can_not_mean_is_said_beside_it(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await filtered(seen, "staus:failed")
        assert "✗ 'staus' is not a field to filter by (did you mean status?)" in seen.text()
        assert names_shown(seen) == list(NAMES), "the list stays as it was"

    watch(story, client.path, clock)


def test_a_key_that_says_nothing_of_a_list_is_named(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await filtered(seen, "cause:manual")

        assert "! cause has no effect here" in seen.text()

    watch(story, client.path, clock)


def test_runs_and_what_is_to_come_are_filtered_by_name(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("3")
        await filtered(seen, "rep")
        await seen.until(lambda: "0 matches" in seen.text())
        assert "nothing matches: esc removes the filter" in seen.text()
        await seen.press("enter", "escape")
        assert names_shown(seen) == ["beta"]

        await seen.press("2")
        await filtered(seen, "job:rep")
        await seen.until(lambda: "over " in seen.text())
        assert set(names_shown(seen)) == {"report"}

    watch(story, client.path, clock)


def test_what_is_pasted_into_a_filter_is_cleaned(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("slash")
        assert seen.app.focused is not None
        seen.app.focused.post_message(events.Paste("\x1b]52;c;aGk=\x07\nsecond line"))
        await seen.settle()

        assert "\\x1b]52;c;aGk=\\x07" in seen.text()
        assert "\x1b" not in seen.text()
        assert "second" not in seen.text()

    watch(story, client.path, clock)


def test_all_that_match_are_marked_also_those_that_are_not_seen(
    tmp_path: Path, clock: FakeClock
) -> None:
    left = [f"left-{number:03}" for number in range(100)]
    right = [f"right-{number:03}" for number in range(400)]
    with Client(tmp_path / "many.db", clock=clock) as client:
        client.add_all([make_spec(name, "0 2 * * *") for name in (*left, *right)])

    async def story(seen: Seen) -> None:
        await filtered(seen, "left")
        await seen.until(lambda: "100 matches" in seen.text())
        await seen.press("enter", "asterisk")
        assert "▌100 marked" in seen.text()
        await seen.press("p", "enter")

        assert seen.told() == "paused 100 schedules; z undoes it"

    watch(story, tmp_path / "many.db", clock)

    with Client(tmp_path / "many.db", clock=clock) as client:
        paused = [one.name for one in client.schedules() if not one.enabled]
    assert paused == left


def test_s_sorts_by_the_next_column(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("1")
        assert "SCHEDULE ▴" in seen.text()
        await seen.press("s")
        assert "WHEN ▴" in seen.text()
        await seen.press("s", "s")
        assert "LAST ▾" in seen.text(), "the latest come first"

    watch(story, client.path, clock)


def test_upcoming_runs_are_sorted_by_each_column_in_both_directions(tmp_path: Path) -> None:
    clock = FakeClock()
    hours = {"zebra": 1, "apple": 2, "mango": 3}

    def names(seen: Seen) -> list[str]:
        return list(dict.fromkeys(re.findall("zebra|apple|mango", seen.text())))

    async def story(seen: Seen) -> None:
        await seen.press("2")
        assert "IN ▴" in seen.text()
        assert names(seen) == ["zebra", "apple", "mango"]
        await seen.press("I")
        assert names(seen) == ["mango", "apple", "zebra"]
        await seen.press("s")
        assert "SCHEDULE ▴" in seen.text()
        assert names(seen) == ["apple", "mango", "zebra"]
        await seen.press("I")
        assert names(seen) == ["zebra", "mango", "apple"]
        await seen.press("s")
        assert "BY ▴" in seen.text()
        assert names(seen) == ["zebra", "apple", "mango"]

    with Client(tmp_path / "sorted.db", clock=clock) as client:
        for name, hour in hours.items():
            at = from_ms(clock.now_ms()) + timedelta(hours=hour)
            client.add(make_spec(name, f"at {at:%Y-%m-%dT%H:%M:%SZ}"))
    watch(story, tmp_path / "sorted.db", clock, size=(80, 40))


def test_a_click_on_a_heading_sorts_and_a_second_one_turns_it_around(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("1")
        heading = next(line for line in seen.lines() if "SCHEDULE" in line)
        await seen.click("#schedules", heading.index("SCHEDULE"), 0)
        assert "SCHEDULE ▾" in seen.text()
        assert names_shown(seen) == list(reversed(NAMES))

        await seen.click("#schedules", heading.index("WHEN"), 0)
        assert "WHEN ▴" in seen.text()
        assert names_shown(seen) == list(NAMES)

    watch(story, client.path, clock)


def test_the_cursor_stays_where_it_was_put_in_a_list_that_is_read_later(
    tmp_path: Path, clock: FakeClock
) -> None:
    with Client(tmp_path / "many.db", clock=clock) as client:
        client.add_all([make_spec(f"job-{number:04}", "0 2 * * *") for number in range(600)])

    async def story(seen: Seen) -> None:
        await seen.press("j", "G")
        await seen.press("r")

        assert "run 1 of job-0599: queued" in seen.told()

    watch(story, tmp_path / "many.db", clock)


@pytest.mark.parametrize("key", ["1", "2"])
def test_what_is_gone_is_marked_no_more(client: Client, clock: FakeClock, key: str) -> None:
    async def story(seen: Seen) -> None:
        await seen.press(key, "space")
        assert "1 marked" in seen.text()
        client.remove("backup")
        await seen.until(lambda: "marked" not in seen.text())

    watch(story, client.path, clock)


def test_what_is_wrong_with_a_filter_leaves_room_to_write_it(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await filtered(seen, "job:backup colour:red")
        shown = seen.text()
        assert "/ job:backup colour:red" in shown
        assert "✗ 'colour' is not a field to filter by" in shown
        assert "reason, state and group" in " ".join(shown.split())

    watch(story, client.path, clock, size=(80, 24))


def test_only_an_active_run_can_be_cancelled(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("3")
        assert "x cancel" in seen.lines()[-1]
        await seen.press("x")
        assert "x cancel" not in seen.lines()[-1]

    watch(story, client.path, clock, size=(120, 36))


def test_a_notice_covers_no_more_than_the_lines_at_the_bottom(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        for key in ("question_mark", "ctrl+p"):
            await seen.press("a", "escape", key)
            before = seen.lines()
            seen.app.show_notice("something happened\nand this is how to mend it")
            await seen.settle()
            assert seen.lines()[:-2] == before[:-2]
            assert "something happened" in seen.lines()[-2]
            await seen.press("escape")

    watch(story, client.path, clock, size=(80, 24))


def test_a_capital_i_turns_the_order_around(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("1")
        await seen.press("I")
        assert names_shown(seen) == [*reversed(NAMES)]
        assert "SCHEDULE ▾" in seen.text()
        await seen.press("s")  # by the times of the triggers
        assert names_shown(seen) == [*NAMES]
        await seen.press("I")
        assert names_shown(seen) == [*reversed(NAMES)]

    watch(story, client.path, clock, size=(80, 24))


@pytest.mark.parametrize("since", ["yesterday", "1d"])
def test_runs_are_filtered_by_command_duration_and_time(tmp_path: Path, since: str) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("3")
        await filtered(seen, f"took:>3m since:{since} command:restic")
        shown = takewhile(lambda line: not line.startswith(" / "), seen.lines()[2:])
        lines = [line for line in shown if line.strip()]
        assert lines
        assert all(re.search(r"\d+m|running", line) for line in lines)
        assert {name for line in lines for name in line.split() if "-" in name} <= {
            "backup-home", "backup-photos", "prune-snapshots", "verify-backup",
        }  # fmt: skip
        assert seen.app.focused is not None
        seen.app.focused.post_message(events.Paste(" since:nonsense"))
        await seen.until(lambda: "✗ time 'nonsense'" in seen.text())

    with make_scene(tmp_path / "edgecron.db") as scene:
        watch(story, scene.path, scene.clock, size=(120, 36))


def test_without_a_database_there_are_ways_to_begin_too(tmp_path: Path) -> None:
    async def story(seen: Seen) -> None:
        await seen.until(lambda: "does not exist yet" in " ".join(seen.text().split()))
        assert "Import a crontab" in seen.text()
        assert "q quit" in seen.lines()[-1]

    watch(story, tmp_path / "none.db", FakeClock(), is_readable=False)


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (120, 36)])
def test_an_empty_dashboard_offers_ways_to_begin(tmp_path: Path, size: tuple[int, int]) -> None:
    clock = FakeClock()

    async def story(seen: Seen) -> None:
        words = " ".join(seen.text().split())
        for title in ("a Add a schedule", "4 Scan this", "$ Import a crontab", "$ See a demo"):
            assert title in words
        keys = seen.lines()[-1]
        assert re.fullmatch(r" a add   4 scan   q quit .*  \? keys", keys)
        with Client(path, clock=clock) as client:
            client.add(make_spec("backup", "every 1h"))
        seen.app.post_changed()
        await seen.settle()
        assert "Add a schedule" not in seen.text()
        assert seen.lines()[-1].startswith(" ⏎ details")
        await seen.press("enter")
        assert "backup" in seen.lines()[0]

    path = new_database(tmp_path / "edgecron.db", now_ms=clock.now_ms())
    watch(story, path, clock, size=size)


def test_schedules_and_upcoming_runs_are_filtered_by_hour(client: Client, clock: FakeClock) -> None:
    client.add(make_spec("noon", "0 12 * * *"))

    async def story(seen: Seen) -> None:
        for key in ("0", "1", "2"):
            await seen.press(key)
            await filtered(seen, "due:02")
            await seen.press("enter")
            shown = [line for line in seen.lines()[2:] if "edgecron" not in line]
            assert any("report" in line for line in shown), key
            assert not any("noon" in line for line in shown), key
        await seen.press("3")
        await filtered(seen, "due:02")
        assert "due has no effect here" in seen.text()
        await seen.press("escape", "escape")
        await filtered(seen, "due:late")
        assert "expected an hour or a window" in " ".join(seen.text().split())

    with local_zone("UTC"):
        watch(story, client.path, clock, size=(120, 36))


def test_runs_are_sorted_by_each_column_in_both_directions(tmp_path: Path) -> None:
    async def story(seen: Seen) -> None:
        source = seen.app.screen.query_one("#runs", LineView).source
        assert isinstance(source, RunSource)

        def keys() -> list[int]:
            lines = [source.line(at) for at in range(source.count)]
            return [line.key for line in lines if line is not None]

        await seen.press("3")
        newest = keys()
        assert newest == sorted(newest, reverse=True)
        await seen.press("s")
        assert "DURATION▾" in seen.text()
        await seen.press("s")
        assert "STATUS ▴" in seen.text()
        await seen.resize((40, 10))
        assert seen.lines()[1].startswith(" ▴  SCHEDULE"), "the glyphs show the status"
        await seen.resize((120, 36))
        with Client(scene.path, clock=scene.clock) as client:
            for sort in (*list(RunSort)[1:], RunSort.RUN):
                for is_descending in (True, False):
                    if sort is RunSort.RUN and is_descending:
                        continue
                    source.sort_by(sort, is_descending=is_descending)
                    await seen.settle()
                    page = client.run_page(sort=sort, is_descending=is_descending, limit=1000)
                    assert keys() == [run.id for run in page.runs], sort
        source.sort_by(RunSort.DURATION, is_descending=True)
        await seen.settle()
        slowest = keys()
        await seen.press("g", "enter")
        assert f"run {slowest[0]}" in seen.text()
        await seen.press("escape", "I")
        assert "DURATION▴" in seen.text()

    with make_scene(tmp_path / "edgecron.db") as scene:
        watch(story, scene.path, scene.clock, size=(120, 36))


def test_counts_of_a_list_that_changed_while_it_was_hidden_are_shown(
    client: Client, tmp_path: Path, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("1")
        await filtered(seen, "b")
        await seen.press("enter", "space", "3")
        client.run_now("backup")
        await seen.until(lambda: "2 queued" in seen.text())
        await seen.press("1")
        assert re.search(r"2 matches +▌1 marked +r run", seen.text())

    watch(story, tmp_path / "edgecron.db", clock, size=(80, 24))
