"""A run by hand may have a payload of its own, in the place of its schedule's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import InvalidInput
from edgecron.client import Client
from edgecron.model.choices import Overlap, Reason, Status
from edgecron.model.options import Policies
from edgecron.model.run import Execution
from edgecron.model.schedule import ScheduleSpec
from edgecron.supervisor.environment import given_variables
from tests.support.clock import FakeClock
from tests.support.specs import make_spec
from tests.support.story import Story

OWN = '{"host": "plc2"}'


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path / "story.db")


def with_payload(spec: ScheduleSpec) -> ScheduleSpec:
    return replace(spec, job=replace(spec.job, payload='{"host": "plc1"}'))


def payloads(runs: list[Execution]) -> list[str | None]:
    return [run.payload for run in runs]


def test_only_the_run_that_was_given_a_payload_has_one_of_its_own(story: Story) -> None:
    story.add("poll", "every 1m")
    story.client.edit("poll", with_payload)

    [given] = story.client.run_now("poll", payload=OWN)
    story.after_s(1)
    [plain] = story.client.run_now("poll")
    story.after_s(60)

    assert (given.payload, plain.payload) == (OWN, None)
    assert payloads(story.runs("poll")) == [OWN, None, None]
    job = story.client.schedule("poll").spec.job
    told = [given_variables(run, job)["EDGECRON_PAYLOAD"] for run in story.runs("poll")]
    assert told == [OWN, '{"host": "plc1"}', '{"host": "plc1"}']


def test_each_scope_of_a_run_has_its_payload(story: Story) -> None:
    scopes = (("device", "a"), ("device", "b"))
    story.add("poll", "@yearly", scopes=scopes)

    runs = story.client.run_now("poll", payload=OWN)

    assert payloads(runs) == [OWN, OWN]


def test_the_retries_of_a_run_have_its_payload(story: Story) -> None:
    story.add("poll", "@yearly", code=1, policies=Policies(retries=2, retry_delay_s=1))
    story.client.run_now("poll", payload=OWN)

    for _ in range(4):
        story.after_s(10)

    assert story.statuses("poll") == ["failed:exit"] * 3
    assert payloads(story.runs("poll")) == [OWN] * 3


def test_a_run_that_overlap_left_out_says_what_it_would_have_had(story: Story) -> None:
    story.add("poll", "@yearly", lasts_s=60)
    story.client.run_now("poll")

    [skipped] = story.client.run_now("poll", payload=OWN)

    assert (skipped.reason, skipped.payload) == (Reason.OVERLAP, OWN)


def test_a_run_that_replaces_another_has_its_own_payload(story: Story) -> None:
    story.add("poll", "@yearly", policies=Policies(overlap=Overlap.REPLACE))
    story.client.run_now("poll", payload="1")

    [run] = story.client.run_now("poll", payload="2")

    assert [(one.reason, one.payload) for one in story.runs("poll")] == [
        (Reason.REPLACED, "1"),
        (None, "2"),
    ]
    assert run.payload == "2"


@pytest.mark.failure(60)
@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("", "payload is not JSON"),
        ("{", "payload is not JSON"),
        ("[1, NaN]", "payload is not JSON: NaN is not a JSON value"),
        ("-Infinity", "payload is not JSON"),
        ("1e999", "payload is not JSON: 1e999 is too large a number"),
        ('"\0"', "payload .* holds a NUL character"),
        ('"\ud800"', "payload .* is not valid UTF-8"),
        ("[" * 600 + "]" * 600, "more than 500 levels deep"),
        ("[" * 30_000 + "]" * 30_000, "payload is not JSON|levels deep"),
        (f'"{"x" * 65_535}"', "payload is 65537 bytes long, expected at most 65536"),
        (f'"{"ü" * 32_768}"', "payload is 65538 bytes long"),
    ],
    ids=lambda value: f"{value:.12}".encode("ascii", "replace").decode().replace("\0", "0"),
)
def test_what_is_no_payload_is_refused_and_queues_nothing(
    tmp_path: Path, payload: str, words: str
) -> None:
    with Client(tmp_path / "edgecron.db", clock=FakeClock()) as client:
        client.add(make_spec("poll"))

        with pytest.raises(InvalidInput, match=words):
            client.run_now("poll", payload=payload)

        assert client.history() == []


@pytest.mark.parametrize(
    "payload", ["null", "0", '""', f'"{"x" * 65_534}"', "[" * 500 + "]" * 500, '"$(touch x)"']
)
def test_a_payload_comes_back_as_it_was_given(tmp_path: Path, payload: str) -> None:
    with Client(tmp_path / "edgecron.db", clock=FakeClock()) as client:
        client.add(make_spec("poll"))

        [run] = client.run_now("poll", payload=payload)

        assert client.execution(run.id).payload == run.payload == payload


@pytest.mark.failure(52)
def test_a_run_whose_payload_no_edgecron_wrote_fails_and_holds_up_no_other(story: Story) -> None:
    story.add("bad", "@yearly")
    story.add("good", "every 1m")
    story.client.run_now("bad", payload=OWN)
    connection = apsw.Connection(str(story.world.path))
    connection.execute("UPDATE executions SET payload = 'a' || char(0) || 'b'")
    connection.close()

    story.after_s(60)
    story.after_s(1)

    [bad] = story.runs("bad")
    assert (bad.status, bad.reason) == (Status.FAILED, Reason.SPAWN)
    assert bad.error_msg == "payload 'a\\x00b' holds a NUL character"
    assert story.statuses("good") == ["success"]
