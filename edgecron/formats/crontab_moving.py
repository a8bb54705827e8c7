"""The crontab in which cron no longer runs what was moved."""

from __future__ import annotations

from collections.abc import Collection

from edgecron.base.errors import InvalidInput
from edgecron.formats.crontab_comments import MOVED_PREFIX


def comment_out(content: bytes, line_numbers: Collection[int]) -> bytes:
    """The content with these lines (from 1) made comments by `# moved to edgecron: `.

    Everything else stays byte for byte, and a line that bears the mark already stays as it is.
    Raises InvalidInput where there is no such line.
    """
    mark = MOVED_PREFIX.encode()
    lines = content.split(b"\n")
    line_count = len(lines) if lines[-1] else len(lines) - 1
    for number in set(line_numbers):
        if not 1 <= number <= line_count:
            raise InvalidInput(f"line {number} is not in the crontab, which has {line_count}")
        if not lines[number - 1].startswith(mark):
            lines[number - 1] = mark + lines[number - 1]
    return b"\n".join(lines)


def put_back(content: bytes) -> tuple[bytes, set[int]]:
    """The content with the lines that `comment_out` has moved as they were, and their numbers."""
    mark = MOVED_PREFIX.encode()
    lines = content.split(b"\n")
    moved = {number for number, line in enumerate(lines, 1) if line.startswith(mark)}
    return b"\n".join(line.removeprefix(mark) for line in lines), moved
