"""Check names, texts, numbers and instants when values are made."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from edgecron.base.errors import InvalidInput, InvalidName, InvalidTime

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}", re.ASCII)
_MOST_TEXT = 1024 * 1024  # of a job's text: 64 jobs go to the supervisor in one frame
_NAME_RULE = "use 1 to 128 of A-Z a-z 0-9 _ - . starting with a letter or digit, not only digits"
_JSON_EXAMPLE = '{"size": 3}'
_MOST_DEEP = 500  # SQLite reads JSON of 1000 levels, and languages differ


def check_name(name: str, *, what: str) -> None:
    """Raise InvalidName unless the name is 1 to 128 ASCII letters, digits, `_`, `-`, `.`.

    It starts with a letter or digit and is not only digits, so it never looks like an id.
    """
    if _NAME.fullmatch(name) is None or name.isdigit():
        shown = ascii(name) if len(name) <= 140 else f"{name[:60]!a}... ({len(name)} long)"
        near = re.sub(r"[^A-Za-z0-9_.-]+", "-", name[:140]).strip("-_.")
        is_usable = " " in name and _NAME.fullmatch(near) is not None and not near.isdigit()
        raise InvalidName(
            f"{what} {shown} is not usable",
            hint=f"did you mean {near}?" if is_usable else _NAME_RULE,
        )


def check_range(what: str, value: float | None, least: float, most: float) -> None:
    """Raise InvalidInput for a number outside [least, most]; None passes."""
    if value is not None and not least <= value <= most:  # a NaN is in no range
        raise InvalidInput(f"{what} is {value}, expected {least} to {most}")


def check_aware(what: str, instant: datetime | None) -> None:
    """Raise InvalidTime unless the value is a datetime with an offset; None passes."""
    if instant is None:
        return
    if not isinstance(instant, datetime):
        raise InvalidTime(
            f"{what} is {instant!r:.60}, expected a datetime with an offset",
            hint="such as datetime(2026, 12, 24, 18, tzinfo=UTC)",
        )
    if instant.utcoffset() is None:
        raise InvalidTime(f"{what} is {instant.isoformat()}, expected a time with an offset")


def check_storable(what: str, text: str) -> None:
    """Raise InvalidInput for text with NUL, invalid UTF-8 or over a megabyte."""
    if len(text) > _MOST_TEXT:
        raise InvalidInput(f"{what} is {len(text)} characters long, expected at most {_MOST_TEXT}")
    if "\0" in text:
        raise InvalidInput(f"{what} {text[:60]!a} holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} {text[:60]!a} is not valid UTF-8") from None


def is_plain(texts: Sequence[str]) -> bool:
    """Whether texts are short and ASCII without NUL, so that `check_storable` passes each."""
    together = "".join(texts)
    return together.isascii() and len(together) <= _MOST_TEXT and "\0" not in together


def check_text(text: str, *, what: str, most: int, lines: bool = False) -> None:
    """Raise InvalidInput unless it is 1 to `most` printable characters, or `lines` of them."""
    allowed = "\n\t" if lines else ""
    if not 1 <= len(text) <= most:
        raise InvalidInput(f"{what} is {len(text)} characters long, expected 1 to {most}")
    if not text.isprintable() and not all(
        letter.isprintable() or letter in allowed for letter in text
    ):
        raise InvalidInput(f"{what} {text[:60]!a} holds control characters")


def check_json(text: str, *, what: str, most_bytes: int = _MOST_TEXT) -> None:
    """Raise InvalidInput for JSON that some readers refuse, or that is longer than the limit."""
    import json

    check_storable(what, text)
    size_bytes = len(text.encode())
    if size_bytes > most_bytes:
        raise InvalidInput(f"{what} is {size_bytes} bytes long, expected at most {most_bytes}")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_read_float)
        is_deep = has_too_many_levels(value)
    except ValueError as error:
        from edgecron.base.json_words import json_words  # Only errors need it.

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
    return f"{what} '{_JSON_EXAMPLE}'" if what.startswith("--") else _JSON_EXAMPLE


def read_json(content: bytes) -> Any:
    """Read JSON in UTF-8 that all readers read alike: no object has a key twice.

    Raises ValueError for any other, RecursionError for more levels than can be read here.
    """
    import json

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
    import json

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


def suggest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that was probably meant; None if none is similar enough.

    `cutoff` is the least similarity, from 0 to 1.
    """
    from difflib import get_close_matches  # Only errors need it, and it takes a millisecond.

    found = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return found[0] if found else None
