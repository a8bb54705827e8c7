"""A state folder that is deleted under engines and supervisors that live."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from edgecron.base.paths import state_dir
from edgecron.engine.state_folder import EngineFiles, engine_lock_path
from edgecron.model.choices import Status
from edgecron.supervisor.state_files import lock_is_held, lock_path, prepare_state_dir
from tests.support.engines import Place
from tests.support.processes import ends


@pytest.mark.failure(31)
def test_a_run_goes_on_and_is_not_doubled_when_the_state_folder_is_deleted(place: Place) -> None:
    place.add("long", "@yearly", f"echo began >>$LOG; {place.gate.line}; exit 7")
    first = place.daemon()
    [run] = place.client.run_now("long")
    first.wait_for("started", schedule="long")
    process = os.pidfd_open(place.gate.wait_arrival())

    shutil.rmtree(state_dir(place.database))
    second = place.daemon()
    second.wait_for("engine_started")
    [skipped] = place.client.run_now("long")
    place.add("next", "every 1s", "true")
    second.wait_for("ended", schedule="next")
    alive = [state.is_alive for state in place.client.engines()]
    goes_on = place.client.execution(run.id).status
    place.gate.open()
    ended = first.wait_for("ended", schedule="long")

    assert skipped.status is Status.SKIPPED
    assert alive == [True, True]
    assert goes_on is Status.RUNNING
    assert ends(process)
    assert (ended["status"], ended["exit_code"]) == ("failed", 7)
    assert place.effects() == ["began"]


@pytest.mark.failure(31)
def test_an_engine_makes_its_place_anew_and_is_woken_there(place: Place) -> None:
    place.add("often", "every 1s", "true")
    daemon = place.daemon()
    daemon.wait_for("ended", schedule="often")

    shutil.rmtree(state_dir(place.database))
    daemon.wait_for("state_restored")
    place.client.pause("often")
    place.add("new", "@yearly", "true")
    place.client.run_now("new")
    woken = daemon.wait_for("ended", schedule="new")
    code = daemon.stop()

    assert woken["status"] == "success"
    assert code == 0
    assert list(state_dir(place.database).glob("engine-*")) == []


@pytest.mark.failure(31)
def test_a_supervisor_whose_lock_was_deleted_is_alive_to_those_who_ask(place: Place) -> None:
    place.add("long", "@yearly", f"{place.gate.line}; exit 7")
    daemon = place.daemon()
    [run] = place.client.run_now("long")
    daemon.wait_for("started", schedule="long")
    job = os.pidfd_open(place.gate.wait_arrival())
    key = place.client.execution(run.id).supervisor_id
    assert key is not None
    path = lock_path(state_dir(place.database), key)

    path.unlink()
    held = lock_is_held(path)
    place.gate.open()
    daemon.wait_for("ended", schedule="long")
    daemon.stop()
    assert ends(job)

    assert held


@pytest.mark.failure(51)
def test_an_engine_leaves_a_place_that_it_cannot_clear_up(tmp_path: Path) -> None:
    folder = prepare_state_dir(tmp_path / "state")
    key = "0123456789abcdef"
    place = EngineFiles(folder, key)
    lock = engine_lock_path(folder, key)
    kept = tmp_path / "kept"
    lock.rename(kept)
    for name in (lock, folder / f"engine-{key}.fifo"):
        name.unlink(missing_ok=True)
        (name / "in the way").mkdir(parents=True)  # as a folder that is closed to us

    place.close()

    assert not lock_is_held(kept)
