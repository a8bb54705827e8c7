"""Find the schedule that a crontab line became; make comments of lines that were moved."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping

from edgecron.base.errors import InvalidInput
from edgecron.base.values import replace
from edgecron.formats.crontab_lines import MOVED_PREFIX, Entry
from edgecron.formats.crontab_names import take_name
from edgecron.model.schedule import ScheduleSpec

# The parts of a schedule that identify its line.
_KEYS = ("triggers", "timezone", "command", "stdin", "env", "cwd", "user")


def imprint_of(spec: ScheduleSpec) -> str:
    """Write a line's content as canonical JSON, with hashes of command, input and values."""
    job = spec.job
    imprint = {
        "triggers": [" ".join(text.split()) for text in spec.triggers],
        "timezone": spec.timezone,
        "command": _hash([str(job.kind), *job.argv]),
        "stdin": _hash(job.stdin or ""),
        "env": {name: _hash(value) for name, value in sorted(job.env.items())},
        "cwd": job.cwd,
        "user": job.user,
    }
    return json.dumps(imprint, sort_keys=True, separators=(",", ":"))


def match_entries(
    entries: Iterable[Entry], imprints: Mapping[int, str]
) -> tuple[list[tuple[int, Entry]], list[Entry]]:
    """Find the schedule of each line, and the lines without one.

    `imprints` are those of schedules, by id. A schedule stands for one line: of two equal lines,
    the second can be without one.
    """
    waiting: defaultdict[str, deque[int]] = defaultdict(deque)
    for schedule_id, imprint in imprints.items():
        waiting[_key(imprint)].append(schedule_id)
    matches, rest = [], []
    for entry in entries:
        if found := waiting.get(_key(imprint_of(entry.spec))):
            matches.append((found.popleft(), entry))
        else:
            rest.append(entry)
    return matches, rest


def name_entries(entries: Iterable[Entry], taken: Iterable[str]) -> list[ScheduleSpec]:
    """Return the schedules of lines, with names that are not `taken`."""
    used = dict.fromkeys(taken, 1)
    return [replace(one.spec, name=take_name(one.stem, taken=used)) for one in entries]


def _key(imprint: str) -> str:
    # An imprint of an earlier version has more parts.
    found = json.loads(imprint)
    return json.dumps([found.get(name) for name in _KEYS], sort_keys=True)


def _hash(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def comment_out(content: bytes, line_numbers: Collection[int]) -> bytes:
    """Make these lines (from 1) comments by `# moved to edgecron: `.

    Everything else stays byte for byte, and a line that bears the mark already stays as it is.
    Raises InvalidInput if there is no such line.
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
    """Undo `comment_out`; return the content and the numbers of the moved lines."""
    mark = MOVED_PREFIX.encode()
    lines = content.split(b"\n")
    moved = {number for number, line in enumerate(lines, 1) if line.startswith(mark)}
    return b"\n".join(line.removeprefix(mark) for line in lines), moved
