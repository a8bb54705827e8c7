"""The runs of a database on another machine."""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

from edgecron.client.protocol import Client
from edgecron.client.remote_follow import RemoteFollower, RemoteLaterRuns
from edgecron.client.remote_requests import Requests, asked, check_schedule
from edgecron.model.listing import RunPage

if TYPE_CHECKING:
    from edgecron.model.choices import Cause, Status
    from edgecron.model.run import Execution
    from edgecron.model.schedule import ScheduleSpec


_MOST_RUNS = 1000


class RemoteRuns(Requests):
    """Read runs, follow them and start them."""

    execution = asked(Client.execution)
    run_page = asked(Client.run_page)
    run_bounds = asked(Client.run_bounds)
    waiting_runs = asked(Client.waiting_runs)
    last_run = asked(Client.last_run)
    last_failure = asked(Client.last_failure)
    output = asked(Client.output)
    cancel = asked(Client.cancel)

    def history(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> list[Execution]:
        return self.history_page(
            name,
            statuses=statuses,
            causes=causes,
            before_id=before_id,
            since=since,
            until=until,
            limit=limit,
            with_former=with_former,
        ).runs

    def history_page(
        self,
        name: str | None = None,
        *,
        statuses: tuple[Status, ...] = (),
        causes: tuple[Cause, ...] = (),
        before_id: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 20,
        with_former: bool = False,
    ) -> RunPage:
        found = RunPage([], [])
        while len(found.runs) < limit:
            size = min(limit - len(found.runs), _MOST_RUNS)
            page: RunPage = self.request(
                "history_page",
                schedule=name,
                status=statuses,
                cause=causes,
                before=before_id,
                since=since,
                until=until,
                limit=size,
                former=with_former,
            )
            found.runs.extend(page.runs)
            found.unreadable.extend(page.unreadable)
            if len(page.runs) < size:
                break
            before_id = page.runs[-1].id
        return found

    def next_attempt(self, execution: Execution) -> Execution | None:
        found: Execution | None = self.request("next_attempt", execution_id=execution.id)
        return found

    def spec_of(self, execution: Execution) -> ScheduleSpec | None:
        found: ScheduleSpec | None = self.request("spec_of", execution_id=execution.id)
        return found

    def is_supervised(self, execution: Execution) -> bool:
        found: bool = self.request("is_supervised", execution_id=execution.id)
        return found

    def follower(self, execution_id: int, *, position: int = 0) -> RemoteFollower:
        return RemoteFollower(
            self.request, self._connector.open(self._time), execution_id, position=position
        )

    def later_runs(self, name: str, *, known: Execution | None) -> RemoteLaterRuns:
        begun = self.request("begun_runs", name=name, known=None if known is None else known.id)
        return RemoteLaterRuns(self.request, self._connector.open(self._time), begun)

    def run_now(self, name: str, *, payload: str | None = None) -> list[Execution]:
        """Send a fresh key: if the answer is lost, the request can be repeated."""
        return self.run_once(name, key=os.urandom(16).hex(), payload=payload)

    def run_once(
        self,
        name: str,
        *,
        key: str,
        payload: str | None = None,
        asked_at: datetime | None = None,
    ) -> list[Execution]:
        check_schedule(name)
        found: list[Execution] = self._connection.ask_keyed(
            "run_once",
            name=name,
            key=key,
            payload_text=payload,
            asked_at=asked_at or self.now(),
        )
        return found
