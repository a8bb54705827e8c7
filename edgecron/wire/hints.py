"""Type hints of our own modules, read where the names that they mention are imported for type
checkers alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints

_NAME = re.compile(r"[A-Za-z_]\w*")
# Where the values live that signatures of a Client mention.
_HOMES: dict[str, str] = {
    "Backfill": "edgecron.backfilling",
    "Cause": "edgecron.model",
    "Choice": "edgecron.browsing",
    "Client": "edgecron.api",
    "ClockState": "edgecron.trust",
    "Document": "edgecron.documents.document",
    "EngineState": "edgecron.engine.peers",
    "Execution": "edgecron.model",
    "Explanation": "edgecron.explaining",
    "Filter": "edgecron.filtering",
    "Foreseen": "edgecron.outlook",
    "Imported": "edgecron.model",
    "LatePlaces": "edgecron.outlook",
    "LaterTold": "edgecron.following",
    "Outlook": "edgecron.outlook",
    "Output": "edgecron.attempt",
    "OutputChunk": "edgecron.attempt",
    "RunBounds": "edgecron.browsing",
    "RunPage": "edgecron.browsing",
    "Schedule": "edgecron.model",
    "ScheduleLine": "edgecron.browsing",
    "SchedulePage": "edgecron.browsing",
    "ScheduleSpec": "edgecron.model",
    "SortBy": "edgecron.browsing",
    "Standing": "edgecron.standing",
    "Status": "edgecron.model",
    "Step": "edgecron.documents.comparing",
    "Tallied": "edgecron.tallies",
    "Trigger": "edgecron.triggers.base",
    "Twin": "edgecron.engine.twins",
    "UpcomingFire": "edgecron.upcoming",
    "WeekHeat": "edgecron.busy.tally",
    "datetime": "datetime",
}
# An array of numbers, which is a list on the wire, is no generic type before Python 3.12.
_STAND_INS: dict[str, Any] = {"array": list}


@cache
def hints_of(one: type | Callable[..., Any]) -> Mapping[str, Any]:
    """The type hints of a class's fields, or of a function's parameters and `return`."""
    module = vars(sys.modules[one.__module__])
    texts = " ".join(str(text) for text in getattr(one, "__annotations__", {}).values())
    names = {
        name: getattr(import_module(_HOMES[name]), name)
        for name in _NAME.findall(texts)
        if name not in module and name in _HOMES
    }
    return get_type_hints(one, localns={**module, **names, **_STAND_INS})
