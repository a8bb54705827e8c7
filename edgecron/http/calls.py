"""The calls of edgecron's own clients: what a command line or a dashboard asks from elsewhere.

Beside the resources, which are for everybody: here is asked what a Client is asked, by the same
names, and what is asked depends on the version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgecron import __version__
from edgecron.base.errors import EdgecronError, ServerUnavailable
from edgecron.base.values import replace
from edgecron.client.wire_answers import Asked, answer, answer_text, decode_question, fault_text
from edgecron.client.wire_version import WIRE
from edgecron.http.answers import JSON, Answer
from edgecron.http.asking import API, Ask, Later, Operation, Parameter, Route
from edgecron.http.refusing import error_answer

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.http.watching import ChangeWatch

_WIRE_HEADER = "Edgecron-Wire"
_MOST_WAIT_MS = 10_000
_OPERATION = Operation(
    name="call",
    words="What edgecron's own clients ask: a call of its Python API, by its name and arguments."
    " Other programs do well to use the rest: calls are those of one version",
    tag="calls",
    query=(
        Parameter(
            name="wait_ms",
            shape={"type": "integer", "minimum": 0, "maximum": _MOST_WAIT_MS, "default": 0},
            words="of a call that begins with await_: for how long it may wait for news",
        ),
    ),
    headers=(
        Parameter(
            name=_WIRE_HEADER,
            shape={"type": "string", "maxLength": 64},
            words="the version of calls that the client speaks; where it is another, it is refused",
        ),
    ),
    body={"type": "object"},
    is_body_needed=True,
    answers={200: "Answered"},
    refusals=(404, 409, 422, 501),
)


def calls_route(watch: ChangeWatch) -> Route:
    """The route of all calls."""

    def call(client: Client, ask: Ask) -> Answer | Later:
        try:
            return _answer(client, ask, watch)
        except EdgecronError as error:
            return replace(error_answer(error), body=fault_text(error))

    return Route(
        method="POST",
        path=f"{API}/calls/{{call}}",
        handle=call,
        operation=_OPERATION,
        is_of_ours=True,
    )


def _answer(client: Client, ask: Ask, watch: ChangeWatch) -> Answer | Later:
    _need_same_wire(ask)
    asked = decode_question(ask.words["call"], ask.content)
    found = _find(client, asked, watch)
    told = Answer(body=answer_text(client, asked, found), media_type=JSON)
    if found is not None or asked.pause_s is None:
        return told
    return Later(pause_s=asked.pause_s, wait_s=ask.first("wait_ms", 0) / 1000, at_end=told)


def _find(client: Client, asked: Asked, watch: ChangeWatch) -> Any:
    """What there is to answer. A mark is the server's, and not that of the Client that answers."""
    if asked.call.name == "change_mark":
        return watch.mark()
    if asked.call.name == "await_change":
        mark = watch.mark()
        return None if mark == asked.arguments["mark"] else mark
    return answer(client, asked)


def _need_same_wire(ask: Ask) -> None:
    given = ask.headers.get(_WIRE_HEADER.lower())
    if given is not None and given != WIRE:
        theirs = ask.headers.get("user-agent", "").removeprefix("edgecron/")[:40]
        raise ServerUnavailable(
            f"edgecron {__version__} there and {theirs!a} here do not understand each other",
            hint="use the same version on both machines",
        )
