"""Read triggers from texts, by one grammar, and from their stored form, without croniter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from edgecron.base.checks import check_aware, check_name, check_type, suggest
from edgecron.base.errors import SENSELESS, EdgecronError, InvalidTrigger, UnknownTimezone
from edgecron.base.units import (
    EARLIEST_MS,
    LATEST_MS,
    MAX_DURATION_MS,
    find_meant_duration,
    format_duration_ms,
    parse_duration_ms,
    to_ms,
)
from edgecron.base.value_texts import LATEST_WRITTEN_MS, parse_local, parse_when
from edgecron.base.window_texts import split_once_in
from edgecron.base.zones import check_zone
from edgecron.triggers.base import Trigger, TriggerKind
from edgecron.triggers.fields import fields_from_json
from edgecron.triggers.gate import expand, gate
from edgecron.triggers.kinds import (
    AFTER_CHOICES,
    AfterEndTrigger,
    AfterTrigger,
    AtTrigger,
    BootTrigger,
    CronTrigger,
    DemandTrigger,
    EveryTrigger,
    make_once_in,
)

MAX_LENGTH = 256
# Two words, of which the first begins no other trigger, and is no field of a cron text.
_PLAIN = re.compile(
    r"(?!(?:every|at|in|on|after|once|h) )"
    r"(?:[a-z]{4,},? |(?:[a-z]{3}|\d+(?:st|nd|rd|th)),? (?:\d+ (?:- )?)?[a-z\d]*[a-z]"
    r"|[a-z]{3} \d+ - |\d+ (?:and|to|of|on)\b)"
)
_WORDS_HINT = (
    "write words such as 'every weekday at 9', 'last friday of march', or cron: 0 9 * * MON-FRI"
)


def check_text(text: object) -> str:
    """Return the text with single spaces. Call this before anything else reads the text.

    Spaces of `once in` stay: they can belong to a path or a command. Raises InvalidTrigger unless
    the text is at most 256 printable ASCII characters, and some.
    """
    if not isinstance(text, str):
        raise InvalidTrigger(
            f"trigger is {text!r:.60}, expected text", hint="write '0 2 * * *' or 'every 15m'"
        )
    if len(text) > MAX_LENGTH:
        raise InvalidTrigger(
            f"trigger is {len(text)} characters long, expected at most {MAX_LENGTH}",
            hint="use ranges and steps, or give the schedule several triggers",
        )
    if not text.isascii() or not text.replace("\t", " ").isprintable():
        raise InvalidTrigger(
            f"trigger {text!a} holds characters that are not printable ASCII",
            hint="write digits 0-9, letters and * , - / # @ only",
        )
    if not text.strip():
        raise InvalidTrigger(
            "trigger is empty, expected a time", hint="write '0 2 * * *', 'every 15m' or '@daily'"
        )
    if split_once_in(text) is not None:
        return text.strip()
    return " ".join(text.split())


def parse_trigger(
    text: str,
    timezone: str | None = None,
    name: str | None = None,
    *,
    anchor: datetime | None = None,
    seed: bytes | None = None,
    now: datetime | None = None,
) -> Trigger:
    """Read the trigger that a text means, in a zone: an IANA name, 'local', or None for UTC.

    `name` is the schedule's, which H is derived from, together with a database's `seed`.
    `anchor`, floored to a whole second, gives a bare `every 15m` its phase; None is 1970.
    With `now` a time can be relative: `at tomorrow 09:00`, `in 20m`.
    Plain words are read, too: `every weekday at 9` becomes `0 9 * * MON-FRI`.
    Raises UnknownTimezone, and InvalidTrigger for everything else.
    """
    shown = check_text(text)
    zone = check_zone(timezone)
    if name is not None:
        check_type("schedule name", name, str, expected="text", hint="such as 'nightly'")
    try:
        return _read(shown, zone, name=name, anchor=anchor, seed=seed, now=now)
    except UnknownTimezone:
        raise
    except EdgecronError as error:
        words = _read_words(shown, zone)
        if words is not None:
            return parse_trigger(words, timezone, name, anchor=anchor, seed=seed, now=now)
        if _PLAIN.match(shown.lower()):
            raise InvalidTrigger(f"trigger {shown!r} is not understood", hint=_WORDS_HINT) from None
        if isinstance(error, InvalidTrigger):
            raise
        hint = error.hint or _hint(shown)
        if shown.lower().startswith("at ") and _read_words(f"daily {shown}", zone) is not None:
            hint = f"write 'daily {shown}', or a date, too: 'at 2026-11-20T09:00:00Z'"
        raise InvalidTrigger(f"trigger {shown!r}: {error.message}", hint=hint) from None


def _read_words(text: str, timezone: str | None) -> str | None:
    """Return the trigger text that words mean; None for any other text. Raises InvalidTrigger."""
    # Engines import this module, and read only trigger texts.
    from edgecron.triggers.english import read_words

    words = read_words(text)
    if words is not None and words.zone not in (None, timezone or "UTC"):
        raise InvalidTrigger(
            f"trigger {text!r} names the zone {words.zone}, expected {timezone or 'UTC'}",
            hint="leave the zone out of the words, and give it to the schedule",
        )
    return None if words is None else words.text


def cron(text: str, timezone: str | None = None) -> Trigger:
    """Make a cron trigger: 5 fields, 6 with seconds first, or a macro such as `@daily`.

    Raises UnknownTimezone or InvalidTrigger.
    """
    shown = check_text(text)
    return _cron(shown, check_zone(timezone), name=None, seed=None)


def every(duration: str | timedelta | float) -> Trigger:
    """Make a grid anchored at 1970: `every('15m')`, a timedelta, or seconds.

    Raises InvalidTrigger unless it is from 1 ms to 100 years.
    """
    if isinstance(duration, str):
        return parse_trigger(f"every {duration}")
    interval_ms = 0
    if isinstance(duration, timedelta):
        interval_ms = duration // timedelta(milliseconds=1)
    elif type(duration) in (int, float):
        # A NaN is on neither side.
        interval_ms = round(duration * 1000) if -1e12 < duration < 1e12 else 0
    if not 1 <= interval_ms <= MAX_DURATION_MS:
        raise InvalidTrigger(
            f"interval is {duration!r:.60}, expected 1 ms to 100 years",
            hint="write a duration such as '15m', a timedelta, or a number of seconds",
        )
    text = f"every {format_duration_ms(interval_ms)}"
    return EveryTrigger(
        interval_ms=interval_ms, anchor_ms=0, is_bounded=False, timezone=None, text=text
    )


def at(instant: datetime) -> Trigger:
    """Make a trigger of one instant, in whole milliseconds. Raises InvalidTrigger."""
    try:
        at_ms = to_ms(check_aware("time", instant))
    except EdgecronError as error:
        raise InvalidTrigger(error.message, hint=error.hint) from None
    if not EARLIEST_MS <= at_ms <= LATEST_WRITTEN_MS:
        raise InvalidTrigger(
            f"time {instant} is out of reach, expected the years 1 to 9998",
            hint="write an earlier time",
        )
    return AtTrigger(at_ms=at_ms, timezone=None)


def _read(
    text: str,
    timezone: str | None,
    *,
    name: str | None,
    anchor: datetime | None,
    seed: bytes | None,
    now: datetime | None,
) -> Trigger:
    keyword, _, rest = text.partition(" ")
    match keyword.lower():
        case "every":
            return _every(text, rest, timezone, anchor=anchor, now=now)
        case "at":
            return AtTrigger(at_ms=_time_ms(rest, timezone, now=now), timezone=timezone)
        case "in" if now is not None:
            return AtTrigger(at_ms=_time_ms(text, timezone, now=now), timezone=timezone)
        case "on":
            if rest.lower() not in ("boot", "demand"):
                raise InvalidTrigger(
                    f"trigger {text!r} is not understood, expected 'on boot' or 'on demand'",
                    hint="write 'on boot', or 'on demand' if it has no times",
                )
            kind = BootTrigger if rest.lower() == "boot" else DemandTrigger
            return kind(timezone=timezone)
        case "after":
            return _after(text, rest, timezone)
        case "once":
            return make_once_in(text, timezone)
        case _:
            return _cron(text, timezone, name=name, seed=seed)


def _cron(text: str, timezone: str | None, *, name: str | None, seed: bytes | None) -> Trigger:
    gated = gate(text)
    hash_id = None
    if gated.has_hash:
        if name is None:
            raise InvalidTrigger(
                f"cron text {text!r} holds H, which needs a schedule's name to derive from",
                hint="give a schedule name, or write a number instead of H",
            )
        check_name(name, what="schedule name")
        hash_id = (seed or b"") + name.encode("ascii")
    fields = expand(gated, text, hash_id=hash_id)
    return CronTrigger(text=text, timezone=timezone, fields=fields)


def _every(
    text: str,
    rest: str,
    timezone: str | None,
    *,
    anchor: datetime | None,
    now: datetime | None,
) -> Trigger:
    words = rest.split()
    tail = [word.lower() for word in words[1:]]
    if not words or (tail and tail[0] not in ("from", "after")):
        raise _bad_every(text)
    interval_ms = parse_duration_ms(words[0])
    duration = words[0].lower()
    if "mo" in duration:
        raise InvalidTrigger(
            f"trigger {text!r}: months differ in length, expected a fixed interval",
            hint="write '@monthly' for the first of each month, or 'every 30d'",
        )
    shown = f"every {duration}"
    if not tail:
        anchor_ms = 0 if anchor is None else to_ms(check_aware("time", anchor)) // 1000 * 1000
        return EveryTrigger(
            interval_ms=interval_ms,
            anchor_ms=anchor_ms,
            is_bounded=False,
            timezone=timezone,
            text=shown,
        )
    if tail == ["after", "end"]:
        return AfterEndTrigger(
            interval_ms=interval_ms, timezone=timezone, text=f"{shown} after end"
        )
    if tail[0] != "from":
        raise _bad_every(text)
    start = AtTrigger(at_ms=_time_ms(" ".join(words[2:]), timezone, now=now), timezone=None)
    return EveryTrigger(
        interval_ms=interval_ms,
        anchor_ms=start.at_ms,
        is_bounded=True,
        timezone=timezone,
        text=f"{shown} from {start.text.removeprefix('at ')}",
    )


def _time_ms(text: str, timezone: str | None, *, now: datetime | None) -> int:
    if now is None:
        return to_ms(parse_local(text, timezone=timezone))
    return to_ms(parse_when(text, timezone=timezone, now=now))


def _after(text: str, rest: str, timezone: str | None) -> Trigger:
    upstream, colon, on = rest.partition(":")
    on = on.lower() if colon else "success"
    if on not in AFTER_CHOICES:
        close = suggest(on, AFTER_CHOICES) or "any"
        raise InvalidTrigger(
            f"trigger {text!r}: the outcome is {on!r}, expected {', '.join(AFTER_CHOICES)}",
            hint=f"write 'after {upstream}:{close}', or nothing behind the name for success",
        )
    return AfterTrigger(upstream=upstream, on=on, timezone=timezone)


def _bad_every(text: str) -> InvalidTrigger:
    return InvalidTrigger(
        f"trigger {text!r} is not understood, expected a duration, then nothing, 'from TIME'"
        " or 'after end'",
        hint=_hint(text),
    )


def _hint(text: str) -> str:
    """Suggest what to write: what was probably meant, else by the first word of a text."""
    kind, _, rest = text.strip().partition(" ")
    meant = find_meant_duration(rest.strip()) if kind.lower() == "every" else None
    if meant is not None:
        return f"did you mean 'every {meant}'?"
    if kind.lower() in ("every", "each") and rest and not rest.strip()[:1].isdigit():
        return _WORDS_HINT
    hints = {
        "every": f"write 'every {format_duration_ms(900_000)}', "
        "'every 15m from 2026-11-20T08:00:00Z' or 'every 1h after end'",
        "at": "write 'at 2026-11-20T08:00:00Z', or a local time without an offset",
        "once": "write 'once in 21:00-05:00', or 'once in 21:00-05:00 MON-FRI when ac-power'",
        "after": "write 'after NAME', 'after NAME:failure' or 'after NAME:any'",
    }
    return hints.get(text.split()[0].lower(), "write '0 2 * * *', 'every 15m' or '@daily'")


@lru_cache(maxsize=2048)
def load_trigger(compiled_text: str) -> Trigger:
    """Read a `dump_trigger` text; equal texts give the same object.

    Raises InvalidTrigger for a damaged text, UnknownTimezone if the zone no longer exists.
    """
    try:
        obj = json.loads(compiled_text)
    except (ValueError, RecursionError) as error:
        raise _damaged(str(error)) from None
    return from_json(obj)


def dump_trigger(trigger: Trigger) -> str:
    """Write the compiled form as canonical JSON, as `load_trigger` reads it back."""
    return json.dumps(trigger.to_json(), separators=(",", ":"), sort_keys=True)


def from_json(obj: object) -> Trigger:
    """Read a `Trigger.to_json` object.

    Raises InvalidTrigger for a damaged object, UnknownTimezone if the zone no longer exists.
    """
    if not isinstance(obj, Mapping):
        raise _damaged(f"it is a {type(obj).__name__}, expected an object")
    try:
        timezone = check_zone(obj["timezone"])
        return _READERS[TriggerKind(obj["kind"])](obj, str(obj["text"]), timezone)
    except UnknownTimezone:
        raise
    except KeyError as error:
        raise _damaged(f"{error} is missing") from None
    except SENSELESS as error:
        raise _damaged(str(error)) from None


def _load_cron(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    fields = obj["fields"]
    if not isinstance(fields, Mapping):
        raise ValueError("fields is not an object")
    return CronTrigger(text=text, timezone=timezone, fields=fields_from_json(fields))


def _load_every(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return EveryTrigger(
        interval_ms=_number(obj, "interval_ms", 1, MAX_DURATION_MS),
        anchor_ms=_number(obj, "anchor_ms", EARLIEST_MS, LATEST_MS),
        is_bounded=obj["bounded"] is True,
        timezone=timezone,
        text=text,
    )


def _load_after_end(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    interval_ms = _number(obj, "interval_ms", 1, MAX_DURATION_MS)
    return AfterEndTrigger(interval_ms=interval_ms, timezone=timezone, text=text)


def _load_at(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return AtTrigger(at_ms=_number(obj, "at_ms", EARLIEST_MS, LATEST_MS), timezone=timezone)


def _load_boot(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return BootTrigger(timezone=timezone)


def _load_demand(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return DemandTrigger(timezone=timezone)


def _load_after(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return AfterTrigger(upstream=str(obj["upstream"]), on=str(obj["on"]), timezone=timezone)


def _load_once_in(obj: Mapping[str, object], text: str, timezone: str | None) -> Trigger:
    return make_once_in(text, timezone)


_READERS: dict[TriggerKind, Callable[[Mapping[str, object], str, str | None], Trigger]] = {
    TriggerKind.CRON: _load_cron,
    TriggerKind.EVERY: _load_every,
    TriggerKind.AFTER_END: _load_after_end,
    TriggerKind.AT: _load_at,
    TriggerKind.BOOT: _load_boot,
    TriggerKind.DEMAND: _load_demand,
    TriggerKind.AFTER: _load_after,
    TriggerKind.ONCE_IN: _load_once_in,
}


def _number(obj: Mapping[str, object], key: str, least: int, most: int) -> int:
    value = obj[key]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{key} is {value!r}, expected a number from {least} to {most}")
    return value


def _damaged(why: str) -> InvalidTrigger:
    return InvalidTrigger(
        f"compiled trigger is damaged: {why}", hint="set the schedule's trigger again"
    )
