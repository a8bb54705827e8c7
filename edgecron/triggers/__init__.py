"""When: a trigger text becomes a Trigger, which says its plan times. Reads no clock.

gate, expand      what a cron text may say; its values, by croniter, when it is written
grammar           every other trigger text; parse_trigger, cron, every, at
walltime          times as people write them, in a zone
base              what every trigger answers
cron              calendar times, and the gap and fold rule
fields, days      a cron text's values, asked by rank; which days match
simple            every, at, on boot, after
several           the triggers of one schedule as one
compiled          the stored form, read back without croniter
zones, tzif       zones by name, from the tzdata package; their spans of constant offset
words             a trigger in plain words, and what a clock change does to it
"""

from __future__ import annotations

from edgecron.triggers.base import Trigger, TriggerKind
from edgecron.triggers.compiled import dump_trigger, from_json, load_trigger
from edgecron.triggers.cron import CronTrigger
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
from edgecron.triggers.zones import check_zone, load_zone, local_zone_name, tzdata_version

__all__ = [
    "AfterEndTrigger",
    "AfterTrigger",
    "AtTrigger",
    "BootTrigger",
    "CronTrigger",
    "EveryTrigger",
    "Trigger",
    "TriggerKind",
    "Triggers",
    "at",
    "check_zone",
    "combine",
    "cron",
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
