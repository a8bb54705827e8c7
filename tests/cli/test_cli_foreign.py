"""The database of another user, and root on it: what stands there ends nobody."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edgecron.base.paths import state_dir
from edgecron.client import Client
from edgecron.store.contract import Claimant
from edgecron.supervisor.journal import Journal
from edgecron.supervisor.run_session import read_start_time
from tests.support.accounts import NEEDS_ROOT
from tests.support.cli import Edgecron
from tests.support.stuck import SLEEPS, StuckEngine

pytestmark = [pytest.mark.root, NEEDS_ROOT]
SUPERVISOR = "deadbeef"
NOBODY = 65534


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def victim(stack: ExitStack) -> subprocess.Popen[bytes]:
    """A process of root's that is no run."""
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
    stack.callback(process.communicate)
    return process


@pytest.fixture
def engine(
    edgecron: Edgecron,
    backup: str,
    database: Path,
    stack: ExitStack,
    victim: subprocess.Popen[bytes],
) -> StuckEngine:
    """An engine with one run, whose journal says that the victim is that; it has all died."""
    client = stack.enter_context(Client(database))
    engine = StuckEngine(client, SLEEPS)
    stack.callback(engine.end)
    edgecron("run", backup)
    claimant = Claimant(
        engine_id=engine.engine_id,
        supervisor_id=SUPERVISOR,
        queues=("command",),
        max_running=1,
    )
    now_ms = client.clock.now_ms()
    client.store.claim_queued(claimant=claimant, now_ms=now_ms)
    [row] = client.store.find_running()
    journal = Journal(engine.state_dir, SUPERVISOR, boot_id=client.clock.boot_id())
    journal.write_tokens([row.lease_token])
    start_time = read_start_time(victim.pid)
    journal.add_start(row.lease_token, pid=victim.pid, start_time=start_time, started_ms=now_ms)
    journal.write_backlog()
    return engine


def give_away(*paths: Path) -> None:
    for path in paths:
        os.chown(path, NOBODY, NOBODY)


def of(database: Path) -> list[Path]:
    return [database, state_dir(database), *state_dir(database).iterdir()]


@pytest.mark.parametrize("command", ["status", "doctor"])
def test_root_is_told_as_whom_to_start_an_engine(
    edgecron: Edgecron, backup: str, database: Path, command: str
) -> None:
    for path in (database, state_dir(database)):
        if path.exists():
            os.chown(path, NOBODY, NOBODY)

    said = edgecron(command)

    assert f": sudo -u nobody edgecron --db {database} daemon\n" in said.out + said.err


def test_an_engine_on_another_users_database_names_the_command_that_works(
    edgecron: Edgecron, backup: str, database: Path
) -> None:
    give_away(database)

    said = edgecron("daemon")

    assert said.code == 5
    assert f"hint: run: sudo -u nobody edgecron --db {database} daemon\n" in said.err


@pytest.mark.failure(66)
@pytest.mark.parametrize("is_database", [True, False])
@pytest.mark.parametrize("words", [("run", "backup"), ("cancel", "1")])
def test_what_the_journal_of_another_user_says_is_not_acted_on(
    edgecron: Edgecron,
    engine: StuckEngine,
    database: Path,
    victim: subprocess.Popen[bytes],
    words: tuple[str, ...],
    is_database: bool,
) -> None:
    engine.end()
    # Either is enough: who owns one of them could have put the other there.
    give_away(*([database] if is_database else of(database)[1:]))

    said = edgecron(*words)
    [first] = [run for run in edgecron("history", "--json").json if run["id"] == 1]

    assert victim.poll() is None
    assert first["status"] == "running"
    if words[0] == "cancel":
        assert said.code == 1
        assert f"belongs to user {NOBODY}, and you are user 0: you can't take over" in said.err
        assert "repeat as that user" in said.err


@pytest.mark.failure(66)
def test_the_stalled_engine_of_another_users_database_is_left_to_that_user(
    edgecron: Edgecron,
    engine: StuckEngine,
    database: Path,
    victim: subprocess.Popen[bytes],
) -> None:
    edgecron("add", "rings", "--every", "1h", "--", "true")
    give_away(*of(database))

    shown = edgecron("status")
    said = edgecron("doctor", "--take-over", str(engine.process.pid), "--yes")

    assert (shown.code, said.code) == (0, 1)
    assert f"belongs to user {NOBODY}" in said.err
    assert engine.process.poll() is None
    assert victim.poll() is None


def test_what_a_dead_supervisor_of_our_own_left_is_ended(
    edgecron: Edgecron, engine: StuckEngine, victim: subprocess.Popen[bytes]
) -> None:
    engine.end()

    edgecron("run", "backup")

    assert victim.wait(20) == -signal.SIGKILL
