"""A tool's arguments as the words of its verb. No value can pass for an option."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput, InvalidTime

if TYPE_CHECKING:
    from edgecron.cli.session import Session
    from edgecron.http.shapes import Shape

Arguments = Mapping[str, Any]


def check_arguments(given: object, shape: Shape) -> Arguments:
    """What was given, as it is of this shape. Raises InvalidInput, with all that is wrong."""
    from edgecron.http.shapes import misfits

    found = {} if given is None else given
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        # Neither the database nor JSON could hold it.
        raise InvalidInput("the arguments are not UTF-8") from None
    problems = [f"{place or 'arguments'} {text}" for place, text in misfits(found, shape)]
    if problems or not isinstance(found, dict):
        raise InvalidInput("; ".join(problems))
    return found


def words_of(arguments: Arguments, options: Mapping[str, str], *places: str) -> list[str]:
    """Options by the names of arguments, each with its value; then the values of `places`."""
    words = []
    for name, option in options.items():
        value = arguments.get(name)
        for one in value if isinstance(value, list) else [value]:
            if one is True:
                words.append(option)
            elif one is not None and one is not False:
                # Short ones take their value as the next word, which is a number then.
                words += [f"{option}={one}"] if option.startswith("--") else [option, str(one)]
    values = [str(arguments[name]) for name in places if name in arguments]
    return [*words, "--", *values] if values else words


def with_instant(cli: Session, arguments: Arguments, key: str) -> Arguments:
    """The same with a time as an RFC 3339 instant.

    Raises InvalidTime for one that needs a zone, where none is given.
    """
    if key not in arguments:
        return arguments
    from edgecron.base.units import format_instant, parse_instant
    from edgecron.triggers import check_zone, parse_when

    text, zone = arguments[key], arguments.get("timezone")
    if zone is not None:
        check_zone(zone)
    try:
        instant = parse_instant(text)
    except InvalidTime:
        if zone is None and not text.lower().startswith("in "):
            raise InvalidTime(
                f"{key} is {text[:60]!a}, which says no offset, and no timezone is given",
                hint="give timezone, such as Europe/Berlin, or local; or RFC 3339 with an offset",
            ) from None
        instant = parse_when(text, timezone=zone or "UTC", now=cli.client().now())
    return {**arguments, key: format_instant(instant)}
