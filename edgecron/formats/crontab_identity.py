"""Find the schedule that a crontab line became, also after a change; comment moved lines out."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

from edgecron.base.errors import InvalidInput
from edgecron.base.values import dataclass, replace
from edgecron.formats.crontab_lines import MOVED_PREFIX, Entry
from edgecron.formats.crontab_names import suggest_stem, take_name
from edgecron.model.job import Job
from edgecron.model.schedule import Imported, ScheduleSpec

# The parts of a schedule that a crontab line decides. People decide the other parts.
_KEYS = ("triggers", "timezone", "command", "stdin", "env", "cwd", "user", "notify")
Imprint = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line and the schedule that it became, with what has changed since on either side.

    `env_at_import` has the hashes of the line's variables at its import. `is_same_now`: line and
    schedule say the same, whatever has changed.
    """

    entry: Entry
    schedule_id: int
    is_removed: bool
    changed_in_crontab: tuple[str, ...]
    changed_in_edgecron: tuple[str, ...]
    env_at_import: Mapping[str, str]
    is_same_now: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Entries against the schedules that exist: `new` to be added, `known` there already.

    Both bear the names that they have, or will have, in the database.
    """

    new: tuple[Entry, ...] = ()
    known: tuple[Entry, ...] = ()


def imprint_of(spec: ScheduleSpec) -> str:
    """Write a line's content as canonical JSON, with hashes of command, input and values."""
    return json.dumps(_imprint(spec), sort_keys=True, separators=(",", ":"))


def match_entries(
    entries: Iterable[Entry],
    imported: Iterable[Imported],
    specs: Mapping[int, ScheduleSpec],
    *,
    source: str,
    is_exact: bool = False,
) -> tuple[list[Match], list[Entry]]:
    """Find the schedule that each line became, and the lines that became none yet.

    `specs` are the schedules that exist, by id. A line that says the same as at its import is
    found whatever its file is called now. A changed line is found among those of `source`, or not
    at all if `is_exact`.
    """
    # A schedule that exists comes before a removed one that the same line made earlier.
    ordered = sorted(imported, key=lambda one: one.schedule_id not in specs)
    left = {one.schedule_id: (one, _read(one)) for one in ordered}
    matches: dict[int, Match] = {}
    entries = list(entries)
    for level, key_of in enumerate(_LEVELS[:1] if is_exact else _LEVELS):
        waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
        for schedule_id, (one, imprint) in left.items():
            if level == 0 or one.source in (None, source):
                waiting[key_of(imprint)].append(schedule_id)
        for number, entry in enumerate(entries):
            if number in matches:
                continue
            now = _imprint(entry.spec)
            found = waiting.get(key_of(now))
            if found:
                schedule_id = found.popleft()
                before = left.pop(schedule_id)[1]
                matches[number] = _match(entry, schedule_id, before, now, specs.get(schedule_id))
    rest = [entry for number, entry in enumerate(entries) if number not in matches]
    return [matches[number] for number in sorted(matches)], rest


def find_gone(
    moved: Iterable[Entry],
    imported: Iterable[Imported],
    specs: Mapping[int, ScheduleSpec],
    *,
    source: str,
    found: Collection[int],
) -> list[int]:
    """List the schedules from `source` whose lines it no longer has, by id.

    `found` are the schedules of its lines; `moved` are lines that an import made comments of.
    """
    left = [
        one
        for one in imported
        if one.source == source and one.schedule_id in specs and one.schedule_id not in found
    ]
    stay, _ = match_entries(moved, left, specs, source=source)
    moved_ids = {match.schedule_id for match in stay}
    return [one.schedule_id for one in left if one.schedule_id not in moved_ids]


def take_line(spec: ScheduleSpec, match: Match) -> ScheduleSpec:
    """Change in a schedule what has changed in the crontab; a person's other changes stay."""
    theirs, changed = match.entry.spec, match.changed_in_crontab
    job: Job = spec.job
    if "command" in changed:
        job = replace(job, kind=theirs.job.kind, argv=theirs.job.argv)
    if "stdin" in changed:
        job = replace(job, stdin=theirs.job.stdin)
    if "cwd" in changed:
        job = replace(job, cwd=theirs.job.cwd)
    if "user" in changed:
        job = replace(job, user=theirs.job.user)
    if "env" in changed:
        job = replace(job, env=_take_env(job.env, theirs.job.env, match.env_at_import))
    spec = replace(spec, job=job)
    if "triggers" in changed:
        spec = replace(spec, triggers=theirs.triggers)
    if "notify" in changed:
        policies = replace(spec.policies, notify=theirs.policies.notify)
        spec = replace(spec, policies=policies)
    return replace(spec, timezone=theirs.timezone) if "timezone" in changed else spec


