"""[retention]: how long and how much is kept, as the values that a Retention is made of."""

from __future__ import annotations

from edgecron.formats.config import Config

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
    """The fields of a Retention that are set, by name; None is without limit.

    What is not set is left out, so that its default holds. Raises InvalidInput for a variable that
    can't be read.
    """
    found: dict[str, int | None] = {}
    for name, (field, divisor) in _FIELDS.items():
        key = f"retention.{name}"
        if config.find(key) is not None:
            value = config.get(key)
            found[field] = None if value is None else max(1, value // divisor)
    return found
