"""What schedules did and will do in a span of time, as a Client answers it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from itertools import takewhile
from pathlib import Path

import pytest

from edgecron.base.errors import InvalidInput
from edgecron.client import Client
from edgecron.client.questions import Questions
from edgecron.model.choices import Overlap, Status
from edgecron.model.listing import Lane
from tests.support.clock import FakeClock
from tests.support.remote import near_client
from tests.support.scene import make_scene
from tests.support.specs import make_spec

HOUR = timedelta(hours=1)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with make_scene(tmp_path / "edgecron.db") as scene, scene.client() as client:
        yield client


def ask(
    client: Questions, *names: str, cells: int = 48, shift: timedelta = timedelta(0)
) -> list[Lane]:
    ids = {one.name: one.id for one in client.schedule_names()}
    now = client.now() + shift
    return client.timeline(
        [ids[name] for name in names],
        from_at=now - 12 * HOUR,
        until_at=now + 12 * HOUR,
        cells=cells,
    )


def test_every_run_of_the_span_is_counted_once(client: Client) -> None:
    since = client.now() - 12 * HOUR
    for name in ("poll-inverter", "backup-home", "backup-photos", "weather", "prune-snapshots"):
        runs = [
            run
            for run in client.history(name, limit=5000)
            if (run.started_at or run.plan_at) >= since
        ]

        [lane] = ask(client, name)

        inside = [cell for cell in lane.runs if cell.cell >= 0]
        assert sum(cell.runs for cell in inside) == len(runs), name
        assert sum(cell.failed for cell in inside) == sum(
            run.status in (Status.FAILED, Status.INTERRUPTED) for run in runs
        )
        assert sum(cell.active for cell in inside) == sum(
            run.status in (Status.QUEUED, Status.RUNNING) for run in runs
        )


@pytest.mark.parametrize("name", ["poll-inverter", "backup-home", "weather"])
def test_every_fire_of_the_span_is_counted_once(client: Client, name: str) -> None:
    until = client.now() + 12 * HOUR
    fires = takewhile(lambda fire: fire.plan_at < until, client.next_fires(name))

    [lane] = ask(client, name)

    assert sum(fire.fires for fire in lane.fires) == sum(1 for _ in fires)
    assert all(24 <= fire.cell < 48 for fire in lane.fires)


def test_lanes_come_in_the_order_that_was_asked_for(client: Client) -> None:
    names = ["weather", "backup-home", "poll-meter"]
    ids = {one.name: one.id for one in client.schedule_names()}

    assert [lane.schedule_id for lane in ask(client, *names)] == [ids[name] for name in names]


def test_a_running_run_has_its_start_and_what_is_usual(client: Client) -> None:
    run = next(run for run in client.history(limit=50) if run.status is Status.RUNNING)

    [lane] = ask(client, run.schedule)

    [cell] = [cell for cell in lane.runs if cell.running_since is not None]
    assert cell.running_since == run.started_at
    assert cell.last_at == client.now()
    assert lane.usual_ms is not None


def test_a_span_of_the_past_has_its_runs_and_no_fires(client: Client) -> None:
    [lane] = ask(client, "backup-home", shift=timedelta(days=-3))

    assert [cell.runs for cell in lane.runs if cell.cell >= 0] == [1]
    assert lane.fires == ()


def test_only_the_newest_of_very_many_runs_are_read(client: Client) -> None:
    [whole] = ask(client, "poll-inverter")
    name = client.schedule_names()[0].name

    [lane, *_] = ask(client, "poll-inverter", *[name] * 399)  # room for 300 runs of each

    assert whole.read_from == 0
    assert sum(cell.runs for cell in lane.runs) == 300
    assert lane.read_from > 0


def test_a_span_of_the_past_has_the_newest_of_its_own_many_runs(client: Client) -> None:
    past = timedelta(hours=-13)
    [whole] = ask(client, "poll-inverter", shift=past)
    name = client.schedule_names()[0].name

    [lane, *_] = ask(client, "poll-inverter", *[name] * 399, shift=past)

    assert sum(cell.runs for cell in whole.runs if cell.cell >= 0) > 300
    assert sum(cell.runs for cell in lane.runs) == 300
    assert lane.runs[-1] == whole.runs[-1]
    assert lane.read_from > 0


def test_an_old_active_run_hides_no_runs_that_were_not_read(tmp_path: Path) -> None:
    clock = FakeClock()
    with Client(tmp_path / "edgecron.db", clock=clock) as client:
        client.add(make_spec("backup", overlap=Overlap.ALLOW))
        client.run_now("backup")
        clock.advance_ms(24 * 3_600_000)
        for _ in range(310):  # The newest 300 are read.
            clock.advance_ms(6_000)
            client.run_now("backup")
        now = client.now()

        [lane, *_] = client.timeline(
            [1] + [2] * 399, from_at=now - HOUR, until_at=now + HOUR, cells=120
        )

    assert lane.runs[0].cell == -1
    assert lane.read_from == 60 - 30


def test_excluded_days_come_with_the_lane(client: Client) -> None:
    today = client.now().date()
    client.add(make_spec("backup", "0 2 * * *", except_days=(f"{today}..{today}",)))

    [lane] = ask(client, "backup")

    assert lane.excluded == (date(today.year, today.month, today.day),)


def test_a_server_answers_the_same(client: Client) -> None:
    with near_client(client) as remote:
        assert ask(remote, "backup-home", "backup-photos") == ask(
            client, "backup-home", "backup-photos"
        )


def test_a_span_must_have_cells_and_a_length(client: Client) -> None:
    now = client.now()
    with pytest.raises(InvalidInput, match="cells"):
        client.timeline([1], from_at=now, until_at=now + HOUR, cells=0)
    with pytest.raises(InvalidInput, match="expected more"):
        client.timeline([1], from_at=now, until_at=now, cells=5)
