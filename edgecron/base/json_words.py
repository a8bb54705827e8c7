"""Say in plain words why a text is not JSON."""

from __future__ import annotations

from json import JSONDecodeError


def json_words(error: ValueError) -> str:
    """Say what is wrong with a text that is not JSON, and where.

    Python's own messages name its grammar ("Expecting value"), and differ between its versions.
    Other errors of `read_json` and `check_json` have plain words already.
    """
    if isinstance(error, JSONDecodeError):
        return _words_of(error)
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8"
    if "int_max_str_digits" in str(error):
        return "a number in it is too long"
    return str(error)


def _words_of(error: JSONDecodeError) -> str:
    text, at, message = error.doc, error.pos, error.msg
    if not text.strip():
        return "it is empty"
    if message.startswith("Unterminated string"):
        return f"the text that begins {_place(text, at)} has no closing quote"
    if message.startswith("Invalid control character"):
        return f"a text holds a line break or a tab {_place(text, at)}; write \\n or \\t"
    if message.startswith("Invalid \\"):
        return f"the backslash {_place(text, at)} begins no escape of JSON; write two for one"
    if message.startswith("Extra data"):
        return f"more text follows after its end, {_place(text, at)}"
    before, rest = text[:at].rstrip(), text[at:].lstrip(" \t\r\n,")
    if not rest:
        return "it ends too early, without the closing bracket or the last value"
    if rest[0] in "]}" and f"{before}{text[at]}".rstrip("]}").endswith(","):
        return f"a comma stands before {rest[0]}, and nothing follows the comma"
    place = _place(text, at)
    if rest[0] == "'":
        return f"text needs double quotes, but a single quote stands {place}"
    if message.startswith("Expecting property name"):
        return f"a key in double quotes is missing {place}"
    if message.startswith("Expecting ':'"):
        return f"a colon after the key is missing {place}"
    if message.startswith("Expecting ','"):
        return f"a comma is missing {place}"
    return f"a value is missing {place}; text needs double quotes"


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return f"at character {column}" if "\n" not in text else f"at line {line}, character {column}"
