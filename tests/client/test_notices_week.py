"""A week of notices to real servers: failures, a flood, restarts, kill -9, a dead network.

Only the clock is not real. No notice is lost, no flood arrives, and a message that comes twice has
the same id.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from edgecron.base.values import NamedTuple, replace
from edgecron.client.notice_rules import load_recorded, sync_config
from edgecron.client.notice_sending import NoticeSender
from edgecron.formats.config import load
from edgecron.model.choices import JobKind
from edgecron.model.job import Job
from tests.support.clock import FakeClock
from tests.support.story import Story

pytestmark = pytest.mark.needs_package("aiosmtpd")
HOUR_S = 3_600
MOST_PER_HOUR = 4
FLOOD = 12  # schedules that begin to fail one after the other, six in an hour
# A sender of its own process, with the clock of the story.
SENDER = """
import os
import sys
from pathlib import Path
from edgecron.client.local import Client
from edgecron.client.notice_rules import load_recorded
from edgecron.client.notice_sending import NoticeSender
from edgecron.embedding.travel_engine import FakeClock

clock = FakeClock(int(sys.argv[2]))
Path(sys.argv[3]).write_text(str(os.getpid()))
with Client(Path(sys.argv[1]), clock=clock) as client:
    pause = lambda seconds: clock.advance_ms(round(seconds * 1000))
    NoticeSender(client, load_recorded(client), pause=pause).run()
"""


class Arrival(NamedTuple):
    """A message as a server received it."""

    at_ms: int
    id: str
    content: Any


class Web(BaseHTTPRequestHandler):
    """Keep each request, with the time of the story."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server: Any = self.server
        now_ms = server.clock.now_ms()
        if self.path == "/hook":
            content = json.loads(body)
            server.hooks.append(Arrival(now_ms, content["id"], content))
        else:
            server.pings.append(Arrival(now_ms, self.path.partition("=")[2], self.path))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Mails:
    """Keep each mail: a handler of aiosmtpd."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.arrived: list[Arrival] = []

    async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:
        mail = message_from_bytes(envelope.content)
        found = str(mail["Message-ID"]).strip("<>").rpartition("@")[0]
        self.arrived.append(Arrival(self.clock.now_ms(), found, str(mail["Subject"])))
        return "250 kept"


class Network:
    """The servers of this machine, which can go down and come back at the same ports."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.hooks: list[Arrival] = []
        self.pings: list[Arrival] = []
        self.mails = Mails(clock)
        self.web_port = self.mail_port = 0

    @contextmanager
    def up(self) -> Iterator[None]:
        from aiosmtpd.controller import Controller

        web: Any = HTTPServer(("127.0.0.1", self.web_port), Web)
        web.clock, web.hooks, web.pings = self._clock, self.hooks, self.pings
        self.web_port = web.server_address[1]
        thread = threading.Thread(target=web.serve_forever, args=(0.01,), name="web")
        if not self.mail_port:
            self.mail_port = _free_port()
        mail = Controller(self.mails, hostname="127.0.0.1", port=self.mail_port)
        thread.start()
        mail.start()
        try:
            yield
        finally:
            mail.stop()
            web.shutdown()
            thread.join()
            web.server_close()


def _free_port() -> int:
    with HTTPServer(("127.0.0.1", 0), Web) as server:
        return int(server.server_address[1])


class Week:
    """The story, its rules, and the program of the rule `prog`."""

    def __init__(self, folder: Path) -> None:
        self.story = Story(folder / "week.db", max_running=50)
        self.clock = self.story.world.clock
        self.network = Network(self.clock)
        self.log, self._kill = folder / "prog.log", folder / "kill"
        program = folder / "prog"
        program.write_text(
            f'#!/bin/sh\n{{ cat; echo; }} >> "{self.log}"\n'
            f'[ "$(cat "{self._kill}" 2>/dev/null)" != "$PPID" ] || kill -9 "$PPID"\n'
        )
        program.chmod(0o755)
        self._program, self._config = program, folder / "config.toml"

    def write_rules(self) -> None:
        """Write the configuration, once the ports are known."""
        web, mail = self.network.web_port, self.network.mail_port
        self._config.write_text(
            f'[notify.hook]\nwebhook = "http://127.0.0.1:{web}/hook"\n'
            f"most_per_hour = {MOST_PER_HOUR}\n"
            f'[notify.mail]\nemail = "ops@example.org"\nfrom = "pi@example.org"\n'
            f'smtp = "127.0.0.1:{mail}"\nmost_per_hour = {MOST_PER_HOUR}\n'
            f'[notify.prog]\ncommand = ["{self._program}"]\nschedules = ["nightly"]\n'
            f'[notify.ping]\nping = "http://127.0.0.1:{web}/{{schedule}}"\n'
            'schedules = ["nightly"]\n'
        )
        self._config.chmod(0o600)
        sync_config(self.story.client, load(str(self._config)))

    def set_code(self, name: str, code: int) -> None:
        job = Job(kind=JobKind.COMMAND, argv=("job", "0", str(code)))
        self.story.client.edit(name, lambda spec: replace(spec, job=job))

    def pass_hours(self, hours: float, *, step_s: int = HOUR_S) -> None:
        """Let time pass, with an engine that starts the sender when something is due."""
        for _ in range(round(hours * HOUR_S / step_s)):
            self.story.after_s(step_s)
            now_ms = self.clock.now_ms()
            due_ms = self.story.client.store.next_notice_ms(now_ms=now_ms)
            if due_ms is not None and due_ms <= now_ms:
                self.deliver()

    def deliver(self) -> None:
        client = self.story.client
        pause = lambda seconds: self.clock.advance_ms(round(seconds * 1000))  # noqa: E731
        NoticeSender(client, load_recorded(client), pause=pause).run()

    def kill_sender(self) -> int:
        """Run a sender that is killed by the program that it has just given a message."""
        path, now_ms = self.story.client.path, self.clock.now_ms()
        argv = [sys.executable, "-c", SENDER, str(path), str(now_ms), str(self._kill)]
        return subprocess.run(argv, check=False, timeout=60).returncode

    def restart_engine(self, *, after_s: float) -> None:
        """kill -9 of the engine, and another one later."""
        self.story.world.kill_engine(self.story.key)
        self.clock.advance_ms(round(after_s * 1000))
        self.story.key = self.story.world.start_engine(max_running=50)
        self.story.engine.step()

    def programmed(self) -> list[Arrival]:
        """What the program received."""
        found = [json.loads(line) for line in self.log.read_text().splitlines() if line]
        return [Arrival(0, one["id"], one) for one in found]


