"""Which entries of a crontab are schedules already, so that a second import adds nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

from edgecron.base.values import replace
from edgecron.formats.crontab_names import take_name
from edgecron.formats.crontab_values import Comparison, Entry
from edgecron.model.schedule import ScheduleSpec

Fingerprint = tuple[object, ...]


def fingerprint(spec: ScheduleSpec) -> Fingerprint:
    """What makes two schedules the same line of a crontab: when, what, as whom and with what.

    Neither name, description nor policies: a person may have changed those since an import.
    """
    job = spec.job
    return (
        tuple(" ".join(trigger.split()) for trigger in spec.triggers),
        spec.timezone,
        job.kind,
        job.argv,
        job.stdin or "",
        tuple(sorted(job.env.items())),
        job.cwd,
        job.user,
    )


def find_new(
    entries: Iterable[Entry],
    existing: Iterable[ScheduleSpec],
    *,
    taken: Collection[str] = (),
) -> Comparison:
    """Part entries into those that no schedule holds yet, and those that one does.

    An existing schedule stands for one line: of two equal lines, one may be new. New ones get
    names that are neither an existing schedule's nor in `taken`; known ones bear the existing name.
    """
    names_by_fingerprint: defaultdict[Fingerprint, list[str]] = defaultdict(list)
    used = dict.fromkeys(taken, 1)
    for spec in existing:
        names_by_fingerprint[fingerprint(spec)].append(spec.name)
        used[spec.name] = 1
    new: list[Entry] = []
    known: list[Entry] = []
    met: Counter[Fingerprint] = Counter()
    for entry in entries:
        mark = fingerprint(entry.spec)
        names = names_by_fingerprint.get(mark, [])
        if met[mark] < len(names):
            known.append(_rename(entry, names[met[mark]]))
        else:
            name = take_name(entry.stem, taken=used)
            new.append(_rename(entry, name))
        met[mark] += 1
    return Comparison(new=tuple(new), known=tuple(known))


def _rename(entry: Entry, name: str) -> Entry:
    return replace(entry, spec=replace(entry.spec, name=name))
