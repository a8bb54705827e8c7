"""What a storm amounted to, as a short table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.chaos.history import History, Violation
from tests.chaos.storm import Storm
from tests.chaos.times import calms, count_judged
from tests.chaos.verdicts import NOT_CHECKED


def figures(storm: Storm, history: History, violations: Sequence[Violation]) -> dict[str, Any]:
    statuses = Counter(row["status"] for row in history.rows)
    dues = {row["id"]: row["due_at"] for row in history.rows}
    late_ms = sorted(body.began_ms - dues[body.run] for body in history.bodies if body.run in dues)
    return {
        "seed": storm.plan.seed,
        "duration_s": storm.plan.duration_s,
        "engines": len(storm.slots),
        "fires": len({_fire(row) for row in history.rows}),
        "rows": len(history.rows),
        "runs": len(history.bodies),
        "by_status": dict(sorted(statuses.items())),
        "faults": sum(storm.faults.counts.values()),
        "faults_by_kind": dict(sorted(storm.faults.counts.items())),
        "faults_without_target": sum(storm.faults.missed.values()),
        "faults_left_out": dict(sorted(Counter(storm.plan.skipped).items())),
        "acts": sum(storm.people.counts.values()),
        "acts_by_kind": dict(sorted(storm.people.counts.items())),
        "acts_by_code": dict(sorted(storm.people.codes.items())),
        "engine_restarts": sum(slot.restarts for slot in storm.slots),
        "adopted_runs": _told(storm, "adopted"),
        "queued_again": _told(storm, "requeued"),
        "supervisors_died": _told(storm, "supervisor_died"),
        "interrupted_runs": statuses["interrupted"],
        "copies_run": sum(copy.has_run for copy in storm.faults.copies),
        "copies_noticed": sum(copy.was_noticed for copy in storm.faults.copies),
        "calms_judged": len(calms(history)),
        "pulses_judged": count_judged(history),
        "slow_machine": len(storm.slow),
        "looks": storm.watch.looks,
        "late_ms_median": late_ms[len(late_ms) // 2] if late_ms else None,
        "not_checked": NOT_CHECKED,
        "violations": [{"number": one.number, "text": one.text} for one in violations],
    }


def _fire(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        row[name] for name in ("schedule_id", "scope_kind", "scope_id", "plan_at", "fire_key")
    )


def _told(storm: Storm, event: str) -> int:
    """How often engines have told of an event."""
    return sum(
        event in line and line.endswith("}") and json.loads(line)["event"] == event
        for path in storm.field.logs.glob("engine-*.log")
        for line in path.read_text(errors="replace").splitlines()
    )


def table(found: Mapping[str, Any]) -> str:
    """The figures for people, a line each."""
    lines = []
    for name, value in found.items():
        if name in ("violations", "not_checked"):
            continue
        words = value
        if isinstance(value, dict):
            words = ", ".join(f"{key} {count}" for key, count in value.items()) or "none"
        lines.append(f"{name.replace('_', ' '):<22} {words}")
    lines.append(f"{'violations':<22} {len(found['violations'])}")
    lines += [f"not checked: {name}: {why}" for name, why in found["not_checked"].items()]
    return "\n".join(lines)
