"""Read a request, and check it against the schema of its route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgecron.base.json_texts import has_too_many_levels, json_words, read_json
from edgecron.client.plain_forms import Shape
from edgecron.http.document_schema import NAME
from edgecron.http.error_answers import Refused
from edgecron.http.messages import ApiRequest, Operation, Parameter
from edgecron.http.schema_check import check_shape, given_twice

MOST_ID = 2**63 - 1
RUN_ID: Shape = {"type": "integer", "minimum": 1, "maximum": MOST_ID}
WORDS: Mapping[str, Shape] = {
    "name": NAME,
    "id": RUN_ID,
}
SWITCH: Shape = {"type": "string", "enum": ["true", "false"]}
_MOST_DIGITS = 19


def read_request(
    operation: Operation | None,
    *,
    words: Mapping[str, str],
    query: Sequence[tuple[str, str]],
    headers: Sequence[tuple[str, str]],
    body: bytes,
    root: str,
    path: str,
) -> ApiRequest:
    """Read a request. Raises Refused if it does not fit the schema of its route."""
    given: dict[str, list[Any]] = {}
    for name, text in query:
        given.setdefault(name, []).append(text)
    content = None
    if operation is not None:
        for name, text in words.items():
            check_shape(path_value(text, WORDS[name]), WORDS[name], where=name, key=name)
        given = _read_query(given, operation.query)
        _check_headers(headers, operation.headers)
        content = _read_content(body, operation)
    return ApiRequest(
        words=words,
        query=given,
        headers=dict(headers),
        content=content,
        body=body,
        root=root,
        path=path,
    )


def _read_query(given: Mapping[str, list[str]], known: Sequence[Parameter]) -> dict[str, list[Any]]:
    by_name = {one.name: one for one in known}
    for name in given:
        if name not in by_name:
            raise Refused(
                400,
                "unknown_parameter",
                f"parameter {name[:60]!a} is unknown here",
                hint=f"expected one of: {', '.join(by_name) or 'none'}",
                details={"problems": [{"key": name[:60], "message": "is unknown here"}]},
            )
    read: dict[str, list[Any]] = {}
    for name, texts in given.items():
        one = by_name[name]
        if len(texts) > 1 and not one.is_repeated:
            raise given_twice(f"parameter {name}", key=name)
        read[name] = [path_value(text, one.shape) for text in texts]
        for value in read[name]:
            check_shape(value, one.shape, where=f"parameter {name}", key=name)
    return read


def path_value(text: str, shape: Shape) -> object:
    """Return a text of a path or a query as the number that its schema wants, if it is one."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if shape.get("type") == "integer" and is_number else text


def _check_headers(headers: Sequence[tuple[str, str]], known: Sequence[Parameter]) -> None:
    for one in known:
        texts = [text for name, text in headers if name == one.name.lower()]
        if len(texts) > 1:
            raise given_twice(f"header {one.name}", key=one.name)
        for text in texts:
            value = path_value(text, one.shape)
            check_shape(value, one.shape, where=f"header {one.name}", key=one.name)


def _read_content(body: bytes, operation: Operation) -> Any:
    if operation.body is None:
        if body:
            raise Refused(400, "wrong_shape", "a body is not allowed here", hint="send no body")
        return None
    if not body:
        if operation.is_body_needed:
            raise Refused(
                400,
                "wrong_shape",
                "the body is missing, expected a JSON object",
                hint="send one, with Content-Type: application/json; its keys are in"
                " GET /api/v1/openapi.json",
            )
        return None
    content = load_content(body)
    check_shape(content, operation.body, where="the body")
    return content


def load_content(body: bytes) -> Any:
    """Read a body as JSON. Raises Refused."""
    try:
        content = read_json(body)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:  # not UTF-8, not JSON, or a number out of all bounds
        words = f"the body is not JSON: {json_words(error)}"
        hint = 'for example: {"every": "1h", "command": ["true"]}'
        raise Refused(400, "not_json", words, hint=hint) from None
    if has_too_many_levels(content):
        raise _too_deep()
    return content


def _too_deep() -> Refused:
    return Refused(400, "not_json", "the body is nested too deeply", hint="send a flatter value")
