"""The contents of notices: the facts that are kept with them, and their messages."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from edgecron.base.errors import EdgecronError, InvalidInput, NotFound, Unreadable
from edgecron.base.paths import Location, is_root, read_location
from edgecron.base.safetext import clean
from edgecron.base.units import format_duration_ms, format_ms, from_ms
from edgecron.base.zones import load_zone
from edgecron.client.local import Client
from edgecron.client.notice_channels import Message
from edgecron.formats.config import PREFIX, load
from edgecron.model.choices import Reason, Status
from edgecron.model.notices import STALLED, Incident, NewNotice, Notice, NoticeEvent
from edgecron.store.sql.notices import find_engine_end
from edgecron.views.json_objects import execution_object, notice_object
from edgecron.views.run_words import message_subject, message_text, run_sentence, trouble_words
from edgecron.views.times import local_time

if TYPE_CHECKING:
    from edgecron.model.run import Execution

_TAIL_LINES = 20
_TAIL_BYTES = 8 * 1024


def command_words(database: Location) -> str:
    """Return the program as a shell of this machine calls it for a database.

    With --db, unless this user's own default is that file. Another user has another default than
    root, so notices of root always name the file.
    """
    # The engine's own variables are not those of the shell.
    environ = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    with suppress(InvalidInput):
        given = load(environ=environ).find("database")
        usual = read_location(None if given is None else str(given.text), environ=environ)
        if not is_root() and usual == database:
            return "edgecron"
    return f"edgecron --db {quote(str(database))}"


def has_living_engine(client: Client) -> bool:
    """Return whether an engine of the database is running."""
    return any(state.is_alive for state in client.engines())


class NoticeContents:
    """The contents of notices and messages, read from a database."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._host = clean(socket.gethostname())[:60]
        self._zone = load_zone("local")
        self._command = command_words(client.location)

    def message_of(self, notices: Sequence[Notice], message_id: str) -> Message:
        """Return the message that tells people of notices of one rule."""
        held = sum(one.status == "held" for one in notices)
        subject = message_subject(notices, host=self._host)
        text = message_text(notices, held=held, zone=self._zone, command=self._command)
        return Message(
            id=message_id,
            subject=subject,
            text=text,
            body={
                "id": message_id,
                "host": self._host,
                "rule": notices[0].rule,
                "subject": subject,
                "text": text,
                "held": held,
                "notices": [notice_object(one) for one in notices],
            },
        )

    def ping_of(self, notice: Notice, message_id: str) -> Message:
        """Return the ping of a notice, as the protocol of healthchecks has it."""
        path = "/start"
        if notice.event is NoticeEvent.ENDED:
            path = _end_path(notice.detail)
        run = notice.detail.get("run")
        text = "\n".join(str(line) for line in _list_in(notice.detail.get("output_tail")))
        mark = uuid5(UUID(self._client.store.uuid), f"run {notice.execution_id}")
        is_start = notice.event is NoticeEvent.STARTED
        return Message(
            id=message_id,
            subject="",
            text="" if is_start else text,
            body={"run": run},
            schedule=notice.schedule or "",
            path=path,
            run=str(mark),
        )

    def is_silent(self, incident: Incident, *, now_ms: int) -> bool:
        """Whether the run of an incident has printed nothing for its stall timeout, until now."""
        try:
            run = self._client.execution(incident.execution_id or 0)
            spec = self._client.spec_of(run)
        except (NotFound, Unreadable):
            return False
        limit_s = None if spec is None else spec.policies.stall_timeout_s
        if limit_s is None:
            return False
        printed_ms = (chunk.at_ms for chunk in self._client.output_so_far(run))
        return max(printed_ms, default=0) <= now_ms - round(limit_s * 1000)

    def detail_of(self, notice: NewNotice) -> dict[str, object]:
        """Say what happened, as long as its rows are there."""
        if notice.execution_id is None:
            return self._engine_detail(notice)
        try:
            run = self._client.execution(notice.execution_id)
        except (NotFound, Unreadable) as error:
            return {"sentence": error.message}
        shown = execution_object(run)
        del shown["payload"]  # It can hold a secret.
        sentence = self._sentence(run)
        if notice.event is NoticeEvent.STALLED and run.status is Status.RUNNING:
            sentence += f" It printed nothing for {self._stall_limit(run)}."
        detail: dict[str, object] = {"run": shown, "sentence": sentence}
        since = None if notice.since_ms is None else self._time(notice.since_ms)
        trouble = trouble_words(notice.event, notice.fire_count, since)
        if trouble is not None:
            detail["trouble"] = trouble
        detail["fire_count"] = notice.fire_count
        detail["since"] = format_ms(notice.since_ms)
        detail["output_tail"] = self._tail(run)
        return detail

    def _sentence(self, run: Execution) -> str:
        try:
            return run_sentence(run, zone=self._zone, now=self._client.now())
        except EdgecronError as error:
            return error.message

    def _stall_limit(self, run: Execution) -> str:
        spec = self._client.spec_of(run)
        limit_s = None if spec is None else spec.policies.stall_timeout_s
        return "long" if limit_s is None else format_duration_ms(round(limit_s * 1000))

    def _engine_detail(self, notice: NewNotice) -> dict[str, object]:
        row = find_engine_end(self._client.store, notice.engine_id or 0)
        status, pid = row if row is not None else ("stopped", None)
        if notice.event is NoticeEvent.ENGINE_STALLED:
            sentence = f"The engine (pid {pid}) made no progress at {self._time(notice.at_ms)}."
            return {
                "title": "the engine is stalled",
                "engine_status": STALLED,
                "sentence": f"{sentence} See: {self._command} doctor",
            }
        words = "was stopped" if status == "stopped" else "ended without being stopped"
        title = f"the engine {words}"
        sentence = f"The engine (pid {pid}) {words} at {self._time(notice.at_ms)}."
        more = f" Due runs wait until an engine is running: {self._command} daemon"
        return {
            "title": title,
            "engine_status": status,
            "sentence": sentence + ("" if has_living_engine(self._client) else more),
        }

    def _tail(self, run: Execution) -> list[str]:
        """The last lines of a run's output, safe to show."""
        kept, size = [], 0
        for chunk in reversed(self._client.output_so_far(run)):
            kept.append(chunk.content)
            size += len(chunk.content)
            if size >= _TAIL_BYTES:
                break
        content = b"".join(reversed(kept))[-_TAIL_BYTES:]
        lines = content.decode("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        return [clean(line, keep="\t")[:500] for line in lines]

    def _time(self, at_ms: int) -> str:
        at: datetime = from_ms(at_ms)
        return local_time(at, zone=self._zone)


def _end_path(detail: Mapping[str, object]) -> str:
    """Return the end of a ping's address for an ended run."""
    run = detail.get("run")
    if not isinstance(run, dict):
        return "/fail"
    if run.get("status") == Status.SUCCESS or run.get("reason") == Reason.DECLINED:
        return ""
    code = run.get("exit_code")
    return f"/{code}" if isinstance(code, int) and 0 < code < 256 else "/fail"


def _list_in(value: object) -> list[object]:
    return value if isinstance(value, list) else []
