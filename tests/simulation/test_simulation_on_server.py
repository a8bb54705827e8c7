"""Engines of a virtual world on a real PostgreSQL server that fails in every way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import cast

import pytest

from edgecron.base.errors import DatabaseFull, DatabaseUnusable
from edgecron.base.units import from_ms
from edgecron.cli.help_ import read_topic
from edgecron.model.choices import Cause, Overlap
from edgecron.model.schedule import ScheduleSpec
from edgecron.planning.next_fire import Fire, next_fire
from edgecron.planning.times import compile_spec
from edgecron.store.sql.schedule_changes import Retiming
from edgecron.store.sqlite.store import SqliteStore
from tests.simulation.invariants import check
from tests.simulation.test_simulation import SPECS, START_MS, model_of, spec
from tests.simulation.world import World
from tests.support.clock import FakeClock
from tests.support.forms import tried
from tests.support.places import fill
from tests.support.specs import enqueue
from tests.support.stores import ServerStores
from tests.support.tools import need_packages

need_packages("psycopg")
import psycopg  # noqa: E402

from tests.support.postgres import PostgresServer, private_server  # noqa: E402
from tests.support.wire import Cut, Wire  # noqa: E402

_SEEDS, _TURNS, _EACH = tried((1, 150, 67), (20, 300, 1))
# A delay of a plan time can outlast the end of a life.
_CAST = tuple(one for one in SPECS if one.policies.jitter_s == 0)


@pytest.fixture
def wire(postgres: PostgresServer) -> Iterator[Wire]:
    # A short path: that of a socket has at most 107 bytes.
    with TemporaryDirectory(dir="/tmp") as folder:
        one = Wire(Path(folder), postgres.folder)
        yield one
        one.close()


@contextmanager
def a_world(stores: ServerStores, specs: Sequence[ScheduleSpec], *, seed: int) -> Iterator[World]:
    world = World(Path("/nonexistent"), random=Random(seed), start_ms=START_MS, stores=stores)
    with closing(world):
        world.fix_seed()
        add(world, specs)
        yield world


def add(world: World, specs: Sequence[ScheduleSpec]) -> None:
    compiled = [
        compile_spec(one, seed=world.reader.seed, made_at=from_ms(START_MS)) for one in specs
    ]
    store_of(world).insert_schedules(
        [
            (one, Retiming(next=next_fire(one.timing, START_MS), decided_until_ms=START_MS))
            for one in compiled
        ],
        boot_id="boot",
        origin="test",
        now_ms=START_MS,
    )


def store_of(world: World) -> SqliteStore:
    return cast("SqliteStore", world.reader)


def run_now(world: World, name: str) -> None:
    store, now_ms = store_of(world), world.clock.now_ms()
    key = f"manual:{world.random.getrandbits(64):032x}"
    fire = Fire(plan_ms=now_ms, due_ms=now_ms, cause=Cause.MANUAL, fire_key=key)
    enqueue(store, store.get_schedule(name), fire, now_ms=now_ms)


def live(world: World, *, turns: int) -> None:
    """Random moves of whoever may move. Nothing is ever expected of a start that fails."""
    random = world.random
    for _ in range(turns):
        dice, engines = random.random(), sorted(world.engines)
        if dice < 0.55 and engines:
            world.step(random.choice(engines))
        elif dice < 0.85:
            world.clock.advance_ms(random.choice((200, 1000, 3000, 3000, 8000)))
        elif dice < 0.91 and len(engines) < 3:
            with suppress(DatabaseUnusable):
                world.start_engine(max_running=random.choice((1, 3, 8)))
        elif dice < 0.94 and engines:
            world.kill_engine(random.choice(engines))
        elif dice < 0.96 and world.supervisors:
            world.kill_supervisor(random.choice(sorted(world.supervisors)))
        else:
            with suppress(DatabaseFull):
                run_now(world, random.choice(_CAST).name)


def judge(world: World, specs: Sequence[ScheduleSpec]) -> None:
    """Let all that was begun end, remove the schedules, and check every invariant."""
    for engine, _ in world.engines.values():
        engine.recovery.suspect()  # as the kernel has reported the deaths of other engines
    world.settle(for_ms=30_000)
    for one in specs:
        store = store_of(world)
        store.remove_schedule(store.get_schedule(one.name), missed=(), now_ms=world.clock.now_ms())
    removed_ms = world.clock.now_ms()
    world.settle(for_ms=60_000)
    check(world, model_of(specs), made_ms=START_MS, until_ms=removed_ms)


@pytest.mark.failure(82)
@pytest.mark.parametrize("seed", range(_SEEDS))
def test_lost_connections_lose_no_fire_and_run_none_twice(
    postgres: PostgresServer, wire: Wire, seed: int
) -> None:
    dice, cuts = Random(seed), {Cut.BEFORE: 0, Cut.AFTER: 0}

    def decide(_: bytes) -> Cut:
        cut = dice.choices(list(Cut), (96, 2, 2))[0]
        if cut in cuts:
            cuts[cut] += 1
        return cut

    own_url = postgres.create_database()
    name = own_url.partition("@/")[2].partition("?")[0]
    stores = ServerStores(postgres.url(name, folder=wire.folder), own_url)
    with a_world(stores, _CAST, seed=seed) as world:
        wire.decide = decide
        live(world, turns=_TURNS)
        wire.decide = lambda _: Cut.NEVER
        judge(world, _CAST)

        assert min(cuts.values()) > 3
        assert len(world.bodies) > 10


_STORY = (
    spec("plain", 2, lasts_s=1),
    spec("waiting", 3, lasts_s=4, overlap=Overlap.QUEUE),
)


@pytest.mark.failure(82)
@pytest.mark.failure(83)
@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_a_connection_lost_at_any_request_of_a_story_repeats_nothing(
    postgres: PostgresServer, wire: Wire, cut: Cut
) -> None:
    cut_at, requests = 1, 1
    while cut_at <= requests:
        own_url = postgres.create_database()
        name = own_url.partition("@/")[2].partition("?")[0]
        stores = ServerStores(postgres.url(name, folder=wire.folder), own_url)
        counter = count(1)

        def decide(_: bytes, *, counter: Iterator[int] = counter, at: int = cut_at) -> Cut:
            return cut if next(counter) == at else Cut.NEVER

        with a_world(stores, _STORY, seed=0) as world:
            wire.decide = decide
            tell(world)
            wire.decide = lambda _: Cut.NEVER
            judge(world, _STORY)
        requests = max(requests, next(counter) - 1)
        cut_at += _EACH

    assert requests > 50


def tell(world: World) -> None:
    for _ in range(7):
        if not world.engines:
            with suppress(DatabaseUnusable):
                world.start_engine(max_running=2)
        for key in sorted(world.engines):
            world.step(key)
        world.clock.advance_ms(1400)


@pytest.mark.failure(84)
def test_a_server_killed_while_engines_fire_loses_no_fire() -> None:
    with (
        private_server() as server,
        a_world(ServerStores(server.create_database()), _CAST, seed=3) as world,
    ):
        for _ in range(2):
            live(world, turns=40)
            server.kill()
            for key in sorted(world.engines):
                world.step(key)
                world.clock.advance_ms(3000)
            server.start()
        judge(world, _CAST)

        assert len(world.bodies) > 10


@pytest.mark.root
@pytest.mark.failure(85)
def test_a_server_without_room_on_its_disk_loses_no_fire() -> None:
    with (
        private_server(disk_kib=90_000) as server,
        a_world(ServerStores(server.create_database()), _CAST, seed=4) as world,
    ):
        live(world, turns=20)
        filler = fill(server.folder)
        with pytest.raises(DatabaseFull):
            world.look("CREATE TABLE t AS SELECT generate_series(1, 100000) AS n")
        live(world, turns=120)
        filler.unlink()
        server.start_again()
        judge(world, _CAST)

        assert "trouble DatabaseFull" in world.trail
        assert len(world.bodies) > 10


@pytest.mark.failure(88)
def test_engines_behind_a_pooler_lose_no_fire(postgres: PostgresServer) -> None:
    own_url = postgres.create_database()
    name = own_url.partition("@/")[2].partition("?")[0]
    with (
        postgres.pooler() as folder,
        a_world(ServerStores(postgres.url(name, folder=folder), own_url), _CAST, seed=6) as world,
    ):
        live(world, turns=80)
        judge(world, _CAST)

        assert len(world.bodies) > 10


_ROLES = read_topic("postgres").partition("```sql\n")[2].partition("```")[0]


def make_roles(owner: psycopg.Connection) -> None:
    """As a person does by the help; the roles are those of all databases of the server."""
    [(is_there,)] = owner.execute(
        "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'edgecron_engine')"
    ).fetchall()
    create, grant, more = _ROLES.partition("GRANT")
    owner.execute((grant + more if is_there else create + grant + more).encode())


def test_an_engine_needs_only_the_rights_of_its_role(postgres: PostgresServer) -> None:
    own_url = postgres.create_database()
    with psycopg.connect(own_url) as owner:
        make_roles(owner)
        owner.execute("CREATE ROLE one_engine LOGIN IN ROLE edgecron_engine")
    engine_url = own_url.replace("postgres@", "one_engine@")

    with a_world(ServerStores(engine_url), _CAST, seed=7) as world:
        live(world, turns=60)
        judge(world, _CAST)

        assert len(world.bodies) > 5
        with pytest.raises(DatabaseUnusable, match="refuses this role"):
            world.look("CREATE TABLE edgecron.mine (n bigint)")


def test_a_reader_reads_all_and_changes_nothing(postgres: PostgresServer) -> None:
    own_url = postgres.create_database()
    with psycopg.connect(own_url) as owner:
        make_roles(owner)
        owner.execute("CREATE ROLE one_reader LOGIN IN ROLE edgecron_reader")
    stores = ServerStores(own_url.replace("postgres@", "one_reader@"))

    with a_world(ServerStores(own_url), _STORY, seed=0), closing(stores.open(now_ms=0)) as reader:
        found = reader.get_schedule("plain")
        assert reader.find_executions(limit=10).runs == []
        assert len(reader.rows("SELECT name FROM schedules_view")) == len(_STORY)
        with pytest.raises(DatabaseUnusable, match="refuses this role"):
            reader.pause_schedule(found, until_ms=None, following=None, now_ms=START_MS)


class TrueTime:
    """The server's clock, and those of machines, which are wrong by so much."""

    def __init__(self, world: World, url: str, *wrong_ms: int) -> None:
        self._world = world
        self._connection = psycopg.connect(url, autocommit=True)
        self.machines = [FakeClock(START_MS + by_ms) for by_ms in wrong_ms]
        self._show()

    def advance_ms(self, duration_ms: int) -> None:
        for clock in (self._world.clock, *self.machines):
            clock.advance_ms(duration_ms)
        self._show()

    def _show(self) -> None:
        self._connection.execute(
            f"""CREATE OR REPLACE FUNCTION edgecron.server_ms() RETURNS bigint LANGUAGE sql
                VOLATILE AS 'SELECT {self._world.clock.now_ms()}::bigint'""".encode()
        )

    def close(self) -> None:
        self._connection.close()


