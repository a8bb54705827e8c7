"""Schedules to a document and back: nothing is lost, and what was exported changes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.client import Client
from edgecron.formats.document import read_document
from edgecron.formats.document_tables import (
    SCHEDULES,
    Action,
    spec_table,
    write_document,
    write_for_editing,
)
from edgecron.formats.toml import write_table
from edgecron.model.options import OPTIONS
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.triggers import parse_trigger
from tests.support.clock import FakeClock
from tests.support.documents import SPECS
from tests.support.forms import tried
from tests.support.specs import make_spec

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
OFTEN = settings(derandomize=True, database=None, deadline=None, max_examples=tried(30, 100))
SELDOM = settings(derandomize=True, database=None, deadline=None, max_examples=tried(12, 40))


def canonical(spec: ScheduleSpec) -> ScheduleSpec:
    """A specification as it is kept, its triggers in an order of their own."""
    texts = (parse_trigger(text, spec.timezone, spec.name).text for text in spec.triggers)
    zone = "UTC" if spec.timezone is None else spec.timezone
    return replace(spec, triggers=tuple(sorted(texts)), timezone=zone)


@OFTEN
@given(spec=SPECS)
def test_a_document_says_all_of_a_schedule(spec: ScheduleSpec) -> None:
    text = write_table((SCHEDULES, spec.name), spec_table(spec))

    [wanted] = read_document(text.encode()).wanted

    assert canonical(wanted.spec) == canonical(spec)
    assert wanted.enabled is None
    assert wanted.limit is None


def test_the_defaults_are_not_written() -> None:
    spec = make_spec(timezone="local")

    assert spec_table(spec) == {"cron": "* * * * *", "command": ["/bin/true"]}


def database_of(folder: str, name: str, specs: list[ScheduleSpec]) -> Client:
    client = Client(Path(folder) / f"{name}.db", clock=FakeClock(NOW))
    others = [make_spec("other", "every 1d"), make_spec("third", "every 1d")]
    client.add_all([*others, *specs])
    return client


def kept(client: Client) -> list[Schedule]:
    return client.schedules()


@SELDOM
@given(
    specs=st.lists(SPECS, max_size=3, unique_by=lambda spec: spec.name),
    limit=st.none() | st.integers(1, 5),
    paused=st.booleans(),
)
def test_applying_what_was_exported_changes_nothing(
    specs: list[ScheduleSpec], limit: int | None, paused: bool
) -> None:
    with TemporaryDirectory() as folder, database_of(folder, "a", specs) as client:
        client.limit_group("disk", limit)
        if paused:
            client.pause(client.schedules()[0].name)
        before = kept(client)
        document = read_document(write_document(before).encode())

        steps = client.plan_document(document, origin="apply x")
        client.apply(steps, origin="apply x")

        assert {step.action for step in steps} == {Action.KEEP}
        assert kept(client) == before


@SELDOM
@given(specs=st.lists(SPECS, max_size=3, unique_by=lambda spec: spec.name))
def test_what_a_document_makes_is_exported_as_it_was(specs: list[ScheduleSpec]) -> None:
    with TemporaryDirectory() as folder, database_of(folder, "a", specs) as client:
        exported = write_document(kept(client))
        with Client(Path(folder) / "b.db", clock=FakeClock(NOW)) as fresh:
            document = read_document(exported.encode())

            steps = fresh.plan_document(document, origin="apply x")
            fresh.apply(steps, origin="apply x")

            assert {step.action for step in steps} == {Action.CREATE}
            assert write_document(kept(fresh)) == exported


@SELDOM
@given(spec=SPECS)
def test_the_text_for_an_editor_says_the_same(spec: ScheduleSpec) -> None:
    with TemporaryDirectory() as folder, database_of(folder, "a", [spec]) as client:
        schedule = client.schedule(spec.name)

        text = write_for_editing(schedule)

        [wanted] = read_document(text.encode()).wanted
        assert canonical(wanted.spec) == canonical(schedule.spec)


def test_each_key_that_an_editor_is_shown_can_be_taken_as_it_stands() -> None:
    for key, about in OPTIONS.items():
        base = {"cron": '"0 0 * * *"', "command": '["true"]'}
        if key in ("shell", "callable"):
            del base["command"]
        if key == "callable":
            base["queue"] = OPTIONS["queue"].example
        if key == "allow_fast":
            base["every"] = '"250ms"'  # The permission is written only where it is needed.
        if key == "user":
            continue  # It need not be known here.
        lines = {**base, key: about.example}
        text = "\n".join(["[schedules.x]", *(f"{name} = {value}" for name, value in lines.items())])

        [wanted] = read_document(text.encode()).wanted

        assert key in spec_table(
            wanted.spec,
            is_enabled=wanted.enabled is not False,
            group_most=wanted.limit[1] if wanted.limit else None,
        )
