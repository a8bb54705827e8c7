"""Runs by hand that are due later, have a priority or a timeout of their own, or come in groups."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.errors import InvalidInput, InvalidTime, KeyReused, NotFound
from edgecron.base.values import replace
from edgecron.client import Client
from edgecron.client.manual_runs import make_wish
from edgecron.model.choices import Overlap, Reason, Status
from edgecron.model.run import RunOptions
from tests.support.clock import FakeClock
from tests.support.specs import make_spec
from tests.support.story import Story

HOUR_S = 3600.0
SCOPES = (("device", "a"), ("device", "b"))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "story.db")


def test_a_delayed_run_starts_when_it_is_due(story: Story) -> None:
    story.add("poll", "on demand")

    [run] = story.client.run_now("poll", options=RunOptions(delay_s=60))
    assert (run.status, run.due_at) == (Status.QUEUED, story.client.now() + timedelta(seconds=60))
    story.after_s(59)
    assert story.bodies("poll") == 0
    story.after_s(1)

    assert story.bodies("poll") == 1


def test_a_time_that_has_passed_is_now(story: Story) -> None:
    story.add("poll", "on demand")
    now = story.client.now()

    [run] = story.client.run_now("poll", options=RunOptions(at=now - timedelta(hours=1)))

    assert run.due_at == now


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE])
def test_a_run_that_is_due_later_takes_no_place_until_then(story: Story, overlap: Overlap) -> None:
    story.add("poll", "every 10m", policies=make_spec(overlap=overlap).policies)
    [later] = story.client.run_now("poll", options=RunOptions(delay_s=HOUR_S))

    story.after_s(600)
    [now] = story.client.run_now("poll")

    assert now.status is Status.QUEUED
    assert story.client.execution(later.id).status is Status.QUEUED
    story.after_s(1)
    assert [run.status for run in story.client.history("poll", limit=2)] == [Status.SUCCESS] * 2


def test_a_pause_does_not_hold_it_and_cancel_removes_it(story: Story) -> None:
    story.add("poll", "on demand")
    [first] = story.client.run_now("poll", options=RunOptions(delay_s=60))
    [second] = story.client.run_now("poll", options=RunOptions(delay_s=60))
    story.client.pause("poll")

    story.client.cancel(second.id)
    story.after_s(60)
    story.after_s(1)

    assert story.client.execution(first.id).status is Status.SUCCESS
    assert story.client.execution(second.id).status is Status.CANCELLED


def test_an_edit_does_not_start_it_early(story: Story) -> None:
    story.client.add(make_spec("poll", "on demand", overlap=Overlap.ALLOW))
    [run] = story.client.run_now("poll", options=RunOptions(delay_s=60))

    story.client.edit("poll", lambda spec: make_spec("poll", "on demand", needs=("online",)))
    story.after_s(30)

    assert story.client.execution(run.id).status is Status.QUEUED


def test_priority_and_timeout_are_of_this_run_and_its_retries(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db")
    policies = make_spec("x", "on demand", overlap=Overlap.ALLOW, retries=1, retry_delay_s=1.0)
    story.add("poll", "on demand", code=1, policies=policies.policies)

    [run] = story.client.run_now("poll", options=RunOptions(priority=7, timeout_s=2.5))
    story.after_s(10)
    [retry, first] = story.client.history("poll")

    assert first.id == run.id
    assert [first.priority, retry.priority] == [7, 7]


def test_one_scope_of_several_can_be_run(tmp_path: Path) -> None:
    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("poll", "on demand", scopes=SCOPES))

        runs = client.run_now("poll", options=RunOptions(scope=("device", "b")))
        with pytest.raises(InvalidInput, match="'poll' has no scope 'device:c'") as refused:
            client.run_now("poll", options=RunOptions(scope=("device", "c")))

    assert [(run.scope_kind, run.scope_id) for run in runs] == [("device", "b")]
    assert refused.value.hint == "its scopes: device:a, device:b"


@pytest.mark.parametrize(
    "options",
    [
        {"delay_s": -1.0},
        {"delay_s": 1e12},
        {"timeout_s": 0.0},
        {"priority": 1001},
    ],
)
def test_an_option_out_of_bounds_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        RunOptions(**options)


def test_a_delay_and_a_time_contradict_each_other(story: Story) -> None:
    with pytest.raises(InvalidInput, match="a run has a delay and a time"):
        RunOptions(delay_s=1.0, at=story.client.now())
    with pytest.raises(InvalidTime):
        RunOptions(at=story.client.now().replace(tzinfo=None))


def test_many_calls_are_one_transaction(tmp_path: Path) -> None:
    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("poll", "on demand", overlap=Overlap.ALLOW))
        before = client.change_mark()

        ids = client.enqueue("poll", [f"[{number}]" for number in range(300)])

        assert [run.payload for run in client.history("poll", limit=300)[::-1]] == [
            f"[{number}]" for number in range(300)
        ]
        assert ids == sorted(set(ids))
        assert client.change_mark() == before  # Other connections change it, and each of them once.


def test_a_wrong_call_spoils_only_its_own_group(tmp_path: Path) -> None:
    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("poll", "on demand", overlap=Overlap.ALLOW))
        client.run_once("poll", key="k", payload="1")

        good, missing, reused = client.enqueue_together(
            [
                make_wish("poll", ["1", "2"]),
                make_wish("pol", [None]),
                make_wish("poll", ["2"], key="k"),
            ]
        )

        assert isinstance(good, list)
        assert len(good) == 2
        assert isinstance(missing, NotFound)
        assert isinstance(reused, KeyReused)
        assert len(client.history("poll")) == 3


def test_a_schedule_that_was_changed_since_it_was_read_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "edge.db"
    with Client(path) as one, Client(path) as other:
        one.add(make_spec("poll", "on demand", overlap=Overlap.ALLOW))
        one.enqueue("poll", [None])
        other.edit("poll", lambda spec: make_spec("poll", "on demand", retries=4))

        one.enqueue("poll", [None])
        assert one.history("poll")[0].max_attempts == 5

        other.remove("poll")
        with pytest.raises(NotFound):
            one.enqueue("poll", [None])


def test_a_clock_that_was_ahead_does_not_delay_it_beyond_its_delay(tmp_path: Path) -> None:
    clock = FakeClock()
    with Client(tmp_path / "edge.db", clock=clock) as client:
        client.add(make_spec("poll", "on demand", overlap=Overlap.ALLOW))
        [near] = client.run_now("poll", options=RunOptions(delay_s=30 * 86_400.0))
        clock.step_ms(400 * 86_400_000)
        [ahead] = client.run_now("poll", options=RunOptions(delay_s=60.0))
        clock.step_ms(-400 * 86_400_000)
        now_ms = clock.now_ms()

        client.store.bring_back_queued(now_ms=now_ms, ahead_ms=now_ms)

        assert client.execution(near.id).due_at == near.due_at
        assert client.execution(ahead.id).due_at == client.now() + timedelta(seconds=60)


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.REPLACE])
def test_a_clock_that_is_set_back_makes_no_queued_run_a_delayed_one(
    tmp_path: Path, overlap: Overlap
) -> None:
    clock = FakeClock()
    with Client(tmp_path / "edge.db", clock=clock) as client:
        client.add(make_spec("poll", "on demand", overlap=overlap))
        client.run_now("poll", options=RunOptions(delay_s=2 * HOUR_S))
        client.run_now("poll")
        clock.step_ms(-3_600_000)

        client.run_now("poll")

        second, first, delayed = client.history("poll")
    assert delayed.status is Status.QUEUED
    if overlap is Overlap.SKIP:
        assert (second.reason, first.status) == (Reason.OVERLAP, Status.QUEUED)
    else:
        assert (second.status, first.reason) == (Status.QUEUED, Reason.REPLACED)


def test_an_edit_after_a_clock_was_set_back_moves_no_queued_run(tmp_path: Path) -> None:
    story = Story(tmp_path / "story.db", max_running=1)
    for name in ("first", "second"):
        story.add(name, "every 10m", lasts_s=3600)
    story.after_s(600)
    [running], [queued] = story.runs("first"), story.runs("second")
    story.world.clock.step_ms(-3_600_000)

    story.client.edit("second", lambda spec: replace(spec, description="other"))

    assert (running.status, queued.status) == (Status.RUNNING, Status.QUEUED)
    assert story.runs("second") == [queued]


def test_a_program_that_has_run_it_knows_the_machines_that_join(story: Story) -> None:
    story.add("scan", "on demand", policies=make_spec(on="each").policies)
    [before] = story.client.run_now("scan")
    for machine in ("web1", "web2"):
        story.client.store.join_machine(("command on each",), machine)
    after = story.client.run_now("scan")

    assert before.scope_kind == "global"
    assert [run.scope_id for run in after] == ["web1", "web2"]
