"""Check input: names, texts, numbers and instants; and read, check and write strict JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from json import JSONDecodeError
from typing import Any

from edgecron.base.errors import InvalidInput, InvalidName, InvalidTime
from edgecron.base.units import MAX_DURATION_MS

_AN_INSTANT = "such as datetime(2026, 12, 24, 18, tzinfo=UTC)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}", re.ASCII)
# The joiner between two emoji that are one picture, such as a family.
# Compiled only for a text that has one: that takes 4 ms, a twentieth of the start of a command.
_JOINED_EMOJI = "(?<=[\u2190-\U0001faff\ufe0f])\u200d(?=[\u2190-\U0001faff])"
MOST_TEXT = 1024 * 1024  # of a job's text: 64 jobs go to the supervisor in one frame
_NAME_RULE = "use 1 to 128 of A-Z a-z 0-9 _ - . starting with a letter or digit, not only digits"


def check_type(
    what: str, value: object, *types: type, expected: str, hint: str | None = None
) -> None:
    """Raise InvalidInput unless a program's value has one of these types. True is not a number."""
    if isinstance(value, types) and (bool in types or not isinstance(value, bool)):
        return
    raise InvalidInput(f"{what} is {value!r:.60}, expected {expected}", hint=hint)


def check_seconds(what: str, value: object, *, example: str, is_optional: bool = False) -> None:
    """Raise InvalidInput unless a program's value is a number of seconds, at most 100 years.

    `example` is the parameter with a value to try; with `is_optional` None passes.
    """
    if is_optional and value is None:
        return
    expected = "seconds or None" if is_optional else "seconds"
    check_type(what, value, int, float, expected=expected, hint=f"such as {example}")
    assert isinstance(value, int | float)
    check_range(what, value, 0, MAX_DURATION_MS / 1000)


def check_switch(what: str, value: object) -> None:
    """Raise InvalidInput unless a program's value is True or False."""
    check_type(what, value, bool, expected="True or False", hint=f"such as {what}=True")


def is_name(name: str) -> bool:
    """Whether `check_name` accepts a name."""
    return _NAME.fullmatch(name) is not None and not name.isdigit()


def check_name(name: str, *, what: str) -> None:
    """Raise InvalidName unless the name is 1 to 128 ASCII letters, digits, `_`, `-`, `.`.

    It starts with a letter or digit and is not only digits, so it never looks like an id.
    """
    if not isinstance(name, str):
        raise InvalidName(f"{what} is {name!r:.60}, expected text", hint="such as 'nightly'")
    if not is_name(name):
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
        nearest = most if value > most else least
        raise InvalidInput(
            f"{what} is {value}, expected {least} to {most}", hint=f"for example: {nearest}"
        )


def check_aware(what: str, instant: datetime) -> datetime:
    """Return the instant. Raises InvalidTime unless it is a datetime with an offset."""
    if not isinstance(instant, datetime):
        raise InvalidTime(
            f"{what} is {instant!r:.60}, expected a datetime with an offset", hint=_AN_INSTANT
        )
    if instant.utcoffset() is None:
        raise InvalidTime(
            f"{what} is {instant.isoformat()}, expected a time with an offset", hint=_AN_INSTANT
        )
    return instant


def check_aware_or_none(what: str, instant: datetime | None) -> None:
    """As `check_aware`; None passes."""
    if instant is not None:
        check_aware(what, instant)


def check_storable(what: str, text: str) -> None:
    """Raise InvalidInput for text with NUL, invalid UTF-8 or over a megabyte."""
    if len(text) > MOST_TEXT:
        raise InvalidInput(f"{what} is {len(text)} characters long, expected at most {MOST_TEXT}")
    if "\0" in text:
        raise InvalidInput(f"{what} {text[:60]!a} holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} {text[:60]!a} is not valid UTF-8") from None


def is_plain(texts: Sequence[str]) -> bool:
    """Whether texts are short and ASCII without NUL, so that `check_storable` passes each."""
    together = "".join(texts)
    return together.isascii() and len(together) <= MOST_TEXT and "\0" not in together


def check_text(text: str, *, what: str, most: int, lines: bool = False) -> None:
    """Raise InvalidInput unless it is 1 to `most` printable characters, or `lines` of them."""
    allowed = "\n\t" if lines else ""
    if not 1 <= len(text) <= most:
        raise InvalidInput(f"{what} is {len(text)} characters long, expected 1 to {most}")
    plain = re.sub(_JOINED_EMOJI, "", text) if "\u200d" in text else text
    if not plain.isprintable() and not all(
        letter.isprintable() or letter in allowed for letter in plain
    ):
        raise InvalidInput(f"{what} {text[:60]!a} holds control characters")


def suggest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word that was probably meant; None if none is similar enough.

    `cutoff` is the least similarity, from 0 to 1.
    """
    from difflib import get_close_matches  # Only errors need it, and it takes a millisecond.

    found = get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return found[0] if found else None


# JSON.

_JSON_EXAMPLE = '{"size": 3}'
_MOST_DEEP = 500  # SQLite reads JSON of 1000 levels, and languages differ
_MOST_NESTED = 100  # levels of a value that a program gives
_MOST_JSON_BYTES = 64 * 1024  # of a value that a program gives


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
    return f"{what} '{_JSON_EXAMPLE}'" if what.startswith("--") else _JSON_EXAMPLE


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
    _check_json_value(value, what, 0)
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(
            f"{what}: a text holds half a character (a lone surrogate)",
            hint="clean the text first: text.encode(errors='replace').decode()",
        ) from None
    if size_bytes > _MOST_JSON_BYTES:
        raise InvalidInput(
            f"{what}: {size_bytes} bytes of JSON, expected at most {_MOST_JSON_BYTES}",
            hint="leave it in a file or a table, and give its name",
        )
    return text


def _check_json_value(value: object, where: str, depth: int) -> None:
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
                _check_json_value(one, f"{where}[{index}]", depth + 1)
        case dict():
            for key, one in value.items():
                if not isinstance(key, str):
                    raise InvalidInput(
                        f"{where} has the key {key!r:.60}, expected text",
                        hint=f"write the key as text: {str(key)!r:.60}",
                    )
                _check_json_value(one, f"{where}[{key!r:.40}]", depth + 1)
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
        return _decode_words(error)
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8"
    if "int_max_str_digits" in str(error):
        return "a number in it is too long"
    return str(error)


def _decode_words(error: JSONDecodeError) -> str:
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
