"""The command of a line and its standard input, parted at the first `%` as cron does it."""

from __future__ import annotations


def split_percent(text: str) -> tuple[str, str | None]:
    """The command for the shell, and what it reads on stdin; None where there is nothing.

    A `%` behind a backslash is a plain `%`, and a backslash before anything else stays. In the
    command two backslashes are a pair, so `\\\\%` ends it; in the input only the last one counts.
    Input that does not end in a newline is given one.
    """
    if "%" not in text:
        return text, None
    command: list[str] = []
    is_escaped = False
    for position, letter in enumerate(text):
        if letter == "%":
            if not is_escaped:
                return "".join(command), _read_input(text[position + 1 :])
            command.pop()
        command.append(letter)
        is_escaped = letter == "\\" and not is_escaped
    return "".join(command), None


def _read_input(text: str) -> str | None:
    written: list[str] = []
    needs_newline = False
    is_escaped = False
    for letter in text:
        if is_escaped and letter != "%":
            written.append("\\")
        was_escaped, is_escaped = is_escaped, letter == "\\"
        if is_escaped:
            continue
        written.append("\n" if letter == "%" and not was_escaped else letter)
        needs_newline = written[-1] != "\n"
    if is_escaped:
        written.append("\\")
    if needs_newline:
        written.append("\n")
    return "".join(written) or None
