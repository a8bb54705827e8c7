"""[defaults]: what new schedules have unless they say otherwise.

They are the texts of options, and stand in for those that were not given: see `option_defaults`.
A schedule that is there already is never looked at again for them.
"""

from __future__ import annotations

from typing import Any

from edgecron.base.errors import InvalidConfig, InvalidInput
from edgecron.formats.config import Config
from edgecron.formats.config_settings import SETTINGS
from edgecron.formats.option_texts import check_retry_delays, read_needs, read_policy
from edgecron.model.options import NONE, OPTIONS, OptionType, Part, Policies

_SECTION = "defaults."
Options = dict[str, str | list[str]]


def option_defaults(config: Config) -> Options:
    """The defaults that are set, by key of a document, as a command line would have given them.

    `needs` is a list. Raises InvalidInput for a variable that the option would not take, and for
    two that can't be together.
    """
    found: Options = {}
    for key, setting in SETTINGS.items():
        given = config.find(key) if key.startswith(_SECTION) else None
        if given is not None:
            setting.kind.read(given.text, given.what)
            text = given.text
            found[setting.name] = text if isinstance(text, str) else list(text)
    policies = default_policies(found)
    try:
        check_retry_delays(policies, lambda name: f"{_SECTION}{name}")
    except InvalidInput as error:
        place = config.place_of(f"{_SECTION}retry_delay")
        raise InvalidConfig(f"{place}: {error.message}", hint=error.hint) from None
    return found


def default_policies(options: Options) -> Policies:
    """The policies of a new schedule that says nothing of them."""
    fields: dict[str, Any] = {}
    for name, text in options.items():
        option = OPTIONS[name]
        if option.type is OptionType.CONDITIONS:
            fields[option.field or ""] = read_needs(list(text))
        elif option.part is Part.POLICIES and text != NONE:
            what = f"{_SECTION}{name}"
            fields[option.field or ""] = read_policy(option, str(text), what=what)
    return Policies(**fields)
