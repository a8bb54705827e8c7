"""Check a cron text item by item before croniter reads it.

croniter accepts more than edgecron promises, and some surprises (`5-5` is every value, `@daily`
with a hash id a random time). A text that passes here has one meaning, and is rewritten in a form
that croniter reads with that meaning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from edgecron.base.checks import suggest
from edgecron.base.errors import InvalidTrigger
from edgecron.base.values import NamedTuple
from edgecron.triggers.fields import MONTHS, RANGES, WEEKDAYS, CronFields, DayRule

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = {name[:3].lower(): number for number, name in enumerate(MONTHS, 1)}
_WEEKDAYS = {name[:3].lower(): number for number, name in enumerate(WEEKDAYS)}


class _Field(NamedTuple):
    what: str
    least: int
    most: int
    expected: str
    names: dict[str, int]


SECOND = _Field("second", 0, 59, "0-59", {})
MINUTE = _Field("minute", 0, 59, "0-59", {})
HOUR = _Field("hour", 0, 23, "0-23", {})
DAY = _Field("day of month", 1, 31, "1-31", {})
MONTH = _Field("month", 1, 12, "1-12 or JAN-DEC", _MONTHS)
WEEKDAY = _Field("day of week", 0, 7, "0-7 or SUN-SAT (0 and 7 are Sunday)", _WEEKDAYS)
_FIELDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)

_DURATION = re.compile(r"\d+(ms|s|m|h|d|w)", re.ASCII | re.IGNORECASE)
_ITEM = re.compile(
    r"(?P<low>\*|\d{1,4}|[a-z]{3})(?:-(?P<high>\d{1,4}|[a-z]{3}))?(?:/(?P<step>\d{1,4}))?",
    re.ASCII,
)
_HASH = re.compile(r"h(?:\((?P<low>\d{1,4})-(?P<high>\d{1,4})\))?(?:/(?P<step>\d{1,4}))?", re.ASCII)
_NTH = re.compile(r"(?P<day>\d|[a-z]{3})#(?P<nth>\d{1,4})", re.ASCII)
_LAST = re.compile(r"l(?P<day>\d{1,4})", re.ASCII)
_NEAREST = re.compile(r"(?P<day>\d{1,4})w", re.ASCII)


class Gated(NamedTuple):
    """A cron text that passed: six fields, seconds first, in croniter's syntax."""

    fields: tuple[str, ...]
    has_hash: bool
    warnings: tuple[str, ...]


_LONG_WORD = re.compile(r"[a-z]{4,}", re.ASCII)


@lru_cache(maxsize=256)
def gate(text: str) -> Gated:
    """Check a text from `check_text`. Raises InvalidTrigger, naming the item."""
    words = _expand_macro(text).lower().split()
    if len(words) not in (5, 6):
        raise _wrong_count(text, len(words))
    if len(words) == 5:
        words.insert(0, "0")
    elif _LONG_WORD.match(words[5]) and words[5][:3] not in WEEKDAY.names:
        # A line of /etc/crontab has a user there.
        raise InvalidTrigger(
            f"cron text {text!r} has the sixth field {words[5]!r}: six fields begin with seconds",
            hint="write only the five fields; a user is given with --user",
        )
    warnings: list[str] = []
    fields = [
        _pass_field(field, word, warnings) for field, word in zip(_FIELDS, words, strict=True)
    ]
    has_hash = any("h(" in word for word in fields)
    return Gated(tuple(fields), has_hash, tuple(warnings))


def _expand_macro(text: str) -> str:
    if not text.startswith("@"):
        return text
    macro = MACROS.get(text.lower())
    if macro is not None:
        return macro
    hints = {
        "@reboot": "write 'on boot'",
        "@every": f"write '{text[1:].lower()}'",
    }
    word = text.split()[0]
    close = suggest(word.lower(), MACROS, cutoff=0.75) if word == text else None
    other = "write one of these, or five fields" if close is None else f"did you mean {close}?"
    raise InvalidTrigger(
        f"macro {word!r} is unknown, expected one of {' '.join(MACROS)}",
        hint=hints.get(word.lower(), other),
    )


def _wrong_count(text: str, count: int) -> InvalidTrigger:
    words = text.split()
    if count == 7 and words[6][:1] in "*0123456789":
        hint = "leave the year field out; --until or an 'at' trigger bounds a schedule"
    elif count > 5 and (words[5][0].isalpha() or words[5][0] == "/"):
        hint = f"write only the five fields, '{' '.join(words[:5])}', and the command by itself"
    elif count == 1 and "@" + text.lower() in MACROS:
        hint = f"write '@{text.lower()}'"
    elif count == 1 and _DURATION.fullmatch(text):
        hint = f"did you mean 'every {text.lower()}'?"
    elif count == 1 and text.isalpha():
        hint = "write five fields, such as '0 2 * * *', or words, such as 'every weekday at 9'"
    else:
        hint = "write minute hour day month weekday, such as '0 2 * * *' for 02:00 every day"
    noun = "field" if count == 1 else "fields"
    return InvalidTrigger(
        f"cron text {text!r} has {count} {noun}, expected 5, or 6 with seconds first", hint=hint
    )


