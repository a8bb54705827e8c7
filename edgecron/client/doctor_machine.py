"""Check what schedules ask of this machine: limits, power, and how much is written to its disks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from shutil import which
from typing import TYPE_CHECKING

from edgecron.client.doctor_files import Finding, warning, well
from edgecron.engine.upkeep import WAKE_ALARM
from edgecron.supervisor.limits import find_subtree
from edgecron.views.phrases import size_words

if TYPE_CHECKING:
    from edgecron.client.engine_health import EngineState
    from edgecron.client.local import Client
    from edgecron.model.schedule import ScheduleSpec

_MOST_NAMED = 5


def limit_words(states: Sequence[EngineState], *, has_memory: bool, has_cpu: bool) -> str | None:
    """Say how the engine limits memory and processor time; None if nothing is to be limited.

    If no engine is running, the control groups of this process stand for those of an engine.
    """
    if not has_memory and not has_cpu:
        return None
    pid = next((one.info.pid for one in states if one.is_alive and one.info.queues), None)
    subtree = find_subtree(pid)
    controllers = frozenset() if subtree is None else subtree.controllers
    words = []
    if has_memory:
        is_grouped = "memory" in controllers
        words.append(f"memory by {'control group' if is_grouped else 'process (RLIMIT_AS)'}")
    if has_cpu:
        words.append(
            "processor time by control group"
            if "cpu" in controllers
            else "processor time is not limited here"
        )
    return ", ".join(words)


def limit_words_of(spec: ScheduleSpec, states: Sequence[EngineState]) -> str | None:
    """Say how this machine limits the runs of a schedule; None if they have no limit."""
    return limit_words(
        states,
        has_memory=spec.job.memory_max is not None,
        has_cpu=spec.job.cpu_max is not None,
    )


def check_demands(
    client: Client, states: Sequence[EngineState], *, command: Callable[[str], str]
) -> list[Finding]:
    """Check that this machine can do what schedules ask of it."""
    names: dict[str, list[str]] = {}
    for name, *asked in client.store.find_demands():
        for what, is_asked in zip(("memory", "cpu", "keep_awake", "wake"), asked, strict=True):
            if is_asked:
                names.setdefault(what, []).append(name)
    found = []
    words = limit_words(states, has_memory="memory" in names, has_cpu="cpu" in names)
    if words is not None:
        hint = "let systemd (254 or later) delegate a control group"
        is_weak = "RLIMIT_AS" in words or "not limited" in words
        found.append(
            warning("limits", words, hint=f"{hint}; see: edgecron help jobs")
            if is_weak
            else well("limits", words)
        )
    if "keep_awake" in names and which("systemd-inhibit") is None:
        found.append(
            warning(
                "limits",
                f"{_named(names['keep_awake'])}: this machine can't be kept awake",
                hint="install systemd-inhibit (a part of systemd), or:"
                f" {command('edit NAME --no-keep-awake')}",
            )
        )
    if "wake" in names and not os.access(WAKE_ALARM, os.W_OK):
        found.append(
            warning(
                "limits",
                f"{_named(names['wake'])}: the alarm {WAKE_ALARM} can't be set, so the machine"
                " does not wake",
                hint=f"run the engine as root, or: {command('edit NAME --no-wake')}",
            )
        )
    return found


def written_per_day(states: Sequence[EngineState]) -> int | None:
    """Return how many bytes the living engines write to disks in a day; None if unknown."""
    known = [one.info.written_per_day for one in states if one.is_alive]
    rates = [rate for rate in known if rate is not None]
    return sum(rates) if rates else None


def check_writes(states: Sequence[EngineState], *, budget_bytes: int | None) -> list[Finding]:
    """Compare what the engines write with the budget."""
    per_day = written_per_day(states)
    if per_day is None:
        return []
    words = f"{size_words(per_day)} a day"
    if budget_bytes is not None and per_day > budget_bytes:
        return [
            warning(
                "writes",
                f"engines write {words} to disks, over the budget of {size_words(budget_bytes)}",
                hint="write less: edgecron help flash",
            )
        ]
    return [well("writes", f"engines write {words} to disks")]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
