"""What an engine tells of clocks and zones, in words."""

from __future__ import annotations

from datetime import tzinfo

from edgecron.base.units import from_ms
from edgecron.engine.events import Event, EventKind
from edgecron.views.times import local_time, short_duration


def clock_notes(event: Event, zone: tzinfo) -> list[str]:
    """The words of an event of a clock or a zone; none for any other."""
    details = event.details
    match event.kind:
        case EventKind.RESUMED:
            return [f"the machine was asleep for {_span(details['asleep_s'])}"]
        case EventKind.CLOCK_SET:
            by_s = details["by_s"]
            side = "back" if isinstance(by_s, (int, float)) and by_s < 0 else "forward"
            return [f"{side} by {_span(by_s)}"]
        case EventKind.CLOCK_UNTRUSTED:
            known = _time(details["known_ms"], zone)
            return [f"it is too far from {known}, the last time known; what is planned is held"]
        case EventKind.CLOCK_WAIT_OVER:
            return ["intervals and boot jobs go by it as it is; cron and `at` times wait on"]
        case EventKind.CLOCK_TRUSTED:
            return ["nothing is held any more"]
        case EventKind.TZDATA_CHANGED | EventKind.LOCAL_ZONE_CHANGED:
            return [f"{details['was']}, now {details['now']}"]
        case EventKind.RETIMED:
            return [_move(event, zone)]
    return []


def _move(event: Event, zone: tzinfo) -> str:
    was = _time(event.details.get("next_was_ms"), zone)
    return f"next {_time(event.details.get('next_ms'), zone)}, was {was}"


def _span(seconds: object) -> str:
    assert isinstance(seconds, (int, float))
    return short_duration(round(abs(seconds) * 1000))


def _time(ms: object, zone: tzinfo) -> str:
    return local_time(from_ms(ms), zone=zone) if isinstance(ms, int) else "none"
