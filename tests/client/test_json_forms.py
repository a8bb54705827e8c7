"""Values become JSON and the same values again, and nothing else becomes a value."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import assume, given, settings
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
from edgecron.base.values import replace
from edgecron.client import Client, resource_functions
from edgecron.client.json_forms import form_of
from edgecron.client.plain_forms import error_object, read_error
from edgecron.client.record_forms import text_fields
from edgecron.client.resources import (
    API,
    KEY,
    RESOURCES,
    ResourceTypes,
    answer_object,
    read_answer,
    read_arguments,
    resource_types,
    write_request,
)
from edgecron.formats.document_tables import Document
from edgecron.model.choices import Priority, Status
from edgecron.model.listing import RunBounds
from edgecron.model.options import Policies
from edgecron.model.run import Execution, OutputChunk
from edgecron.model.schedule import Schedule, ScheduleSpec
from edgecron.triggers import parse_trigger
from edgecron.triggers.base import Trigger
from tests.support.forms import tried
from tests.support.specs import make_spec
from tests.support.valuesof import values_of

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


# One for each kind of answer: how it travels does not depend on what was asked.
_ANSWERS = {str(resource_types(name).hints["return"]): name for name in RESOURCES}


def _as_text_and_back(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def _ask(name: str, body: object) -> dict[str, Any]:
    """Read the body of a request that has no words in its path."""
    return read_arguments(resource_types(name), words={}, query=(), content=body)


@pytest.mark.parametrize("name", _ANSWERS.values())
@settings(max_examples=tried(4, 15))
@given(st.data())
def test_every_answer_arrives_as_it_was_given(name: str, data: st.DataObject) -> None:
    asked = resource_types(name)
    value = data.draw(values_of(asked.hints["return"]))

    told = json.dumps(answer_object(asked, value), allow_nan=False).encode()

    assert read_answer(asked, told) == value


@pytest.mark.parametrize("text", ["NaN", "-Infinity", '{"a": 1e999}'])
def test_numbers_that_json_does_not_have_arrive_as_text(text: str) -> None:
    """Only SQL can write such a payload."""
    assert text_fields("payload", text) == {"payload": text, "payload_text": text}


def _given(asked: ResourceTypes, key: str, hint: Any) -> st.SearchStrategy[Any]:
    """Values of a parameter, within the bounds of its numbers."""
    shape = asked.parameters[key].shape
    core = shape["anyOf"][0] if "anyOf" in shape else shape
    if core.get("type") != "integer":
        return values_of(hint)
    numbers = st.integers(core["minimum"], core["maximum"])
    return numbers | st.none() if "anyOf" in shape else numbers


@pytest.mark.parametrize("name", RESOURCES)
@settings(max_examples=tried(4, 15))
@given(st.data())
def test_every_question_arrives_as_it_was_asked(name: str, data: st.DataObject) -> None:
    asked, hints = resource_types(name), resource_types(name).hints
    given_ = {each: data.draw(_given(asked, each, hints[each])) for each in asked.parameters}
    assume(all(given_[word] not in ("", ".", "..") for word in asked.resource.path_words.values()))

    request = write_request(name, given_)
    path, _, query = request.target.removeprefix(API).partition("?")
    pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]*)", asked.resource.path)
    words = re.fullmatch(pattern, path)
    assert words is not None
    key = {} if request.key is None else {KEY: request.key}
    read = read_arguments(
        asked,
        words={
            word: unquote(text, errors="surrogatepass") for word, text in words.groupdict().items()
        },
        query=parse_qsl(query, keep_blank_values=True, errors="surrogatepass"),
        content=json.loads(request.body or b"{}") | key,
    )

    assert {each: _plain(one) for each, one in read.items()} == {
        each: _plain(one) for each, one in given_.items() if _is_sent(asked, each, one)
    }


def test_a_switch_that_is_not_sent_is_off() -> None:
    # `write_request` sends no switch that is off: a default of True would turn it on.
    for name in RESOURCES:
        function: Any = getattr(resource_functions, name, None) or getattr(Client, name)
        assert not any(one is True for one in (function.__kwdefaults__ or {}).values())


def _is_sent(asked: ResourceTypes, name: str, value: object) -> bool:
    """Whether a request says it: what has its default, and says nothing, need not travel."""
    is_off = value is False and asked.hints[name] is bool
    is_empty = value is None or is_off or (asked.resource.method == "GET" and value in ((), []))
    return name in asked.required or not is_empty


def _plain(value: Any) -> Any:
    if isinstance(value, Document):
        return replace(value, notes=None, templates=None)  # for its own program only
    return tuple(value) if isinstance(value, list) else value


@pytest.mark.parametrize("name", RESOURCES)
@settings(max_examples=tried(4, 10))
@given(body=_JSON)
def test_whatever_is_asked_is_refused_or_read(name: str, body: Any) -> None:
    _refuse_or_read(name, body)


@pytest.mark.slow
@pytest.mark.parametrize("name", RESOURCES)
@settings(max_examples=300, derandomize=False)
@given(body=_JSON)
def test_whatever_else_is_asked_is_refused_or_read(name: str, body: Any) -> None:
    _refuse_or_read(name, body)


def _refuse_or_read(name: str, body: Any) -> None:
    words = dict.fromkeys(resource_types(name).resource.path_words, "1")
    try:
        read = read_arguments(resource_types(name), words=words, query=(), content=body)
    except InvalidInput:
        return

    assert resource_types(name).required <= read.keys()


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
        (list[Status], [None], "value[0] is None, expected one of queued"),
        (dict[Status, int], {"gone": 1}, "a key of value is 'gone'"),
        (Policies, [], "value is [], expected an object"),
        (RunBounds, {"first_id": 1}, "expected an object with last_id"),
        (Execution, {"id": 1}, "expected an object with"),
        (Schedule, {"id": 1}, "expected an object with"),
        (OutputChunk, {"stream": "stdout", "at": "x", "text": ""}, "expected a chunk with"),
        (Trigger, "every 5m", "expected a compiled trigger"),
    ],
)
def test_what_is_not_as_its_hint_says_is_refused_and_where_it_stands_is_told(
    hint: Any, value: object, told: str
) -> None:
    with pytest.raises(MalformedCall) as caught:
        form_of(hint).decode(value, "value", True)

    assert told in caught.value.message


def test_what_is_no_value_of_its_hint_is_a_defect_of_who_sends_it() -> None:
    for hint, value in ((int, "1"), (float, float("nan")), (datetime, datetime.max)):  # noqa: DTZ901
        with pytest.raises(TypeError):
            form_of(hint).encode(value)


def test_a_hint_of_anything_else_has_no_form() -> None:
    for hint in (int | str, complex, type, int | str | None):
        with pytest.raises(TypeError, match="have no JSON form"):
            form_of(hint)


def test_the_checks_that_values_make_at_birth_are_made_here_too() -> None:
    told = form_of(Policies).encode(Policies(retries=3, priority=Priority.HIGH))

    assert form_of(Policies).decode(told, "value", True) == Policies(retries=3, priority=10)
    with pytest.raises(InvalidInput, match="retries is -1, expected 0"):
        form_of(Policies).decode({**told, "retries": -1}, "value", True)


def test_an_instant_of_any_zone_is_the_same_instant_in_utc() -> None:
    there = datetime(2026, 7, 1, 12, 30, 0, 250_000, timezone(timedelta(hours=5, minutes=45)))

    told = form_of(datetime).encode(there)

    assert form_of(datetime).decode(told, "value", True) == there
    assert form_of(datetime).decode(told, "value", True).tzinfo is UTC


def test_local_time_is_that_of_the_machine_that_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    trigger = parse_trigger("0 2 * * *", "local", "backup")

    told = form_of(Trigger).encode(trigger)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    found = form_of(Trigger).decode(told, "value", True)

    assert found.timezone == "America/New_York"
    assert found.next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 7, tzinfo=UTC)


def test_every_error_of_ours_is_raised_as_what_it_was() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, EdgecronError)
    ]

    for kind in kinds:
        found = read_error(_as_text_and_back(error_object(kind("what went wrong", hint="do this"))))
        assert type(found) is kind
        assert (found.message, found.hint) == ("what went wrong", "do this")


def test_the_problems_of_a_document_travel_with_it() -> None:
    problem = {"schedule": "backup", "key": "cron", "line": 3, "message": "no", "hint": None}

    found = read_error(error_object(InvalidDocument("one thing is wrong", problems=[problem])))

    assert isinstance(found, InvalidDocument)
    assert found.problems == (problem,)


def test_an_error_of_nobody_knows_what_is_the_server_s() -> None:
    found = read_error({"code": "overloaded", "message": "64 requests are waiting", "hint": None})

    assert type(found) is ServerUnavailable
    assert read_error({"message": 5}) is None
    assert read_error("no") is None


@pytest.mark.parametrize(
    "body", [[1], {"x": 1}, {}, {"schedule": "backup"}, None, {"schedule": {"name": "backup"}}]
)
def test_a_body_that_makes_no_sense_is_refused(body: object) -> None:
    with pytest.raises(MalformedCall):
        _ask("triggers", body)


@pytest.mark.parametrize(
    "body", [b"null", b"{}", b'{"error": 1}', b'{"x": 1}', b"{", b"[" * 10_000]
)
def test_an_answer_that_makes_no_sense_is_the_server_s_fault(body: bytes) -> None:
    with pytest.raises(ServerUnavailable):
        read_answer(resource_types("schedule"), body)


# Peers of other versions.


def test_fields_of_a_later_version_are_ignored_in_an_answer(tmp_path: Path) -> None:
    with Client(tmp_path / "edge.db") as client:
        client.add(make_spec("backup", timeout_s=60.0))
        outlook = client.outlook("backup")
    told = answer_object(resource_types("outlook"), outlook) | {"mood": "fine"}
    told["schedule"] |= {"rank": 10, "weather": {"is": "new"}}

    assert read_answer(resource_types("outlook"), json.dumps(told).encode()) == outlook


def test_fields_that_an_earlier_version_does_not_send_have_their_defaults(tmp_path: Path) -> None:
    with Client(tmp_path / "edge.db") as client:
        schedule = client.add(make_spec("backup"))
        [run] = client.run_now("backup")
    told = answer_object(resource_types("schedule"), schedule)
    later = ("kill_grace_s", "jitter_s", "is_done", "gone_upstreams", "env_file", "pruned_until")
    for name in later:
        del told[name]
    told_run = answer_object(resource_types("execution"), run)
    del told_run["fence"], told_run["progress"], told_run["flags"]

    assert read_answer(resource_types("schedule"), json.dumps(told).encode()) == schedule
    assert read_answer(resource_types("execution"), json.dumps(told_run).encode()) == run


def test_an_option_that_has_its_default_need_not_be_known_to_an_earlier_server() -> None:
    request = write_request("add_all", {"specs": [make_spec("backup", retries=3)], "origin": "x"})

    [sent] = json.loads(request.body or b"")["specs"]
    assert sent.keys() <= {"name", "kind", "job", "triggers", "retries", "timezone", *_OF_ZONE}
    assert sent["retries"] == 3


_OF_ZONE = ("is_timezone_default",)


def test_an_option_that_this_version_does_not_know_is_refused_in_a_request() -> None:
    spec = {"name": "backup", "kind": "shell", "job": "true", "triggers": ["@daily"], "nicer": 3}

    with pytest.raises(MalformedCall, match="'nicer', which is unknown here") as caught:
        _ask("add_all", {"specs": [spec]})

    assert caught.value.hint is not None
    assert caught.value.hint.startswith("known are: between, calendar_days, catch_up, ")


def test_an_error_of_a_type_of_a_later_version_is_one_of_the_same_code() -> None:
    found = read_error(
        {"code": "not_found", "message": "there is none", "hint": None, "type": "GoneForEver"}
    )

    assert type(found) is NotFound


def test_the_days_of_a_calendar_travel_beside_its_name() -> None:
    read = "holidays:DE-BY = 2026-12-25 2026-12-26T08:00:00Z..2026-12-26T10:00:00Z"
    spec = make_spec("backup", "@daily")
    spec = replace(spec, policies=Policies(except_days=("2026-12-24", read, "/none.ics = ")))
    form = form_of(ScheduleSpec)

    shown = _as_text_and_back(form.encode(spec))

    assert shown["except_days"] == ["2026-12-24", "holidays:DE-BY", "/none.ics"]
    assert shown["calendar_days"]["/none.ics"] == []
    assert form.decode(shown, "spec", False) == spec
