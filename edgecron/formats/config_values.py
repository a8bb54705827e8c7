"""Read defaults of new schedules and the retention from the configuration.

[defaults] holds the texts of options. They stand in for options that a new schedule does not have.
edgecron never applies them to a schedule that exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgecron.base.errors import InvalidConfig, InvalidInput
from edgecron.formats.config import Config
from edgecron.formats.config_settings import SETTINGS
from edgecron.formats.option_texts import check_retry_delays, policy_fields
from edgecron.model.options import Policies

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
    return Policies(**policy_fields(options, lambda name: f"{_SECTION}{name}"))


# By setting, the field of a Retention.
_FIELDS = {
    "output_age": "output_age_s",
    "output_bytes": "output_bytes",
    "history_age": "history_age_s",
    "history_count": "history_count",
    "database_bytes": "database_bytes",
}


def retention_values(
    config: Config, flags: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    """List the fields of a Retention that are set, by name; None is without limit.

    `flags` has the texts of options by the names of settings. Fields that are not set are missing,
    so their defaults apply. Raises InvalidInput, which names the option or variable.
    """
    found: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        key, flag = f"retention.{name}", (flags or {}).get(name)
        if config.find(key, flag=flag) is not None:
            value = config.get(key, flag=flag)
            is_age = value is not None and field.endswith("_s")
            found[field] = max(1, value / 1000) if is_age else value
    return found