def _pass_field(field: _Field, word: str, warnings: list[str]) -> str:
    if any(item.startswith("h") for item in word.split(",")):
        return _pass_hash(field, word, warnings)
    items = word.split(",")
    passed = [_pass_item(field, item, warnings) for item in items]
    if field is DAY and len(items) > 1 and any(item.endswith("w") for item in items):
        raise _refused(field, word, "only one nearest weekday", "give each W a trigger of its own")
    if field is WEEKDAY:
        special = [item.startswith("l") or "#" in item for item in passed]
        if any(special) and not all(special):
            raise _refused(
                field, word, "plain days or n-th and last days, not both",
                "give the schedule two triggers",
            )  # fmt: skip
    return ",".join(passed)


def _pass_item(field: _Field, item: str, warnings: list[str]) -> str:
    if field is DAY and item == "l":
        return item
    if field is DAY and (found := _NEAREST.fullmatch(item)):
        return f"{_value(field, found['day'], item)}w"
    if field is WEEKDAY and (found := _LAST.fullmatch(item)):
        return f"l{_value(field, found['day'], item) % 7}"
    if field is WEEKDAY and (found := _NTH.fullmatch(item)):
        if not 1 <= int(found["nth"]) <= 5:
            raise _refused(
                field, item, "# and a number from 1 to 5", "write FRI#2, or L5 for the last"
            )
        return f"{_value(field, found['day'], item) % 7}#{int(found['nth'])}"
    found = _ITEM.fullmatch(item)
    if found is None:
        raise _not_promised(field, item)
    step = _step(field, item, found["step"], warnings)
    if found["low"] == "*":
        if found["high"] is not None:
            raise _refused(field, item, field.expected, "write only *, or a range of numbers")
        return f"*/{step}" if step else "*"
    low = _value(field, found["low"], item)
    if found["high"] is None:
        low = low % 7 if field is WEEKDAY else low
        return f"{low}/{step}" if step else str(low)
    return _pass_range(field, item, low=low, high_text=found["high"], step=step)


def _pass_range(field: _Field, item: str, *, low: int, high_text: str, step: int | None) -> str:
    high = _value(field, high_text, item)
    if field is WEEKDAY and high_text == "sun" and low > 0:
        high = 7  # FRI-SUN ends on the Sunday after it
    if low > high:
        raise _reversed(field, item, low=low, high=high)
    if low == high:
        return str(low % 7 if field is WEEKDAY else low)
    if field is WEEKDAY and high == 7:
        # croniter knows no 7 in a range: the days are spelled out.
        return ",".join(dict.fromkeys(str(day % 7) for day in range(low, 8, step or 1)))
    return f"{low}-{high}/{step}" if step else f"{low}-{high}"


def _pass_hash(field: _Field, word: str, warnings: list[str]) -> str:
    found = _HASH.fullmatch(word)
    if found is None:
        if "," in word:
            raise _refused(field, word, "only H in its field", "give each H a trigger of its own")
        raise _not_promised(field, word)
    step = _step(field, word, found["step"], warnings)
    # Every month has a 28th; and 7 is the Sunday that 0 is already.
    low, high = field.least, {"day of month": 28, "day of week": 6}.get(field.what, field.most)
    if found["low"] is not None:
        low, high = _value(field, found["low"], word), _value(field, found["high"], word)
        if low >= high:
            raise _reversed(field, word, low=low, high=high)
        if field is WEEKDAY and high == 7:
            raise _refused(field, word, "H(0-6)", "write 0 for Sunday inside H")
    return f"h({low}-{high})/{step}" if step else f"h({low}-{high})"


def _step(field: _Field, item: str, step: str | None, warnings: list[str]) -> int | None:
    if step is None:
        return None
    if int(step) == 0:
        raise _refused(
            field, item, "a step of at least 1", f"write {item.upper().partition('/')[0]}/1"
        )
    if int(step) > (6 if field is WEEKDAY else field.most) - field.least:
        warnings.append(
            f"{field.what} {item.upper()!r}: the step is longer than the field, "
            "so that only the first value is left"
        )
    return int(step)


def _value(field: _Field, text: str, item: str) -> int:
    value = int(text) if text.isdigit() else field.names.get(text)
    if value is None:
        raise _not_promised(field, item)
    if not field.least <= value <= field.most:
        raise InvalidTrigger(
            f"{field.what} is {text!r}, expected {field.expected}",
            hint=f"write a value within {field.expected}, or * for every one",
        )
    return value


def _reversed(field: _Field, item: str, *, low: int, high: int) -> InvalidTrigger:
    hint = "write the lower value first"
    if field is not DAY and not item.startswith("h"):
        wrapped = list(range(low, (6 if field is WEEKDAY else field.most) + 1))
        wrapped += [value for value in range(field.least, high + 1) if value not in wrapped]
        if len(wrapped) <= 12:
            by_number = {number: name.upper() for name, number in field.names.items()}
            hint = "write " + ",".join(by_number.get(n, str(n)) for n in wrapped)
    return _refused(field, item, "a range from low to high", hint)


