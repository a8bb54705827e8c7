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
    "Backfill": "edgecron.planning.backfill",
    "Cause": "edgecron.model.choices",
    "Choice": "edgecron.model.listing",
    "Client": "edgecron.client",
    "ClockState": "edgecron.planning.trust",
    "Document": "edgecron.formats.document",
    "EngineState": "edgecron.engine.peers",
    "Execution": "edgecron.model.run",
    "Explanation": "edgecron.views.explanation",
    "Filter": "edgecron.model.filters",
    "Foreseen": "edgecron.views.outlook",
    "Imported": "edgecron.model.schedule",
    "LatePlaces": "edgecron.views.outlook",
    "LaterTold": "edgecron.client.follow",
    "Outlook": "edgecron.views.outlook",
    "Output": "edgecron.model.claim",
    "OutputChunk": "edgecron.model.claim",
    "RunBounds": "edgecron.model.listing",
    "RunPage": "edgecron.model.listing",
    "Schedule": "edgecron.model.schedule",
    "ScheduleLine": "edgecron.model.listing",
    "SchedulePage": "edgecron.model.listing",
    "ScheduleSpec": "edgecron.model.schedule",
    "SortBy": "edgecron.model.listing",
    "Standing": "edgecron.model.listing",
    "Status": "edgecron.model.choices",
    "Step": "edgecron.formats.document_plan",
    "Tallied": "edgecron.views.statistics",
    "Trigger": "edgecron.triggers.base",
    "Twin": "edgecron.engine.twins",
    "UpcomingFire": "edgecron.planning.forecast",
    "WeekHeat": "edgecron.views.busy",
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
