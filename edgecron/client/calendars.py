"""Read the calendars that schedules except: holidays of a country, and iCalendar files.

A calendar is read when its schedule is written. Engines start `main` in a process of its own, at
their start and then every hour: it reads the calendars again and writes the schedules whose days
have changed. If a calendar can't be read then, the days that were read before stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from edgecron.base.bundle import hint_for_extra
from edgecron.base.checks import suggest
from edgecron.base.errors import InvalidInput
from edgecron.base.values import replace
from edgecron.base.window_texts import (
    HOLIDAYS,
    is_calendar,
    is_unread,
    parse_except,
    source_of,
    with_days,
)
from edgecron.client.side_processes import (
    CALENDARS_ERROR,
    become_side_process,
    recording_error,
    take_location,
)
from edgecron.model.schedule import Author, ScheduleSpec

if TYPE_CHECKING:
    from edgecron.client import Client

_YEARS_AHEAD = 5
_MOST_BYTES = 4 << 20
_NICE = 10
_LEAD = timedelta(seconds=5)
ORIGIN = "calendar"  # of a change of a schedule's days


def read_calendars(
    spec: ScheduleSpec, *, now: datetime, former: ScheduleSpec | None = None
) -> ScheduleSpec:
    """A specification with the days of its calendars that have not been read yet.

    A calendar that can't be read keeps the days that it has in the `former` specification. Raises
    InvalidInput if it has none.
    """
    if not any(map(is_unread, spec.policies.except_days)):
        return spec
    known = () if former is None else former.policies.except_days
    by_source = {source_of(text): text for text in known if is_calendar(text)}
    return Calendars(now).read(spec, is_wanted=is_unread, former=by_source)


class Calendars:
    """The calendars of schedules. Each is read once."""

    def __init__(self, now: datetime) -> None:
        self._today = now.date()
        self._read: dict[tuple[str, str | None], str] = {}

    def read(
        self,
        spec: ScheduleSpec,
        *,
        is_wanted: Callable[[str], bool] = is_calendar,
        former: Mapping[str, str] = MappingProxyType({}),
    ) -> ScheduleSpec:
        """A specification with the days that its calendars have now. Raises InvalidInput."""
        texts = []
        for text in spec.policies.except_days:
            source = source_of(text)
            try:
                texts.append(self._find(source, spec.timezone) if is_wanted(text) else text)
            except InvalidInput:
                if source not in former:
                    raise
                texts.append(former[source])
        return replace(spec, policies=replace(spec.policies, except_days=tuple(texts)))

    def _find(self, source: str, timezone: str | None) -> str:
        key = (source, timezone)
        if key not in self._read:
            self._read[key] = _read(source, timezone, self._today)
        return self._read[key]


def _read(source: str, timezone: str | None, today: date) -> str:
    parse_except(source)
    since, until = date(today.year - 1, 1, 1), date(today.year + _YEARS_AHEAD + 1, 1, 1)
    if source.startswith(HOLIDAYS):
        return with_days(source, _holidays(source, range(since.year, until.year)))
    from edgecron.formats.calendar_files import read_calendar  # Few schedules have such files.

    try:
        items = read_calendar(_content(source), timezone=timezone, since=since, until=until)
    except InvalidInput as error:
        raise InvalidInput(
            f"calendar {source!r} can't be read: {error.message}", hint=error.hint
        ) from None
    return with_days(source, items)


def _content(path: str) -> str:
    """The text of a file. Raises InvalidInput."""
    try:
        if not Path(path).is_file():
            raise InvalidInput("there is no such file", hint="check the path of the calendar")
        if os.path.getsize(path) > _MOST_BYTES:
            raise InvalidInput(f"it is larger than {_MOST_BYTES >> 20} MiB")
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise InvalidInput(str(error.strerror)) from None
    except UnicodeDecodeError:
        raise InvalidInput("it is not UTF-8") from None


def _holidays(source: str, years: Sequence[int]) -> list[str]:
    """The holidays of a country or a region. Raises InvalidInput."""
    try:
        import holidays  # An extra.
    except ImportError:
        raise InvalidInput(
            f"except is {source!r}, but the library holidays is not installed",
            hint=hint_for_extra("holidays"),
        ) from None
    country, _, part = source.removeprefix(HOLIDAYS).partition("-")
    known = holidays.list_supported_countries()
    if country not in known:
        close = suggest(country, known)
        raise InvalidInput(
            f"except is {source!r}, but the library holidays has no country {country!r}",
            hint=f"did you mean {HOLIDAYS}{close}?" if close else f"for example: {HOLIDAYS}DE-BY",
        )
    if part and part not in known[country]:
        raise InvalidInput(
            f"except is {source!r}, but the library holidays has no part {part!r} of {country}",
            hint=f"the parts are: {', '.join(known[country]) or 'none'}",
        )
    found = holidays.country_holidays(country, subdiv=part or None, years=years)
    return [day.isoformat() for day in sorted(found)]


def renew_all(client: Client) -> list[str]:
    """Read all calendars again and write the schedules whose days have changed; their names."""
    calendars, origins = Calendars(client.now()), client.store.find_origins()
    written = []
    for name in client.store.find_calendar_users():
        schedule = client.store.get_schedule(name)
        due_at = schedule.next_run_at
        if due_at is not None and due_at <= client.now() + _LEAD:
            continue  # Its fire is decided first, by the days that it has.
        # What can't be read keeps its days. `doctor` reports it.
        with suppress(InvalidInput):
            spec = calendars.read(schedule.spec)
            if spec != schedule.spec and client.renew_days(
                schedule, spec, origin=origins.get(name, ORIGIN), author=Author(ORIGIN)
            ):
                written.append(name)
    return written


def main(arguments: list[str]) -> None:
    """Be the process that reads the calendars of the database that is the first argument."""
    from edgecron.client import Client

    become_side_process(nice=_NICE)
    with Client(take_location(arguments[0]), must_exist=True) as client:
        crash = client.state_dir / CALENDARS_ERROR
        with recording_error(crash):
            renew_all(client)
            crash.unlink(missing_ok=True)
