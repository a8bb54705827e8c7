"""A Scheduler on a database of a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path
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
