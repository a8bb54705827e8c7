"""Write upcoming runs as an iCalendar file (RFC 5545), which calendar programs import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from edgecron.planning.forecast import UpcomingFire

_MOST_OCTETS = 75  # of a line, without its end (RFC 5545, 3.1)
_LASTS = timedelta(minutes=1)  # calendars hide an event that takes no time


def write_calendar(fires: Iterable[UpcomingFire], *, now: datetime) -> str:
    """Return the text of a calendar with one event per fire, at the time when it can start.

    An event keeps its identity (schedule and plan time), so that a later import replaces it. It
    does not mark a person as busy.
    """
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//edgecron//next//EN"]
    for fire in fires:
        lines += [
            "BEGIN:VEVENT",
            f"UID:{_stamp(fire.plan_at)}-{fire.schedule}@edgecron",
            f"DTSTAMP:{_stamp(now)}",
            f"DTSTART:{_stamp(fire.due_at)}",
            f"DTEND:{_stamp(fire.due_at + _LASTS)}",
            f"SUMMARY:{_text(fire.schedule)}",
            *([f"DESCRIPTION:{_text(fire.source)}"] if fire.source else []),
            "TRANSP:TRANSPARENT",
            "END:VEVENT",
        ]
    lines.append("END:VCALENDAR")
    return "".join(f"{part}\r\n" for line in lines for part in _folded(line))


def _stamp(at: datetime) -> str:
    """An aware UTC instant in whole seconds."""
    return f"{at:%Y%m%dT%H%M%SZ}"


def _text(text: str) -> str:
    """Escape what has a meaning in a text (RFC 5545, 3.3.11)."""
    for special in ("\\", ";", ","):
        text = text.replace(special, f"\\{special}")
    return text.replace("\r\n", "\\n").replace("\n", "\\n").replace("\r", "\\n")


def _folded(line: str) -> Iterator[str]:
    """Cut a line into parts of at most 75 octets; each further part begins with a space."""
    part = ""
    for letter in line:
        if len((part + letter).encode()) > _MOST_OCTETS:
            yield part
            part = " "
        part += letter
    yield part
