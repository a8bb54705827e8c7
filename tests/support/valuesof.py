"""Any value that the face of a database takes or gives, for a type hint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date, datetime
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from hypothesis import strategies as st

from edgecron.base.units import from_ms
from edgecron.client.json_forms import hints_of
from edgecron.model.filters import Filter, parse_filter
from edgecron.model.job import Job
from edgecron.model.notices import Notice, NoticeEvent, NoticeStatus
from edgecron.model.options import Policies
from edgecron.model.run import OutputChunk, Progress, Stream
from edgecron.model.schedule import ScheduleSpec
from edgecron.triggers import parse_trigger
from edgecron.triggers.base import Trigger
from tests.support.documents import JOBS, POLICIES, SPECS

_LETTERS = st.text(max_size=12)  # halves of letters among them: SQLite keeps what it is given
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _LETTERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_LETTERS, inner, max_size=3),
    max_leaves=5,
)
_TRIGGERS = [
    parse_trigger(text, timezone, "backup")
    for text in ("0 2 * * *", "H H * * 1-5", "every 15m", "on boot", "every 1h after end", "@daily")
    for timezone in (None, "Europe/Berlin")
]
_FILTERS = [parse_filter(text) for text in ("", "back", "group:disk status:failed", '-"a b"')]
_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Filter: st.sampled_from(_FILTERS),
    Notice: st.builds(
        Notice,
        id=st.integers(1, 10**9),
        rule=st.text(st.characters(codec="utf-8")),
        event=st.sampled_from(NoticeEvent),
        at_ms=st.integers(0, 10**14),
        status=st.sampled_from(NoticeStatus),
        schedule=st.none() | st.text(st.characters(codec="utf-8")),
        execution_id=st.none() | st.integers(1, 10**9),
        is_reminder=st.booleans(),
        detail=st.dictionaries(st.sampled_from(["sentence", "trouble"]), st.just("words")),
        due_ms=st.none() | st.integers(0, 10**14),
        tries=st.integers(0, 1000),
        sent_ms=st.none() | st.integers(0, 10**14),
        message=st.none() | st.just("m.1"),
        error=st.none() | st.just("no network"),
    ),
    OutputChunk: st.builds(
        OutputChunk,
        stream=st.sampled_from(Stream),
        at_ms=st.integers(0, 10**14),
        content=st.binary(max_size=20),
    ),
    NoneType: st.none(),
    None: st.none(),
    bool: st.booleans(),
    int: st.integers(-(2**63) + 1, 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    str: _LETTERS,
    bytes: st.binary(max_size=20),
    datetime: st.integers(-(10**13), 10**14).map(from_ms),  # to the millisecond, as stored
    date: st.dates(),
    Path: _LETTERS.filter(lambda text: text and "\0" not in text).map(Path),
    object: _JSON,
    Any: _JSON,
    Trigger: st.sampled_from(_TRIGGERS),
    Policies: POLICIES,
    Job: JOBS,
    ScheduleSpec: SPECS,
    Progress: st.builds(Progress, fraction=st.none() | st.floats(0, 1), text=st.just("12 of 30")),
}


@cache
def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type hint, as a Client takes and gives them."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of(*map(values_of, args))
    if origin is tuple and args[-1:] != (Ellipsis,):
        return st.tuples(*map(values_of, args))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(*map(values_of, args), max_size=3)
    if origin is not None and issubclass(origin, Collection):
        found = st.lists(values_of(args[0]), max_size=3)
        if issubclass(origin, (set, frozenset)):
            return found.map(frozenset)
        return found if issubclass(origin, list) else found.map(tuple)
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    return _built(hint)


def _built(kind: Any) -> st.SearchStrategy[Any]:
    hints = hints_of(kind)
    names = getattr(kind, "_fields", None) or [
        name for name, one in kind.__dataclass_fields__.items() if one.init
    ]
    fields = {name: values_of(hints[name]) for name in names if name != "timing"}
    if "timing" in names:
        fields["timing"] = st.none()
    return st.builds(kind, **fields)
