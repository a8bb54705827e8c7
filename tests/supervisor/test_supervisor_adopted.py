"""A supervisor changes hands: what the engine that adopts it then answers for."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecron.base.clock import SystemClock
from edgecron.engine import other_engines as adoption
from edgecron.engine.other_engines import adopt_supervisor
from edgecron.store.contract import RunningRow
from edgecron.supervisor.control import Control
from edgecron.supervisor.link import SupervisorLink
from tests.supervisor.supervisor_bench import Bench

# Forked, so that what a test changes here is changed there; test runners have threads of their own.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def row_of(number: int, token: str, supervisor_id: str) -> RunningRow:
    return RunningRow(
        execution_id=number,
        lease_token=token,
        engine_id=1,
        engine_key="gone",
        boot_id="boot",
        supervisor_id=supervisor_id,
        schedule="backup",
        kind="command",
        ok_codes=(0,),
        grace_ms=10_000,
        started_ms=0,
    )


@pytest.mark.failure(19)
def test_an_end_that_another_engine_took_in_meanwhile_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path / "state")
    supervisor_id = bench.link.supervisor_id
    running = bench.start("/bin/sleep", "60")
    ended = bench.run_shell("exit 3").token
    rows = [row_of(1, running, supervisor_id), row_of(2, ended, supervisor_id)]

    class Late(Control):
        """Between the two questions the first engine takes the end in, and dies."""

        def adopt(self) -> SupervisorLink:
            bench.link.acknowledge([ended])
            bench.link.close()
            with Control(bench.state_dir, supervisor_id) as other:
                # It hears of both in one of its next turns, of which each answer takes one.
                assert any(not other.status().has_engine for _ in range(10))
            return super().adopt()

    monkeypatch.setattr(adoption, "Control", Late)
    found = adopt_supervisor(bench.state_dir, supervisor_id, rows, clock=SystemClock())
    assert found is not None
    assert found.runner is not None
    answers_for = found.runner.live_count
    found.runner.stop()
    found.runner.close()
    bench.close()

    assert [row.execution_id for row in found.started] == [1]
    assert answers_for == 1
    assert found.revoked == ()
