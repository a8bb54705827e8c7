"""Apply rules to what happened, and send notices: the work of a short-lived process.

An engine starts this process if something is to be sent, and never sends itself, so that no slow
server holds up a run. Only one such process works on a database: it holds a lock of its machine
and, on a server, one of the database.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import groupby
from typing import Any
from uuid import uuid4

from edgecron.base.files import open_private
from edgecron.base.paths import Location, ServerUrl
from edgecron.base.units import DAY_MS, HOUR_MS
from edgecron.base.values import dataclass, replace
from edgecron.client.local import Client
from edgecron.client.notice_channels import ChannelFailed, Message
from edgecron.client.notice_channels import send as send_over
from edgecron.client.notice_contents import NoticeContents, has_living_engine
from edgecron.client.notice_rules import KnownRules, load_recorded
from edgecron.client.side_processes import (
    HEARTBEAT,
    HEARTBEAT_ERROR,
    NOTICES_ERROR,
    become_side_process,
    recording_error,
    take_location,
)
from edgecron.model.notices import (
    Channel,
    ChannelKind,
    Happening,
    NewNotice,
    Notice,
    NoticeEvent,
    Watched,
)
from edgecron.planning.notices import (
    MOST_USUAL_RUNS,
    grouped_until,
    held_until,
    judge,
    plan_pings,
    retry_at,
    send_at,
    usual_limit_ms,
)
from edgecron.store.sql import notices as store
from edgecron.store.sql import outbox
from edgecron.store.sql.history import find_durations_ms

_LOCK = "notices.lock"
_LINGER_MS = 3_000  # how long the process waits for the next notice
_LAST_LINGER_MS = 90_000  # the same if no engine is running that could start it again
_LOOK_MS = 2_000  # between two looks at what has happened
_LOCK_TRIES = 40
_LOCK_NAP_S = 0.1
_OTHERS_FIRST_S = 5  # for machines whose configuration has all rules
_RESTART_MS = 60_000  # an engine that stopped might only restart: its notice waits this long
_STALL_AGAIN_MS = DAY_MS  # an engine that is still stalled is told again
_MOST_AT_ONCE = 500
_BEHIND_MS = 1_000  # a new notice is sent after one of its rule that is tried again
_MOST_BEHIND_MS = HOUR_MS  # only so long, as that one can be unwanted itself
_PING_PAUSE_MS = 300_000  # the longest pause of pings: their monitor expects them often
_UNREAD_MS = 600_000  # the longest pause between two looks at a configuration that can't be read
_NICE = 5  # Running jobs come first.
_SENDERS = 8  # threads: a broken channel does not hold up the others

Send = Callable[[Any, Message], None]


@dataclass(slots=True, kw_only=True)
class _Line:
    """Messages that go out one after the other, up to the first that fails.

    `replaced` is a ping that the first of them replaces.
    """

    channel: Channel
    letters: deque[tuple[list[Notice], Message]]
    replaced: Sequence[Notice] = ()


@contextmanager
def sending_lock(client: Client) -> Iterator[bool]:
    """Hold the lock of the process that sends notices; yield False if another one keeps it.

    One that ends soon is waited for: it might have had its last look already.
    """
    folder = client.state_dir
    folder.mkdir(mode=0o700, exist_ok=True)
    lock_fd = open_private(folder / _LOCK, os.O_RDWR | os.O_CREAT)
    try:
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOCK_NAP_S)
            else:
                with client.store.sending_alone(wait_s=_LOCK_TRIES * _LOCK_NAP_S) as is_ours:
                    yield is_ours
                return
        yield False
    finally:
        os.close(lock_fd)


class NoticeSender:
    """Send the notices of a database. For one thread; `send` is called on others.

    `pause` sleeps for seconds.
    """

    def __init__(
        self,
        client: Client,
        known: KnownRules,
        *,
        send: Send = send_over,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._client = client
        self._pause = pause
        self._rules = known.rules
        self._channels = known.channels
        self._send = send
        self._contents = NoticeContents(client)

    def run(self) -> int:
        """Send due notices until no further one is due soon. Return how many messages were sent."""
        sent = 0
        outbox.recall_notices(self._client.store, now_ms=self._now_ms())
        self._note_stalled_engines()
        linger_ms = _LINGER_MS
        while True:
            self.apply_rules()
            sent += self.send_due()
            next_ms = store.next_notice_ms(self._client.store, now_ms=self._now_ms())
            if next_ms is None:
                break
            wait_ms = next_ms - self._now_ms()
            if wait_ms > linger_ms:
                # To look for a living engine can take milliseconds, so it is not done at each turn.
                linger_ms = self._linger_ms()
            if wait_ms > linger_ms:
                break
            # What happens meanwhile is looked at soon.
            self._pause(max(0, min(wait_ms, _LOOK_MS)) / 1000)
        return sent

    def _note_stalled_engines(self) -> None:
        """Record the engines that make no progress: each at most once a day."""
        if not any(NoticeEvent.ENGINE_STALLED in one.events for one in self._rules.values()):
            return
        stalled = [state.info.id for state in self._client.engines() if state.is_stalled]
        if not stalled:
            return
        now_ms = self._now_ms()
        told = store.find_stalls_told(self._client.store, since_ms=now_ms - _STALL_AGAIN_MS)
        for engine_id in stalled:
            if engine_id not in told:
                store.note_stalled_engine(self._client.store, engine_id, now_ms=now_ms)

    def apply_rules(self) -> None:
        """Make notices of what happened and of reminders that are due."""
        database, now_ms = self._client.store, self._now_ms()
        happenings = store.find_happenings(database, limit=_MOST_AT_ONCE)
        watched = store.find_watched(database, now_ms=now_ms, limit=_MOST_AT_ONCE)
        schedule_ids = [one.schedule_id for one in happenings if one.schedule_id is not None]
        schedule_ids += [one.schedule_id for one in watched]
        incidents = store.find_incidents(database, schedule_ids, now_ms=now_ms)
        if not happenings and not incidents and not watched:
            return
        for key, incident in incidents.items():
            if incident.event is NoticeEvent.STALLED and incident.is_lasting:
                is_silent = self._contents.is_silent(incident, now_ms=now_ms)
                incidents[key] = replace(incident, is_lasting=is_silent)
        rules = list(self._rules.values())
        if any(rule.slow_as_usual for rule in rules):
            happenings = [one._replace(usual_ms=self._usual_ms(one)) for one in happenings]
            watched = [one._replace(usual_ms=self._usual_ms(one)) for one in watched]
        judged = judge(rules, happenings, incidents, watched=watched, now_ms=now_ms)
        sent_ms = outbox.find_last_sent_ms(database, (one.rule for one in judged.notices))
        store.write_judged(
            database,
            judged,
            details=[self._contents.detail_of(one) for one in judged.notices],
            due_ms=[self._due_ms(one, sent_ms.get(one.rule), now_ms) for one in judged.notices],
            until_id=happenings[-1].id if happenings else 0,
        )

    def _usual_ms(self, one: Happening | Watched) -> int | None:
        """How long a run takes at most, as is usual for its schedule; None: unknown."""
        if one.schedule_id is None or one.execution_id is None:
            return None
        durations_ms = find_durations_ms(
            self._client.store,
            one.schedule_id,
            before_id=one.execution_id,
            limit=MOST_USUAL_RUNS,
        )
        return usual_limit_ms(durations_ms)

    def send_due(self) -> int:
        """Send due notices: one message per rule, and pings in order; how many were sent."""
        database = self._client.store
        due = outbox.find_due_notices(database, now_ms=self._now_ms(), limit=_MOST_AT_ONCE)
        lines, begun = [], set[str]()  # and the rules that have a message
        for group in sorted(self._group(due), key=lambda notices: notices[0].id):
            line = self._prepare(group, begun)
            if line is not None:
                lines.append(line)
                begun.add(group[0].rule)
        sent = 0
        with ThreadPoolExecutor(max_workers=_SENDERS, thread_name_prefix="edgecron-send") as pool:
            sending = {self._begin(pool, line): line for line in lines}
            # Record each as soon as it is sent: if this process dies, it is not sent again.
            while sending:
                for future in wait(sending, return_when=FIRST_COMPLETED).done:
                    line, error = sending.pop(future), future.exception()
                    if error is not None and not isinstance(error, ChannelFailed):
                        raise error
                    self._note(line, error)
                    sent += error is None
                    if line.letters:
                        sending[self._begin(pool, line)] = line
        return sent

    def _begin(self, pool: Executor, line: _Line) -> Future[None]:
        notices, message = line.letters[0]
        outbox.note_message(self._client.store, [one.id for one in notices], message.id)
        return pool.submit(self._send, line.channel, message)

    def _note(self, line: _Line, error: ChannelFailed | None) -> None:
        """Record what became of the first message of a line. After a failure, the others wait."""
        database, now_ms = self._client.store, self._now_ms()
        notices, _ = line.letters.popleft()
        if error is None:
            replaced = [one.id for one in line.replaced]
            ids = [one.id for one in notices]
            outbox.note_sent(database, ids, now_ms=now_ms, replaced=replaced)
            line.replaced = ()
            return
        line.letters.clear()
        # The oldest counts the tries of all.
        tried = line.replaced or notices
        retry_ms = retry_at(
            tried[0].tries + 1,
            at_ms=tried[0].at_ms,
            now_ms=now_ms,
            longest_ms=_PING_PAUSE_MS if self._is_ping(tried[0]) else HOUR_MS,
        )
        ids = [one.id for one in tried]
        outbox.note_not_sent(database, ids, error=error.message, retry_ms=retry_ms)

    def _group(self, due: Sequence[Notice]) -> Iterator[list[Notice]]:
        """Group notices by message: that of an earlier try, or one for each rule.

        Pings are grouped by schedule.
        """

        def key(one: Notice) -> tuple[str, str]:
            of_ping = one.schedule or ""
            return (one.rule, of_ping if self._is_ping(one) else one.message or "")

        for _, group in groupby(sorted(due, key=key), key=key):
            yield list(group)

    def _is_ping(self, notice: Notice) -> bool:
        rule = self._rules.get(notice.rule)
        return rule is not None and rule.channel is ChannelKind.PING

    def _prepare(self, notices: list[Notice], begun: Set[str]) -> _Line | None:
        """Return the messages of a group; None if none of the group is sent now.

        `begun` are the rules that send a message now.
        """
        first, now_ms = notices[0], self._now_ms()
        channel = self._channels.get(first.rule)
        if channel is None:
            retry_ms = retry_at(
                first.tries + 1, at_ms=first.at_ms, now_ms=now_ms, longest_ms=_UNREAD_MS
            )
            ids = [one.id for one in notices]
            outbox.note_not_sent(self._client.store, ids, error=outbox.UNREAD, retry_ms=retry_ms)
            return None
        if self._is_ping(first):
            return self._prepare_pings(notices, channel)
        return self._prepare_message(self._drop_untrue(notices), channel, begun)

    def _prepare_pings(self, due: Sequence[Notice], channel: Channel) -> _Line | None:
        database, now_ms = self._client.store, self._now_ms()
        waiting = outbox.find_waiting(database, due[0].rule, schedule=due[0].schedule)
        plan = plan_pings(waiting, now_ms=now_ms)
        if not plan.send:
            until_ms = waiting[0].due_ms or now_ms
            ids = [one.id for one in due]
            outbox.postpone_notices(database, ids, until_ms=until_ms, is_held=False)
            return None
        # The oldest counts the tries, until one of the newer ones is sent.
        outbox.replace_notices(database, [one.id for one in plan.replaced[1:]])
        letters = [([one], self._contents.ping_of(one, self._message_id(one))) for one in plan.send]
        return _Line(channel=channel, letters=deque(letters), replaced=plan.replaced[:1])

    def _prepare_message(
        self, notices: list[Notice], channel: Channel, begun: Set[str]
    ) -> _Line | None:
        """Return the message of notices of one rule; None if it is not sent now.

        Messages that could not be sent keep the pauses, too: else a flood would follow when a dead
        network is back.
        """
        if not notices:
            return None
        database, now_ms = self._client.store, self._now_ms()
        rule = self._rules[notices[0].rule]
        ids = [one.id for one in notices]
        latest_ms = notices[0].at_ms + _MOST_BEHIND_MS
        if notices[0].tries == 0 and now_ms < latest_ms:
            retry_ms = outbox.find_retry_ms(database, rule.name)
            if retry_ms is not None:
                # It would fail, too. The notices of this time then go in one message.
                behind_ms = min(max(retry_ms, now_ms + _BEHIND_MS), latest_ms)
                outbox.postpone_notices(database, ids, until_ms=behind_ms, is_held=False)
                return None
        sent_ms = outbox.find_sent_ms(
            database, rule.name, since_ms=now_ms - HOUR_MS, limit=rule.most_per_hour
        )
        until_ms = held_until(sent_ms, most_per_hour=rule.most_per_hour, now_ms=now_ms)
        is_held = until_ms is not None
        if until_ms is None:
            last_ms = sent_ms[0] if sent_ms else None
            until_ms = grouped_until(now_ms if rule.name in begun else last_ms, now_ms=now_ms)
        if until_ms is not None:
            outbox.postpone_notices(database, ids, until_ms=until_ms, is_held=is_held)
            return None
        message = self._contents.message_of(notices, self._message_id(notices[0]))
        return _Line(channel=channel, letters=deque([(notices, message)]))

    def _message_id(self, first: Notice) -> str:
        return first.message or f"{self._client.store.uuid}.{first.id}"

    def _drop_untrue(self, notices: list[Notice]) -> list[Notice]:
        """Drop notices of engines that were stopped and have been started again."""
        stopped = [one for one in notices if one.detail.get("engine_status") == "stopped"]
        if not stopped or not has_living_engine(self._client):
            return notices
        ids = {one.id for one in stopped}
        outbox.drop_notices(self._client.store, sorted(ids))
        return [one for one in notices if one.id not in ids]

    def _due_ms(self, notice: NewNotice, last_sent_ms: int | None, now_ms: int) -> int:
        is_ping = self._rules[notice.rule].channel is ChannelKind.PING
        due_ms = send_at(now_ms=now_ms, last_sent_ms=last_sent_ms, is_immediate=is_ping)
        if notice.event is NoticeEvent.ENGINE_STOPPED:
            due_ms = max(due_ms, notice.at_ms + _RESTART_MS)
        return due_ms

    def _linger_ms(self) -> int:
        return _LINGER_MS if has_living_engine(self._client) else _LAST_LINGER_MS

    def _now_ms(self) -> int:
        return self._client.clock.now_ms()


def send_heartbeats(client: Client, known: KnownRules, *, send: Send = send_over) -> None:
    """Ping the rules that want a heartbeat.

    A ping that fails is not tried again: the next one follows. `doctor` names the failure.
    """
    failures = []
    for name, rule in known.rules.items():
        if rule.beat_ms is None or name not in known.channels:
            continue
        mark = str(uuid4())
        try:
            send(known.channels[name], Message(id=mark, subject="", text="", body={}, run=mark))
        except ChannelFailed as error:
            failures.append(f"rule {name} could not send its last heartbeat: {error.message}\n")
    kept = client.state_dir / HEARTBEAT_ERROR
    if not failures:
        kept.unlink(missing_ok=True)
        return
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    fd = open_private(kept, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(fd, "w", encoding="utf-8", errors="replace") as file:
        file.writelines(failures)


def main(arguments: list[str]) -> None:
    """Be the process that sends the notices of the database that is the first argument.

    With a second argument, first send the heartbeat of the engine that started it.
    """
    database, *words = arguments
    become_side_process(nice=_NICE)
    deliver(take_location(database), has_beat=words == [HEARTBEAT])


def deliver(database: Location, *, has_beat: bool = False) -> None:
    """Send the notices of a database, unless another process does.

    `has_beat`: first send a heartbeat, whatever another process does.
    """
    with Client(database, must_exist=True) as client:
        # Of a server's database that can't be opened, the engine reports the same.
        crash = client.state_dir / NOTICES_ERROR
        with recording_error(crash):
            is_shared = isinstance(database, ServerUrl)
            if has_beat:
                send_heartbeats(client, load_recorded(client, may_forget=not is_shared))
            if is_shared:
                known = load_recorded(client, may_forget=False)
                if known.rules.keys() - known.channels.keys():
                    time.sleep(_OTHERS_FIRST_S)
            with sending_lock(client) as is_ours:
                if is_ours:  # Else the process that holds the lock does the work.
                    NoticeSender(client, load_recorded(client)).run()
                    crash.unlink(missing_ok=True)
