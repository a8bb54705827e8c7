"""[defaults]: what new schedules have unless they say otherwise.

They are the texts of options, and stand in for those that were not given: see `option_defaults`.
A schedule that is there already is never looked at again for them.
"""

from __future__ import annotations

from typing import Any

from edgecron.config import Config
from edgecron.config.settings import SETTINGS
from edgecron.documents.values import (
    NONE,
    POLICIES,
    check_retry_delays,
    read_needs,
    read_policy,
)
from edgecron.errors import InvalidConfig, InvalidInput
from edgecron.model import Policies

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
        if name in POLICIES and text != NONE:
            fields[POLICIES[name][0]] = read_policy(name, str(text), what=f"{_SECTION}{name}")
        elif name == "needs":
            fields["needs"] = read_needs(list(text))
    return Policies(**fields)
