"""Edgecron against a plain model of schedules and executions that shares no code with it.

Exact to the row: plan time, cause, fire key, attempt, status, reason, every instant, the ranges of
what was missed, the counters. Not in the model are jitter, needs, `after end`, `on boot`, clocks
that can't be trusted or are set by more than an hour back: those the simulation looks at. All cron
that is drawn has a `*` for its minutes or hours, so that it comes again after a clock was set back.
What retention picks is not told; only that it takes nothing that is needed. Nor is told why a time
was missed; only that it is said, and that times missed for different causes share no row.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.machine.rules import Story

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

_QUICK = settings(
    max_examples=12,
    stateful_step_count=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def test_every_row_is_the_one_that_a_plain_model_foretells() -> None:
    run_state_machine_as_test(Story, settings=_QUICK)


def test_on_a_server_every_row_is_the_same(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(Story, "server", postgres)

    run_state_machine_as_test(
        Story, settings=settings(_QUICK, max_examples=2, stateful_step_count=12)
    )


@pytest.mark.slow
@pytest.mark.parametrize("steps", [15, 40, 80])
def test_a_long_look_finds_no_other_row_either(steps: int) -> None:
    examples = int(os.environ.get("TESTS_MACHINE_EXAMPLES", "3000")) * 15 // steps
    long = settings(_QUICK, max_examples=examples, stateful_step_count=steps, derandomize=False)

    run_state_machine_as_test(Story, settings=long)

    print(", ".join(f"{count} {what}" for what, count in sorted(Story.tally.items())))
