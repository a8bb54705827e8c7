"""Many schedules at once: all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgecron.base.errors import AlreadyExists, Conflict
from edgecron.client import Client
from edgecron.formats.document import read_document
from edgecron.formats.document_plan import Action, Step
from edgecron.formats.document_writing import write_document
from tests.support.clock import FakeClock
from tests.support.specs import make_spec

ORIGIN = "apply /etc/schedules.toml"
COUNT = 150


class Killed(BaseException):
    """Stands for the end of the process."""


class MortalClock(FakeClock):
    """A clock at whose n-th look at the boot, while schedules are written, the process ends."""

    looks_left: int | None = None

    def boot_id(self) -> str:
        if self.looks_left is not None:
            self.looks_left -= 1
            if self.looks_left < 0:
                raise Killed
        return super().boot_id()


@pytest.fixture
def clock() -> MortalClock:
    return MortalClock(datetime(2026, 11, 20, 8, tzinfo=UTC))


@pytest.fixture
def client(tmp_path: Path, clock: MortalClock) -> Iterator[Client]:
    with Client(tmp_path / "a.db", clock=clock) as opened:
        yield opened


def document(count: int = COUNT, *, timeout: str = "1h") -> str:
    """Schedules with something of each kind of key."""
    lines = []
    for number in range(count):
        lines += [
            f"[schedules.job-{number:03}]",
            [
                'cron = "H 2 * * *"',
                'every = "1h"',
                f'after = "job-{number - 2:03}:failure"',
                'cron = ["0 6 * * *", "@weekly"]\ntimezone = "UTC"\nfrom = "2027-01-01T00:00:00Z"',
            ][number % 4],
            f'command = ["rsync", "-a", "/srv/{number}/ä"]',
            f'env = {{ TARGET = "host-{number}" }}\ntimeout = "{timeout}"\nretries = {number % 3}',
        ]
        if number % 5 == 0:
            lines.append(f'group = "disk-{number}:{number + 1}"\ndescription = "two\\nlines"')
        if number % 7 == 0:
            lines.append("enabled = false")
    return "\n".join(lines)


def plan(client: Client, text: str, *, is_pruned: bool = False) -> tuple[Step, ...]:
    return client.plan_document(read_document(text.encode()), origin=ORIGIN, is_pruned=is_pruned)


def apply(client: Client, text: str, *, is_pruned: bool = False) -> None:
    client.apply(plan(client, text, is_pruned=is_pruned), origin=ORIGIN)


def actions(client: Client, text: str) -> set[Action]:
    """What applying a document would still do."""
    return {step.action for step in plan(client, text)}


def test_many_schedules_are_made_changed_and_removed(client: Client) -> None:
    apply(client, document())
    made = write_document(client.schedules())
    apply(client, document(timeout="2h"))
    changed = write_document(client.schedules())
    apply(client, document(20, timeout="2h"), is_pruned=True)

    assert made.count("[schedules.") == COUNT
    assert changed == made.replace('timeout = "1h"', 'timeout = "2h"')
    assert len(client.schedules()) == 20


@pytest.mark.failure(59)
@pytest.mark.parametrize("looks", [0, 1, COUNT // 2, COUNT - 1])
def test_an_apply_that_is_killed_leaves_nothing(
    client: Client, clock: MortalClock, tmp_path: Path, looks: int
) -> None:
    clock.looks_left = looks
    with pytest.raises(Killed):
        apply(client, document())
    client.close()
    clock.looks_left = None

    with Client(tmp_path / "a.db", clock=clock) as later:
        assert later.schedules() == []


@pytest.mark.failure(59)
def test_what_is_refused_is_refused_before_anything_is_written(client: Client) -> None:
    steps = plan(client, document())
    client.add(make_spec(name="job-140"))

    with pytest.raises(AlreadyExists, match="job-140"):
        client.apply(steps, origin=ORIGIN)

    assert [one.name for one in client.schedules()] == ["job-140"]


def test_a_schedule_that_somebody_changed_since_the_plan_is_not_overwritten(
    client: Client,
) -> None:
    apply(client, document())
    steps = plan(client, document(timeout="2h"))
    client.pause("job-070")

    with pytest.raises(Conflict, match="job-070"):
        client.apply(steps, origin=ORIGIN)

    assert actions(client, document()) <= {Action.KEEP, Action.CHANGE}
    assert client.schedule("job-000").spec.policies.timeout_s == 3600
