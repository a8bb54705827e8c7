"""What goes wrong, and what people do meanwhile: a pure function of the seed.

Storms alternate with calms. Only a calm can show that service is full again, and that nothing is
late without a cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

# Longer than the invariants grant for recovery, and then for what is late without a cause: or a
# calm would show nothing.
CALM_S = 60
LONG_CALM_S = 105  # where an idle engine may have to find out by itself
_STORM_S = (35, 70)
_LANES = ("engines", "supervisors", "jobs", "people", "storage")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of fault: how often it comes among those of its lane, and how long it lasts.

    One lane's faults come one after the other, so that each has been undone before the next one.
    """

    name: str
    lane: str
    weight: int = 2
    lasts_s: tuple[float, float] = (0.0, 0.0)
    needs: str | None = None  # an ability of the field


KINDS = (
    Kind(name="kill_engine", lane="engines", weight=5, lasts_s=(0.2, 3)),
    Kind(name="kill_all_engines", lane="engines", lasts_s=(0.2, 4)),
    Kind(name="term_engine", lane="engines", weight=4, lasts_s=(0.2, 3)),
    Kind(name="stop_engine", lane="engines", weight=4, lasts_s=(1, 8)),
    Kind(name="kill_supervisor", lane="supervisors", weight=4),
    Kind(name="stop_supervisor", lane="supervisors", weight=3, lasts_s=(1, 6)),
    Kind(name="term_supervisor", lane="supervisors", weight=1),
    Kind(name="kill_guardian", lane="supervisors", weight=2),
    Kind(name="stop_guardian", lane="supervisors", weight=1, lasts_s=(1, 6)),
    Kind(name="kill_pair", lane="supervisors", weight=2),
    Kind(name="kill_everything", lane="supervisors", weight=1),
    Kind(name="kill_job", lane="jobs", weight=4),
    Kind(name="term_job", lane="jobs"),
    Kind(name="stop_job", lane="jobs", weight=3, lasts_s=(0.5, 4)),
    Kind(name="kill_person", lane="people", weight=3),
    Kind(name="stop_person", lane="people", weight=2, lasts_s=(0.5, 4)),
    Kind(name="lock", lane="storage", weight=4, lasts_s=(1, 8)),
    Kind(name="reader", lane="storage", weight=2, lasts_s=(3, 12)),
    Kind(name="copy", lane="storage", weight=2, lasts_s=(4, 9)),
    Kind(name="away", lane="storage", weight=2, lasts_s=(1, 6)),
    Kind(name="replaced", lane="storage", weight=2, lasts_s=(2, 7)),
    Kind(name="replaced_unseen", lane="storage", weight=1, lasts_s=(2, 7)),
    Kind(name="full", lane="storage", weight=4, lasts_s=(2, 8), needs="disk"),
    Kind(name="closed_file", lane="storage", weight=2, lasts_s=(1, 6), needs="modes"),
    Kind(name="closed_folder", lane="storage", weight=2, lasts_s=(1, 6), needs="modes"),
    Kind(name="closed_state", lane="storage", weight=2, lasts_s=(1, 6), needs="modes"),
)
BY_NAME = {kind.name: kind for kind in KINDS}
ACTS = (
    *("run", "run", "run_wait", "pause", "resume", "resume_now", "cancel", "cancel"),
    *("edit_policy", "edit_times", "add", "rm", "backfill", "prune", "backup", "look", "look"),
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """`pick` chooses among those that it can hit, as they are when it comes."""

    at_s: float
    kind: str
    lasts_s: float
    pick: float


@dataclass(frozen=True, kw_only=True)
class Act:
    at_s: float
    kind: str
    pick: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    seed: int
    duration_s: int
    faults: tuple[Fault, ...]
    acts: tuple[Act, ...]
    skipped: tuple[str, ...]  # kinds of faults that the field has no ability for


def make_plan(seed: int, *, duration_s: int, abilities: frozenset[str]) -> Plan:
    """The plan of a seed. What the field can't do is left out, and leaves the rest as it is."""
    random = Random(seed)
    drawn = [*_faults(random, duration_s)]
    acts = [*_acts(random, duration_s)]

    def can(kind: str) -> bool:
        return BY_NAME[kind].needs is None or BY_NAME[kind].needs in abilities

    return Plan(
        seed=seed,
        duration_s=duration_s,
        faults=tuple(sorted((one for one in drawn if can(one.kind)), key=lambda one: one.at_s)),
        acts=tuple(acts),
        skipped=tuple(one.kind for one in drawn if not can(one.kind)),
    )


def _faults(random: Random, duration_s: int) -> Iterator[Fault]:
    began_s = 3.0
    while began_s < duration_s - 10:
        ends_s = min(began_s + random.uniform(*_STORM_S), duration_s)
        faults = [fault for lane in _LANES for fault in _storm(random, lane, began_s, ends_s)]
        yield from faults
        is_long = any(fault.kind == "replaced_unseen" for fault in faults)
        began_s = ends_s + (LONG_CALM_S if is_long else CALM_S)


def _storm(random: Random, lane: str, began_s: float, ends_s: float) -> Iterator[Fault]:
    kinds = [kind for kind in KINDS if kind.lane == lane]
    at_s = began_s + random.uniform(0, 3)
    while at_s < ends_s:
        [kind] = random.choices(kinds, [kind.weight for kind in kinds])
        lasts_s = min(random.uniform(*kind.lasts_s), max(ends_s - at_s, 0.2))
        yield Fault(at_s=at_s, kind=kind.name, lasts_s=lasts_s, pick=random.random())
        at_s += lasts_s + random.expovariate(1 / 4) + 0.5


def _acts(random: Random, duration_s: int) -> Iterator[Act]:
    at_s = 2.0
    while at_s < duration_s:
        yield Act(at_s=at_s, kind=random.choice(ACTS), pick=random.random())
        at_s += random.expovariate(1 / 1.5)
