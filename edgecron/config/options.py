"""How [defaults] are written and read: as the options of `add` are, by the same readers."""

from __future__ import annotations

from typing import Any

from edgecron.config.kinds import PATH, Kind, Text, or_none
from edgecron.documents.values import NONE, read_needs, read_policy
from edgecron.errors import InvalidConfig, InvalidInput

_DURATION = 'a duration such as "90s" or "1h30m"'
_OF_NUMBERS = ("max_running", "retries", "retry_factor", "priority")
_OF_CHOICES = ("catch_up", "overlap", "on_interrupt")


def option_kind(name: str) -> Kind:
    """How a default is written and read: as the option of `add` is, with `none` clearing it."""
    match name:
        case "timezone":
            return Kind(_read_zone, "an IANA name, or local", (str,))
        case "needs":
            return Kind(_read_needs, "a condition, or an array of them", (str,), ",", is_list=True)
        case "env_file" | "cwd":
            return or_none(PATH)
        case "ok_codes":
            return Kind(_policy(name), "exit codes, such as 0 or [0, 2]", (str, int), ",")
    if name in _OF_NUMBERS:
        return Kind(_policy(name), "a number", (str, int, float))
    expected = "one of its words" if name in _OF_CHOICES else _DURATION
    return Kind(_policy(name), expected, (str,) if name in _OF_CHOICES else (str, int))


def _policy(name: str) -> Any:
    def read(text: str, what: str) -> object:
        return None if text == NONE else read_policy(name, text, what=what)

    return read


def _read_zone(text: str, what: str) -> str | None:
    from edgecron.triggers import check_zone

    try:
        return check_zone(text)
    except InvalidInput as error:
        raise InvalidConfig(f"{what}: {error.message}", hint=error.hint) from None


def _read_needs(texts: Text, what: str) -> tuple[str, ...]:
    try:
        return read_needs(list(texts))
    except InvalidInput as error:
        raise InvalidConfig(f"{what}: {error.message}", hint=error.hint) from None
