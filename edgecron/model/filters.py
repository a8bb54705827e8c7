"""Filters of lists: `status:failed,interrupted job:back !cause:manual "two words"`.

All terms must match; one of the values of a term is enough. `!` negates a term. A word without a
key is searched in the name, as `job:` is: its letters in this order, with any others between them.
`command:restic` is searched in the command of a schedule. `took:>5m since:yesterday until:09:00`
compare runs. `due:03` finds schedules that run between 03:00 and 04:00 within the next seven days;
`due:22-05` and `due:"03:00-04:30 MON"` are windows, too. A key that a list does not have is ignored
there: `cause:` for schedules, `state:` for runs. The first letters of a key or value suffice if no
other one begins with them: `status:fail`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Protocol, TypeVar

from edgecron.base.checks import suggest
from edgecron.base.errors import InvalidInput
from edgecron.base.units import parse_duration_ms
from edgecron.base.values import dataclass
from edgecron.base.window_texts import hours_of
from edgecron.model.choices import Cause, Reason, Status

STATES = ("active", "paused", "broken", "vanished", "done")
NO_REASON = "none"  # as a value of `reason`: a run that has none

_NAME, _GROUP, _COMMAND = "job", "group", "command"
_TOOK, _SINCE, _UNTIL, _DUE = "took", "since", "until", "due"
_ALIASES = {"name": _NAME, "schedule": _NAME, "cmd": _COMMAND, "duration": _TOOK}
_VALUES: dict[str, tuple[str, ...]] = {
    "status": tuple(status.value for status in Status),
    "cause": tuple(cause.value for cause in Cause),
    "reason": (*(reason.value for reason in Reason), NO_REASON),
    "state": STATES,
}
_KEYS = (
    *("status", _NAME, _COMMAND, _DUE, _TOOK, _SINCE, _UNTIL, "cause", "reason", "state", _GROUP),
)
_OF_SCHEDULES = ("status", _NAME, _COMMAND, _DUE, "state", _GROUP)
_OF_FIRES = (_NAME, _COMMAND, _DUE)
_OF_RUNS = ("status", _NAME, _COMMAND, _TOOK, _SINCE, _UNTIL, "cause", "reason")
_EXAMPLES = {
    _TOOK: "such as took:>5m or took:<10s",
    _SINCE: "such as since:yesterday or since:2h",
    _UNTIL: "such as until:09:00",
    _DUE: 'such as due:03, due:22-05 or due:"03:00-04:30 MON-FRI"',
    _COMMAND: "write a part of a command",
}

# Negations, a key, and the values, with quoted and other parts.
_TERM = re.compile(r"""(!*)(?:([^\s"!:,]*):)?((?:"[^"]*"|[^\s"])*)""")
_BLANKS = re.compile(r"\s*")
_PART = re.compile(r'"([^"]*)"|([^",]+)|(,)')
_BOUND = re.compile(r"([<>])=?\s*(\S.*)", re.DOTALL)
ReadTime = Callable[[str], datetime]


_T = TypeVar("_T", bound=str | None)


class ScheduleKeys(Protocol):
    """The values of a schedule that a filter reads.

    `last_status` is the value of a Status, `job` the stored text of the job.
    """

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def last_status(self) -> str | None: ...
    @property
    def group(self) -> str | None: ...
    @property
    def job(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A term of a filter. One of its `values`, in lower case, must match."""

    key: str
    values: tuple[str, ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuestion:
    """A filter of runs: the values to include, or () for any value.

    A reason of None is a run without a reason. `names` filters schedules by name and command; None
    is any schedule. A run took at least `least_ms` and at most `most_ms`, and started within
    `since` and `until`. `is_impossible`: no run can match.
    """

    statuses: tuple[Status, ...] = ()
    causes: tuple[Cause, ...] = ()
    reasons: tuple[Reason | None, ...] = ()
    names: Filter | None = None
    least_ms: int | None = None
    most_ms: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    is_impossible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The text of a filter, and its terms. Without terms, everything matches."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    def matches_schedule(self, keys: ScheduleKeys) -> bool:
        """Whether a schedule matches all terms whose keys schedules have."""
        for term in self.terms:
            found = _ask_schedule(term, keys)
            if found is not None and found is term.is_negated:
                return False
        return True

    def run_question(self) -> RunQuestion:
        """The terms whose keys runs have, as values to include."""
        statuses = self._included("status", tuple(Status))
        causes = self._included("cause", tuple(Cause))
        reasons = self._included("reason", (*Reason, None))
        bounds = [_bound(text) for text in self._values(_TOOK)]
        return RunQuestion(
            least_ms=max((ms for sign, ms in bounds if sign == ">"), default=None),
            most_ms=min((ms for sign, ms in bounds if sign == "<"), default=None),
            since=max(map(datetime.fromisoformat, self._values(_SINCE)), default=None),
            until=min(map(datetime.fromisoformat, self._values(_UNTIL)), default=None),
            statuses=statuses or (),
            causes=causes or (),
            reasons=reasons or (),
            names=self if self.has_names else None,
            is_impossible=() in (statuses, causes, reasons),
        )

    @property
    def has_names(self) -> bool:
        """Whether a term filters schedules of runs, by name or command."""
        return self.has_commands or any(term.key == _NAME for term in self.terms)

    @property
    def has_commands(self) -> bool:
        """Whether a term filters commands."""
        return any(term.key == _COMMAND for term in self.terms)

    @property
    def due_windows(self) -> tuple[str, ...]:
        """The windows of the local week in which a schedule must have a time; () for any time."""
        return tuple(self._values(_DUE))

    def matches_name(self, name: str, *, job: str = "") -> bool:
        """Whether a name, and the stored text of a job, match all terms that filter them."""
        lower, command = name.lower(), _command_of(job) if self.has_commands else ""
        for term in self.terms:
            if term.key == _NAME and _is_any_in(term.values, lower) is term.is_negated:
                return False
            if term.key == _COMMAND and _is_part_of(term.values, command) is term.is_negated:
                return False
        return True

    def _values(self, key: str) -> list[str]:
        return [value for term in self.terms if term.key == key for value in term.values]

    @property
    def unused_on_schedules(self) -> tuple[str, ...]:
        """The keys that are ignored for schedules."""
        return self._keys_but(_OF_SCHEDULES)

    @property
    def unused_on_fires(self) -> tuple[str, ...]:
        """The keys that are ignored for upcoming runs."""
        return self._keys_but(_OF_FIRES)

    @property
    def unused_on_runs(self) -> tuple[str, ...]:
        """The keys that are ignored for runs."""
        return self._keys_but(_OF_RUNS)

    def _keys_but(self, known: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term.key for term in self.terms if term.key not in known))

    def _included(self, key: str, every: tuple[_T, ...]) -> tuple[_T, ...] | None:
        """The values that match all terms of a key; None if there is no such term."""
        terms = [term for term in self.terms if term.key == key]
        if not terms:
            return None
        return tuple(
            value
            for value in every
            if all(((value or NO_REASON) in term.values) is not term.is_negated for term in terms)
        )


def parse_filter(text: str, *, read_time: ReadTime | None = None) -> Filter:
    """The filter of a text; a blank one matches everything.

    `read_time` reads the times of `since:` and `until:`; without it, they are not read. Raises
    InvalidInput for an unknown key or value, and suggests a similar one.
    """
    terms = tuple(_terms(text, read_time))
    if sum(term.key == _DUE for term in terms) > 1:
        raise InvalidInput(
            "due is given twice, expected once", hint='such as due:03,05 or due:"03:00-04:00 MON"'
        )
    return Filter(text=text, terms=terms)


def _terms(text: str, read_time: ReadTime | None) -> Iterator[Term]:
    if text.count('"') % 2:
        raise InvalidInput("a quote is not closed", hint='write "two words"')
    at = 0
    while (at := _end_of_blanks(text, at)) < len(text):
        found = _TERM.match(text, at)
        assert found is not None  # The pattern also matches the empty text.
        at = found.end()
        yield _term(found[1], found[2], found[3], read_time)


def _end_of_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _term(nots: str, key: str | None, rest: str, read_time: ReadTime | None) -> Term:
    is_negated = len(nots) % 2 == 1
    if key is None:
        values: tuple[str, ...] = (_unquoted(rest),)
        name = _NAME
    else:
        name = _resolve_key(key)
        values = tuple(value for value in _values(rest) if value)
    if not any(values):
        what = f"{key}:" if key is not None else nots or '""'
        raise InvalidInput(f"nothing follows {what!r}", hint=_hint_of(name))
    if is_negated and name in (_TOOK, _SINCE, _UNTIL, _DUE):
        raise InvalidInput(f"{name} can't be negated", hint=_EXAMPLES[name])
    if name == _TOOK:
        for value in values:
            _bound(value)
    if name == _DUE:
        values = tuple(map(_hours, values))
    if name in (_SINCE, _UNTIL) and read_time is not None:
        values = tuple(read_time(value).isoformat() for value in values)
    if name in _VALUES:
        values = tuple(_resolve_value(name, value) for value in values)
    return Term(key=name, values=tuple(dict.fromkeys(values)), is_negated=is_negated)


def _values(rest: str) -> list[str]:
    """Split values at commas outside quotes."""
    values = [""]
    for quoted, bare, comma in _PART.findall(rest):
        if comma:
            values.append("")
        else:
            values[-1] += (quoted or bare).lower()
    return values


def _unquoted(rest: str) -> str:
    return rest.replace('"', "").lower()


def _resolve_key(written: str) -> str:
    known = {**{key: key for key in _KEYS}, **_ALIASES}
    found = {known[name] for name in _begun_by(written.lower(), tuple(known))}
    if len(found) != 1:
        hint = _meant(written.lower(), tuple(known)) or f"known are {_listed(_KEYS)}"
        raise InvalidInput(f"{written[:40]!r} is not a field to filter by", hint=hint)
    return found.pop()


def _resolve_value(key: str, written: str) -> str:
    value = written.replace("-", "_")
    found = _begun_by(value, _VALUES[key])
    if len(found) != 1:
        hint = _meant(value, _VALUES[key]) or _hint_of(key)
        raise InvalidInput(f"{key} is {written[:40]!r}, which is not one of its values", hint=hint)
    return found[0]


def _begun_by(written: str, known: tuple[str, ...]) -> list[str]:
    """Return a name itself, or the names that begin with its letters."""
    if written in known:
        return [written]
    return [name for name in known if written and name.startswith(written)]


def _hint_of(key: str) -> str:
    if key in _VALUES:
        return f"{key} is one of {_listed(_VALUES[key])}"
    if key in _EXAMPLES:
        return _EXAMPLES[key]
    return f"write a part of a {'group' if key == _GROUP else 'name'}"


def _meant(written: str, known: tuple[str, ...]) -> str | None:
    begun = _begun_by(written, known)
    near = begun[0] if begun else suggest(written[:40], known)
    return f"did you mean {near}?" if near else None


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _ask_schedule(term: Term, keys: ScheduleKeys) -> bool | None:
    """Whether a schedule has one of a term's values; None if schedules don't have its key."""
    if term.key == _NAME:
        return _is_any_in(term.values, keys.name.lower())
    if term.key == "status":
        return keys.last_status in term.values
    if term.key == "state":
        return keys.state in term.values
    if term.key == _COMMAND:
        return _is_part_of(term.values, _command_of(keys.job))
    if term.key == _GROUP:
        return _is_part_of(term.values, keys.group)
    return None


def _bound(text: str) -> tuple[str, int]:
    """Return `>` or `<` and milliseconds. Raises InvalidInput."""
    found = _BOUND.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"took is {text[:40]!r}, expected > or < and a duration", hint=_EXAMPLES[_TOOK]
        )
    return found[1], parse_duration_ms(found[2])


def _hours(text: str) -> str:
    """Return an hour or a window as the text of a window. Raises InvalidInput."""
    try:
        return hours_of(text)
    except InvalidInput:
        raise InvalidInput(
            f"due is {text[:40]!r}, expected an hour or a window", hint=_EXAMPLES[_DUE]
        ) from None


def _command_of(job: str) -> str:
    """Return the words of a stored job; its text if it can't be read."""
    try:
        found = json.loads(job)
    except ValueError:
        return job
    return " ".join(map(str, found)) if isinstance(found, list) else str(found)


def _is_part_of(values: Iterable[str], group: str | None) -> bool:
    return group is not None and any(value in group.lower() for value in values)


def _is_any_in(values: Iterable[str], lower: str) -> bool:
    return any(value in lower or _has_in_order(lower, value) for value in values)


def _has_in_order(text: str, letters: str) -> bool:
    at = 0
    for letter in letters:
        at = text.find(letter, at) + 1
        if at == 0:
            return False
    return True


_BEGINS, _BEGINS_A_WORD, _CONTAINS, _IN_ORDER = range(4)
_MOST_SPREAD = 10_000


def rank_of(text: str, letters: str) -> int | None:
    """How near a text is to the letters, lower is nearer; None without all letters in this order.

    Nearest is a text that begins with the letters, then one with a word that does, then one that
    contains them together. Last comes one with other letters between them, the fewer the nearer.
    """
    lower, wanted = text.lower(), letters.lower()
    if lower.startswith(wanted):
        return _BEGINS * _MOST_SPREAD + min(len(lower) - len(wanted), _MOST_SPREAD - 1)
    at = lower.find(wanted)
    while at >= 0:
        if not lower[at - 1].isalnum():
            return _BEGINS_A_WORD * _MOST_SPREAD + min(at, _MOST_SPREAD - 1)
        at = lower.find(wanted, at + 1)
    at = lower.find(wanted)
    if at >= 0:
        return _CONTAINS * _MOST_SPREAD + min(at, _MOST_SPREAD - 1)
    first, end = -1, 0
    for letter in wanted:
        if letter == " ":
            continue
        at = lower.find(letter, end)
        if at < 0:
            return None
        first, end = (at if first < 0 else first), at + 1
    return _IN_ORDER * _MOST_SPREAD + min(end - first, _MOST_SPREAD - 1)
