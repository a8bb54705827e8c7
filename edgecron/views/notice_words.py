"""Say in words what notices are about: the subject and the text of a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from edgecron.base.units import from_ms
from edgecron.model.notices import Notice, NoticeEvent
from edgecron.views.phrases import count_words
from edgecron.views.times import near_time

_MOST_SHOWN = 20  # notices of one message
_WHAT = {
    NoticeEvent.FAILED: "failed",
    NoticeEvent.RECOVERED: "recovered",
    NoticeEvent.MISSED: "was missed",
    NoticeEvent.LATE: "is late",
    NoticeEvent.SLOW: "takes long",
    NoticeEvent.STALLED: "prints nothing",
    NoticeEvent.ENGINE_STOPPED: "engine stopped",
    NoticeEvent.ENGINE_STALLED: "engine stalled",
    NoticeEvent.STARTED: "started",
    NoticeEvent.ENDED: "ended",
}
_ENDS = {
    "success": "succeeded",
    "failed": "failed",
    "interrupted": "was interrupted",
    "cancelled": "was cancelled",
}
_STILL = {
    NoticeEvent.FAILED: "still fails",
    NoticeEvent.MISSED: "is still missed",
    NoticeEvent.LATE: "is still late",
    NoticeEvent.SLOW: "still takes long",
    NoticeEvent.STALLED: "still prints nothing for long",
}
_TROUBLES = {
    NoticeEvent.FAILED: "failed in a row",
    NoticeEvent.MISSED: "were missed",
    NoticeEvent.LATE: "were late",
    NoticeEvent.SLOW: "took long",
    NoticeEvent.STALLED: "printed nothing for long",
}


def message_subject(notices: Sequence[Notice], *, host: str) -> str:
    """Return one line: `[pi] nightly failed`, or `[pi] 3 notices: nightly failed, ...`."""
    titles = list(dict.fromkeys(notice_title(one) for one in notices))
    if len(notices) == 1:
        return f"[{host}] {titles[0]}"
    shown = ", ".join(titles[:3]) + (", ..." if len(titles) > 3 else "")
    return f"[{host}] {len(notices)} notices: {shown}"


def message_text(notices: Sequence[Notice], *, held: int, zone: tzinfo, command: str) -> str:
    """Return the text of a message. `held` of its notices were held back until now.

    `command` is the program with its options, as a shell calls it.
    """
    parts = []
    if held:
        were = "notice was" if held == 1 else "notices were"
        parts.append(
            f"{held} {were} held back, because this rule had reached its limit of messages."
        )
    parts += ["\n".join(_lines(one, zone, command)) for one in notices[:_MOST_SHOWN]]
    if len(notices) > _MOST_SHOWN:
        more = count_words(len(notices) - _MOST_SHOWN, "more notice")
        parts.append(f"And {more}: {command} notices -n {len(notices)}")
    return "\n\n".join(parts) + "\n"


def notice_title(notice: Notice) -> str:
    """Return a notice in a few words: `nightly still fails`."""
    if notice.schedule is None:
        return str(notice.detail.get("title", _WHAT[notice.event]))
    words = _STILL[notice.event] if notice.is_reminder else _WHAT[notice.event]
    run = notice.detail.get("run")
    if notice.event is NoticeEvent.ENDED and isinstance(run, dict):
        words = _ENDS.get(run["status"], words)
    return f"{notice.schedule} {words}"


def _lines(notice: Notice, zone: tzinfo, command: str) -> list[str]:
    detail: Mapping[str, Any] = notice.detail
    # In full: a message can arrive days later, and be read in another zone.
    at = from_ms(notice.at_ms).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S %Z")
    lines = [f"{notice_title(notice)} ({at})", str(detail.get("sentence", ""))]
    if detail.get("trouble"):
        lines.append(str(detail["trouble"]))
    tail = detail.get("output_tail") or []
    if tail:
        lines += ["", "The end of its output:", *(f"  {line}" for line in tail)]
    if notice.execution_id is not None:
        lines += ["", f"More: {command} show {notice.execution_id}"]
    return [line for number, line in enumerate(lines) if line or number > 1]


def trouble_words(event: NoticeEvent, fire_count: int, since: str | None) -> str | None:
    """Say how long a trouble has lasted: `3 fires failed in a row since 2026-11-27 02:00`."""
    if since is None or fire_count < 2:
        return None
    return f"{count_words(fire_count, 'fire')} {_TROUBLES.get(event, 'failed')} since {since}."


def event_words(notice: Notice) -> str:
    """Return the event of a notice as lists show it."""
    return f"{notice.event} (reminder)" if notice.is_reminder else notice.event.value


def delivery_words(notice: Notice, *, zone: tzinfo, now: datetime) -> str:
    """Say when a notice is sent or was sent, and why not."""

    def time(at_ms: int) -> str:
        return near_time(from_ms(at_ms), zone=zone, now=now)

    if notice.sent_ms is not None:
        again = f", try {notice.tries}" if notice.tries > 1 else ""
        return f"at {time(notice.sent_ms)}{again}"
    tries = f" (try {notice.tries})" if notice.tries else ""
    parts = [] if notice.error is None else [f"{notice.error}{tries}"]
    if notice.due_ms is not None:
        parts.append(f"{'again' if notice.tries else 'goes out'} at {time(notice.due_ms)}")
    return "; ".join(parts)
