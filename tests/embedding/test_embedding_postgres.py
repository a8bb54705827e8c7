"""A Scheduler on a database of a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from edgecron import Scheduler, every
from edgecron.base.errors import NotSupported
from edgecron.embedding.events import RunEvent
from edgecron.model.choices import Status

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer


def test_functions_of_a_program_run_on_a_server(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url = postgres.create_empty()
    scheduler = Scheduler(url)
    events: list[RunEvent] = []
    scheduler.subscribe(events.append)

    @scheduler.job(every("1h"))
    def double(number: int = 4) -> int:
        return 2 * number

    with scheduler:
        run = double.run_now(number=21).wait(timeout=30)

    assert (run.status, run.result) == (Status.SUCCESS, 42)
    assert [event.kind for event in events] == ["started", "finished"]
    assert scheduler.name.startswith("empty_")
    with pytest.raises(NotSupported, match="is on a server and has no path"):
        _ = scheduler.path


@pytest.mark.failure(92)
def test_a_function_whose_end_a_failover_forgets_is_not_called_again(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url = postgres.create_database()
    scheduler, began, may_end = Scheduler(url), Event(), Event()
    calls: list[int] = []

    @scheduler.job(every("1h"))
    def count() -> int:
        calls.append(len(calls))
        began.set()
        assert may_end.wait(30)
        return 7

    with scheduler:
        first = count.run_now()
        assert began.wait(30)
        standby = postgres.copy_database(url)
        may_end.set()
        first.wait(timeout=30)
        postgres.fail_over(url, standby)
        again = first.refresh().wait(timeout=30)

    assert (again.status, again.result, calls) == (Status.SUCCESS, 7, [0])
