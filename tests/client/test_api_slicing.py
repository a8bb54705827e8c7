"""A large apply is written in slices that delay no fire, and is still all or nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from edgecron.base.errors import AlreadyExists, Conflict
from edgecron.client import Client
from edgecron.client.doctor import check_all
from edgecron.client.stored_plans import MOST_STEPS, SLICE_MS, WHOLE, apply_lock, next_size
from edgecron.formats.document import read_document
from edgecron.formats.document_tables import Action, Step, write_document
from tests.support.clock import FakeClock
from tests.support.newdatabases import new_database
from tests.support.specs import make_spec

ORIGIN = "apply /etc/schedules.toml"
COUNT = 3 * WHOLE


class Killed(BaseException):
    """Stands for the end of the process."""


class MortalClock(FakeClock):
    """A clock at whose n-th look the process ends."""

    looks_left: int | None = None
    on_look: Callable[[], None] | None = None

    def monotonic_ms(self) -> int:
        if self.on_look is not None:
            self.on_look()
        if self.looks_left is not None:
            self.looks_left -= 1
            if self.looks_left < 0:
                raise Killed
        return super().monotonic_ms()


@pytest.fixture
def clock() -> MortalClock:
    return MortalClock(datetime(2026, 11, 20, 8, tzinfo=UTC))


@pytest.fixture
def client(tmp_path: Path, clock: MortalClock) -> Iterator[Client]:
    with Client(new_database(tmp_path / "a.db", now_ms=clock.now_ms()), clock=clock) as opened:
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
    assert client.store.find_pending_apply() is None


@pytest.mark.failure(59)
@pytest.mark.parametrize("looks", range(6))
def test_an_apply_that_is_killed_leaves_nothing_or_is_finished(
    client: Client, clock: MortalClock, tmp_path: Path, looks: int
) -> None:
    clock.looks_left = looks
    try:
        apply(client, document())
    except Killed:
        client.close()
    clock.looks_left = None

    with Client(tmp_path / "a.db", clock=clock) as later:
        was_decided = later.store.find_pending_apply() is not None
        count = len(later.schedules())
        later.finish_apply()

        assert was_decided or count in (0, COUNT)
        assert len(later.schedules()) == (COUNT if was_decided else count)
        if later.schedules():
            assert actions(later, document()) == {Action.KEEP}
        assert later.store.find_pending_apply() is None


@pytest.mark.failure(59)
def test_a_killed_apply_is_finished_by_the_next_one_and_told_by_doctor(
    client: Client, clock: MortalClock
) -> None:
    clock.looks_left = 2
    with pytest.raises(Killed):
        apply(client, document())
    clock.looks_left = None
    assert 0 < len(client.schedules()) < COUNT
    told = [one.message for one in check_all(client, command=str).findings]

    apply(client, "[schedules.other]\nevery = '1h'\nshell = 'date'")

    assert any("/etc/schedules.toml" in message for message in told)
    assert len(client.schedules()) == COUNT + 1


@pytest.mark.failure(59)
def test_what_is_refused_is_refused_before_anything_is_written(client: Client) -> None:
    steps = plan(client, document())
    client.add(make_spec(name="job-140"))

    with pytest.raises(AlreadyExists, match="job-140"):
        client.apply(steps, origin=ORIGIN)

    assert [one.name for one in client.schedules()] == ["job-140"]
    assert client.store.find_pending_apply() is None


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


def test_a_decided_apply_wins_over_what_was_made_since(client: Client, clock: MortalClock) -> None:
    clock.looks_left = 2
    with pytest.raises(Killed):
        apply(client, document())
    clock.looks_left = None
    client.add(make_spec(name="job-149"))

    client.finish_apply()

    assert actions(client, document()) == {Action.KEEP}


def test_two_large_applies_do_not_mix(client: Client, tmp_path: Path) -> None:
    steps = plan(client, document())
    script = """
import sys
from pathlib import Path
from edgecron.client.stored_plans import apply_lock
with apply_lock(Path(sys.argv[1])) as is_ours:
    print(is_ours, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "a.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        with pytest.raises(Conflict, match="another apply"):
            client.apply(steps, origin=ORIGIN)
        with apply_lock(client.path) as is_ours:
            assert not is_ours
        other.communicate()

    assert client.schedules() == []
    assert len(client.apply(steps, origin=ORIGIN)) == COUNT


def test_the_lock_is_free_between_two_slices(client: Client, clock: MortalClock) -> None:
    """Whoever looks at the clock between two slices can write."""
    steps = plan(client, document())
    other = apsw.Connection(str(client.path))
    free = []

    def write() -> None:
        other.execute("BEGIN IMMEDIATE; COMMIT")
        free.append(True)

    clock.on_look = write
    client.apply(steps, origin=ORIGIN)
    other.close()

    assert len(free) >= 4


@pytest.mark.parametrize(
    ("took_ms", "size", "expected"),
    [
        (0, 50, 100),
        (SLICE_MS // 2, 400, MOST_STEPS),
        (SLICE_MS, 50, 50),
        (2 * SLICE_MS, 100, 25),
        (10_000, 4, 1),
    ],
)
def test_a_slice_is_as_large_as_the_last_one_was_fast(
    took_ms: int, size: int, expected: int
) -> None:
    assert next_size(size, took_ms=took_ms) == expected
