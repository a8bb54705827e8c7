"""Read the options of one manual run, from texts or from the values of JSON and Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from edgecron.base.checks import check_type
from edgecron.base.errors import InvalidInput
from edgecron.formats.option_texts import read_priority, read_scope
from edgecron.formats.value_texts import read_duration_ms, read_time
from edgecron.model.run import RunOptions

RUN_OPTIONS = ("delay", "at", "priority", "timeout", "scope")
_NUMBERS = (int, float)


def read_run_options(
    given: Mapping[str, Any],
    *,
    timezone: str | None,
    now: datetime | None,
    label: Callable[[str], str] = str,
) -> RunOptions:
    """Read the options of RUN_OPTIONS that are given and not None.

    A duration is text, seconds or a timedelta; a time is text or an aware datetime; a scope is
    text or a pair. Without `now`, relative times are refused. `label` returns the name of an
    option for a message. Raises InvalidInput.
    """
    values = {name: value for name in RUN_OPTIONS if (value := given.get(name)) is not None}
    return RunOptions(
        delay_s=_seconds(values.get("delay"), label("delay")),
        at=_instant(values.get("at"), label("at"), timezone=timezone, now=now),
        priority=_priority(values.get("priority"), label("priority")),
        timeout_s=_seconds(values.get("timeout"), label("timeout")),
        scope=_scope(values.get("scope"), label("scope")),
    )


def _seconds(value: Any, what: str) -> float | None:
    if value is None or (isinstance(value, _NUMBERS) and not isinstance(value, bool)):
        return value
    if isinstance(value, timedelta):
        return value.total_seconds()
    check_type(what, value, str, expected="a duration", hint=f"such as {what}='5m'")
    if value in ("0", "0s"):
        return 0.0
    return read_duration_ms(value, what) / 1000


def _instant(
    value: Any, what: str, *, timezone: str | None, now: datetime | None
) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidInput(f"{what} is {value}, which has no time zone", hint="add tzinfo=UTC")
        return value
    check_type(what, value, str, expected="a time", hint=f"such as {what}='tomorrow 09:00'")
    return read_time(value, what=what, timezone=timezone, now=now)


def _priority(value: Any, what: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    check_type(what, value, str, expected="a priority", hint=f"such as {what}='high'")
    return read_priority(value, what)


def _scope(value: Any, what: str) -> tuple[str, str] | None:
    if value is None:
        return None
    if isinstance(value, tuple | list) and len(value) == 2:
        return str(value[0]), str(value[1])
    check_type(what, value, str, expected="a scope", hint=f"such as {what}='device:plc3'")
    return read_scope(value, what=what)
