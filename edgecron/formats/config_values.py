"""Read defaults of new schedules and the retention from the configuration.

[defaults] holds the texts of options. They stand in for options that a new schedule does not have.
edgecron never applies them to a schedule that exists.
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
    """List the defaults that are set, by key of a document, as texts of a command line.

    `needs` is a list. Raises InvalidInput for a variable that the option refuses, and for two
    values that exclude each other.
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
    """Return the policies of a new schedule that names none."""
    fields: dict[str, Any] = {}
    for name, text in options.items():
        option = OPTIONS[name]
        if option.type is OptionType.CONDITIONS:
            fields[option.field or ""] = read_needs(list(text))
        elif option.part is Part.POLICIES and text != NONE:
            what = f"{_SECTION}{name}"
            fields[option.field or ""] = read_policy(option, str(text), what=what)
    return Policies(**fields)


_MS = 1000
# By setting: the field, and how many of the setting's are one of the field's.
_FIELDS = {
    "output_age": ("output_age_s", _MS),
    "output_bytes": ("output_bytes", 1),
    "history_age": ("history_age_s", _MS),
    "history_count": ("history_count", 1),
    "database_bytes": ("database_bytes", 1),
}


def retention_values(config: Config) -> dict[str, int | None]:
    """List the fields of a Retention that are set, by name; None is without limit.

    Fields that are not set are missing, so their defaults apply. Raises InvalidInput for a variable
    that can't be read.
    """
    found: dict[str, int | None] = {}
    for name, (field, divisor) in _FIELDS.items():
        key = f"retention.{name}"
        if config.find(key) is not None:
            value = config.get(key)
            found[field] = None if value is None else max(1, value // divisor)
    return found
