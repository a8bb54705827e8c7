"""Read a request, and check it against the schema of its route.

The OpenAPI document consists of the same schemas, so it is true. Only the keywords that they use
are known here. The library `jsonschema` would bring four packages and words for programmers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from edgecron.base.checks import has_too_many_levels, json_words, read_json, suggest
from edgecron.client.plain_forms import Shape
from edgecron.http.document_schema import NAME
from edgecron.http.messages import ApiRequest, Operation, Parameter, Refused

_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_whole(value),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _is_whole(value: object) -> bool:
    """Whether a value is an integer in JSON: 1.0 is one too."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def check_shape(value: object, shape: Shape, *, where: str, key: str | None = None) -> None:
    """Raise Refused with all problems of a value.

    `where` names the value; `key` is its parameter or header, None for a body.
    """
    found = list(misfits(value, shape))
    if not found:
        return
    place, message = found[0]
    called = f"{where}: {place}" if place else where
    more = "" if len(found) == 1 else f", and {len(found) - 1} more"
    raise Refused(
        400,
        "wrong_shape",
        f"{called} {message}{more}",
        hint="for the expected shape: GET /api/v1/openapi.json",
        details={"problems": [{"key": place or key, "message": text} for place, text in found]},
    )


def given_twice(where: str, *, key: str) -> Refused:
    """Return the refusal of a parameter or header that is given twice: one would be ignored."""
    return Refused(
        400,
        "wrong_shape",
        f"{where} is given twice",
        hint="give it once",
        details={"problems": [{"key": key, "message": "is given twice"}]},
    )


def misfits(value: Any, shape: Shape, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield (place, problem) for each part of a value that does not fit a schema."""
    if "anyOf" in shape:
        yield from _any_of(value, shape["anyOf"], place)
        return
    if "type" in shape and not _KINDS[shape["type"]](value):
        yield place, f"is {_kind_of(value)}, expected {_articled(shape['type'])}"
        return
    if "enum" in shape and value not in shape["enum"]:
        yield place, f"is {_shown(value)}, expected {_listed(shape['enum'])}"
    elif "const" in shape and value != shape["const"]:
        yield place, f"is {_shown(value)}, expected {shape['const']!r}"
    elif isinstance(value, str):
        yield from _text(value, shape, place)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if not shape.get("minimum", value) <= value <= shape.get("maximum", value):
            least, most = shape.get("minimum"), shape.get("maximum")
            yield place, f"is {_shown(value)}, expected a number from {least} to {most}"
    elif isinstance(value, list):
        yield from _array(value, shape, place)
    elif isinstance(value, dict):
        yield from _object(value, shape, place)


def _any_of(value: Any, shapes: Sequence[Shape], place: str) -> Iterator[tuple[str, str]]:
    found = [list(misfits(value, shape, place)) for shape in shapes]
    if not all(found):
        return
    # Report the problems of the schema of the right type; else the expected types.
    close = [one for one, shape in zip(found, shapes, strict=True) if _is_of_kind(value, shape)]
    if close:
        yield from close[0]
    else:
        kinds = " or ".join(_articled(shape.get("type", "value")) for shape in shapes)
        yield place, f"is {_kind_of(value)}, expected {kinds}"


def _is_of_kind(value: Any, shape: Shape) -> bool:
    return "type" not in shape or _KINDS[shape["type"]](value)


def _text(value: str, shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    if len(value) < shape.get("minLength", 0):
        yield place, "is empty"
    elif len(value) > shape.get("maxLength", len(value)):
        yield place, f"is {len(value)} characters long, expected at most {shape['maxLength']}"
    elif "pattern" in shape and not _compiled(shape["pattern"]).search(value):
        yield place, f"is {_shown(value)}, expected {shape.get('description', shape['pattern'])}"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    # In ECMAScript `$` is the very end; in Python a newline can follow it.
    return re.compile(re.sub(r"\$$", r"\\Z", pattern))


def _array(value: list[Any], shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    least, most = shape.get("minItems", 0), shape.get("maxItems", len(value))
    if not least <= len(value) <= most:
        yield place, f"has {len(value)} items, expected {least} to {most}"
    firsts = shape.get("prefixItems", ())
    for number, item in enumerate(value):
        expected = firsts[number] if number < len(firsts) else shape.get("items", {})
        yield from misfits(item, expected, f"{place}[{number}]")


def _object(value: dict[str, Any], shape: Shape, place: str) -> Iterator[tuple[str, str]]:
    known, others = shape.get("properties", {}), shape.get("additionalProperties", True)
    needed = [*shape.get("required", ())]
    for key, others_too in shape.get("dependentRequired", {}).items():
        needed += others_too if key in value else []
    for key in needed:
        if key not in value:
            yield _below(place, key), "is missing"
    for key, one in value.items():
        below = _below(place, key)
        if "propertyNames" in shape:
            yield from misfits(key, shape["propertyNames"], below)
        if key in known:
            yield from misfits(one, known[key], below)
        elif others is False:
            yield below, _unknown(key, known)
        elif isinstance(others, Mapping):
            yield from misfits(one, others, below)


def _unknown(key: str, known: Mapping[str, Shape]) -> str:
    close = suggest(key, known)
    return f"is unknown here{f'; did you mean {close}?' if close else ''}"


def _below(place: str, key: str) -> str:
    shown = key if len(key) <= 60 else f"{key[:60]}..."
    return f"{place}.{shown}" if place else shown


def _kind_of(value: object) -> str:
    return next(_articled(kind) for kind, is_one in _KINDS.items() if is_one(value))


def _articled(kind: str) -> str:
    if kind == "null":
        return kind
    return f"an {kind}" if kind[0] in "aio" else f"a {kind}"


def _listed(choices: Sequence[object]) -> str:
    *rest, last = (str(choice) for choice in choices)
    return f"{', '.join(rest)} or {last}" if rest else last


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


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
