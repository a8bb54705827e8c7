"""When: a trigger text becomes a Trigger, which says its plan times. Reads no clock.

gate              what a cron text may say, and its values when it is written
grammar           every trigger text; parse_trigger, cron, every, at
walltime          times as people write them, in a zone
base              what every trigger answers
crontrigger       calendar times, and the gap and fold rule
fields, days      a cron text's values, asked by rank; the days that match
simple            every, at, on boot, after
several           the triggers of one schedule as one, and how many instants they have together
patterns          calendar times as patterns of a day on many days
compiled          the stored form, read back without croniter
zones, tzif       zones by name, from the tzdata package; their spans of constant offset
words             a trigger in plain words, and what a clock change does to it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgecron.triggers.base import Trigger, TriggerKind
    from edgecron.triggers.compiled import dump_trigger, from_json, load_trigger
    from edgecron.triggers.crontrigger import CronTrigger
    from edgecron.triggers.grammar import at, cron, every, parse_trigger
    from edgecron.triggers.several import Triggers, combine
    from edgecron.triggers.simple import (
        AfterEndTrigger,
        AfterTrigger,
        AtTrigger,
        BootTrigger,
        EveryTrigger,
    )
    from edgecron.triggers.walltime import parse_when
    from edgecron.triggers.words import ClockChange, clock_change_notes, describe, describe_briefly
    from edgecron.triggers.zones import check_zone, load_zone, local_zone_name, tzdata_version

_HOME = {
    "AfterEndTrigger": "simple",
    "AfterTrigger": "simple",
    "AtTrigger": "simple",
    "BootTrigger": "simple",
    "ClockChange": "words",
    "CronTrigger": "crontrigger",
    "EveryTrigger": "simple",
    "Trigger": "base",
    "TriggerKind": "base",
    "Triggers": "several",
    "at": "grammar",
    "check_zone": "zones",
    "clock_change_notes": "words",
    "combine": "several",
    "cron": "grammar",
    "describe": "words",
    "describe_briefly": "words",
    "dump_trigger": "compiled",
    "every": "grammar",
    "from_json": "compiled",
    "load_trigger": "compiled",
    "load_zone": "zones",
    "local_zone_name": "zones",
    "parse_trigger": "grammar",
    "parse_when": "walltime",
    "tzdata_version": "zones",
}

__all__ = [
    "AfterEndTrigger",
    "AfterTrigger",
    "AtTrigger",
    "BootTrigger",
    "ClockChange",
    "CronTrigger",
    "EveryTrigger",
    "Trigger",
    "TriggerKind",
    "Triggers",
    "at",
    "check_zone",
    "clock_change_notes",
    "combine",
    "cron",
    "describe",
    "describe_briefly",
    "dump_trigger",
    "every",
    "from_json",
    "load_trigger",
    "load_zone",
    "local_zone_name",
    "parse_trigger",
    "parse_when",
    "tzdata_version",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'edgecron.triggers' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"edgecron.triggers.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