def noticed(arrived: Sequence[Arrival]) -> Counter[tuple[str, str | None]]:
    """The events and schedules of messages, each message once."""
    by_id = {one.id: one.content for one in arrived}
    return Counter(
        (notice["event"], notice["schedule"])
        for content in by_id.values()
        for notice in content["notices"]
    )


def repeated(arrived: Sequence[Arrival]) -> set[str]:
    """The messages that came twice. None may come more often."""
    counts = Counter(one.id for one in arrived)
    assert max(counts.values()) <= 2
    return {one for one, count in counts.items() if count == 2}


@pytest.fixture
def week(tmp_path: Path) -> Week:
    week = Week(tmp_path)
    week.story.add("nightly", "0 2 * * *")
    for number in range(FLOOD):
        week.story.add(f"job{number}", f"{number % 6 * 10} {3 + number // 6} * * *")
    return week


def test_a_week_of_notices(week: Week) -> None:
    with week.network.up():
        week.write_rules()
        week.pass_hours(24)
        week.set_code("nightly", 3)
        week.pass_hours(24)
        week.set_code("nightly", 0)
        week.pass_hours(24)
        for number in range(FLOOD):
            week.set_code(f"job{number}", 1)
        week.pass_hours(11, step_s=600)
        week.pass_hours(13)
        for number in range(FLOOD):
            week.set_code(f"job{number}", 0)
        week.set_code("nightly", 4)
        week.pass_hours(7)
    week.set_code("nightly", 0)
    week.pass_hours(24)  # without a network: `recovered` waits
    waiting = [one for one in week.story.client.notices(limit=1000) if one.due_ms is not None]
    week.restart_engine(after_s=300)
    with week.network.up():
        week.pass_hours(23)
        week.set_code("nightly", 5)
        week.story.after_s(24 * HOUR_S)
        code = week.kill_sender()
        # It can be killed before it knows that a server has taken a message.
        waiting_now = [
            one for one in week.story.client.notices(limit=100) if one.due_ms is not None
        ]
        unfinished = {one.message for one in waiting_now}
        week.pass_hours(24)
    programmed, hooks, mails = week.programmed(), week.network.hooks, week.network.mails.arrived

    # The story was as it says.
    assert waiting
    assert code == -signal.SIGKILL
    # No notice is lost.
    notices = week.story.client.notices(limit=10_000)
    # Of the pings that the dead network held up, only the newest are sent.
    replaced = [one for one in notices if one.status == "given_up"]
    assert {one.rule for one in replaced} == {"ping"}
    assert {one.error for one in replaced} == {"a newer ping of its schedule took its place"}
    assert {one.status for one in notices if one not in replaced} == {"sent"}
    for rule, arrived in (("hook", hooks), ("mail", mails), ("prog", programmed)):
        sent = {one.message for one in notices if one.rule == rule}
        assert sent == {one.id for one in arrived}
    told = noticed(hooks)
    assert told["failed", "nightly"] >= 3
    assert told["recovered", "nightly"] >= 2
    assert all(told["failed", f"job{number}"] for number in range(FLOOD))
    assert all(told["recovered", f"job{number}"] for number in range(FLOOD))
    assert told["engine_stopped", None] == 1
    runs = [run for run in week.story.runs("nightly") if run.started_at is not None]
    pings = {(one.id, one.content) for one in week.network.pings}
    assert len(pings) == 2 * len(runs) - len(replaced)
    order = [one.id for one in week.network.pings]
    assert len(list(groupby(order))) == len(runs)  # The pings of a run arrive together.
    assert len({run_id for run_id, _ in pings}) == len(runs)
    # No flood arrives.
    for arrived in (hooks, mails):
        times_ms = [one.at_ms for one in arrived]
        gaps_ms = [later - at_ms for at_ms, later in pairwise(times_ms)]
        assert min(gaps_ms) >= 60_000
        assert all(
            times_ms[at + MOST_PER_HOUR] - times_ms[at] >= 1000 * HOUR_S
            for at in range(len(times_ms) - MOST_PER_HOUR)
        )
    # What came twice has the same id, and came because the sender was killed.
    assert repeated(programmed)
    for arrived in (programmed, hooks, mails):
        assert repeated(arrived) <= unfinished
