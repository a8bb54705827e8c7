"""The arguments of a function as a payload, which is JSON, and back.

A payload is an object of arguments by name, or an array of them in order: what a person can write
after `edgecron run NAME --payload`, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from edgecron.base.errors import InvalidInput
from edgecron.embedding.signatures import signature_of

MOST_BYTES = 64 * 1024
_MOST_DEPTH = 100


class Arguments:
    """What a function is called with, besides its context. `job` is named in errors."""

    def __init__(self, function: Callable[..., object], *, job: str, has_context: bool) -> None:
        self._job = job
        self.has_context = has_context
        self._signature = signature_of(function, skips_first=has_context)

    def payload_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """JSON of what the function is to be called with; None where that is nothing.

        Raises TypeError where it can't be called so, InvalidInput for what JSON does not hold.
        """
        bound = self._signature.bind(args, kwargs)
        if not args and not kwargs:
            return None
        if self._signature.are_named:
            given: object = bound
        elif kwargs:
            if args:
                raise InvalidInput(
                    f"job {self._job!r} is called with arguments in order and by name",
                    hint="a function with *args or / is called with one kind at a time",
                )
            given = dict(kwargs)
        else:
            given = list(args)
        return json_text(given, what=f"the arguments of job {self._job!r}")

    def check(self, payload: str | None) -> None:
        """Raise InvalidInput where the function can't be called with a payload."""
        args, kwargs = self.read(payload)
        try:
            self._signature.bind(tuple(args), kwargs)
        except TypeError as error:
            raise InvalidInput(
                f"job {self._job!r} can't be called by its schedule: {error}",
                hint='give payload={"name": value}, or the parameter a default',
            ) from None

    def read(self, payload: str | None) -> tuple[list[Any], dict[str, Any]]:
        """What to call the function with. Raises InvalidInput for any other JSON."""
        given = None if payload is None else json.loads(payload)
        if given is None:
            return [], {}
        if isinstance(given, dict):
            return [], given
        if isinstance(given, list):
            return given, {}
        raise InvalidInput(
            f"the payload of job {self._job!r} is {payload!r:.60}, expected an object or an array",
            hint='such as {"host": "plc2"}, or ["plc2"]',
        )


def json_text(value: object, *, what: str, most_bytes: int = MOST_BYTES) -> str:
    """A value as JSON, read back as the same (but that tuples become arrays).

    Raises InvalidInput for what JSON does not hold, naming where it stands, or for too much.
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
                raise InvalidInput(f"{where} is {value}, which is no number of JSON")
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
