"""The outbox, with several engines, and a crash of an engine or of the sender at any moment.

O1: each end of a run has exactly one notice. O2: the failure of a schedule and its recovery have
their notices in turn. O3: no notice is lost: each is sent in the end. O4: a notice belongs to one
message, whose id and content stay, however often it is sent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgecron.client import Client
from edgecron.client.notice_channels import ChannelFailed, Message
from edgecron.client.notice_rules import load_recorded, sync_config
from edgecron.client.notice_sending import NoticeSender
from edgecron.formats.config import load
from edgecron.model.choices import Overlap
from edgecron.model.notices import NoticeEvent
from tests.simulation.test_simulation import START_MS, quiesce, spec
from tests.simulation.world import World
from tests.support.forms import tried

_MOST = tried(3, 12)
SEEDS = (
    *range(1, _MOST + 1),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_MOST + 1, 301)),
)
RULES = (
    '[notify.each]\ncommand = ["a"]\nevents = ["ended"]\nmost_per_hour = 1000\n'
    '[notify.ops]\ncommand = ["b"]\nremind = "none"\nmost_per_hour = 1000\n'
)
SPECS = (
    spec("good", 40, lasts_s=4),
    spec("bad", 13, lasts_s=1, code=3),
    spec("retried", 17, lasts_s=1, code=1, retries=1, retry_delay_s=30.0),
    spec("allow", 9, lasts_s=3, overlap=Overlap.ALLOW, max_running=2),
)


class Killed(BaseException):
    """kill -9 of the sender."""


class Post:
    """The processes that send, one after the other, and what was received."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._config = folder / "config.toml"
        self._config.write_text(RULES)
        self._config.chmod(0o600)
        self.trouble = 0.3  # the chance that a message is not received, or its sender dies
        self.received: list[Message] = []
        with Client(world.path, clock=world.clock) as client:
            sync_config(client, load(str(self._config)))

    def work(self) -> None:
        """Let a process apply the rules and send what is due; it might be killed."""
        with Client(self._world.path, clock=self._world.clock) as client:
            sender = NoticeSender(client, load_recorded(client), send=self._send)
            try:
                sender.apply_rules()
                sender.send_due()
            except Killed:
                return

    def _send(self, channel: object, message: Message) -> None:
        dice = self._world.random.random() / self.trouble if self.trouble else 1.0
        if dice < 0.4:
            raise ChannelFailed("no network")
        if dice < 0.6:
            raise Killed  # before
        self.received.append(message)
        if dice < 1.0:
            raise Killed  # after


def act(world: World, post: Post) -> None:
    """One random move of whoever may move."""
    dice = world.random.random()
    engines = sorted(world.engines)
    if dice < 0.45 and engines:
        world.step(world.random.choice(engines))
    elif dice < 0.6:
        post.work()
    elif dice < 0.88:
        world.clock.advance_ms(world.random.choice((200, 1000, 1000, 3000, 8000)))
    elif dice < 0.92:
        if len(engines) < 3:
            world.start_engine(max_running=world.random.choice((1, 3, 8)))
    elif dice < 0.95 and engines:
        world.kill_engine(world.random.choice(engines))
    elif dice < 0.97 and world.supervisors:
        world.kill_supervisor(world.random.choice(sorted(world.supervisors)))
    elif dice < 0.98:
        with Client(world.path, clock=world.clock) as client:
            code = world.random.choice((0, 3))
            client.edit("bad", lambda one: spec("bad", 13, lasts_s=1, code=code))


@pytest.mark.failure(15)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_event_is_told_once_and_none_is_lost(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path / "sim.db", random=Random(seed), start_ms=START_MS)
    world.fix_seed()
    with Client(world.path, clock=world.clock) as client:
        client.add_all(SPECS)
    post = Post(world, tmp_path)
    world.crash_chance = world.random.choice((0.0, 0.01, 0.05))
    world.fault_chance = world.random.choice((0.0, 0.01, 0.05))

    for _ in range(300):
        act(world, post)
    quiesce(world, SPECS)
    post.trouble = 0.0
    for _ in range(100):
        post.work()
        world.clock.advance_ms(61_000)

    check_outbox(world, post.received)


def check_outbox(world: World, received: list[Message]) -> None:
    """Raise AssertionError, naming the invariant, if one does not hold."""
    with Client(world.path, clock=world.clock) as client:
        notices = client.notices(limit=100_000)[::-1]
    ended = [
        row[0]
        for row in world.look("SELECT id FROM executions WHERE status <> 'skipped' ORDER BY id")
    ]
    told = Counter(one.execution_id for one in notices if one.rule == "each")
    assert told == Counter(ended), f"O1 {told - Counter(ended)} {Counter(ended) - told}"
    turns: defaultdict[str | None, list[NoticeEvent]] = defaultdict(list)
    for one in notices:
        if one.rule == "ops" and one.event in (NoticeEvent.FAILED, NoticeEvent.RECOVERED):
            turns[one.schedule].append(one.event)
    for name, events in turns.items():
        expected = [NoticeEvent.FAILED, NoticeEvent.RECOVERED] * len(events)
        assert events == expected[: len(events)], f"O2 {name} {events}"
    assert {one.status for one in notices} == {"sent"}, "O3"
    contents: dict[str, Any] = {}
    for message in received:
        found: Any = message.body["notices"]
        ids = [one["id"] for one in found]
        assert contents.setdefault(message.id, ids) == ids, f"O4 {message.id}"
    carried = Counter(notice_id for ids in contents.values() for notice_id in ids)
    assert carried == Counter(one.id for one in notices), "O3 O4"
