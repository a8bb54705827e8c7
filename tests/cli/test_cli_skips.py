"""Runs that their function skipped, as people see them."""

from __future__ import annotations

from pathlib import Path

from edgecron import Scheduler, Skip
from tests.support.cli import Edgecron

BOUND_S = 20.0


def test_a_skip_is_shown_with_its_reason(database: Path, edgecron: Edgecron) -> None:
    scheduler = Scheduler(database)

    @scheduler.job("@daily")
    def poll() -> None:
        raise Skip("no new files")

    with scheduler:
        run = poll.run_now().wait(BOUND_S)
        waited = edgecron("run", "poll", "--wait")

    assert "no new files" in edgecron("history").out
    assert f"(run {run.id}): no new files" in " ".join(
        edgecron("why", "poll", str(run.id)).out.split()
    )
    assert (waited.code, waited.err) == (
        0,
        f"edgecron: run {run.id + 1} of poll was skipped: no new files\n",
    )
    assert "poll" not in edgecron("doctor").out


def test_a_run_that_gave_up_says_so(database: Path, edgecron: Edgecron) -> None:
    scheduler = Scheduler(database)

    @scheduler.job("@daily", retries=2, give_up_on=ValueError)
    def poll() -> None:
        raise ValueError("bad tag")

    with scheduler:
        run = poll.run_now().wait(BOUND_S)

    why = " ".join(edgecron("why", "poll", str(run.id)).out.split())
    assert "ValueError: bad tag; the job does not retry this exception." in why
    assert edgecron("history", "--json").json[0]["flags"] == ["gave_up"]
