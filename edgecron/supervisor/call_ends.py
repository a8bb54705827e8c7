"""How a call of a function ended: what it returned or raised, as a row has it."""

from __future__ import annotations

import json

from edgecron.base.checks import is_too_deep
from edgecron.model.choices import Reason, Status
from edgecron.model.claim import MOST_RESULT_BYTES, Output, OutputChunk, Stream
from edgecron.supervisor.calls import Call
from edgecron.supervisor.flags import Flag

_MOST_TRACE_BYTES = 64 * 1024
_MOST_LETTERS = 2_000  # of what a row says about an exception; its output has all of it


class Failure:
    """Why a function was not called, or what it raised."""

    __slots__ = ("code", "message", "trace")

    def __init__(self, code: str | None, message: str, trace: str | None = None) -> None:
        self.code = code
        self.message = message
        self.trace = trace


class Ended:
    """What a function returned, as JSON, or why it did not return."""

    __slots__ = ("flags", "result", "why")

    def __init__(
        self,
        result: str | None = None,
        flags: tuple[str, ...] = (),
        *,
        why: Failure | None = None,
    ) -> None:
        self.result = result
        self.flags = flags
        self.why = why


def verdict_of(call: Call, why: Failure | None, *, has_run: bool) -> tuple[Status, Reason | None]:
    if not has_run:
        if call.stop_reason is not None:
            return Status.CANCELLED, call.stop_reason
        return Status.FAILED, Reason.SPAWN
    if call.is_over_time:
        return Status.FAILED, Reason.TIMEOUT
    if why is None:
        return Status.SUCCESS, None  # Also where its end was asked for: it was faster.
    if call.stop_reason is not None:
        return Status.CANCELLED, call.stop_reason
    return Status.FAILED, Reason.EXCEPTION


def failure_of(error: BaseException) -> Failure:
    import traceback  # seldom needed, and heavy

    try:
        trace = "".join(traceback.format_exception(error))
        message = "".join(traceback.format_exception_only(error)).strip()
    except BaseException as unprintable:  # noqa: BLE001  its own __str__ raises, or returns no text
        name = type(unprintable).__name__
        message = trace = f"{type(error).__name__}, which can't be printed: {name}"
    return Failure(_storable(type(error).__name__), _storable(message), trace)


def _storable(text: str) -> str:
    """A text that a row can hold: an end that can't be written would hold up all others."""
    return text.encode("utf-8", "backslashreplace").decode()[:_MOST_LETTERS]


def result_of(returned: object) -> tuple[str | None, tuple[str, ...]]:
    """What is kept of what a function returned, as JSON text."""
    if returned is None:
        return None, ()
    try:
        text = json.dumps(returned, allow_nan=False, ensure_ascii=False)
        size_bytes = len(text.encode())
        if size_bytes <= MOST_RESULT_BYTES and is_too_deep(text):
            return None, (Flag.RESULT_INVALID,)
    except Exception:  # noqa: BLE001  whatever it is that says what it holds
        return None, (Flag.RESULT_INVALID,)
    return (None, (Flag.RESULT_TOO_BIG,)) if size_bytes > MOST_RESULT_BYTES else (text, ())


def output_of(trace: str, now_ms: int) -> Output:
    content = trace.encode("utf-8", "backslashreplace")
    kept = content[-_MOST_TRACE_BYTES:]  # The end says what was raised.
    return Output(
        chunks=(OutputChunk(stream=Stream.STDERR, at_ms=now_ms, content=kept),),
        stderr_bytes=len(content),
        dropped_bytes=len(content) - len(kept),
    )
