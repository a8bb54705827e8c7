"""What any trigger text may be, before it is known what kind it is of."""

from __future__ import annotations

from edgecron.base.errors import InvalidTrigger

MAX_LENGTH = 256


def check_text(text: object) -> str:
    """The text with single spaces, before anything else looks at it.

    Raises InvalidTrigger unless it is at most 256 printable ASCII characters, and some.
    """
    if not isinstance(text, str):
        raise InvalidTrigger(
            f"trigger is a {type(text).__name__}, expected a text", hint="write '0 2 * * *'"
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
    return " ".join(text.split())
