"""What `promtool check metrics` finds wrong with a text of metrics, by the rules of its source
(prometheus/client_golang, prometheus/testutil/promlint), and by those of the format itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
_BASES = {
    "seconds": (
        "second",
        "s",
        "minute",
        "minutes",
        "hour",
        "hours",
        "day",
        "days",
        "week",
        "weeks",
    ),
    "bytes": ("byte", "b", "bit", "bits"),
    "meters": ("meter", "inch", "inches", "yard", "yards", "mile", "miles"),
    "grams": ("gram", "ounce", "ounces", "pound", "pounds"),
    "celsius": ("kelvin", "kelvins", "fahrenheit", "rankine"),
    "joules": ("joule", "calorie", "calories"),
    "ratio": ("percent",),
    "volts": ("volt",),
    "amperes": ("ampere",),
}
_PREFIXES = (
    *("pico", "nano", "micro", "milli", "centi", "deci", "deca", "hecto", "kilo", "kibi"),
    *("mega", "mebi", "giga", "gibi", "tera", "tebi", "peta", "pebi"),
)
_ABBREVIATIONS = frozenset(
    {
        *("s", "ms", "us", "ns", "sec", "m", "h", "d", "b", "kb", "mb", "gb", "tb", "pb"),
        *("kib", "mib", "gib", "tib", "pib"),
    }
)


@dataclass(frozen=True)
class Head:
    """A family as its head has it, with its lines."""

    name: str
    kind: str
    help: str
    samples: tuple[Sample, ...]


def lint(text: str) -> list[str]:
    """Every problem, as `NAME: WORDS`; none where there is none."""
    problems = [*_find_disorder(text)]
    for head in _heads(text):
        problems += [
            f"{head.name}: {words}" for rule in _RULES for words in rule(head) if words is not None
        ]
    return problems


def _heads(text: str) -> Iterator[Head]:
    for family in text_string_to_metric_families(text):
        # The library takes the suffix of a counter away, and promtool does not.
        names = {family.name, f"{family.name}_total"} & set(_names(text))
        name = min(names, default=family.name)
        yield Head(name, family.type, family.documentation, tuple(family.samples))


def _names(text: str) -> list[str]:
    return re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)


def _find_disorder(text: str) -> Iterator[str]:
    """A family has one head, HELP and TYPE, before its lines, which are together."""
    done: set[str] = set()
    current = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            if current in done:
                yield f"{current}: a second head"
            done.add(current)
        elif line.startswith("# TYPE "):
            if line.split(" ")[2] != current:
                yield f"{line.split(' ')[2]}: a type without a help text before it"
        else:
            name = re.split(r"[{ ]", line)[0]
            if re.sub(r"_(bucket|sum|count)$", "", name) != current and name != current:
                yield f"{name}: a line that is not below its head"
    if not text.endswith("\n"):
        yield "the last line has no end"


def _lint_help(head: Head) -> Iterator[str]:
    if not head.help:
        yield "no help text"


def _lint_unit(head: Head) -> Iterator[str]:
    for part in head.name.split("_"):
        for base, others in _BASES.items():
            plain = next((p for p in _PREFIXES if part.startswith(p)), "")
            if part.removeprefix(plain) in (*others, *([base] if plain else [])):
                yield f'use base unit "{base}" instead of "{part}"'


def _lint_counter(head: Head) -> Iterator[str]:
    if head.kind == "counter" and not head.name.endswith("_total"):
        yield 'counter metrics should have "_total" suffix'
    if head.kind != "counter" and head.name.endswith("_total"):
        yield 'non-counter metrics should not have "_total" suffix'


def _lint_reserved(head: Head) -> Iterator[str]:
    if head.kind in ("histogram", "summary"):
        return
    for suffix in ("_bucket", "_count", "_sum"):
        if head.name.endswith(suffix):
            yield f'non-histogram metrics should not have "{suffix}" suffix'
    for label in ("le", "quantile"):
        if any(label in sample.labels for sample in head.samples):
            yield f'non-histogram metrics should not have "{label}" label'


def _lint_type_in_name(head: Head) -> Iterator[str]:
    for kind in _TYPES:
        if kind in head.name.split("_"):
            yield f"metric name should not include type '{kind}'"


def _lint_letters(head: Head) -> Iterator[str]:
    if ":" in head.name:
        yield "metric names should not contain ':'"
    for name in {head.name, *(label for sample in head.samples for label in sample.labels)}:
        if re.search(r"[a-z][A-Z]", name):
            yield f"{name} should be in snake_case"


def _lint_abbreviation(head: Head) -> Iterator[str]:
    if _ABBREVIATIONS & set(head.name.lower().split("_")):
        yield "metric names should not contain abbreviated units"


def _lint_twice(head: Head) -> Iterator[str]:
    keys = [(one.name, *sorted(one.labels.items())) for one in head.samples]
    if len(keys) != len(set(keys)):
        yield "metric not unique"


_RULES: tuple[Callable[[Head], Iterator[str]], ...] = (
    _lint_help,
    _lint_unit,
    _lint_counter,
    _lint_reserved,
    _lint_type_in_name,
    _lint_letters,
    _lint_abbreviation,
    _lint_twice,
)
