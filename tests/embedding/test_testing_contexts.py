"""`context` of edgecron.embedding.testing: call a function without a run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgecron import RunContext, Scheduler, Upstream
from edgecron.base.errors import Cancelled, InvalidInput
from edgecron.embedding.testing import context


def test_a_function_finds_what_the_test_says_of_its_run() -> None:
    plan_at = datetime(2026, 3, 28, 2, tzinfo=UTC)

    run = context(
        schedule="copy",
        plan_at=plan_at,
        attempt=2,
        max_attempts=3,
        cause="retry",
        scope=("site", "7"),
        upstream=Upstream("backup", run=7, status="failed", reason="exit", exit_code=3),
    )

    assert (run.schedule, run.plan_at, run.due_at) == ("copy", plan_at, plan_at)
    assert (run.attempt, run.max_attempts, run.is_last_attempt) == (2, 3, False)
    assert (run.cause, run.scope) == ("retry", ("site", "7"))
    assert run.upstream is not None
    assert (run.upstream.name, run.upstream.run, run.upstream.exit_code) == ("backup", 7, 3)
    assert context().upstream is None
    assert len(run.idempotency_key) == 32
    assert not run.must_stop


def test_a_job_is_called_with_it_as_the_plain_function_that_it_is(tmp_path: Path) -> None:
    scheduler = Scheduler(tmp_path / "app.db")

    @scheduler.job("@daily")
    def copy(run: RunContext, folder: str = "/home") -> str:
        return f"{folder} {run.attempt}"

    assert copy(context(attempt=2), "/srv") == "/srv 2"


def test_a_run_that_is_cancelled_or_over_its_timeout_must_stop() -> None:
    cancelled, late = context(), context(timeout=30)

    cancelled.cancel()
    late.clock.advance_ms(30_000)

    for run, why in ((cancelled, "request"), (late, "timeout")):
        assert run.must_stop
        with pytest.raises(Cancelled, match=why):
            run.check()


def test_a_test_gives_the_payload_that_the_run_shows() -> None:
    run = context(payload={"host": "plc2"})

    assert run.payload == {"host": "plc2"}
    assert context().payload is None
    with pytest.raises(InvalidInput, match="payload"):
        context(payload={"host": object()})


def test_a_cause_that_there_is_not_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cause is 'hand'"):
        context(cause="hand")


def test_it_keeps_what_the_function_reports_and_remembers() -> None:
    def copy(run: RunContext) -> int:
        cursor: int = run.state["cursor"]
        del run.state["old"]
        run.progress(None)
        run.state["cursor"] = cursor + 12
        run.progress(1, "copied 12 of 12")
        return cursor

    run = context(state={"cursor": 41, "old": True})

    assert copy(run) == 41
    assert run.reports == [(None, ""), (1, "copied 12 of 12")]
    assert run.remembered == {"cursor": 53}
    with pytest.raises(InvalidInput, match=r"1\.5"):
        run.progress(1.5)