def _refused(field: _Field, item: str, expected: str, hint: str) -> InvalidTrigger:
    return InvalidTrigger(f"{field.what} is {item.upper()!r}, expected {expected}", hint=hint)


def _not_promised(field: _Field, item: str) -> InvalidTrigger:
    """The error for an item that edgecron does not promise, named by what it looks like."""
    if _LONG_WORD.fullmatch(item) and item[:3] in field.names:
        return _refused(
            field, item, f"{field.expected}: names have three letters", f"write {item[:3].upper()}"
        )
    for pattern, what, hint in _STRANGERS:
        if re.search(pattern, item, re.ASCII):
            message = f"{field.what} is {item.upper()!r}, expected {field.expected}: {what}"
            return InvalidTrigger(message, hint=hint)
    close = suggest(item, field.names)
    return InvalidTrigger(
        f"{field.what} is {item.upper()!r}, expected {field.expected}, "
        "as a list, range or step or *",
        hint=f"write a value within {field.expected}, or * for every one"
        if close is None
        else f"did you mean {close.upper()}?",
    )


_STRANGERS = (
    (r"^$", "an item of a list is empty", "write values between the commas"),
    (r"\?", "? is not supported", "write * instead"),
    (r"^r(\(|/|$)", "R (a random time) is not supported",
     "write H: a stable time derived from the schedule's name"),
    (r"~", "~ (a random time) is not supported", "write H, such as H(0-29)"),
    (r"^(lw|wl)$", "LW is not supported", "write L, the last day, or L5, the last Friday"),
    (r"^l-", "L with an offset is not supported", "write L, the last day of the month"),
    (r"-l$", "a range to L is not supported", "write a range to 31: shorter months end earlier"),
    (r"^w\d+$", "W comes after the day", "write 15W"),
    (r"^\d+-\d+w$|^w$", "W needs one day", "write 15W"),
    (r"^(\d|[a-z]{3})l$|^l[a-z]{3}$", "the last weekday is written L and a number",
     "write L5 for the last Friday"),
    (r"-.*#|#.*-|\*#", "a range with # is not supported", "write each day: 1#2,2#2"),
    (r"^l\d*$", "L stands in the day fields only", "write L as day of month or L5 as day of week"),
    (r"^\d+w$", "W stands in the day of month only", "write 15W as day of month"),
    (r"#", "# stands in the day of week only", "write 5#2 or FRI#2 for the second Friday"),
    (r"^-", "negative numbers are not supported", "write a value or a range such as 1-5"),
    (r"^[a-z]{4,}", "names have three letters", "write JAN-DEC for a month, SUN-SAT for a weekday"),
    (r"\d{5}", "the number is too long", "write a value of the field"),
)  # fmt: skip


# Many schedules of a large document or crontab have the same text: to read one takes 0.3 ms.
@lru_cache(maxsize=256)
def expand(gated: Gated, text: str, *, hash_id: bytes | None) -> CronFields:
    """Expand a gated text; `hash_id` is what H is derived from, if the text has an H.

    Raises InvalidTrigger for a text that croniter refuses and for a date that can never come.
    """
    # croniter loads slower than all of edgecron, and commands that write no cron text need none.
    from croniter import CroniterError, croniter

    try:
        # Only the fields matter; with a start time, croniter reads no clock.
        read = croniter(
            " ".join(gated.fields),
            0.0,
            hash_id=hash_id if gated.has_hash else None,
            second_at_beginning=True,
        )
    except CroniterError as error:
        raise InvalidTrigger(
            f"cron text {text!r} is refused: {error}",
            hint="write minute hour day month weekday, such as '0 2 * * *'",
        ) from None
    # croniter's order: minute hour day month weekday second.
    minutes, hours, days, months, weekdays, seconds = read.expanded
    nearest = {int(day) for day in read.nearest_weekday}
    special = read.nth_weekday_of_month
    rule = DayRule(
        days=tuple(day for day in _values("days", days) if day not in nearest),
        last_day="l" in days,
        nearest=tuple(sorted(nearest)),
        months=_values("months", months),
        weekdays=tuple(day for day in _values("weekdays", weekdays) if day not in special),
        nth_weekdays=tuple(
            sorted((int(day), int(nth)) for day, nths in special.items() for nth in nths - {"l"})
        ),
        last_weekdays=tuple(sorted(int(day) for day, nths in special.items() if "l" in nths)),
        day_star=gated.fields[3].startswith("*"),
        weekday_star=gated.fields[5].startswith("*"),
    )
    if not rule.can_ever_match():
        raise InvalidTrigger(
            f"cron text {text!r} can never fire: none of its months has such a day",
            hint="write a day that its months have, or L for the last day of a month",
        )
    return CronFields(
        seconds=_values("seconds", seconds),
        minutes=_values("minutes", minutes),
        hours=_values("hours", hours),
        rule=rule,
        is_wildcard=gated.fields[1].startswith("*") or gated.fields[2].startswith("*"),
    )


def _values(key: str, expanded: Sequence[int | str]) -> tuple[int, ...]:
    if "*" in expanded:
        return tuple(RANGES[key])
    return tuple(sorted({value for value in expanded if isinstance(value, int)}))
