"""The log of the database deleted under real engines: noticed, told once, and gone on from."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.engines import Place
from tests.support.processes import Daemon
from tests.support.program import PROGRAM

pytestmark = pytest.mark.failure(53)


def lose(place: Place, *suffixes: str) -> None:
    for suffix in suffixes:
        place.database.with_name(f"{place.database.name}{suffix}").unlink()


def assert_each_fire_is_one(place: Place) -> None:
    """Each that has run is on record, once; those before the loss too."""
    runs = [run for run in place.runs("often") if run.started_at is not None]
    plans = Counter(f"{run.plan_at:%H:%M:%S}" for run in runs)
    effects = Counter(line[11:19] for line in place.effects())

    assert effects == plans
    assert set(plans.values()) == {1}
    [(verdict,)] = place.client.store.rows("PRAGMA integrity_check")
    assert verdict == "ok"


@contextmanager
def follow(place: Place, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """`edgecron logs -f`, in a process of its own."""
    with subprocess.Popen(
        [*PROGRAM, "--db", str(place.database), "logs", "-f", name],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as follower:
        try:
            yield follower
        finally:
            follower.kill()


def told(daemon: Daemon, event: str) -> list[str]:
    return [line.get("error_msg", "") for line in daemon.lines if line["event"] == event]


@pytest.mark.parametrize("suffixes", [("-wal",), ("-shm",), ("-wal", "-shm")])
def test_an_engine_saves_what_lay_in_the_log_and_goes_on(
    place: Place, suffixes: tuple[str, ...]
) -> None:
    place.add("often", "every 1s", 'echo "$EDGECRON_PLAN_AT" >>$LOG')
    place.client.close()  # Nobody else has it open then.
    daemon = place.daemon()
    daemon.wait_for("ended", schedule="often")

    lose(place, *suffixes)
    daemon.wait_for("database_well")
    for _ in range(2):
        daemon.wait_for("ended", schedule="often")
    code = daemon.stop()

    assert code == 0
    [trouble] = told(daemon, "database_trouble")
    assert "was deleted while it was open" in trouble
    assert_each_fire_is_one(place)


def test_engines_that_share_a_log_all_let_go_of_it(place: Place) -> None:
    place.add("often", "every 1s", 'echo "$EDGECRON_PLAN_AT" >>$LOG')
    place.client.close()
    daemons = [place.daemon() for _ in range(2)]
    for daemon in daemons:
        daemon.wait_for("engine_started")
    daemons[0].wait_until(lambda line: line.get("schedule") == "often", what="a fire")

    lose(place, "-wal", "-shm")
    for daemon in daemons:
        daemon.wait_for("database_well")
    codes = [daemon.stop() for daemon in daemons]

    assert codes == [0, 0]
    assert [len(told(daemon, "database_trouble")) for daemon in daemons] == [1, 1]
    assert_each_fire_is_one(place)


def test_who_follows_a_run_lets_go_of_the_log_too(place: Place) -> None:
    place.add("often", "every 1s", 'echo "$EDGECRON_PLAN_AT" >>$LOG')
    place.add("long", "@yearly", "until [ -e $LOG.end ]; do echo it runs; sleep 0.1; done")
    place.client.run_now("long")
    place.client.close()
    daemon = place.daemon()
    daemon.wait_for("started", schedule="long")
    with follow(place, "long") as follower:
        assert follower.stdout is not None
        for _ in range(20):  # What was printed before, and then what its supervisor tells.
            assert follower.stdout.readline() == b"it runs\n"

        lose(place, "-wal", "-shm")
        daemon.wait_for("database_well")
        _, words = follower.communicate()

    place.log.with_name(f"{place.log.name}.end").touch()
    assert b"was deleted while it was open" in words
    assert follower.returncode == 5
    assert daemon.stop() == 0
    assert_each_fire_is_one(place)


def test_an_engine_that_only_waits_for_its_runs_saves_it_too(place: Place) -> None:
    place.add("long", "@yearly", place.gate.line)
    place.client.run_now("long")
    place.client.close()
    daemon = place.daemon("--on-shutdown", "wait")
    place.gate.wait_arrival()
    daemon.process.terminate()
    daemon.wait_for("engine_stopping")

    lose(place, "-wal", "-shm")
    daemon.wait_for("database_well")
    place.gate.open()
    code = daemon.wait_end()

    assert code == 0
    assert [str(run.status) for run in place.runs("long")] == ["success"]
