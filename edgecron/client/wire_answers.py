"""A question and its answer as texts, on both sides. Here is no HTTP, no socket and no thread."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgecron.base.checks import read_json
from edgecron.base.errors import EdgecronError, InvalidInput, MalformedCall, ServerUnavailable
from edgecron.base.units import to_ms
from edgecron.base.values import NamedTuple
from edgecron.client.wire_calls import AWAITED, MOST_BYTES, Call, get_call
from edgecron.client.wire_codec import refuse
from edgecron.client.wire_faults import fault_object, fault_of

if TYPE_CHECKING:
    from edgecron.client import Client


class Asked(NamedTuple):
    """A question that has been read, whose arguments are as they must be."""

    call: Call
    arguments: Mapping[str, Any]

    @property
    def pause_s(self) -> float | None:
        """After how long it is looked again where the answer is None; None: that is the answer."""
        return AWAITED.get(self.call.name)


def read_question(name: str, body: bytes) -> Asked:
    """What somebody asks. Raises NotFound, MalformedCall, and what values of it raise."""
    try:
        return decode_question(name, _read(body))
    except RecursionError:
        raise MalformedCall("the body is nested too deeply") from None


def decode_question(name: str, content: object) -> Asked:
    """The same of a body that was read as JSON."""
    call = get_call(name)
    return Asked(call, call.decode_arguments(content))


def answer(client: Client, asked: Asked) -> Any:
    """What there is to answer, as a value."""
    return asked.call.function(client, **asked.arguments)


def answer_text(client: Client, asked: Asked, value: Any) -> bytes:
    """An answer as it goes out, with the time of the machine that gives it."""
    return _text({"value": asked.call.answer.encode(value), "now_ms": to_ms(client.now())})


def fault_text(error: EdgecronError) -> bytes:
    """An error as it goes out."""
    return _text({"error": fault_object(error)})


def question_text(call: Call, arguments: Mapping[str, Any]) -> bytes:
    """A question as it goes out. Raises InvalidInput for one that is larger than any is taken."""
    text = _text(call.encode_arguments(arguments))
    if len(text) > MOST_BYTES:
        raise InvalidInput(
            f"what is to be sent is {len(text)} bytes, expected at most {MOST_BYTES}",
            hint="apply the file in parts, or on the machine of the database",
        )
    return text


class Answered(NamedTuple):
    """A value that was answered, and the time of the machine that did."""

    value: Any
    now_ms: int


def read_answer(call: Call, body: bytes) -> Answered:
    """What was answered. Raises the error that was, and ServerUnavailable for what is neither."""
    try:
        told = _read(body)
        fault = fault_of(told["error"]) if isinstance(told, dict) and "error" in told else None
        if fault is None:
            return _value_of(call, told)
    except (MalformedCall, RecursionError) as error:
        raise ServerUnavailable(
            f"the answer to {call.name} can't be read: {error}",
            hint="both sides must be of the same version",
        ) from error
    raise fault


def _value_of(call: Call, told: object) -> Answered:
    if not isinstance(told, dict) or told.keys() != {"value", "now_ms"}:
        raise refuse("the answer", told, "a value and now_ms")
    now_ms = told["now_ms"]
    if type(now_ms) is not int:
        raise refuse("now_ms", now_ms, "milliseconds since 1970")
    return Answered(call.answer.decode(told["value"], "value"), now_ms)


def _read(body: bytes) -> Any:
    try:
        return read_json(body)
    except ValueError as error:
        raise MalformedCall(f"the body is not JSON: {error}") from None


def _text(value: object) -> bytes:
    # ASCII: whatever letters a job's output or name holds, halves of them included.
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")
