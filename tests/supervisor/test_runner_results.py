"""What a command has left as its result, and what may come with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgecron.model.choices import Reason, Status
from edgecron.model.run import MOST_STATE_KEYS, Progress, read_progress
from edgecron.supervisor.command_runner import outcome_of
from edgecron.supervisor.protocol import EndCause, ExitRecord, Flag
from edgecron.supervisor.results import Left, split_result


@pytest.mark.parametrize(
    "text",
    [
        *(None, "null", "3", '"edgecron"', '["edgecron"]', '{"rows": 3}'),
        '{"edgecron": 1, "rows": 3}',
        '{"rows": {"edgecron": {}}}',
        '{ "rows" :  3 }',
    ],
)
def test_what_is_not_marked_is_a_result_as_it_stands(text: str | None) -> None:
    assert split_result(text) == Left(result=text)


def test_what_is_marked_is_split() -> None:
    state = {"cursor": '{"line": 41}', "old": None, "ü": '"\\ud800"'}
    progress = {"fraction": 1, "text": "done"}
    body = {"result": {"rows": [1, "ü"]}, "state": state, "progress": progress}

    left = split_result(json.dumps({"edgecron": body}))

    assert left is not None
    assert (left.result, left.state) == ('{"rows": [1, "ü"]}', state)
    assert read_progress(left.progress) == Progress(fraction=1, text="done")


@pytest.mark.parametrize("body", [{}, {"result": None}, {"state": {}}, {"state": None}])
def test_what_is_marked_may_hold_nothing(body: dict[str, object]) -> None:
    assert split_result(json.dumps({"edgecron": body})) == Left()


DEEP = "[" * 700 + "]" * 700


_BAD_STATES: list[object] = [3, [], "x", {"": "1"}, {"a\nb": "1"}, {"\ud800": "1"}]
_BAD_VALUES: list[object] = [3, {}, [], True, "", "{", "NaN", "1e999", DEEP]


@pytest.mark.failure(52)
@pytest.mark.parametrize(
    "body",
    [
        *(None, 3, "x", [], {"rows": 3}, {"result": 1, "more": 2}),
        *({"state": state} for state in _BAD_STATES),
        *({"state": {"a": value}} for value in _BAD_VALUES),
        {"state": {"a": '"\ud800"'}},
        {"state": {"a": '"\0"'}},
        {"state": {"k" * 129: "1"}},
        {"state": {str(number): "1" for number in range(MOST_STATE_KEYS + 1)}},
        {"state": {"a": f'"{"x" * 65_535}"'}},
        {"result": "\ud800"},
        *({"progress": progress} for progress in (3, {}, {"fraction": 2}, {"fraction": "x"})),
        *({"progress": {"fraction": 1, "text": text}} for text in (3, None)),
        {"progress": {"fraction": 10**400, "text": ""}},
        {"progress": {"fraction": 1, "text": "", "at": 3}},
    ],
    ids=str,
)
def test_what_is_marked_and_malformed_is_no_result(body: object) -> None:
    assert split_result(json.dumps({"edgecron": body})) is None


def ended(result: str | None, **changes: object) -> ExitRecord:
    values = {"token": "t", "cause": EndCause.EXIT, "finished_ms": 9, "exit_code": 0}
    return ExitRecord(**(values | {"started_ms": 1, "result": result} | changes))  # type: ignore[arg-type]


def test_an_end_has_the_result_and_the_state_apart(tmp_path: Path) -> None:
    record = ended('{"edgecron": {"result": 3, "state": {"cursor": "41"}}}')

    outcome = outcome_of(record, execution_id=1, token="t", ok_codes=(0,), state_dir=tmp_path)

    assert (outcome.status, outcome.flags) == (Status.SUCCESS, ())
    assert (outcome.result, outcome.state) == ("3", {"cursor": "41"})


def test_an_end_says_that_what_it_left_was_malformed(tmp_path: Path) -> None:
    record = ended('{"edgecron": {"state": {"cursor": 41}}}', flags=(Flag.LEFT_BEHIND,))

    outcome = outcome_of(record, execution_id=1, token="t", ok_codes=(0,), state_dir=tmp_path)

    assert (outcome.status, outcome.result, outcome.state) == (Status.SUCCESS, None, None)
    assert outcome.flags == (Flag.LEFT_BEHIND, Flag.RESULT_INVALID)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (Status.FAILED, Reason.EXIT, 1, (), None)),
        ({"retry_after_ms": 5}, (Status.FAILED, Reason.EXIT, 1, (), 5)),
        ({"gives_up": True}, (Status.FAILED, Reason.EXIT, 1, (Flag.GAVE_UP,), None)),
        ({"is_skip": True}, (Status.SKIPPED, Reason.DECLINED, None, (), None)),
    ],
)
def test_an_exception_decides_what_follows(
    more: dict[str, object], expected: object, tmp_path: Path
) -> None:
    error = {"code": "OSError", "message": "OSError: no plc", **more}
    record = ended(json.dumps({"edgecron": {"error": error}}), exit_code=1)

    outcome = outcome_of(record, execution_id=1, token="t", ok_codes=(0,), state_dir=tmp_path)

    found = (outcome.status, outcome.reason, outcome.exit_code, outcome.flags)
    assert (*found, outcome.retry_after_ms) == expected
    assert (outcome.error_code, outcome.error_msg) == ("OSError", "OSError: no plc")


@pytest.mark.parametrize("after_ms", [-1, 10**18, "soon", [5]])
def test_a_delay_that_is_none_is_malformed(after_ms: object) -> None:
    error = {"code": "Retry", "message": "busy", "retry_after_ms": after_ms}

    assert split_result(json.dumps({"edgecron": {"error": error}})) is None
