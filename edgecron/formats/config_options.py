"""How [defaults] are written and read: as the options of `add` are, by the same readers."""

from __future__ import annotations

from typing import Any

from edgecron.base.errors import InvalidConfig, InvalidInput
from edgecron.formats.config_kinds import PATH, Kind, Text, or_none
from edgecron.formats.option_texts import read_needs, read_policy
from edgecron.model.options import NONE, Option, OptionType

_EXPECTED = {
    OptionType.ZONE: "an IANA name, or local",
    OptionType.CONDITIONS: "a condition, or an array of them",
    OptionType.CODES: "exit codes, such as 0 or [0, 2]",
    OptionType.CHOICE: "one of its words",
    OptionType.DURATION: 'a duration such as "90s" or "1h30m"',
}


def option_kind(option: Option) -> Kind:
    """How a default is written and read: as the option of `add` is, with `none` clearing it."""
    expected = _EXPECTED.get(option.type, "a number")
    match option.type:
        case OptionType.ZONE:
            return Kind(_read_zone, expected, (str,))
        case OptionType.CONDITIONS:
            return Kind(_read_needs, expected, (str,), ",", is_list=True)
        case OptionType.PATH:
            return or_none(PATH)
        case OptionType.CODES:
            return Kind(_policy(option), expected, (str, int), ",")
        case OptionType.CHOICE:
            return Kind(_policy(option), expected, (str,))
        case OptionType.DURATION:
            return Kind(_policy(option), expected, (str, int))
    return Kind(_policy(option), expected, (str, int, float))


def _policy(option: Option) -> Any:
    def read(text: str, what: str) -> object:
        return None if text == NONE else read_policy(option, text, what=what)

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
