"""When: a trigger text becomes a Trigger, which says its plan times. Reads no clock.

gate           what a cron text can say, and its values when it is written
grammar        every trigger text; parse_trigger, cron, every, at; the stored form
base           what every trigger answers; the triggers of one schedule as one
kinds          calendar times with the gap and fold rule; every, at, on boot, on demand,
               after; once in a window, when conditions hold
fields         a cron text's values: days and times of day that match
english        triggers in plain English, as words writes them and people do
english_parts  their names, numbers, times of day, intervals and events
words          a trigger in plain words, and what a clock change does to it
"""

from __future__ import annotations

from edgecron.triggers.base import Trigger, TriggerKind, Triggers, combine
from edgecron.triggers.grammar import (
    at,
    cron,
    dump_trigger,
    every,
    from_json,
    load_trigger,
    parse_trigger,
)
from edgecron.triggers.kinds import (
    AfterEndTrigger,
    AfterTrigger,
    AtTrigger,
    BootTrigger,
    CronTrigger,
    DemandTrigger,
    EveryTrigger,
    OnceInTrigger,
)
from edgecron.triggers.words import ClockChange, clock_change_notes, describe, describe_briefly

__all__ = [
    "AfterEndTrigger",
    "AfterTrigger",
    "AtTrigger",
    "BootTrigger",
    "ClockChange",
    "CronTrigger",
    "DemandTrigger",
    "EveryTrigger",
    "OnceInTrigger",
    "Trigger",
    "TriggerKind",
    "Triggers",
    "at",
    "clock_change_notes",
    "combine",
    "cron",
    "describe",
    "describe_briefly",
    "dump_trigger",
    "every",
    "from_json",
    "load_trigger",
    "parse_trigger",
]