def _take_env(
    ours: Mapping[str, str], theirs: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str]:
    """Change variables that changed in the crontab; `before` are the hashes at the import."""
    changed = {name for name in {*before, *theirs} if before.get(name) != _hash_of(theirs, name)}
    kept = {name: value for name, value in ours.items() if name not in changed}
    return kept | {name: theirs[name] for name in theirs if name in changed}


def _hash_of(env: Mapping[str, str], name: str) -> str | None:
    return _hash(env[name]) if name in env else None


def _match(
    entry: Entry,
    schedule_id: int,
    before: Imprint,
    now: Imprint,
    spec: ScheduleSpec | None,
) -> Match:
    ours = None if spec is None else _imprint(spec)
    if ours is not None and not before.get("notify") and not now["notify"]:
        ours = {**ours, "notify": []}  # Without a MAILTO, the crontab does not decide it.
    env = before.get("env")
    return Match(
        entry=entry,
        schedule_id=schedule_id,
        is_removed=spec is None,
        changed_in_crontab=_changed(before, now),
        changed_in_edgecron=() if ours is None else _changed(before, ours),
        env_at_import=env if isinstance(env, dict) else {},
        is_same_now=ours is not None and not _changed(ours, now),
    )


def _changed(before: Imprint, after: Imprint) -> tuple[str, ...]:
    # An imprint of an older version has no `notify`: it did not import MAILTO.
    return tuple(key for key in _KEYS if (before.get(key) or None) != (after.get(key) or None))


def _imprint(spec: ScheduleSpec) -> Imprint:
    job = spec.job
    return {
        "triggers": [" ".join(text.split()) for text in spec.triggers],
        "timezone": spec.timezone,
        "command": _hash([str(job.kind), *job.argv]),
        "stem": suggest_stem(job.argv[0]) if job.argv else "",
        "stdin": _hash(job.stdin or ""),
        "env": {name: _hash(value) for name, value in sorted(job.env.items())},
        "cwd": job.cwd,
        "user": job.user,
        "notify": list(spec.policies.notify),
    }


def _read(imported: Imported) -> Imprint:
    if imported.spec is not None:
        return _imprint(imported.spec)
    found = json.loads(imported.imprint or "{}")
    return found if isinstance(found, dict) else {}


def _hash(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _key(*names: str) -> Callable[[Imprint], Hashable]:
    return lambda imprint: json.dumps([imprint.get(name) for name in names], sort_keys=True)


# From certain to likely: the same line; its variables, its time or its command changed.
_LEVELS = (
    _key(*(key for key in _KEYS if key != "notify")),
    _key("triggers", "command", "user"),
    _key("command", "user"),
    _key("triggers", "stem", "user"),
)


def find_new(
    entries: Iterable[Entry],
    existing: Iterable[ScheduleSpec],
    *,
    taken: Collection[str] = (),
) -> Comparison:
    """Divide entries into those without a schedule and those that have one.

    An existing schedule stands for one line: of two equal lines, one can be new. New ones get
    names that are neither an existing schedule's nor in `taken`; known ones bear the existing name.
    """
    specs = dict(enumerate(existing))
    there = [
        Imported(schedule_id=number, source=None, imprint=None, spec=spec)
        for number, spec in specs.items()
    ]
    same, rest = match_entries(entries, there, specs, source="", is_exact=True)
    used = dict.fromkeys([*taken, *(spec.name for spec in specs.values())], 1)
    return Comparison(
        new=tuple(_rename(entry, take_name(entry.stem, taken=used)) for entry in rest),
        known=tuple(_rename(one.entry, specs[one.schedule_id].name) for one in same),
    )


def _rename(entry: Entry, name: str) -> Entry:
    return replace(entry, spec=replace(entry.spec, name=name))


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
