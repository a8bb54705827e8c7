"""Write values of programs as strict JSON: payloads and states."""

from __future__ import annotations

import json

from edgecron.base.errors import InvalidInput

MOST_BYTES = 64 * 1024
_MOST_DEPTH = 100


def json_text(value: object, *, what: str, most_bytes: int = MOST_BYTES) -> str:
    """Return a value as JSON that reads back as the same value (tuples become arrays).

    Raises InvalidInput for a value that JSON can't hold, with its place, or for too many bytes.
    """
    _check(value, what, 0)
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{what}: a text holds half a character (a lone surrogate)") from None
    if size_bytes > most_bytes:
        raise InvalidInput(
            f"{what}: {size_bytes} bytes of JSON, expected at most {most_bytes}",
            hint="leave it in a file or a table, and give its name",
        )
    return text


def _check(value: object, where: str, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise InvalidInput(f"{where[:60]}...: nested too deeply, or within itself")
    match value:
        case None | bool() | str() | int():
            return
        case float():
            if value - value != 0:  # a NaN, or infinite
                raise InvalidInput(f"{where} is {value}, which is not a JSON number")
        case list() | tuple():
            for index, one in enumerate(value):
                _check(one, f"{where}[{index}]", depth + 1)
        case dict():
            for key, one in value.items():
                if not isinstance(key, str):
                    raise InvalidInput(f"{where} has the key {key!r:.60}, expected text")
                _check(one, f"{where}[{key!r:.40}]", depth + 1)
        case _:
            raise InvalidInput(
                f"{where} is {type(value).__qualname__}, which JSON does not hold",
                hint="give text, numbers, lists and dicts, such as str(path) or at.isoformat()",
            )
