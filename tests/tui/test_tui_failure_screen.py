"""The list of failures: grouped by schedule and error, until a person acknowledges them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from edgecron.base.errors import NotFound
from edgecron.client import Client
from edgecron.model.choices import Status
from edgecron.model.listing import Acknowledged
from edgecron.model.run import Execution
from edgecron.store.sqlite.store import open_store
from edgecron.tui.failure_screen import (
    FailureScreen,
    group_failures,
    read_failures,
)
from edgecron.tui.run_screen import RunScreen
from tests.store.store_bench import Bench
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.scene import Scene
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, watch
from tests.tui.snapshots import check_sizes


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Three schedules of which each failed once, m3 last."""
    path = new_database(tmp_path / "bench.db")
    bench = Bench(lambda: open_store(path, now_ms=0), FakeClock())
    for name in ("m1", "m2", "m3"):
        bench.add(make_spec(name, "at boot"))
        fail(bench, name)
    yield bench
    bench.store.close()


def fail(bench: Bench, *names: str) -> None:
    """Let a run of each of these schedules fail."""
    for name in names:
        bench.clock.advance_ms(60_000)
        bench.run(name, key=f"manual:{bench.now}")
        bench.end(*bench.fill().granted, status=Status.FAILED)


def names_in(seen: Seen) -> list[str]:
    """Return the schedules with open failures as the list shows them."""
    lines = takewhile(str.strip, seen.lines()[2:])
    return [line.strip(" ▌").partition(" ")[0] for line in lines]


@pytest.fixture
def client(scene: Scene) -> Iterator[Client]:
    with scene.client() as opened:
        yield opened


def failed(client: Client) -> list[Execution]:
    return client.run_page(statuses=(Status.FAILED, Status.INTERRUPTED), limit=500).runs


def test_each_failed_run_is_in_one_group_of_its_schedule_and_error(client: Client) -> None:
    groups = read_failures(client).groups

    assert groups
    assert sorted(run_id for group in groups for run_id in group.ids) == sorted(
        run.id for run in failed(client)
    )
    keys = [(group.newest.schedule, group.error) for group in groups]
    assert len(keys) == len(set(keys))
    newest = [group.newest.id for group in groups]
    assert newest == sorted(newest, reverse=True)


def test_what_is_acknowledged_is_gone_until_it_fails_again(client: Client) -> None:
    runs = failed(client)
    first, *others = read_failures(client).groups

    client.acknowledge(first.newest.schedule_id, first.error, first.newest.id)

    known = {(first.newest.schedule_id, first.error): first.newest.id - 1}
    assert list(read_failures(client).groups) == others
    assert group_failures(runs, known)[0].ids == (first.newest.id,)


def test_acknowledging_never_goes_back_and_jobs_do_not_see_it(client: Client) -> None:
    first, *_ = read_failures(client).groups
    run = first.newest
    before = client.state(run.schedule)

    client.acknowledge(run.schedule_id, first.error, run.id)
    client.acknowledge(run.schedule_id, first.error, first.oldest.id)

    assert client.acknowledged([run.schedule_id]) == [
        Acknowledged(run.schedule_id, first.error, run.id)
    ]
    assert client.state(run.schedule) == before
    assert client.count_state(run.schedule) == len(before)


def test_a_run_of_another_schedule_is_refused(client: Client) -> None:
    first, *_ = read_failures(client).groups

    with pytest.raises(NotFound):
        client.acknowledge(first.newest.schedule_id + 1000, first.error, first.newest.id)


