"""Doing things from the dashboard: what is asked, what is done, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgecron.base.errors import NotFound
from edgecron.base.values import replace
from edgecron.client import Client
from edgecron.model.choices import Cause, Status
from edgecron.tui.dialogs import Dialog
from tests.support.clock import FakeClock
from tests.support.offering import let_vanish
from tests.support.specs import make_spec
from tests.tui.pilot import Seen, watch

NAMES = ("backup", "report", "sync")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def database(tmp_path: Path, clock: FakeClock) -> Path:
    """Three schedules that run at 02:00 UTC; it is 08:00."""
    path = tmp_path / "edgecron.db"
    with Client(path, clock=clock) as client:
        client.add_all([make_spec(name, "0 2 * * *") for name in NAMES])
    return path


@pytest.fixture
def client(database: Path, clock: FakeClock) -> Iterator[Client]:
    with Client(database, clock=clock) as opened:
        yield opened


def test_run_queues_a_fire_and_says_that_no_engine_is_alive(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("j", "r")

        assert "run 1 of report: queued" in seen.told()
        assert "no engine is running: the run waits; press S to start an engine" in seen.told()

    watch(story, client.path, clock)

    assert [(run.schedule, run.cause) for run in client.history()] == [("report", Cause.MANUAL)]


def test_a_run_that_overlap_leaves_out_is_told_with_the_reason(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("r", "r")

        assert "run 2 of backup: skipped: overlap (run 1 is queued" in seen.told()

    watch(story, client.path, clock)


def test_actions_asked_for_one_after_the_other_are_all_done(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        for key in ("r", "j", "r", "j", "r"):
            await seen.pilot.press(key)
        await seen.settle()

    watch(story, client.path, clock)

    assert sorted(run.schedule for run in client.history()) == list(NAMES)


def test_a_pause_without_a_time_lasts_until_it_is_resumed(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("p")
        assert "Pause backup" in seen.text()
        assert "→ until you resume it" in seen.text()
        await seen.press("enter")

        assert seen.told() == "paused backup; z undoes it"
        assert "‖  backup" in seen.text()
        assert not client.schedule("backup").enabled

        await seen.press("u")
        assert seen.told().startswith("resumed backup; next 2026-11-21 02:00:00 UTC")
        assert client.schedule("backup").enabled

        await seen.press("u")
        assert seen.told() == "backup is not paused"

    watch(story, client.path, clock)


def test_the_end_of_a_pause_is_said_back_in_words_while_it_is_written(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("p")
        await seen.write("in 2")
        assert "✗ " in seen.text()
        await seen.press("enter")
        assert "Pause backup" in seen.text(), "what is not understood is not taken"
        await seen.write("h")
        assert "→ until Fri 2026-11-20 11:00:00, in 2h" in seen.text()
        await seen.press("enter")

        assert seen.told().startswith("paused backup until 2026-11-20 11:00:00; next ")

    watch(story, client.path, clock)

    until = client.schedule("backup").paused_until
    assert until == datetime(2026, 11, 20, 10, 0, tzinfo=UTC)


def test_a_pause_of_several_schedules_ends_no_longer_pause(
    client: Client, clock: FakeClock
) -> None:
    client.pause("backup")
    client.pause("report", until=datetime(2026, 11, 22, tzinfo=UTC))

    async def story(seen: Seen) -> None:
        await seen.press("asterisk", "p")
        await seen.write("2h")
        await seen.press("enter")

        assert "backup stays paused for longer (pause only this one to set this end)" in seen.told()
        assert "2 failed:" in seen.told()

    watch(story, client.path, clock)

    assert not client.schedule("backup").enabled
    assert client.schedule("report").paused_until == datetime(2026, 11, 22, tzinfo=UTC)
    assert client.schedule("sync").paused_until == datetime(2026, 11, 20, 10, tzinfo=UTC)


def test_a_dialog_that_is_left_changes_nothing(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        for key in ("p", "m", "b", "d"):
            await seen.press(key, "escape")
        await seen.press("d", "n")

        assert seen.told() == ""
        assert "SCHEDULE" in seen.text()

    watch(story, client.path, clock)

    assert [one.revision for one in client.schedules()] == [1, 1, 1]


def test_reschedule_moves_the_next_run(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("m")
        assert "next 2026-11-21 02:00:00 UTC" in seen.text()
        await seen.write("in 20m")
        assert "→ Fri 2026-11-20 09:20:00, in 20m" in seen.text()
        await seen.press("enter")

        assert seen.told().startswith("rescheduled backup; next 2026-11-20 08:20:00 UTC")

    watch(story, client.path, clock)

    assert client.schedule("backup").next_run_at == datetime(2026, 11, 20, 8, 20, tzinfo=UTC)


def test_a_bare_duration_counts_from_now(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("m")
        for text in ("20m", "20 minutes"):
            await seen.press("ctrl+u")
            await seen.write(text)
            assert "→ Fri 2026-11-20 09:20:00, in 20m" in seen.text()
        await seen.press("escape", "p")
        await seen.write("+2h")
        assert "→ until Fri 2026-11-20 11:00:00, in 2h" in seen.text()
        await seen.press("enter")

    watch(story, client.path, clock)

    assert client.schedule("backup").paused_until == datetime(2026, 11, 20, 10, 0, tzinfo=UTC)


def test_a_move_by_a_duration_is_said_also_without_a_next_run(
    client: Client, clock: FakeClock
) -> None:
    client.pause("backup")

    async def story(seen: Seen) -> None:
        await seen.press("m")
        await seen.write("+1 day")
        assert "→ 1d later" in seen.text()

    watch(story, client.path, clock)


def test_several_runs_are_moved_by_a_duration_each_from_its_own_time(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("tidy", "0 * * * *"))

    async def story(seen: Seen) -> None:
        await seen.press("asterisk", "m")
        await seen.write("+1d3h")
        assert "each 1d3h later, the first Sat 2026-11-21 13:00:00, in 1d 4h" in seen.text()
        await seen.press("enter")
        assert "moved the next run of 4 schedules" in seen.told()

    watch(story, client.path, clock)

    assert client.schedule("tidy").next_run_at == datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert client.schedule("backup").next_run_at == datetime(2026, 11, 22, 5, tzinfo=UTC)


def test_before_several_runs_are_moved_each_is_shown_with_its_time_soonest_first(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("tidy", "0 * * * *"))

    async def story(seen: Seen) -> None:
        await seen.press("asterisk", "m")
        shown = " ".join(seen.text().replace("│", " ").split())
        due = "tidy 10:00:00; backup, report, sync Nov 21 03:00"
        assert due in shown
        assert "Only the next run of each moves, not a later one" in shown
        await seen.press("escape")

    watch(story, client.path, clock)


def test_runs_of_a_removed_schedule_do_not_keep_others_from_being_moved(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("tidy", "0 2 * * *"))
    for name in ("backup", "tidy"):
        client.run_now(name)
    client.remove("tidy")

    async def story(seen: Seen) -> None:
        await seen.press("3", "asterisk", "m")
        shown = " ".join(seen.text().replace("│", " ").split())
        assert "backup Nov 21 03:00; tidy " in shown
        await seen.write("in 20m")
        await seen.press("enter")
        assert "tidy" in seen.text()

    watch(story, client.path, clock)

    assert client.schedule("backup").next_run_at == datetime(2026, 11, 20, 8, 20, tzinfo=UTC)


def test_a_refusal_is_told_with_what_to_do(client: Client, clock: FakeClock) -> None:
    client.pause("backup")

    async def story(seen: Seen) -> None:
        await seen.press("m")
        await seen.write("in 20m")
        await seen.press("enter")

        assert "schedule 'backup' has no next time to move" in seen.told()
        assert "(first: edgecron resume backup)" in seen.told()

    watch(story, client.path, clock)


def test_delete_asks_and_says_what_becomes_of_its_runs(client: Client, clock: FakeClock) -> None:
    client.run_now("backup")

    async def story(seen: Seen) -> None:
        await seen.press("d")
        assert "Remove backup?" in seen.text()
        assert "1 queued run is cancelled, the history stays." in seen.text()
        await seen.press("y")

        assert seen.told() == "removed backup; its history stays; z undoes it"
        assert not any("backup" in line for line in seen.lines()[:5])  # of the list

    watch(story, client.path, clock)

    assert [one.name for one in client.schedules()] == ["report", "sync"]
    assert client.execution(1).status is Status.CANCELLED


def test_what_was_removed_from_here_is_restored_by_a_key_if_nobody_else_did_it(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("z")
        assert seen.told().startswith(
            "nothing to undo: you changed no schedule in this dashboard yet"
        )
        await seen.press("d", "y")
        assert "removed backup; its history stays; z undoes it" in seen.told()
        await seen.press("z")

        assert "restored backup; next 2026-" in seen.told()
        assert "Z redoes it" in seen.told()
        assert "backup" in seen.text()
        assert sorted(one.name for one in client.schedules()) == ["backup", "report", "sync"]

        await seen.press("d", "y")
        client.undo_removal("backup")
        await seen.press("z")
        assert "schedule 'backup' was changed in the meantime" in seen.told()

    watch(story, client.path, clock)


def test_a_key_undoes_the_last_action_and_redoes_it(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("p", "enter")
        paused = client.schedule("backup")
        await seen.press("z")
        assert "undid the pause of backup; next 2026-" in seen.told()
        resumed = client.schedule("backup")
        await seen.press("Z")
        again = client.schedule("backup")

        assert (paused.enabled, resumed.enabled, again.enabled) == (False, True, False)
        assert "undid the undo of backup" in seen.told()

    watch(story, client.path, clock)


def test_a_key_undoes_earlier_actions_one_by_one_and_redoes_them(
    client: Client, clock: FakeClock
) -> None:
    def next_minute() -> int | None:
        at = client.schedule("backup").next_run_at
        return None if at is None else at.minute

    async def story(seen: Seen) -> None:
        for words in ("in 20m", "in 30m"):
            await seen.press("m")
            await seen.write(words)
            await seen.press("enter")
        assert next_minute() == 30

        await seen.press("z")
        assert "undid the move of backup" in seen.told()
        assert next_minute() == 20
        await seen.press("z")
        assert next_minute() == 0
        await seen.press("z")
        assert seen.told() == "nothing more to undo; Z redoes your changes"

        await seen.press("Z", "Z")
        assert next_minute() == 30
        await seen.press("p", "enter", "Z")
        assert seen.told() == "nothing to redo: you undid nothing since your last change"
        await seen.press("d", "y")
        with pytest.raises(NotFound):
            client.schedule("backup")
        await seen.press("z")
        assert not client.schedule("backup").enabled
        await seen.press("z")
        assert client.schedule("backup").enabled

    watch(story, client.path, clock)


def test_undo_pressed_quickly_undoes_one_change_each_time(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("p", "enter", "u", "d", "y")
        await seen.write("zzz")

        assert client.schedule("backup").enabled
        await seen.press("z")
        assert "nothing more to undo" in seen.told()

    watch(story, client.path, clock)


def test_an_earlier_action_is_not_undone_over_the_change_of_another_program(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("p", "enter", "u", "z")
        client.edit("backup", lambda spec: replace(spec, description="by hand"), origin="cli")
        await seen.press("z")

        assert "schedule 'backup' was changed in the meantime" in seen.told()
        assert client.schedule("backup").spec.description == "by hand"

    watch(story, client.path, clock)


def test_a_key_undoes_an_action_on_all_marked_lines(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("*", "p", "enter", "z")
        assert "Undo the last change of 3 schedules?" in seen.text()
        await seen.press("enter")

        assert "undid the last change of 3 schedules" in seen.told()
        assert all(one.enabled for one in client.schedules())

    watch(story, client.path, clock)


def test_the_changes_of_a_schedule_are_listed_over_the_list(
    client: Client, clock: FakeClock
) -> None:
    client.edit("backup", lambda spec: replace(spec, description="a nightly copy"), origin="cli")

    async def story(seen: Seen) -> None:
        await seen.press("c")
        assert "Changes of backup" in seen.text()
        assert "+ description: none -> a nightly copy" in seen.text()
        assert "command line" in seen.text()
        await seen.press("escape", "enter", "G")
        assert "c all" in seen.text()
        assert "changed" in seen.text()

    watch(story, client.path, clock)


def test_what_would_wait_in_vain_is_said_before_its_upstream_is_removed(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("verify", "after backup"))
    client.add(make_spec("upload", "0 3 * * *", needs=("success:backup:1d",)))

    async def story(seen: Seen) -> None:
        await seen.press("d")

        assert "Schedules after it will not run again: upload, verify." in seen.text()

    watch(story, client.path, clock)


def test_how_far_it_is_is_told_of_many_in_the_place_of_the_keys(
    tmp_path: Path, clock: FakeClock
) -> None:
    with Client(tmp_path / "many.db", clock=clock) as client:
        client.add_all([make_spec(f"job-{number:03}", "0 2 * * *") for number in range(50)])
    told: list[str] = []

    async def story(seen: Seen) -> None:
        await seen.press("1")
        seen.app.watch(seen.app, "progress", lambda words: told.append(words))
        await seen.press("asterisk", "p", "enter")

        assert seen.told() == "paused 50 schedules; z undoes it"
        seen.app.clear_notifications()
        await seen.settle()
        assert seen.lines()[-1].endswith("? keys")

    watch(story, tmp_path / "many.db", clock)

    assert "pausing 25 of 50 ..." in told
    assert told[-1] == ""


def test_no_run_of_several_starts_before_the_question_is_answered(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("space", "space", "r")
        assert "Run 2 schedules?" in seen.text()
        assert "backup, report" in seen.text()
        await seen.press("escape")
        assert client.history() == []
        assert "2 marked" in seen.text()
        await seen.press("r", "enter")
        assert "started 2 schedules" in seen.told()

    watch(story, client.path, clock)

    assert sorted(run.schedule for run in client.history()) == ["backup", "report"]


@pytest.mark.parametrize("key", ["r", "p", "u", "m", "x", "b", "d"])
def test_a_question_about_several_schedules_names_them(
    client: Client, clock: FakeClock, key: str
) -> None:
    client.add(make_spec("again", "0 2 * * *"))
    for name in (*NAMES, "again"):
        client.run_now(name)

    async def story(seen: Seen) -> None:
        await seen.press("asterisk", key)
        assert isinstance(seen.app.screen, Dialog)
        assert "again, backup, report" in seen.text(), "in the order of the list"

    watch(story, client.path, clock)


def test_marked_runs_of_one_schedule_start_it_once_and_the_question_says_so(
    client: Client, clock: FakeClock
) -> None:
    for name in ("backup", "report", "backup"):
        [run] = client.run_now(name)
        client.cancel(run.id)

    async def story(seen: Seen) -> None:
        await seen.press("3", "*", "r")
        assert "Run 2 schedules?" in seen.text()
        assert "3 marked runs belong to them. Each runs once." in seen.text()
        await seen.press("enter")

    watch(story, client.path, clock)

    assert [run.schedule for run in client.history()][:2] in (
        ["report", "backup"],
        ["backup", "report"],
    )


def test_escape_stops_an_action_on_several_and_the_rest_stays(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("asterisk", "p")
        with client.store.transaction():  # The first one waits until this ends.
            await seen.pilot.press("enter")
            await seen.until(lambda: bool(seen.app.stops))
            await seen.pilot.press("escape")
            await seen.until(lambda: all(stop.is_set() for stop in seen.app.stops))
        await seen.until(lambda: "stopped: 2 schedules left as before" in seen.told())
        assert not seen.app.stops

    watch(story, client.path, clock)

    assert sorted(one.enabled for one in client.schedules()) == [False, True, True]


def test_leaving_while_several_are_acted_on_asks_first(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("asterisk", "p")
        with client.store.transaction():
            await seen.pilot.press("enter")
            await seen.until(lambda: bool(seen.app.stops))
            await seen.pilot.press("q")
            await seen.until(lambda: "Leave now?" in seen.text())
            assert "⏎ leave now    esc stay" in seen.text()
            await seen.pilot.press("escape")
        await seen.until(lambda: "paused 3 schedules" in seen.told())

    watch(story, client.path, clock)


def test_a_range_is_marked_as_the_cursor_moves(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("v", "j")
        assert "▌2 marked" in seen.text()
        await seen.press("j")
        assert "▌3 marked" in seen.text()
        await seen.press("k", "v", "j")
        assert "▌2 marked" in seen.text()
        await seen.press("escape", "j")
        assert "marked" not in seen.text()

    watch(story, client.path, clock)


@pytest.mark.parametrize(
    "keys", [("slash", "2", "enter"), ("I",)], ids=["filter", "opposite order"]
)
def test_a_range_marks_no_lines_of_an_earlier_filter_or_order(
    client: Client, clock: FakeClock, keys: tuple[str, ...]
) -> None:
    client.add_all([make_spec(f"job-{number:02}", "0 2 * * *") for number in range(30)])

    async def story(seen: Seen) -> None:
        await seen.press("1", "v", "j", *keys)
        await seen.press("j", "j", "j")
        assert "▌2 marked" in seen.text()

    watch(story, client.path, clock)


def test_to_remove_several_their_number_is_typed_and_one_key_restores_them(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("space", "space", "d")
        assert "Remove 2 schedules?" in seen.text()
        await seen.press("y", "enter")
        assert "Remove 2 schedules?" in seen.text()
        await seen.press("backspace", "2", "enter")

        assert seen.told() == "removed 2 schedules; z undoes it"
        assert "marked" not in seen.text()
        assert [one.name for one in client.schedules()] == ["sync"]
        await seen.press("z", "enter")
        assert seen.told() == "undid the last change of 2 schedules; Z redoes it"

    watch(story, client.path, clock)

    assert sorted(one.name for one in client.schedules()) == ["backup", "report", "sync"]


def test_backfill_says_how_many_runs_it_would_queue_before_it_does(
    client: Client, clock: FakeClock
) -> None:
    clock.advance_ms(86_400_000)

    async def story(seen: Seen) -> None:
        await seen.press("b")
        await seen.write("2026-11-18")
        await seen.press("enter")
        await seen.write("2026-11-20 12:00")
        assert "→ queues 3 runs, 2026-11-18 03:00:00 to 2026-11-20 03:00:00" in seen.text()
        await seen.press("enter")

        assert "queued 3 runs of backup: runs 1 to 3" in seen.told()

    watch(story, client.path, clock)

    assert {run.cause for run in client.history()} == {Cause.BACKFILL}


def test_cancel_withdraws_a_queued_run_at_once_from_either_list(
    client: Client, clock: FakeClock
) -> None:
    for name in ("backup", "report"):
        client.run_now(name)

    async def story(seen: Seen) -> None:
        await seen.press("x")
        assert seen.told() == "cancelled run 1 of backup before it started"

        await seen.press("3", "x")
        assert seen.told() == "cancelled run 2 of report before it started"

        await seen.press("x")
        assert seen.told() == "run 2 of report has already ended: cancelled: request"

        await seen.press("1", "x")
        assert seen.told() == "backup: no active runs"

    watch(story, client.path, clock)

    assert {run.status for run in client.history()} == {Status.CANCELLED}


def test_keys_for_marked_lines_are_whole_words_in_a_small_terminal(
    client: Client, clock: FakeClock
) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("asterisk")
        (line,) = (line for line in seen.lines() if "3 marked" in line)
        assert line.endswith("d remove  esc unmark")

    watch(story, client.path, clock, size=(80, 24))


def test_an_action_is_done_to_all_that_is_marked(client: Client, clock: FakeClock) -> None:
    client.pause("report")

    async def story(seen: Seen) -> None:
        await seen.press("asterisk")
        assert "▌3 marked   r run  p pause  u resume  m move" in seen.text()
        await seen.press("u")
        assert "Resume 3 schedules?" in seen.text()
        assert "⏎ resume 3 schedules    esc go back" in seen.text()
        await seen.press("enter")

        told = seen.told().splitlines()
        assert told[0].startswith("resumed report; next ")
        assert told[1:] == ["2 failed:", "backup is not paused", "sync is not paused"]
        assert "marked" not in seen.text()

    watch(story, client.path, clock)


def test_what_has_gone_meanwhile_is_told(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("p")
        client.remove("backup")
        await seen.press("enter")

        assert "schedule 'backup' was removed" in seen.told()

    watch(story, client.path, clock)


def test_where_nothing_is_there_nothing_is_done_and_that_is_said(
    tmp_path: Path, clock: FakeClock
) -> None:
    with Client(tmp_path / "empty.db", clock=clock) as client:
        assert client.schedules() == []

    async def story(seen: Seen) -> None:
        for key, verb in (("r", "run"), ("p", "pause"), ("d", "remove"), ("x", "cancel")):
            await seen.press(key)
            assert seen.told() == f"select a line first: nothing here to {verb}"

    watch(story, tmp_path / "empty.db", clock)


def test_runs_are_not_removed_by_hand(client: Client, clock: FakeClock) -> None:
    client.run_now("backup")

    async def story(seen: Seen) -> None:
        await seen.press("3", "delete")

        assert seen.told().startswith("you can't remove single runs")
        assert "Remove" not in seen.text()

    watch(story, client.path, clock)


def test_what_is_run_by_a_program_that_is_not_there_waits_for_it(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("app", "0 2 * * *", queue="py:shop"))

    async def story(seen: Seen) -> None:
        await seen.press("r")

        assert "program 'shop' is not running and will run it when it starts" in seen.told()

    watch(story, client.path, clock)


def test_what_its_program_declares_no_more_is_run_by_nobody(
    client: Client, clock: FakeClock
) -> None:
    client.add(make_spec("app", "0 2 * * *", queue="py:shop"))
    let_vanish(client, "app", ago_ms=3 * 3_600_000)

    async def story(seen: Seen) -> None:
        [line] = [line for line in seen.text().splitlines() if " app " in line]
        assert "? app " in " ".join(line.split())
        assert "vanished" in line
        assert "? 1 vanished" in seen.text()

        await seen.press("r")
        assert "program 'shop' no longer declares it, so nothing runs it" in seen.told()

        await seen.press("enter")
        assert "none: the program 'shop' has not declared it since 06:00:00" in seen.text()
        assert "h ago), so nothing runs it; remove it: edgecron rm app" in seen.text()
        assert "would not run: its program no longer declares it" in seen.text()
        assert "? vanished" in seen.text().splitlines()[0]

        await seen.press("escape", "2")
        [line] = [line for line in seen.lines() if "every day" in line and "vanished" in line]
        assert "? app " in " ".join(line.split())  # although a run of it is queued
        assert "03:00  backup" in seen.text()
        assert "03:00  app" not in seen.text()

    watch(story, client.path, clock, size=(160, 48))


def test_from_upcoming_the_schedule_of_a_fire_is_run(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("2", "j", "r")

        assert "run 1 of report: queued" in seen.told()

    watch(story, client.path, clock)


def test_only_the_next_run_of_a_schedule_can_be_moved(client: Client, clock: FakeClock) -> None:
    async def story(seen: Seen) -> None:
        await seen.press("2", "j", "j", "j", "m")

        assert seen.told() == "you can move only the next run of backup, at Nov 21 03:00"

    watch(story, client.path, clock)
