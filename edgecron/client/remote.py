"""RemoteClient: a database on another machine, over its HTTP API.

server      what --url names, and the time of that machine
tls         which certificates https trusts
line        one connection; HTTP/1.1 as our server, and a proxy before it, speak it
requests    a request and its answer, and patience with a server that restarts
reading, follow     the parts of RemoteClient that read; what changes is here
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edgecron.base.clock import SystemClock
from edgecron.base.errors import Conflict
from edgecron.client.remote_follow import Following
from edgecron.client.remote_line import HttpLine
from edgecron.client.remote_reading import Browsing, Reading
from edgecron.client.remote_requests import Asking
from edgecron.client.remote_server import ServerTime

if TYPE_CHECKING:
    from datetime import datetime

    from edgecron.client.remote_requests import Lines
    from edgecron.client.remote_server import Server
    from edgecron.formats.document_plan import Step
    from edgecron.model.run import Execution
    from edgecron.model.schedule import Schedule, ScheduleSpec


_TRIES = 20


class Writing(Asking):
    """What changes schedules, and what is done about runs by hand."""

    def add(self, spec: ScheduleSpec, *, origin: str = "python") -> Schedule:
        return self.add_all([spec], origin=origin)[0]

    def add_all(self, specs: Sequence[ScheduleSpec], *, origin: str = "python") -> list[Schedule]:
        found: list[Schedule] = self._ask("add_all", specs=specs, origin=origin)
        return found

    def edit(
        self,
        name: str,
        change: Callable[[ScheduleSpec], ScheduleSpec],
        *,
        origin: str = "python",
    ) -> Schedule:
        """`change` is called here, on the schedule as it is there."""
        for _ in range(_TRIES):
            schedule: Schedule = self._ask("schedule", name=name)
            changed = self.edit_once(schedule, change(schedule.spec), origin=origin)
            if changed is not None:
                return changed
        raise Conflict(f"schedule {name!r} is being changed by others", hint="try again")

    def edit_once(
        self, schedule: Schedule, spec: ScheduleSpec, *, origin: str = "python"
    ) -> Schedule | None:
        found: Schedule | None = self._ask(
            "edit_once", name=schedule.name, schedule=schedule, spec=spec, origin=origin
        )
        return found

    def apply(self, steps: Sequence[Step], *, origin: str) -> list[Schedule]:
        """What stays as it is need not travel."""
        from edgecron.formats.document_plan import Action

        wanted = [step for step in steps if step.action is not Action.LEAVE]
        found: list[Schedule] = self._ask("apply", steps=wanted, origin=origin)
        return found

    def limit_group(self, group: str, max_running: int | None) -> None:
        self._ask("limit_group", group=group, max_running=max_running)

    def remove(self, name: str) -> Schedule:
        schedule: Schedule = self._ask("schedule", name=name)
        self._ask("remove", name=name)
        return schedule

    def undo_removal(self, name: str | None = None) -> list[Schedule]:
        found: list[Schedule] = self._ask("undo_removal", name=name)
        return found

    def remove_unreadable(self, name: str) -> bool:
        found: bool = self._ask("remove_unreadable", name=name)
        return found

    def pause(self, name: str, *, until: datetime | None = None) -> Schedule:
        found: Schedule = self._ask("pause", name=name, until=until)
        return found

    def resume(self, name: str) -> Schedule:
        found: Schedule = self._ask("resume", name=name)
        return found

    def reschedule(self, name: str, run_at: datetime) -> Schedule:
        found: Schedule = self._ask("reschedule", name=name, time=run_at)
        return found

    def run_now(self, name: str, *, payload: str | None = None) -> list[Execution]:
        """With a key of its own: that its answer is lost makes no second run of it."""
        return self.run_once(name, key=os.urandom(16).hex(), payload=payload)

    def run_once(
        self,
        name: str,
        *,
        key: str,
        payload: str | None = None,
        asked_at: datetime | None = None,
    ) -> list[Execution]:
        found: list[Execution] = self._ask_keyed(
            "run_once",
            name=name,
            key=key,
            payload_text=payload,
            asked_at=asked_at or self.now(),
        )
        return found

    def cancel(self, execution_id: int) -> Execution:
        found: Execution = self._ask("cancel", execution_id=execution_id)
        return found

    def backfill(
        self,
        name: str,
        from_at: datetime,
        to_at: datetime,
        *,
        priority: int | None = None,
        on_progress: Callable[[int, int], object] = lambda done, count: None,
    ) -> list[int]:
        """How far it is, is told at its end alone."""
        found: list[int] = self._ask(
            "backfill", name=name, from_at=from_at, to_at=to_at, priority=priority
        )
        if found:
            on_progress(len(found), len(found))
        return found


class RemoteClient(Reading, Browsing, Writing, Following):
    """The database of another machine, as a Client is one of this machine. For one thread.

    `time` is shared by the clients of one server. Every question may raise ServerUnavailable, and
    what the Client there raises.
    """

    def __init__(self, lines: Lines, *, time: ServerTime | None = None) -> None:
        super().__init__(lines, time=time or ServerTime(SystemClock()))


class HttpLines:
    """Lines to a server. `token` None sends none."""

    def __init__(self, server: Server, *, token: str | None = None) -> None:
        self.place = server.url
        self._server = server
        self._token = token

    def open(self) -> HttpLine:
        return HttpLine(self._server, self._token)
