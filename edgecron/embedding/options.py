"""The options of a job or a command, by the names that documents have, to what is to be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from edgecron.base.errors import InvalidInput
from edgecron.model.options import OPTIONS, OptionType

if TYPE_CHECKING:
    from typing import Literal, TypedDict

    from edgecron.formats.document_values import Wanted
    from edgecron.triggers import Trigger

    Duration = str | float | timedelta  # "90s", seconds, or a timedelta

    class Options(TypedDict, total=False):
        """How a schedule behaves; the defaults are those of the command line.

        Of what may be None, None is no limit.
        """

        description: str
        timezone: str
        from_at: datetime | str
        until_at: datetime | str
        max_runs: int | None
        allow_fast: bool  # allow intervals under a second
        jitter: Duration
        catch_up: Literal["once", "skip", "all"]
        grace: Duration
        overlap: Literal["skip", "queue", "allow", "replace"]
        max_running: int
        timeout: Duration | None
        kill_grace: Duration
        retries: int
        retry_delay: Duration
        retry_factor: float
        retry_max_delay: Duration
        on_interrupt: Literal["leave", "retry"]
        priority: Literal["low", "normal", "high"] | int
        group: str
        needs: str | Sequence[str]
        needs_deadline: Duration
        scopes: Sequence[str]

    class CommandOptions(Options, total=False):
        """The same, and what a command finds when it starts."""

        env: Mapping[str, str]
        env_file: str
        cwd: str
        user: str
        stdin: str
        ok_codes: int | Sequence[int]
        payload: object


_KEYS = {"from_at": "from", "until_at": "until", "scopes": "scope"}  # as documents have them


def check_when(when: Sequence[object]) -> None:
    """Raise InvalidInput for what is no trigger, such as the function itself."""
    for one in when:
        if not isinstance(one, str) and not hasattr(one, "next_after"):
            raise InvalidInput(
                f"{one!r:.60} is no time to run at, expected a trigger or its text",
                hint='such as @scheduler.job("@daily"), or every("5m")',
            )


def read_options(
    name: str,
    triggers: Sequence[Trigger | str],
    job: Mapping[str, object],
    options: Mapping[str, object],
    *,
    timezone: str | None,
) -> Wanted:
    """What a declaration wants to be kept. `job` are the keys of what is run.

    `timezone` is for what names none. Raises InvalidInput with the first thing that is wrong.
    """
    from edgecron.base.values import replace
    from edgecron.formats.document_tables import read_table

    check_when(triggers)
    zone = _timezone(name, triggers, options, timezone)
    table = _triggers(name, triggers, zone) | dict(job) | {"timezone": zone or "UTC"}
    for key, value in options.items():
        if key != "timezone":
            known = _KEYS.get(key, key)
            table[known] = _value(known, value)
    wanted, problems = read_table(name, table)
    if wanted is None:
        first = problems[0]
        raise InvalidInput(f"schedule {name!r}: {first.message}", hint=first.hint)
    return replace(wanted, is_declared=True)


def _timezone(
    name: str,
    triggers: Sequence[Trigger | str],
    options: Mapping[str, object],
    default: str | None,
) -> str | None:
    """The one zone of a schedule: what its options say, or its triggers, or its Scheduler."""
    said = {one.timezone for one in triggers if not isinstance(one, str)} - {None}
    given = options.get("timezone")
    if given is not None:
        said.add(str(given))
    if len(said) > 1:
        zones = " and ".join(sorted(str(one) for one in said))
        raise InvalidInput(
            f"schedule {name!r} names the time zones {zones}, expected one",
            hint="make a schedule for each of them",
        )
    return said.pop() if said else default


def _triggers(name: str, triggers: Sequence[Trigger | str], zone: str | None) -> dict[str, object]:
    from edgecron.formats.document_writing import trigger_key

    found: dict[str, list[str]] = {}
    for one in triggers:
        text = _trigger_text(name, one, zone)
        key = trigger_key(text)
        found.setdefault(key, []).append(text if key == "cron" else text.partition(" ")[2])
    return {key: True if key == "on_boot" else texts for key, texts in found.items()}


def _trigger_text(name: str, trigger: Trigger | str, zone: str | None) -> str:
    if not isinstance(trigger, str):
        return trigger.text
    from edgecron.triggers import parse_trigger

    return parse_trigger(trigger, zone, name).text


def _value(key: str, value: object) -> Any:
    """The value of an option as a document would have it."""
    if value is None:
        return "none"
    if isinstance(value, timedelta):
        value = value.total_seconds()
    option = OPTIONS.get(key)
    is_duration = option is not None and option.type is OptionType.DURATION
    if is_duration and isinstance(value, int | float) and not isinstance(value, bool):
        return _duration_text(key, value)
    if isinstance(value, datetime) and value.tzinfo is None:
        raise InvalidInput(f"{key} is {value}, which has no time zone", hint="add tzinfo=UTC")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _duration_text(key: str, seconds: float) -> str:
    from edgecron.base.units import MAX_DURATION_MS, format_duration_ms

    if not 0 <= seconds <= MAX_DURATION_MS / 1000:
        raise InvalidInput(f"{key} is {seconds!r} seconds, expected 0 to 100 years")
    return format_duration_ms(round(seconds * 1000))
