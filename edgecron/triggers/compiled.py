"""Read and write the compiled form of triggers, which is stored beside their text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache

from edgecron.base.errors import SENSELESS, InvalidTrigger, UnknownTimezone
from edgecron.base.units import MAX_DURATION_MS
from edgecron.triggers.base import EARLIEST_MS, LATEST_MS, Trigger, TriggerKind
from edgecron.triggers.crontrigger import CronTrigger
from edgecron.triggers.fields import fields_from_json
from edgecron.triggers.simple import (
    AfterEndTrigger,
    AfterTrigger,
    AtTrigger,
    BootTrigger,
    EveryTrigger,
)
from edgecron.triggers.zones import check_zone


@lru_cache(maxsize=2048)
def load_trigger(compiled_text: str) -> Trigger:
    """Read a `dump_trigger` text; equal texts give the same object.

    Raises InvalidTrigger for a damaged text, UnknownTimezone if the zone no longer exists.
    """
    try:
        obj = json.loads(compiled_text)
    except (ValueError, RecursionError) as error:
        raise _damaged(str(error)) from None
    return from_json(obj)


def dump_trigger(trigger: Trigger) -> str:
    """Write the compiled form as canonical JSON, as `load_trigger` reads it back."""
    return json.dumps(trigger.to_json(), separators=(",", ":"), sort_keys=True)


def from_json(obj: object) -> Trigger:
    """Read a `Trigger.to_json` object.

    Raises InvalidTrigger for a damaged object, UnknownTimezone if the zone no longer exists.
    """
    if not isinstance(obj, Mapping):
        raise _damaged(f"it is a {type(obj).__name__}, expected an object")
    try:
        timezone = check_zone(obj["timezone"])
        return _READERS[TriggerKind(obj["kind"])](obj, str(obj["text"]), timezone)
    except UnknownTimezone:
        raise
    except KeyError as error:
        raise _damaged(f"{error} is missing") from None
    except SENSELESS as error:
        raise _damaged(str(error)) from None


def _cron(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    fields = obj["fields"]
    if not isinstance(fields, Mapping):
        raise ValueError("fields is no object")
    return CronTrigger(text, timezone=timezone, fields=fields_from_json(fields))


def _every(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return EveryTrigger(
        _number(obj, "interval_ms", 1, MAX_DURATION_MS),
        anchor_ms=_number(obj, "anchor_ms", EARLIEST_MS, LATEST_MS),
        is_bounded=obj["bounded"] is True,
        timezone=timezone,
        text=text,
    )


def _after_end(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    interval_ms = _number(obj, "interval_ms", 1, MAX_DURATION_MS)
    return AfterEndTrigger(interval_ms, timezone=timezone, text=text)


def _at(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return AtTrigger(_number(obj, "at_ms", EARLIEST_MS, LATEST_MS), timezone=timezone)


def _boot(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return BootTrigger(timezone=timezone)


def _after(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return AfterTrigger(str(obj["upstream"]), on=str(obj["on"]), timezone=timezone)


_READERS: dict[TriggerKind, Callable[[Mapping[str, object], str, str | None], Trigger]] = {
    TriggerKind.CRON: _cron,
    TriggerKind.EVERY: _every,
    TriggerKind.AFTER_END: _after_end,
    TriggerKind.AT: _at,
    TriggerKind.BOOT: _boot,
    TriggerKind.AFTER: _after,
}


def _number(obj: Mapping[str, object], key: str, least: int, most: int) -> int:
    value = obj[key]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} is {value!r}, expected a number from {least} to {most}")
    return value


def _damaged(why: str) -> InvalidTrigger:
    return InvalidTrigger(
        f"compiled trigger is damaged: {why}", hint="write the schedule's trigger anew"
    )
