"""The schedules of a storm: of each kind of job and policy some, on grids through the epoch."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

JOB = Path(__file__).with_name("job.py")
ANCHOR = "1970-01-01T00:00:00Z"
# These must never be late but near a fault: they wait for nobody, and go before all others.
PULSES = ("pulse", "beat")
# These may wait for long: until somebody resumes them, or for what they need.
PATIENT = ("paused", "needy")


@dataclass(frozen=True, kw_only=True)
class Member:
    """A schedule: `when` and `policies` are options of `add`, the rest is what its job does."""

    name: str
    every_s: int | None = None
    when: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    kind: str = "short"
    seconds: float = 0.05
    code: int = 0


def crowd(pace: int) -> list[Member]:
    """All of them. Where `pace` is 2, each comes half as often."""
    return [
        _at("pulse", 1 * pace, "--overlap allow --priority high"),
        Member(
            name="beat",
            when=("--cron", f"*/{2 * pace} * * * * *"),
            policies=("--priority", "high"),
        ),
        _at("skips", 3 * pace, "", "long", 4),
        _at("queues", 4 * pace, "--overlap queue", "long", 3),
        _at("replaces", 5 * pace, "--overlap replace --kill-grace 1s", "long", 8),
        _at("allows", 3 * pace, "--overlap allow", "long", 5),
        _at("fails", 4 * pace, "", "failing", 0.1, 3),
        _at("flaky", 6 * pace, "--retries 2 --retry-delay 1s --retry-factor 1", "flaky", 0.1, 4),
        _at("hopeless", 10 * pace, "--retries 1 --retry-delay 2s", "failing", 0.3, 9),
        _at("stubborn", 12 * pace, "--timeout 1s --kill-grace 1s", "stubborn", 30),
        _at("slow", 10 * pace, "--timeout 2s --kill-grace 3s", "long", 30),
        _at("parent", 5 * pace, "", "parent", 1),
        _at("loud", 6 * pace, "", "loud", 0.1),
        _at("catches-none", 2 * pace, "--catch-up skip"),
        _at("catches-all", 4 * pace, "--catch-up all --overlap queue"),
        _at("again", 4 * pace, "--on-interrupt retry", "long", 3),
        _at("again-beside", 6 * pace, "--on-interrupt retry --overlap allow", "long", 4),
        _at("disk-1", 3 * pace, "--group disk:1", "long", 1),
        _at("disk-2", 3 * pace, "--group disk --overlap queue", "long", 1),
        _at("low", 2 * pace, "--priority low"),
        _at("scoped", 5 * pace, "--scope device:a --scope device:b", "long", 1),
        _at("edited", 3 * pace, ""),
        _at("paused", 2 * pace, "--overlap queue", "long", 0.5),
        _at("filled", 3 * pace, "--catch-up skip"),
        _at("pruned", 1 * pace, "--overlap allow"),
        _at("needy", 5 * pace, "--needs success:beat:20s --needs-deadline 30s"),
        Member(name="follows", when=("--after", "fails:any")),
        Member(name="follows-on", when=("--after", "follows:success")),
        Member(name="after-end", when=("--every", f"{3 * pace}s after end"), kind="long"),
        Member(name="by-hand", when=("--cron", "0 0 1 1 *"), kind="long", seconds=1),
    ]


def _at(
    name: str,
    every_s: int,
    policies: str,
    kind: str = "short",
    seconds: float = 0.05,
    code: int = 0,
) -> Member:
    return Member(
        name=name,
        every_s=every_s,
        when=("--every", f"{every_s}s from {ANCHOR}"),
        policies=tuple(policies.split()),
        kind=kind,
        seconds=seconds,
        code=code,
    )


def words(member: Member, log: Path) -> list[str]:
    """The words of `add` that make it."""
    job = [sys.executable, "-I", "-S", str(JOB), str(log)]
    job += [member.kind, str(member.seconds), str(member.code)]
    return ["add", member.name, *member.when, *member.policies, "--tz", "UTC", "--", *job]
