"""[limits]: what an engine takes from files and variables, unless it is told otherwise."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cli import Edgecron
from tests.support.engines import Place
from tests.support.settings import Settings


@pytest.fixture
def settings(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    return Settings(tmp_path, monkeypatch)


def test_a_run_by_hand_keeps_what_the_file_says_of_its_output(
    edgecron: Edgecron, settings: Settings
) -> None:
    settings.write_user('[limits]\noutput = "1KiB"\n')
    edgecron("add", "x", "--every", "1h", "--shell", "head -c 5000 /dev/zero | tr '\\0' x")

    edgecron("run", "x", "--wait")

    from edgecron.client import Client

    with Client() as client:
        [run] = client.history("x")
        output = client.output(run.id)
    assert output is not None
    assert (output.stdout_bytes, output.dropped_bytes) == (5000, 5000 - 1024)


def test_the_daemon_takes_its_limits_from_the_file(settings: Settings, tmp_path: Path) -> None:
    path = settings.write_user(
        '[limits]\non_shutdown = "stop"\nshutdown_timeout = "5m"\nmax_running = 1\n'
    )
    settings.set("EDGECRON_CONFIG", str(path))

    with ExitStack() as stack:
        place = Place(tmp_path, stack)
        place.add("a", "every 1s", place.gate.line)
        place.add("b", "every 1s", place.gate.line)
        daemon = place.daemon()
        seen: set[str] = set()
        daemon.wait_until(
            lambda line: seen.add(line["event"]) or seen >= {"started", "queued"},
            what="one started and one queued",
        )
        daemon.process.send_signal(signal.SIGTERM)
        stopping = daemon.wait_for("engine_stopping")

    assert stopping["on_shutdown"] == "stop"
    assert stopping["runs"] == 1


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ('[limits]\nburst = "all"\n', (), "user.toml:2: limits.burst is 'all', expected a whole"),
        ("", ("--max-running", "0"), "--max-running is '0', expected a whole number from 1"),
        ("", ("--log-format", "xml"), "--log-format is 'xml', expected text or json"),
        ("", ("--on-shutdown", "die"), "--on-shutdown is 'die', expected leave, wait or stop"),
        ("", ("--shutdown-timeout", "5"), "does not work with --on-shutdown leave"),
        (
            '[limits]\non_shutdown = "wait"\n',
            ("--shutdown-timeout", "5"),
            "--shutdown-timeout: duration '5' has no unit",
        ),
    ],
)
def test_the_daemon_refuses_what_it_can_not_take(
    edgecron: Edgecron, settings: Settings, text: str, words: tuple[str, ...], said: str
) -> None:
    if text:
        settings.write_user(text)

    refused = edgecron("daemon", *words)

    assert refused.code in (2, 5)
    assert said in refused.err
