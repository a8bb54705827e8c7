"""Values become JSON and the same values again, and nothing else becomes a value."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgecron.base import errors
from edgecron.base.errors import (
    EdgecronError,
    InvalidDocument,
    InvalidInput,
    MalformedCall,
    NotFound,
    ServerUnavailable,
)
from edgecron.client.wire_answers import question_text, read_answer, read_question
from edgecron.client.wire_calls import NAMES, get_call
from edgecron.client.wire_codec import codec_of
from edgecron.client.wire_faults import fault_object, fault_of
from edgecron.client.wire_hints import hints_of
from edgecron.client.wire_version import WIRE
from edgecron.model.choices import Priority, Status
from edgecron.model.options import Policies
from edgecron.triggers import parse_trigger
from edgecron.triggers.base import Trigger
from support.wirevalues import values_of

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def _as_text_and_back(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(st.data())
def test_every_answer_arrives_as_it_was_given(name: str, data: st.DataObject) -> None:
    call = get_call(name)
    value = data.draw(values_of(hints_of(call.function)["return"]))

    told = _as_text_and_back(call.answer.encode(value))

    assert call.answer.decode(told, "value") == value


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(st.data())
def test_every_question_arrives_as_it_was_asked(name: str, data: st.DataObject) -> None:
    call, hints = get_call(name), hints_of(get_call(name).function)
    given_ = {each: data.draw(values_of(hints[each])) for each in call.arguments}

    asked = read_question(name, question_text(call, given_))

    assert asked.call is call
    assert {each: _plain(one) for each, one in asked.arguments.items()} == {
        each: _plain(one) for each, one in given_.items()
    }


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=30)
@given(body=_JSON)
def test_whatever_is_asked_is_refused_or_read(name: str, body: Any) -> None:
    try:
        asked = read_question(name, json.dumps(body).encode())
    except InvalidInput:
        return

    assert asked.call.required <= asked.arguments.keys()


@pytest.mark.parametrize(
    ("hint", "value", "told"),
    [
        (int, True, "value is True, expected a whole number"),
        (int, 1.0, "value is 1.0, expected a whole number"),
        (int, 2**63, "expected a whole number"),
        (bool, 1, "value is 1, expected true or false"),
        (str, None, "value is None, expected a text"),
        (float, 10**400, "expected a number"),
        (datetime, "2026-11-20T08:00:00", "expected an RFC 3339 time with an offset"),
        (datetime, "0001-01-01T00:00:00+14:00", "expected an RFC 3339 time with an offset"),
        (bytes, "é", "expected base64"),
        (Status, "asleep", "expected one of queued, running"),
        (list[int], {}, "expected an array"),
        (list[int], [1, "2"], "value[1] is '2', expected a whole number"),
        (tuple[int, str], [1], "expected an array of 2"),
        (dict[Status, int], {"gone": 1}, "a key of value is 'gone'"),
        (Policies, {"retries": 1}, "expected an object of catch_up"),
        (Trigger, "every 5m", "expected a compiled trigger"),
    ],
)
def test_what_is_not_as_its_hint_says_is_refused_and_where_it_stands_is_told(
    hint: Any, value: object, told: str
) -> None:
    with pytest.raises(MalformedCall) as caught:
        codec_of(hint).decode(value, "value")

    assert told in caught.value.message


def test_what_is_no_value_of_its_hint_is_a_defect_of_who_sends_it() -> None:
    for hint, value in ((int, "1"), (float, float("nan")), (datetime, datetime.max)):  # noqa: DTZ901
        with pytest.raises(TypeError):
            codec_of(hint).encode(value)


def test_a_hint_of_anything_else_is_no_codec() -> None:
    for hint in (int | str, complex, type, int | str | None):
        with pytest.raises(TypeError, match="can't be on the wire"):
            codec_of(hint)


def test_the_checks_that_values_make_at_birth_are_made_here_too() -> None:
    told = codec_of(Policies).encode(Policies(retries=3, priority=Priority.HIGH))

    assert codec_of(Policies).decode(told, "value") == Policies(retries=3, priority=10)
    with pytest.raises(InvalidInput, match="retries is -1, expected 0"):
        codec_of(Policies).decode({**told, "retries": -1}, "value")


def test_an_instant_of_any_zone_is_the_same_instant_in_utc() -> None:
    there = datetime(2026, 7, 1, 12, 30, 0, 250_000, timezone(timedelta(hours=5, minutes=45)))

    told = codec_of(datetime).encode(there)

    assert codec_of(datetime).decode(told, "value") == there
    assert codec_of(datetime).decode(told, "value").tzinfo is UTC


def test_local_time_is_that_of_the_machine_that_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    trigger = parse_trigger("0 2 * * *", "local", "backup")

    told = codec_of(Trigger).encode(trigger)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    found = codec_of(Trigger).decode(told, "value")

    assert found.timezone == "America/New_York"
    assert found.next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 7, tzinfo=UTC)


def test_every_error_of_ours_is_raised_as_what_it_was() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, EdgecronError)
    ]

    for kind in kinds:
        found = fault_of(_as_text_and_back(fault_object(kind("what went wrong", hint="do this"))))
        assert type(found) is kind
        assert (found.message, found.hint) == ("what went wrong", "do this")


def test_the_problems_of_a_document_travel_with_it() -> None:
    problem = {"schedule": "backup", "key": "cron", "line": 3, "message": "no", "hint": None}

    found = fault_of(fault_object(InvalidDocument("one thing is wrong", problems=[problem])))

    assert isinstance(found, InvalidDocument)
    assert found.problems == (problem,)


def test_an_error_of_nobody_knows_what_is_the_server_s() -> None:
    found = fault_of({"code": "overloaded", "message": "64 requests are waiting", "hint": None})

    assert type(found) is ServerUnavailable
    assert fault_of({"message": 5}) is None
    assert fault_of("no") is None


def test_what_nobody_may_ask_is_not_found() -> None:
    for name in ("interrupt", "close", "store", "__init__", "restoring", "backup", ""):
        with pytest.raises(NotFound, match="there is no call"):
            get_call(name)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'{"name":1,"name":2}', b'{"x":1}', b"{}", b"\xff", b"[" * 100_000]
)
def test_a_body_that_makes_no_sense_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedCall):
        read_question("schedule", body)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"{}", b'{"error": 1}', b'{"value": 1}', b'{"value":1,"now_ms":"x"}']
)
def test_an_answer_that_makes_no_sense_is_the_server_s_fault(body: bytes) -> None:
    with pytest.raises(ServerUnavailable):
        read_answer(get_call("schedule"), body)


def test_a_change_of_what_is_on_the_wire_is_another_wire() -> None:
    """Else two ends from before and after it would talk past each other."""
    shapes = "\n".join(get_call(name).shape for name in NAMES)
    now = hashlib.sha256(shapes.encode()).hexdigest()[:12]

    assert now == WIRE, f"write WIRE = {now!r} in edgecron/client/wire_version.py"
