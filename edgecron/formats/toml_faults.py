"""Explain why a text is not TOML: the place, and the text to write instead."""

from __future__ import annotations

import re

from edgecron.base.values import NamedTuple

_CRON_LINE = re.compile(r"\s*(@[a-z]+|[\d*][\d*/,-]*(\s+[\w*/,-]+){4})\s", re.ASCII)
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_PAIR = re.compile(r"\s*(?P<key>[^=\s][^=]*?)\s*=\s*(?P<value>.*?)\s*$")
_WORDS = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_LONGEST = 60  # of a line that a hint repeats


class Fault(NamedTuple):
    """Why a text is not TOML. `column` is None at the end of the text, `line` if unknown."""

    words: str
    line: int | None = None
    column: int | None = None
    hint: str | None = None


_TWICE = "a table or key is given twice"


def explain_fault(error: ValueError, text: str) -> Fault:
    """Explain an error of `tomllib.loads`; an unknown fault has no hint."""
    message = str(error)
    place = _PLACE.search(message)
    if place is None:  # a number out of all bounds
        is_number = "int_max_str_digits" in message
        return Fault("a number in it is too long" if is_number else message)
    lines = text.rstrip("\n").split("\n")
    line = int(place[1] or len(lines))
    column = int(place[2]) if place[2] else None
    message = message[: place.start()]
    if text.lstrip()[:1] == "{":
        return Fault("it looks like JSON", line, column, 'write it as TOML: timeout = "1h"')
    written = lines[line - 1] if line <= len(lines) else ""
    rest = "" if column is None else written[column - 1 :].strip()
    if _CRON_LINE.match(written):
        return Fault("it looks like a crontab", line, column, "edgecron import crontab FILE")
    words, hint = _explain(message, written=written, rest=rest)
    first = _find_first(lines[: line - 1], written) if words == _TWICE else None
    if first is not None:
        words = f"{words}, first in line {first}"
    return Fault(words, line, column, hint)


def _find_first(before: list[str], written: str) -> int | None:
    """Find the line that gave a key or table before `written` gives it again."""
    name = written.partition("=")[0].strip()
    is_table = name.startswith("[")
    for number in range(len(before), 0, -1):
        line = before[number - 1].strip()
        if line.partition("=")[0].strip() == name:
            return number
        if not is_table and line.startswith("["):
            return None  # The key was given in another way, such as a.b.
    return None


def _explain(message: str, *, written: str, rest: str) -> tuple[str, str | None]:
    """Return words and a hint. `rest` is what follows the place in the line."""
    if re.search("[Cc]annot (declare .* twice|overwrite a value)", message):
        return _TWICE, "remove one of them"
    if message.startswith("Expected '='"):
        if rest[:1] == ":":
            return "a colon stands in place of =", 'for example: timeout = "1h"'
        return "= is missing after a key", 'for example: timeout = "1h"'
    is_open = not rest and written.rstrip()[-1:] in "[,"
    if message.startswith("Unclosed array") or (message.startswith("Invalid value") and is_open):
        hint = "put a comma between two items, and ] after the last one"
        return "an array lacks a comma or its closing ]", hint
    if message.startswith("Unclosed inline table") or (not rest and written.rstrip()[-1:] == "{"):
        hint = "put a comma between two pairs, and } after the last one in the same line"
        return "a table in braces lacks a comma or its closing }", hint
    if message.startswith("Invalid value"):
        return _explain_value(written, rest)
    if message.startswith("Expected newline"):
        return _explain_rest(written, rest)
    if message.startswith("Unescaped '\\'"):
        hint = "put the text in single quotes, or write each backslash twice"
        return "a backslash in double quotes begins an escape", hint
    if message.startswith(("Illegal character '\\n'", "Illegal character '\\r'")):
        return "a text has no closing quote in its line", _closed(written)
    if message.startswith("Illegal character"):
        return (
            "a control character stands in a text",
            "write it as an escape, such as \\t or \\u001b",
        )
    if message.startswith(
        ("Unterminated string", 'Expected "\'"', "Expected '\"", "Expected \"'''")
    ):
        return "a text has no closing quote", "look for the quote that opens it, and close it"
    if message.startswith("Invalid initial character for a key part") and rest[:1] == "}":
        return "a comma stands before }", "remove this comma"
    if message.startswith(("Expected ']'", "Invalid initial character")) and "[" in written:
        return _explain_heading(written, rest)
    if message.startswith("Invalid statement") and rest[:2] != "//":
        return "a line begins with neither a key nor a heading", None
    if rest[:2] == "//":
        return "a comment begins with //", "write # before a comment"
    return f"{message[:1].lower()}{message[1:]}", None


def _explain_heading(written: str, rest: str) -> tuple[str, str | None]:
    heading = written.strip()
    if not rest and len(heading) <= _LONGEST:
        return "a heading has no closing ]", f"close it: {heading}{heading.count('[') * ']'}"
    hint = "use letters from a to z, digits, - and _ between the brackets"
    return "a heading holds a name that needs quotes, or none", hint


def _explain_value(written: str, rest: str) -> tuple[str, str | None]:
    value = rest.partition(" #")[0].strip()
    pair = _pair_of(written)
    if value[:1] == "=":
        meant = value.lstrip("= ")
        hint = f"did you mean {pair['key']} = {meant}?" if pair else "write a single ="
        return "= is written twice", hint
    if not value or value[:1] in "#,]}":
        return "a value is missing", 'for example: timeout = "1h"'
    meant = _WORDS.get(value.lower(), value.lower())
    if meant in ("true", "false"):
        hint = "write true or false" if pair is None else f"did you mean {pair['key']} = {meant}?"
        return f"{value} is not a value", hint
    return "a text has no quotes", _quoted(written)


def _explain_rest(written: str, rest: str) -> tuple[str, str | None]:
    if rest[:2] == "//":
        return "a comment begins with //", "write # before a comment"
    if written.lstrip()[:1] == "[":
        return "more text follows after a heading", "begin a new line after it"
    pair = _pair_of(written)
    number = "" if pair is None else pair["value"].partition(" #")[0].strip()
    if pair is not None and number.isdigit() and number[0] == "0":
        hint = f"did you mean {pair['key']} = {int(number)}?"
        return f"the number {number} begins with 0", hint
    if pair is not None and pair["value"][:1] not in "\"'[{":
        return "a value is neither a number nor text in quotes", _quoted(written)
    return "more text follows after a value", "begin a new line after each value"


def _pair_of(written: str) -> re.Match[str] | None:
    """Split a short line into key and value; a long one is not repeated in a hint."""
    return _PAIR.match(written) if len(written) <= _LONGEST else None


def _quoted(written: str) -> str:
    """Suggest the line with its value in quotes, if that is sure to be right."""
    pair = _pair_of(written)
    value = "" if pair is None else pair["value"].partition(" #")[0].strip()
    if pair is None or not value or set(value) & set("\"'\\[]{},="):
        return 'put text in quotes: timeout = "1h"'
    return f'put it in quotes: {pair["key"]} = "{value}"'


def _closed(written: str) -> str:
    """Suggest the line with a closing quote, if that is sure to be right."""
    pair = _pair_of(written)
    value = "" if pair is None else pair["value"]
    quote = value[:1]
    if (
        pair is None
        or quote not in ('"', "'")
        or value.count(quote) != 1
        or set(value) & set("#\\")
    ):
        return "put a quote at the end of the text"
    return f"close the quote: {pair['key']} = {value}{quote}"
