"""Strict JSON: check, read and write it, and say in plain words why a text is not JSON."""

from __future__ import annotations

import json
import math
from json import JSONDecodeError
from typing import Any

from edgecron.base.checks import MOST_TEXT, check_storable
from edgecron.base.errors import InvalidInput

_EXAMPLE = '{"size": 3}'
_MOST_DEEP = 500  # SQLite reads JSON of 1000 levels, and languages differ
_MOST_NESTED = 100  # levels of a value that a program gives
_MOST_BYTES = 64 * 1024


def check_json(text: str, *, what: str, most_bytes: int = MOST_TEXT) -> None:
    """Raise InvalidInput for JSON that some readers refuse, or that is longer than the limit."""
    check_storable(what, text)
    size_bytes = len(text.encode())
    if size_bytes > most_bytes:
        raise InvalidInput(f"{what} is {size_bytes} bytes long, expected at most {most_bytes}")
    try:
        value = read_json_text(text)
        is_deep = has_too_many_levels(value)
    except ValueError as error:
        raise InvalidInput(
            f"{what} is not JSON: {json_words(error)}",
            hint=f"for example: {_json_example(what)}",
        ) from None
    except RecursionError:
        is_deep = True
    if is_deep:
        raise InvalidInput(
            f"{what} is more than {_MOST_DEEP} levels deep, which not every program can read"
        )


def _json_example(what: str) -> str:
    # An option's value is quoted for the shell.
    return f"{what} '{_EXAMPLE}'" if what.startswith("--") else _EXAMPLE


def read_json_text(text: str) -> Any:
    """Read JSON as every reader does: NaN, Infinity and numbers that are too large are refused.

    Raises ValueError for these and for malformed JSON, RecursionError for too many levels.
    """
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_read_float)


def read_json(content: bytes) -> Any:
    """Read JSON in UTF-8 that all readers read alike: no object has a key twice.

    Raises ValueError for any other, RecursionError for more levels than can be read here.
    """
    return json.loads(
        content.decode(), parse_constant=_refuse_constant, object_pairs_hook=_read_object
    )


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice in one object")
    return found


def _refuse_constant(name: str) -> None:
    # Python reads NaN and Infinity, and a job in any other language could not.
    raise ValueError(f"{name} is not a JSON value")


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:60]} is too large a number")
    return number


def is_too_deep(text: str) -> bool:
    """Whether JSON is nested deeper than every reader supports."""
    # Each level has a bracket, so counting brackets is enough for most texts.
    if text.count("[") + text.count("{") <= _MOST_DEEP:
        return False
    return has_too_many_levels(json.loads(text))


def has_too_many_levels(value: object) -> bool:
    """Whether a JSON value is nested deeper than every reader supports."""
    level = [value]
    for _ in range(_MOST_DEEP + 1):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner.extend(one.values())
            elif isinstance(one, list):
                inner.extend(one)
        if not inner:
            return False
        level = inner
    return True


def json_text(value: object, *, what: str) -> str:
    """Return a value as JSON that reads back as the same value (tuples become arrays).

    Raises InvalidInput for a value that JSON can't hold, with its place, or for too many bytes.
    """
    _check_value(value, what, 0)
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(
            f"{what}: a text holds half a character (a lone surrogate)",
            hint="clean the text first: text.encode(errors='replace').decode()",
        ) from None
    if size_bytes > _MOST_BYTES:
        raise InvalidInput(
            f"{what}: {size_bytes} bytes of JSON, expected at most {_MOST_BYTES}",
            hint="leave it in a file or a table, and give its name",
        )
    return text


def _check_value(value: object, where: str, depth: int) -> None:
    if depth > _MOST_NESTED:
        raise InvalidInput(
            f"{where[:60]}...: nested too deeply, or within itself",
            hint="give a flatter value, or a text: str(value)",
        )
    match value:
        case None | bool() | str() | int():
            return
        case float():
            if value - value != 0:  # a NaN, or infinite
                raise InvalidInput(
                    f"{where} is {value}, which is not a JSON number", hint="give None instead"
                )
        case list() | tuple():
            for index, one in enumerate(value):
                _check_value(one, f"{where}[{index}]", depth + 1)
        case dict():
            for key, one in value.items():
                if not isinstance(key, str):
                    raise InvalidInput(
                        f"{where} has the key {key!r:.60}, expected text",
                        hint=f"write the key as text: {str(key)!r:.60}",
                    )
                _check_value(one, f"{where}[{key!r:.40}]", depth + 1)
        case _:
            raise InvalidInput(
                f"{where} is {type(value).__qualname__}, which JSON does not hold",
                hint="give text, numbers, lists and dicts, such as str(path) or at.isoformat()",
            )


def json_words(error: ValueError) -> str:
    """Say what is wrong with a text that is not JSON, and where.

    Python's own messages name its grammar ("Expecting value"), and differ between its versions.
    Other errors of `read_json` and `check_json` have plain words already.
    """
    if isinstance(error, JSONDecodeError):
        return _words_of(error)
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8"
    if "int_max_str_digits" in str(error):
        return "a number in it is too long"
    return str(error)


def _words_of(error: JSONDecodeError) -> str:
    text, at, message = error.doc, error.pos, error.msg
    if not text.strip():
        return "it is empty"
    if message.startswith("Unterminated string"):
        return f"the text that begins {_place(text, at)} has no closing quote"
    if message.startswith("Invalid control character"):
        return f"a text holds a line break or a tab {_place(text, at)}; write \\n or \\t"
    if message.startswith("Invalid \\"):
        return f"the backslash {_place(text, at)} begins no escape of JSON; write two for one"
    if message.startswith("Extra data"):
        return f"more text follows after its end, {_place(text, at)}"
    before, rest = text[:at].rstrip(), text[at:].lstrip(" \t\r\n,")
    if not rest:
        return "it ends too early, without the closing bracket or the last value"
    if rest[0] in "]}" and f"{before}{text[at]}".rstrip("]}").endswith(","):
        return f"a comma stands before {rest[0]}, and nothing follows the comma"
    place = _place(text, at)
    if rest[0] == "'":
        return f"text needs double quotes, but a single quote stands {place}"
    if message.startswith("Expecting property name"):
        return f"a key in double quotes is missing {place}"
    if message.startswith("Expecting ':'"):
        return f"a colon after the key is missing {place}"
    if message.startswith("Expecting ','"):
        return f"a comma is missing {place}"
    return f"a value is missing {place}; text needs double quotes"


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return f"at character {column}" if "\n" not in text else f"at line {line}, character {column}"