_MINUTE_MS = 60_000


@pytest.mark.failure(87)
def test_machines_whose_clocks_are_wrong_by_minutes_fire_at_the_servers_time(
    postgres: PostgresServer,
) -> None:
    url = postgres.create_database()
    specs = (spec("plain", 30, lasts_s=1), spec("failing", 50, lasts_s=1, code=3, retries=1))
    with (
        a_world(ServerStores(url), specs, seed=0) as world,
        closing(TrueTime(world, url, 7 * _MINUTE_MS, -9 * _MINUTE_MS)) as time,
    ):
        keys = [world.start_engine(own_clock=machine) for machine in time.machines]
        for turn in range(120):
            time.advance_ms(5000)
            world.step(keys[turn % 2])
            if turn == 50:
                time.machines[0].step_ms(60 * _MINUTE_MS)  # set by a person

        assert len(world.bodies) > 20
        assert {body.plan_ms % 1000 for body in world.bodies} == {0}
        late = [body.started_ms - body.due_ms for body in world.bodies]
        assert min(late) >= 0
        assert max(late) <= 10_000
        fires = [(body.schedule, body.plan_ms, body.attempt) for body in world.bodies]
        assert len(fires) == len(set(fires))
        engines = {row[0] for row in world.look("SELECT engine_id FROM executions")}
        assert len(engines - {None}) == 2
