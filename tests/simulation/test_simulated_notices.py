"""The outbox, with several engines, and a crash of an engine or of the sender at any moment."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from edgecron.client import Client
from edgecron.client.notice_channels import ChannelFailed, Message
from edgecron.client.notice_rules import load_recorded, sync_config
from edgecron.client.notice_sending import NoticeSender
from edgecron.formats.config import load
from edgecron.model.choices import CatchUp, Overlap
from tests.simulation.outbox import (
    EACH,
    LATE_MS,
    OPS,
    PINGS,
    SLOW_MS,
    STALL_MS,
    TIMES,
    Diary,
    check_outbox,
)
from tests.simulation.test_simulation import START_MS, spec
from tests.simulation.world import World
from tests.support.forms import tried

_MOST = tried(1, 12)
SEEDS = (
    *range(1, _MOST + 1),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(_MOST + 1, 301)),
)
RULES = (
    f'[notify.{EACH}]\ncommand = ["a"]\nevents = ["ended"]\nmost_per_hour = 1000\n'
    f'[notify.{OPS}]\ncommand = ["b"]\nremind = "none"\nmost_per_hour = 1000\n'
    f'[notify.{TIMES}]\ncommand = ["c"]\nremind = "none"\nmost_per_hour = 1000\n'
    f'events = ["missed", "stalled"]\nlate_after = "{LATE_MS // 1000}s"\n'
    f'slow_after = "{SLOW_MS // 1000}s"\n'
    f'[notify.{PINGS}]\nping = "http://127.0.0.1:1/{{schedule}}"\n'
)
SPECS = (
    spec("good", 40, lasts_s=4),
    spec("bad", 13, lasts_s=1, code=3),
    spec("retried", 17, lasts_s=1, code=1, retries=1, retry_delay_s=30.0),
    spec("allow", 9, lasts_s=3, overlap=Overlap.ALLOW, max_running=2),
    spec("skipping", 15, lasts_s=1, catch_up=CatchUp.SKIP),
    spec("slow", 31, lasts_s=12),
    spec("silent", 37, lasts_s=12),
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
        self.diary = Diary(world)
        with Client(world.path, clock=world.clock) as client:
            sync_config(client, load(str(self._config)))

    def work(self) -> None:
        """Let a process apply the rules and send what is due; it might be killed."""
        with Client(self._world.path, clock=self._world.clock) as client:
            sender = NoticeSender(client, load_recorded(client), send=self._send)
            try:
                sender.apply_rules()
                self.diary.note(is_look=True)
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
        return
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
        world.clock.advance_ms(world.random.choice((30_000, 90_000)))
    else:
        edit(world)
    post.diary.note()


def edit(world: World) -> None:
    """A person makes a job fail or succeed, or take long or not."""
    with Client(world.path, clock=world.clock) as client:
        code, lasts_s = world.random.choice((0, 3)), world.random.choice((1, 12))
        match world.random.choice(("bad", "slow", "silent")):
            case "bad":
                client.edit("bad", lambda one: spec("bad", 13, lasts_s=1, code=code))
            case "slow":
                client.edit("slow", lambda one: spec("slow", 31, lasts_s=lasts_s))
            case "silent":
                client.edit("silent", lambda one: spec("silent", 37, lasts_s=lasts_s))


@pytest.mark.failure(15)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_event_is_told_once_and_none_is_lost(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path / "sim.db", random=Random(seed), start_ms=START_MS)
    world.fix_seed()
    world.stalls_ms = {"silent": STALL_MS}
    with Client(world.path, clock=world.clock) as client:
        client.add_all(SPECS)
    post = Post(world, tmp_path)
    world.crash_chance = world.random.choice((0.0, 0.01, 0.05))
    world.fault_chance = world.random.choice((0.0, 0.01, 0.05))

    for _ in range(300):
        act(world, post)
    calm_down(world, post)
    post.trouble = 0.0
    for _ in range(100):
        post.work()
        world.clock.advance_ms(61_000)

    check_outbox(world, post.diary, post.received)


def calm_down(world: World, post: Post) -> None:
    """No more faults, then no more schedules, then time for what runs to end."""
    for number in range(90):
        if number == 30:
            with Client(world.path, clock=world.clock) as client:
                for one in SPECS:
                    client.remove(one.name)
        world.settle(for_ms=1000)
        post.diary.note()