def test_failures_look_as_they_were_drawn(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("7")
        assert isinstance(seen.app.screen, FailureScreen)
        await check_sizes(seen, "failures", (80, 24), (160, 48))

    watch(story, scene.path, scene.clock, size=(80, 24))


def test_a_key_acknowledges_and_another_dashboard_knows_it(scene: Scene, client: Client) -> None:
    count = len(read_failures(client).groups)

    async def story(seen: Seen) -> None:
        await seen.press("7", "a")
        assert seen.told() == "acknowledged 1 group of failures"
        assert len(read_failures(client).groups) == count - 1
        await seen.press("*", "a", "y")
        assert "no failures are open" in seen.text()
        assert "a failed run is listed here until you acknowledge it" in seen.lines()[2]
        await seen.press("a")
        assert seen.told() == "no failure to acknowledge"

    watch(story, scene.path, scene.clock)

    async def again(seen: Seen) -> None:
        await seen.press("7")
        assert "no failures are open" in seen.text()

    watch(again, scene.path, scene.clock)


def test_enter_opens_the_newest_output_and_a_key_runs_the_schedules_again(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("7", "enter")
        assert isinstance(seen.app.screen, RunScreen)
        await seen.press("escape", "*", "r")
        assert "Run " in seen.text()
        assert "go back" in seen.text()
        await seen.press("escape", "escape", "escape")
        assert not isinstance(seen.app.screen, FailureScreen)

    watch(story, scene.path, scene.clock)


def test_cursor_and_marks_stay_on_a_group_that_fails_again(bench: Bench) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("7", "j")
        assert names_in(seen) == ["m3", "m2", "m1"]
        fail(bench, "m2")
        await seen.until(lambda: names_in(seen) == ["m2", "m3", "m1"])
        await seen.press("a")
        assert names_in(seen) == ["m3", "m1"]

        await seen.press("G", "space")
        fail(bench, "m1")
        await seen.until(lambda: names_in(seen) == ["m1", "m3"])
        await seen.press("a")
        assert names_in(seen) == ["m3"]

    watch(story, bench.store.path, bench.clock)


def test_a_group_that_another_person_acknowledged_loses_its_mark(bench: Bench) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("7", "j", "space")
        assert "1 marked" in seen.text()
        with Client(bench.store.path, clock=bench.clock) as other:
            group = read_failures(other).groups[1]
            other.acknowledge(group.newest.schedule_id, group.error, group.newest.id)
        await seen.until(lambda: names_in(seen) == ["m3", "m1"])
        assert "marked" not in seen.text()
        await seen.press("g", "a")
        assert names_in(seen) == ["m1"]

    watch(story, bench.store.path, bench.clock)


def test_more_than_one_group_is_acknowledged_only_after_a_question(bench: Bench) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("7", "*", "a")
        assert "Acknowledge 3 groups of failures?" in seen.text()
        assert "m3, m2" in seen.text()
        await seen.press("n")
        assert names_in(seen) == ["m3", "m2", "m1"]
        await seen.press("a", "y")
        assert "no failures are open" in seen.text()

    watch(story, bench.store.path, bench.clock)


def test_a_refusal_shows_which_groups_are_still_open(bench: Bench) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("7", "*", "a")
        with bench.store.transaction():
            bench.store.change("DELETE FROM executions WHERE id = 2")
        await seen.press("y")
        assert "has no run 2" in seen.told()
        await seen.until(lambda: "m3" not in names_in(seen))

    watch(story, bench.store.path, bench.clock)


def test_the_cursor_on_the_first_line_stays_on_its_group(bench: Bench) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("7")
        assert names_in(seen) == ["m3", "m2", "m1"]
        fail(bench, "m1")
        await seen.until(lambda: names_in(seen) == ["m1", "m3", "m2"])
        await seen.press("a")
        assert names_in(seen) == ["m1", "m2"]

    watch(story, bench.store.path, bench.clock)


def test_failures_behind_many_acknowledged_ones_are_found(bench: Bench) -> None:
    fail(bench, *["m1"] * 520)
    with Client(bench.store.path, clock=bench.clock) as client:
        newest = read_failures(client).groups[0].newest
        client.acknowledge(newest.schedule_id, read_failures(client).groups[0].error, newest.id)

        found = read_failures(client)

    assert [group.newest.schedule for group in found.groups] == ["m3", "m2"]
    assert found.unread_before is None


def test_older_failures_are_read_when_the_cursor_reaches_the_last_line(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgecron.tui.failure_screen.PAGE", 2)
    monkeypatch.setattr("edgecron.tui.failure_screen.FIRST_READ", 2)

    async def story(seen: Seen) -> None:
        await seen.press("7")
        assert names_in(seen) == ["m3", "m2"]
        assert "2 groups, 2 failed runs, without runs before 2" in seen.text()
        await seen.press("j")
        await seen.until(lambda: names_in(seen) == ["m3", "m2", "m1"])
        assert "without runs" not in seen.text()

    watch(story, bench.store.path, bench.clock)


@pytest.mark.parametrize("is_acknowledged", [False, True])
def test_failures_behind_many_of_one_group_are_read_without_a_key(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_acknowledged: bool
) -> None:
    monkeypatch.setattr("edgecron.tui.failure_screen.PAGE", 2)
    monkeypatch.setattr("edgecron.tui.failure_screen.FIRST_READ", 2)
    fail(bench, *["m3"] * 4)

    async def story(seen: Seen) -> None:
        await seen.press("7")
        if is_acknowledged:
            await seen.press("g", "a")
        shown = ["m2", "m1"] if is_acknowledged else ["m3", "m2", "m1"]
        await seen.until(lambda: names_in(seen) == shown)
        assert "without runs" not in seen.text()

    watch(story, bench.store.path, bench.clock)


def test_failures_are_sorted_by_each_column_in_both_directions(
    bench: Bench, tmp_path: Path
) -> None:
    fail(bench, "m1", "m1", "m2")

    async def story(seen: Seen) -> None:
        await seen.press("7")
        assert names_in(seen) == ["m2", "m1", "m3"], "newest first"
        await seen.press("s")
        assert names_in(seen) == ["m1", "m2", "m3"]
        assert "SCHEDULE ▴" in seen.text()
        await seen.press("I")
        assert names_in(seen) == ["m3", "m2", "m1"]
        await seen.press("s")
        assert names_in(seen) == ["m3", "m2", "m1"], "by their number"
        await seen.press("I")
        assert names_in(seen) == ["m1", "m2", "m3"]
        await seen.press("g")
        assert "m1" in " ".join(seen.lines()[-12:]), "the facts are those of the first line"
        await seen.press("s", "s", "s", "s", "s")
        assert names_in(seen) == ["m2", "m1", "m3"], "as they were read"

    watch(story, tmp_path / "bench.db", bench.clock)


def test_the_output_of_a_failure_is_below_the_list(scene: Scene) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("7")
        shown = seen.text()
        assert "poll-inverter" in shown
        assert "run 1680" in shown
        assert "last line       inverter.lan: connection refused" in shown
        await seen.press("j", "j", "j")
        assert "sync-calendar  run 990" in seen.text()
        await seen.press("o")
        assert "o hide" not in seen.text()

    watch(story, scene.path, scene.clock, size=(160, 48))


@pytest.mark.parametrize(("size", "begin"), [((160, 48), 16), ((120, 40), 22)])
def test_the_output_of_a_failure_has_the_rows_that_the_list_leaves(
    scene: Scene, size: tuple[int, int], begin: int
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("7")
        assert [y for y, line in enumerate(seen.lines()) if "run 1680" in line] == [begin]
        await seen.press("o", "o")
        assert [y for y, line in enumerate(seen.lines()) if "run 1680" in line] == [begin]

    watch(story, scene.path, scene.clock, size=size)


def test_the_output_below_the_list_is_that_of_the_newest_failure(bench: Bench) -> None:
    fail(bench, "m1", "m2")

    async def story(seen: Seen) -> None:
        await seen.press("7", "j")
        await seen.until(lambda: " m1  run 4 " in seen.text())
        fail(bench, "m1")
        await seen.until(lambda: " m1  run 6 " in seen.text())

    watch(story, bench.store.path, bench.clock, size=(160, 48))
