"""A run that is asked for with a key is run once, however often it is asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from edgecron.base.errors import Conflict, InvalidInput, KeyReused, NotFound
from edgecron.client import Client
from edgecron.model.choices import Overlap, Reason, Status
from edgecron.model.run import Execution, RunOptions
from edgecron.planning.retention import UNLIMITED
from tests.support.clock import FakeClock
from tests.support.specs import make_spec
from tests.support.story import Story

DAY_S = 86_400
SCOPES = (("device", "a"), ("device", "b"), ("device", "c"))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "story.db")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def ids(runs: list[Execution]) -> list[int]:
    return [run.id for run in runs]


def test_a_key_that_is_given_again_gives_the_same_run_as_it_is_then(story: Story) -> None:
    story.add("poll", "@yearly")

    [first] = story.client.run_once("poll", key="k")
    story.after_s(30)
    [again] = story.client.run_once("poll", key="k")

    assert (first.status, again.status) == (Status.QUEUED, Status.SUCCESS)
    assert first.id == again.id
    assert len(story.runs("poll")) == story.bodies("poll") == 1


def test_another_key_is_another_run_and_so_is_none(story: Story) -> None:
    story.add("poll", "@yearly", policies=replace(make_spec().policies, overlap=Overlap.ALLOW))

    runs = [story.client.run_once("poll", key=key) for key in ("k", "K", "k ", "k")]
    story.client.run_now("poll")

    assert ids(runs[0]) == ids(runs[3])
    assert len(story.runs("poll")) == 4


def test_a_key_is_the_schedule_s_own(story: Story) -> None:
    story.add("poll", "@yearly")
    story.add("other", "@yearly")

    [one] = story.client.run_once("poll", key="k")
    [two] = story.client.run_once("other", key="k")

    assert (one.schedule, two.schedule) == ("poll", "other")


def test_each_scope_is_run_once(story: Story) -> None:
    story.add("poll", "@yearly", scopes=SCOPES)

    first = story.client.run_once("poll", key="k")
    story.after_s(10)
    again = story.client.run_once("poll", key="k")

    assert ids(first) == ids(again)
    assert [run.scope_id for run in again] == ["a", "b", "c"]
    assert story.bodies("poll") == 3


def test_of_scopes_that_were_changed_meanwhile_those_that_were_run_are_not_run_again(
    story: Story,
) -> None:
    story.add("poll", "@yearly", scopes=SCOPES)
    first = story.client.run_once("poll", key="k")
    story.client.edit("poll", lambda spec: replace(spec, scopes=(("device", "d"), ("device", "b"))))

    again = story.client.run_once("poll", key="k")

    assert ids(again) == [first[1].id]


def test_a_run_that_overlap_left_out_is_the_answer_the_second_time_as_well(story: Story) -> None:
    story.add("poll", "@yearly", lasts_s=60)
    story.client.run_now("poll")

    [first] = story.client.run_once("poll", key="k")
    story.after_s(600)  # There would be room for it now.
    [again] = story.client.run_once("poll", key="k")

    assert (first.status, first.reason) == (Status.SKIPPED, Reason.OVERLAP)
    assert first == again


def test_the_retries_of_a_run_are_not_its_answer(story: Story) -> None:
    policies = replace(make_spec().policies, retries=1, retry_delay_s=1)
    story.add("poll", "@yearly", code=1, policies=policies)
    [first] = story.client.run_once("poll", key="k")
    for _ in range(3):
        story.after_s(10)

    again = story.client.run_once("poll", key="k")

    assert len(story.runs("poll")) == 2
    assert ids(again) == [first.id]


@pytest.mark.parametrize(
    "payloads", [("1", "2"), ("1", "true"), ("[1, 2]", "[2, 1]"), ("1", None), (None, "null")]
)
def test_a_key_that_is_given_with_another_payload_runs_nothing(
    story: Story, payloads: tuple[str | None, str | None]
) -> None:
    story.add("poll", "@yearly")
    first, second = payloads
    story.client.run_once("poll", key="k", payload=first)

    with pytest.raises(KeyReused, match="used for schedule 'poll' with another payload"):
        story.client.run_once("poll", key="k", payload=second)

    assert len(story.runs("poll")) == 1


def test_a_payload_that_says_the_same_in_another_order_is_the_same_one(story: Story) -> None:
    story.add("poll", "@yearly")

    first = story.client.run_once("poll", key="k", payload='{"a": [1, {"b": 2, "c": 3}], "d": 4}')
    again = story.client.run_once("poll", key="k", payload='{"d":4,"a":[1,{"c":3,"b":2}]}')

    assert ids(first) == ids(again)


@pytest.mark.parametrize("key", ["", "k" * 256, "é", "a\nb", "\x7f", "a\tb"])
def test_what_is_no_key_is_refused(story: Story, key: str) -> None:
    story.add("poll", "@yearly")

    with pytest.raises(InvalidInput, match="expected 1 to 255 printable characters of ASCII"):
        story.client.run_once("poll", key=key)

    assert story.runs("poll") == []


def test_a_key_is_known_as_long_as_its_run_is_in_the_history(
    tmp_path: Path, clock: FakeClock
) -> None:
    with Client(tmp_path / "edge.db", clock=clock) as client:
        client.add(make_spec("poll", "@yearly", overlap=Overlap.ALLOW))
        first = client.run_once("poll", key="k")
        for _ in range(120):
            client.run_now("poll")

        clock.advance_ms(30 * DAY_S * 1000)
        again = client.run_once("poll", key="k")

    assert ids(first) == ids(again)


def test_each_scope_has_its_own_keys(tmp_path: Path) -> None:
    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("poll", "@yearly", scopes=SCOPES, overlap=Overlap.ALLOW))

        runs = [
            client.run_once("poll", key="k", options=RunOptions(scope=scope))[0]
            for scope in (SCOPES[0], SCOPES[1], SCOPES[0])
        ]

    assert [run.scope_id for run in runs] == ["a", "b", "a"]
    assert runs[0].id == runs[2].id != runs[1].id


@pytest.mark.parametrize("days", [400, -400])
def test_a_clock_that_is_set_makes_no_second_run(
    tmp_path: Path, clock: FakeClock, days: int
) -> None:
    with Client(tmp_path / "edge.db", clock=clock) as client:
        client.add(make_spec("poll", "@yearly", scopes=SCOPES))
        first = client.run_once("poll", key="k")

        clock.step_ms(days * DAY_S * 1000)
        again = client.run_once("poll", key="k", asked_at=client.now() - timedelta(days=days))

    assert ids(first) == ids(again)


def test_who_has_asked_too_long_ago_for_anybody_to_know_is_told_so(
    tmp_path: Path, clock: FakeClock
) -> None:
    with Client(tmp_path / "edge.db", clock=clock) as client:
        client.add(make_spec("poll", "@yearly"))
        asked_at = client.now()
        clock.advance_ms(DAY_S * 1000)
        [run] = client.run_once("poll", key="k", asked_at=asked_at)
        clock.advance_ms(1)

        with pytest.raises(Conflict, match="longer ago than its key is known"):
            client.run_once("poll", key="another", asked_at=asked_at)
        [again] = client.run_once("poll", key="k", asked_at=asked_at)

    assert run.id == again.id


def test_what_retention_has_removed_may_be_run_again(tmp_path: Path, clock: FakeClock) -> None:
    with Client(tmp_path / "edge.db", clock=clock) as client:
        client.add(make_spec("poll", "@yearly"))
        [first] = client.run_once("poll", key="k")
        client.cancel(first.id)
        client.cancel(client.run_now("poll")[0].id)  # The last run of a schedule is kept.
        client.prune(retention=replace(UNLIMITED, history_count=1))
        with pytest.raises(NotFound):
            client.execution(first.id)

        [again] = client.run_once("poll", key="k")

    assert again.status is Status.QUEUED


def test_a_schedule_that_was_removed_and_made_again_is_another_one(story: Story) -> None:
    story.add("poll", "@yearly")
    [first] = story.client.run_once("poll", key="k")
    story.client.remove("poll")
    story.add("poll", "@yearly")

    [again] = story.client.run_once("poll", key="k")

    assert first.id != again.id


def test_of_many_who_give_one_key_at_once_one_makes_the_run(tmp_path: Path) -> None:
    database = tmp_path / "edge.db"
    with Client(database) as client:
        client.add(make_spec("poll", "@yearly", scopes=SCOPES, overlap=Overlap.ALLOW))

    def ask(_: int) -> list[int]:
        with Client(database) as client:
            return ids(client.run_once("poll", key="k"))

    with ThreadPoolExecutor(8) as crowd:
        told = list(crowd.map(ask, range(40)))

    with Client(database) as client:
        assert told == [sorted(ids(client.history("poll")))] * 40
