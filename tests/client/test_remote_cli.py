"""The command line on the database of another machine: a daemon, over its HTTP API."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgecron.cli import run
from edgecron.cli.session import connector_to
from edgecron.formats.config import Config
from tests.support.cli import Edgecron, Said
from tests.support.processes import Daemon
from tests.support.program import PROGRAM
from tests.support.remote import answer_of, answering, said


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The URL of a daemon with a database of its own."""
    url = f"unix:{folder}/edge.sock"
    daemon = Daemon(folder / "edge.db", "--http", url)
    try:
        daemon.wait_for("engine_started")
        yield url
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("far")) as url:
        yield url


@pytest.fixture
def edgecron(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Edgecron:
    monkeypatch.setenv("EDGECRON_URL", url)
    monkeypatch.delenv("EDGECRON_DB", raising=False)
    monkeypatch.setenv("TZ", "UTC")

    def call(*words: str) -> Said:
        capsys.readouterr()
        code = run(words)
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call


def test_a_schedule_lives_its_life_from_afar(edgecron: Edgecron, url: str) -> None:
    added = edgecron("add", "life", "--cron", "0 2 * * *", "--shell", "echo out; echo err >&2")
    assert (added.code, "added life: " in added.out) == (0, True), added.err

    assert [one["name"] for one in edgecron("list", "--json").json] == ["life"]
    assert "life" in edgecron("list").out
    assert edgecron("show", "life", "--json").json[0]["outlook"]["next"] is not None
    assert "0 2 * * *" in edgecron("show", "life").out
    assert len(edgecron("next", "life", "-n", "40", "--json").json) == 40
    assert edgecron("edit", "life", "--description", "nightly").code == 0
    assert edgecron("pause", "life", "--until", "in 2d").code == 0
    assert edgecron("resume", "life").code == 0
    assert edgecron("reschedule", "life", "in 20m").code == 0
    waited = edgecron("run", "life", "--wait")
    assert (waited.code, waited.out, waited.err) == (0, "out\n", "err\n")
    [ran] = edgecron("history", "life", "--json").json
    assert (ran["status"], ran["cause"]) == ("success", "manual")
    assert edgecron("logs", "life", "--stream", "stdout").out == "out\n"
    assert "because a user or a program started it" in edgecron("why", "life").out
    assert url in edgecron("status").out
    assert edgecron("status", "--json").json[0]["engines"][0]["alive"]
    assert edgecron("stats").code == 0
    assert "[schedules.life]" in edgecron("export").out
    assert edgecron("backfill", "life", "2026-01-01", "2026-01-02", "--dry-run").code == 0
    assert edgecron("rm", "life").code == 0
    assert edgecron("undo").out.startswith("restored life; next ")
    assert edgecron("rm", "life").code == 0
    assert edgecron("show", "life").code == 3


def test_a_run_ends_with_its_own_exit_code(edgecron: Edgecron) -> None:
    edgecron("add", "seven", "--every", "1d", "--shell", "exit 7")

    assert edgecron("run", "seven", "--wait").code == 7


def test_logs_are_followed_while_they_are_printed(
    edgecron: Edgecron, url: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    line = f"echo begun; while [ ! -e {gate} ]; do sleep 0.05; done; echo ended"
    edgecron("add", "slow", "--every", "1d", "--shell", line)
    [started] = edgecron("run", "slow", "--json").json
    follower = subprocess.Popen(
        [*PROGRAM, "--url", url, "logs", "-f", str(started["id"])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(30, follower.kill)
    watchdog.start()
    try:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        gate.touch()
        rest, words = follower.communicate()
    finally:
        watchdog.cancel()

    assert (first, rest, follower.returncode) == ("begun\n", "ended\n", 0)
    assert "succeeded" in words or "success" in words


def test_a_running_run_is_cancelled(edgecron: Edgecron) -> None:
    edgecron("add", "long", "--every", "1d", "--shell", "exec sleep 60")
    [started] = edgecron("run", "long", "--json").json

    assert edgecron("cancel", str(started["id"])).code == 0


def test_a_document_is_applied_from_afar(edgecron: Edgecron, tmp_path: Path) -> None:
    file = tmp_path / "schedules.toml"
    file.write_text('[schedules.doc]\ncron = "@daily"\ncommand = ["true"]\n')

    assert "doc" in edgecron("apply", str(file), "--dry-run").out
    assert edgecron("show", "doc").code == 3
    assert edgecron("apply", str(file)).code == 0
    assert edgecron("show", "doc", "--json").json[0]["triggers"] == ["@daily"]


@pytest.mark.parametrize(
    "words",
    [
        ("daemon",),
        ("doctor",),
        ("backup", "copy.db"),
        ("restore", "copy.db"),
        ("prune",),
        ("service", "status"),
        ("service", "print", "--token-file", "/nowhere"),  # that of the other machine
        ("tui", "--engine"),
    ],
)
def test_what_belongs_to_the_machine_itself_is_refused(
    edgecron: Edgecron, url: str, words: tuple[str, ...]
) -> None:
    said = edgecron(*words)

    assert said.code == 1
    assert f"not through {url}" in said.err
    assert "run it there" in said.err


def test_metrics_are_those_that_are_served(edgecron: Edgecron, tmp_path: Path) -> None:
    edgecron("add", "watched", "--every", "1h", "--", "true")

    said = edgecron("metrics")
    written = edgecron("metrics", "--output", str(tmp_path / "far.prom"))

    assert said.code == 0, said.err
    assert 'scheduler_runs_total{schedule_id="watched",status="success"} 0.0' in said.out
    assert written.code == 0
    assert "scheduler_engines_alive 1.0" in (tmp_path / "far.prom").read_text()


def test_metrics_are_the_same_objects_from_afar_as_from_here(
    edgecron: Edgecron, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edgecron("add", "counted", "--every", "1h", "--shell", "exit 3")
    edgecron("run", "counted", "--wait")

    far = edgecron("metrics", "--json").json
    monkeypatch.delenv("EDGECRON_URL")
    near = edgecron(
        "--db", str(Path(url.removeprefix("unix:")).with_name("edge.db")), "metrics", "--json"
    ).json

    failed = {"schedule_id": "counted", "status": "failed"}
    assert {"name": "scheduler_runs_total", "labels": failed, "value": 1, "type": "counter"} in far
    assert [[*one] for one in far] == [["name", "labels", "value", "type"]] * len(far)
    sizes = ("scheduler_database_bytes", "scheduler_wal_bytes")
    assert [one for one in far if one["name"] not in sizes] == [
        one for one in near if one["name"] not in sizes
    ]
    assert [(one["name"], one["type"]) for one in far] == [
        (one["name"], one["type"]) for one in near
    ]


def test_what_is_no_text_of_metrics_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(said(answer_of(b"<html>"))) as url:
        code = run(["--url", url, "metrics", "--json"])

    assert code == 5
    assert "the server's /metrics can't be read" in capsys.readouterr().err


def test_a_file_of_thousands_of_schedules_is_applied_from_afar_as_a_whole(
    edgecron: Edgecron, tmp_path: Path
) -> None:
    file = tmp_path / "many.toml"
    lines = "".join(
        f'[schedules.m{number}]\ncron = "0 2 * * *"\nshell = "{"x" * 400}"\n'
        for number in range(1200)
    )
    file.write_text(lines)
    far_too_much = tmp_path / "more.toml"
    far_too_much.write_text(
        "".join(
            f'[schedules.m{number}]\ncron = "0 2 * * *"\nshell = "{"x" * 110_000}"\n'
            for number in range(151)
        )
    )

    with serving(tmp_path) as url:  # Other tests would list them all again.
        applied = edgecron("--url", url, "apply", str(file))
        refused = edgecron("--url", url, "apply", str(far_too_much))
        listed = edgecron("--url", url, "list", "--json").json

    assert applied.code == 0, applied.err
    assert len(listed) == 1200
    assert refused.code == 2
    assert "apply the file in parts" in refused.err


def test_two_databases_at_once_are_none(
    edgecron: Edgecron, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    near = str(tmp_path / "near.db")

    assert edgecron("--url", url, "--db", near, "list").code == 2
    assert "near.db" in edgecron("--db", near, "list").err  # A flag comes before a variable.
    monkeypatch.setenv("EDGECRON_DB", near)
    assert edgecron("list").code == 2
    assert edgecron("--url", url, "list").code == 0


def test_hints_name_the_server_and_the_file_of_its_token(
    edgecron: Edgecron, url: str, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("a-word-that-nobody-guesses\n")
    token.chmod(0o600)

    said = edgecron("--url", url, "--token-file", str(token), "pause", "no-such")
    edgecron("rm", *(one["name"] for one in edgecron("list", "--json").json))
    empty = edgecron("--url", url, "--token-file", str(token), "list")

    assert said.code == 3
    assert f"edgecron --url {url} --token-file {token} add nightly" in empty.err
    assert "nobody-guesses" not in empty.err + said.err


def test_a_token_that_travels_in_the_open_is_told_of(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-word-that-nobody-guesses\n")
    token.chmod(0o600)
    warned: list[str] = []

    for url in ("http://pi:8745", "https://pi", "http://127.0.0.1:8745"):
        config = Config((), flags={"url": url, "token_file": str(token)}, environ={})
        connector_to(config, url, warn=warned.append)

    assert warned == [
        (
            "the connection to http://pi:8745 is not encrypted, so others can read the token;"
            " use https or a tunnel"
        )
    ]


def test_nobody_is_warned_of_what_is_missing_on_this_machine_alone(edgecron: Edgecron) -> None:
    said = edgecron("add", "there", "--every", "1d", "--", "no-such-program-here")

    assert (said.code, said.err) == (0, "")


def test_nobody_there_is_an_unusable_database(edgecron: Edgecron) -> None:
    said = edgecron("--url", "http://127.0.0.1:1", "list", "--json")

    assert said.code == 5
    assert said.error["code"] == "server"


def test_asking_from_afar_loads_nothing_heavy(url: str) -> None:
    script = (
        "import sys; from edgecron.cli import run; run(sys.argv[1:]);"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )

    shown = subprocess.run(
        [sys.executable, "-c", script, "--url", url, "list"],
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = {name.split(".")[0] for name in shown.stderr.split()}
    heavy = ("asyncio", "starlette", "apsw", "textual", "dataclasses")
    assert loaded & set(heavy) == set()
    assert "edgecron" in loaded


def test_notices_are_listed_from_afar(edgecron: Edgecron) -> None:
    assert edgecron("notices").err == "no notices yet\n"
    assert edgecron("notices", "--json").json == []
