"""Serve the resources of edgecron's own clients, from the table that both sides share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from edgecron.client.json_forms import SCHEMAS
from edgecron.client.plain_forms import Shape
from edgecron.client.resources import (
    API,
    MOST_WAIT_MS,
    RESOURCES,
    ResourceTypes,
    answer_object,
    read_arguments,
    resource_types,
)
from edgecron.http.document_schema import NAME, ZONE
from edgecron.http.messages import (
    Answer,
    ApiRequest,
    Operation,
    Parameter,
    PollAgain,
    Refused,
    Route,
    json_answer,
)
from edgecron.http.request_checks import WORDS, check_shape, load_content, path_value

if TYPE_CHECKING:
    from edgecron.client import Client
    from edgecron.http.client_threads import ChangeWatch

# Parameters whose texts have a shape that their type does not tell.
_SHAPES: Mapping[str, Shape] = {"zone": ZONE, "schedule": NAME}
_WAIT = Parameter(
    name="wait_ms",
    shape={"type": "integer", "minimum": 0, "maximum": MOST_WAIT_MS, "default": 0},
    words="wait at most this long for news",
)


def resource_routes(watch: ChangeWatch) -> list[Route]:
    """Return the routes of all resources."""
    return [
        Route(
            method=resource.method,
            path=f"{API}{resource.path}",
            handle=partial(_answer, name=name, watch=watch),
            describe=partial(_describe, name),
            is_large=True,
        )
        for name, resource in RESOURCES.items()
        if not resource.is_shared
    ]


def _answer(
    client: Client, request: ApiRequest, *, name: str, watch: ChangeWatch
) -> Answer | PollAgain:
    asked = resource_types(name)
    for word, text in request.words.items():
        if word in WORDS:
            check_shape(path_value(text, WORDS[word]), WORDS[word], where=word)
    query = [(key, text) for key, texts in request.query.items() for text in texts]
    wait_ms = _take_wait(query) if asked.resource.pause_s is not None else 0
    content = load_content(request.body) if request.body else {}
    if asked.resource.method == "GET" and request.body:
        raise Refused(400, "wrong_shape", "a body is not allowed here", hint="send no body")
    arguments = read_arguments(asked, words=request.words, query=query, content=content)
    found = _find(client, asked, arguments, watch)
    answer = json_answer(answer_object(asked, found))
    if found is not None or asked.resource.pause_s is None:
        return answer
    return PollAgain(pause_s=asked.resource.pause_s, wait_s=wait_ms / 1000, at_end=answer)


def _take_wait(query: list[tuple[str, str]]) -> int:
    """Remove `wait_ms` from a query. Raises Refused if it is not a number within its bounds."""
    texts = [text for key, text in query if key == _WAIT.name]
    query[:] = [(key, text) for key, text in query if key != _WAIT.name]
    if not texts:
        return 0
    text = texts[0]
    is_number = text.isascii() and text.isdigit() and len(text) <= 6
    if len(texts) > 1 or not is_number or int(text) > MOST_WAIT_MS:
        raise Refused(
            400,
            "wrong_shape",
            f"parameter wait_ms is {text[:60]!a}, expected a number from 0 to {MOST_WAIT_MS}",
        )
    return int(text)


def _find(
    client: Client, asked: ResourceTypes, arguments: dict[str, Any], watch: ChangeWatch
) -> Any:
    """Answer. A change mark is the server's: the Client of each thread would have its own."""
    if asked.resource.name == "change_mark":
        return watch.mark()
    if asked.resource.name == "await_change":
        mark = watch.mark()
        return None if mark == arguments["mark"] else mark
    return asked.ask(client, arguments)


def _describe(name: str) -> Operation:
    """Return the operation of a resource for the OpenAPI document."""
    asked = resource_types(name)
    resource = asked.resource
    query = [_WAIT] if resource.pause_s is not None else []
    body: Shape | None = None
    words = resource.path_words
    named = {key: form for key, form in asked.parameters.items() if key not in words.values()}
    if resource.method == "GET":
        for key, form in named.items():
            shape = form.shape["anyOf"][0] if "anyOf" in form.shape else form.shape
            shape = _SHAPES.get(key, shape)
            is_repeated = shape.get("type") == "array"
            query.append(
                Parameter(
                    name=key,
                    shape=shape["items"] if is_repeated else shape,
                    words=key.replace("_", " "),
                    is_repeated=is_repeated,
                    is_required=key in asked.required and "anyOf" not in form.shape,
                )
            )
    elif named:
        body = {
            "type": "object",
            "properties": {key: form.shape for key, form in named.items()},
            "required": sorted(
                key for key in named if key in asked.required and "anyOf" not in named[key].shape
            ),
            "additionalProperties": False,
        }
    answer = asked.answer.shape
    if resource.key:
        answer = {
            "type": "object",
            "properties": {resource.key: answer},
            "required": [resource.key],
        }
    elif answer == {"type": "null"}:
        answer = {"type": "object"}
    return Operation(
        name=camel(name),
        words=asked.words.rstrip("."),
        tag=resource.tag,
        words_of_path={word: asked.parameters[key].shape for word, key in words.items()},
        query=tuple(query),
        body=body,
        is_body_needed=body is not None,
        answers={200: answer},
        refusals=(404, 409, 422, 501),
    )


def camel(name: str) -> str:
    """Return a name of Python as the OpenAPI document writes it: `list_runs`, `listRuns`."""
    first, *rest = name.split("_")
    return "".join([first, *(word.capitalize() for word in rest)])


def schemas() -> dict[str, Shape]:
    """Return the schemas of all objects that resources take and give."""
    for name in RESOURCES:
        resource_types(name)
    return dict(SCHEMAS)
