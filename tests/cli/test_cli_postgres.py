"""Commands on a database of a PostgreSQL server, as on a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgecron.base.bundle import hint_for_extra
from edgecron.base.paths import ServerUrl, read_location
from edgecron.client import Client
from tests.support.cli import Edgecron
from tests.support.processes import Daemon
from tests.support.tools import need_packages

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

need_packages("psycopg")
import psycopg  # noqa: E402


@pytest.fixture
def url(
    postgres: PostgresServer, edgecron: Edgecron, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The URL of an empty database; it has a password, which the server does not ask for."""
    found = postgres.create_empty().replace("postgres@", "postgres:geheim@")
    monkeypatch.setenv("EDGECRON_DB", found)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return found


def test_commands_do_on_a_server_what_they_do_on_a_file(
    edgecron: Edgecron, url: str, tmp_path: Path
) -> None:
    shown = url.replace(":geheim", "")

    missing = edgecron("list")
    added = edgecron("add", "job", "--every", "1h", "--shell", "echo good; exit 3")
    ran = edgecron("run", "job", "--wait")
    edited = edgecron("edit", "job", "--every", "2h")
    undone = edgecron("undo", "job")
    exported = edgecron("export")
    file = tmp_path / "schedules.toml"
    file.write_text(exported.out.replace("1h", "3h"))
    applied = edgecron("apply", str(file))

    assert missing.code == 3
    assert f"database {shown} has no tables of edgecron" in missing.err
    assert f"created database {shown}" in added.err
    assert (ran.code, ran.out) == (3, "good\n")
    assert edgecron("history", "--json").json[0]["status"] == "failed"
    assert edgecron("logs", "job").out == "good\n"
    assert "failed" in edgecron("why", "job").out
    assert (edited.code, undone.code, applied.code) == (0, 0, 0)
    assert edgecron("list", "--json").json[0]["triggers"] == ["every 3h"]
    assert "every 3h" in edgecron("show", "job").out
    assert edgecron("status", "--json").json[0]["database"] == shown
    assert edgecron("doctor").code == 0
    assert edgecron("notices").code == 0
    assert edgecron("stats").code == 0
    assert edgecron("next").code == 0
    assert edgecron("rm", "job").code == 0
    assert edgecron("undo").code == 0


def test_relative_times_count_by_the_clock_of_the_server(
    edgecron: Edgecron, url: str, tmp_path: Path
) -> None:
    edgecron("list")
    edgecron("add", "first", "--on-demand", "--", "true")
    with psycopg.connect(url) as server:
        server.execute(
            """CREATE OR REPLACE FUNCTION edgecron.server_ms() RETURNS bigint LANGUAGE sql VOLATILE
               AS 'SELECT 2000000000000'"""
        )
    file = tmp_path / "schedules.toml"
    file.write_text('[schedules.soon]\nat = "in 10m"\ncommand = ["true"]\n')

    edgecron("add", "later", "--at", "in 20m", "--", "true")
    edgecron("apply", str(file))

    times = {one["name"]: one["next_run_at"] for one in edgecron("list", "--json").json}
    assert times["later"].startswith("2033-05-18T03:53:2")
    assert times["soon"].startswith("2033-05-18T03:43:2")


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("status", "--json"),
        ("doctor",),
        ("config", "show"),
        ("config", "show", "--json"),
        ("backup", "copy.db"),
        ("restore", "copy.db"),
        ("prune", "--compact"),
        ("add", "job", "--every", "1h", "--", "edgecron", "list"),
        ("no-such-command",),
    ],
)
def test_nothing_shows_the_password(edgecron: Edgecron, url: str, words: tuple[str, ...]) -> None:
    for given in (words, ("--db", url, *words)):
        said = edgecron(*given)
        assert "geheim" not in said.out + said.err


def test_what_only_a_file_has_names_the_program_of_the_server(edgecron: Edgecron, url: str) -> None:
    edgecron("add", "job", "--every", "1h", "--", "true")

    backup = edgecron("backup", "copy.db")
    restore = edgecron("restore", "copy.db")

    assert (backup.code, restore.code) == (1, 1)
    assert "hint: with PostgreSQL's own program: pg_dump -d 'postgresql://" in backup.err
    assert "hint: with PostgreSQL's own program: psql -d 'postgresql://" in restore.err


def test_an_unreachable_server_a_missing_database_and_a_wrong_url_are_one_clear_error(
    edgecron: Edgecron, url: str
) -> None:
    gone = edgecron("--db", "postgresql://me:geheim@127.0.0.1:1/app", "list")
    missing = edgecron("--db", url.replace("empty", "no"), "list")
    wrong = edgecron("--db", "postgresql://me:ge@heim@host/app", "list")
    unknown = edgecron("--db", "postgresql://me@host/app?no_such=1", "list")

    assert gone.code == 5
    assert "error: database postgresql://me@127.0.0.1:1/app can't be" in gone.err
    assert missing.code == 3
    assert "createdb" in missing.err
    assert (wrong.code, unknown.code) == (2, 2)
    assert "heim" not in wrong.err
    assert all(said.err.count("error:") == 1 for said in (gone, missing, wrong, unknown))


def test_without_the_driver_the_hint_installs_it(
    edgecron: Edgecron, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    said = edgecron("list")

    assert said.code == 1
    assert "needs psycopg, which is not installed" in said.err
    assert f"hint: {hint_for_extra('postgres')}" in said.err


def test_a_url_is_shown_without_its_passwords_and_equals_itself() -> None:
    url = "postgres://me:geheim@a:1,b:2/app?sslpassword=geheim&sslmode=require&password=geheim"

    location = read_location(url)

    assert isinstance(location, ServerUrl)
    assert str(location) == "postgres://me@a:1,b:2/app?sslmode=require"
    assert "geheim" not in repr(location)
    assert location.name == "app"
    assert location == read_location(url)
    assert location.full == url


def test_migrate_copies_a_file_to_a_server_and_back(
    edgecron: Edgecron, url: str, tmp_path: Path
) -> None:
    file, back = str(tmp_path / "app.db"), str(tmp_path / "back.db")
    edgecron("--db", file, "add", "job", "--every", "1h", "--shell", "echo good")
    edgecron("--db", file, "run", "job", "--wait")

    there = edgecron("migrate", "--from", file, "--to", url)
    again = edgecron("migrate", "--from", file, "--to", url)
    here = edgecron("migrate", "--to", back, "--json")

    shown = url.replace(":geheim", "")
    assert there.out == (
        f"copied 1 schedule, 1 run and 1 output to {shown}; all 18 tables are equal\n"
    )
    assert f"start engines with --db {shown} only; {file} stays as it is" in there.err
    assert edgecron("logs", "job").out == "good\n"
    assert again.code == 1
    assert "1 schedules and 1 runs, expected an empty database" in again.err
    assert here.json[0]["tables"]["executions"]["rows"] == 1
    assert edgecron("--db", back, "logs", "job").out == "good\n"
    same = ("show", "job", "--json")
    assert edgecron("--db", back, *same).json == edgecron("--db", file, *same).json


def test_migrate_refuses_to_copy_while_an_engine_is_running(
    edgecron: Edgecron, url: str, tmp_path: Path
) -> None:
    edgecron("add", "job", "--every", "1h", "--", "sleep", "60")
    with Client(url) as client:
        engine_id = client.store.register_engine(
            key="there", pid=1, boot_id="b", queues=("command",), now_ms=0
        )
        assert client.store.leases is not None
        client.store.leases.renew_lease(engine_id, machine="web2/1", lease_ms=60_000)

    said = edgecron("migrate", "--to", str(tmp_path / "back.db"))

    assert said.code == 1
    assert "engine pid 1 on web2 is running" in said.err
    assert not (tmp_path / "back.db").exists()


def test_migrate_needs_another_database(edgecron: Edgecron, url: str) -> None:
    edgecron("add", "job", "--every", "1h", "--", "true")

    said = edgecron("migrate", "--from", url, "--to", url)

    assert said.code == 2
    assert "name another database with --to" in said.err


def test_doctor_warns_if_no_notices_come(
    edgecron: Edgecron, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test of notices needs a second connection, which this role can't make."""
    import psycopg  # an extra

    edgecron("add", "job", "--every", "1h", "--", "true")
    role = f"alone_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1".encode())
        for what in ("ALL TABLES IN SCHEMA", "SCHEMA"):
            connection.execute(f"GRANT ALL ON {what} edgecron TO {role}".encode())

    said = edgecron("--db", url.replace("postgres:geheim@", f"{role}@"), "doctor")

    assert "passes no notices on: engines look for changes every 5 s" in said.out
    assert "no notices" not in edgecron("doctor").out


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_doctor_advises_against_a_pooler_of_any_mode(
    edgecron: Edgecron, url: str, postgres: PostgresServer, mode: str
) -> None:
    edgecron("add", "job", "--every", "1h", "--", "true")
    name = url.partition("@/")[2].partition("?")[0]

    with postgres.pooler(mode) as folder:
        said = edgecron("--db", postgres.url(name, folder=folder), "doctor")

    assert "passes no notices on: engines look for changes every 5 s" in said.out
    assert "name the primary server itself in the URL, not a pooler" in said.out


def test_doctor_finds_nothing_wrong_with_a_run_of_another_machine(
    edgecron: Edgecron, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edgecron("add", "job", "--on-demand", "--", "sleep", "60")
    daemon = Daemon(read_location(url), "--on-shutdown", "stop")
    try:
        edgecron("run", "job")
        daemon.wait_for("started", schedule="job")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))

        said = edgecron("doctor")
    finally:
        daemon.stop()

    assert "1 running, 0 queued" in said.out
    assert "are gone" not in said.out


def test_doctor_names_a_machine_that_has_been_away_for_long(edgecron: Edgecron, url: str) -> None:
    edgecron("add", "scan", "--every", "1h", "--on", "each", "--", "true")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE edgecron.schedule_scopes SET scope_kind = 'machine', scope_id = 'web1'"
        )
        connection.execute(
            """INSERT INTO edgecron.engines (key, pid, boot_id, queues, former_queues, version,
                   started_at, machine, stopped_at)
               SELECT 'k', 7, 'b', '[]', '["command", "command on web1"]', '1', now, 'web1/1',
                   now - 29 * 86400000::bigint
               FROM (SELECT edgecron.server_ms() AS now) AS clock"""
        )
        lately = edgecron("doctor").out
        connection.execute("UPDATE edgecron.engines SET stopped_at = stopped_at - 86400000")
        long_ago = edgecron("doctor").out
    edgecron("engine", "forget", "web1")

    assert "no engine for 30 days" not in lately
    assert (
        "web1 has had no engine for 30 days, and still gets runs of 1 schedule with --on each"
    ) in " ".join(long_ago.split())
    assert "edgecron engine forget web1" in long_ago
    assert "web1" not in edgecron("doctor").out


def test_a_role_that_can_make_no_tables_is_told_what_to_grant(edgecron: Edgecron, url: str) -> None:
    import psycopg  # an extra

    role = f"weak_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())

    named = url.replace("postgres:geheim@", f"{role}@")
    said = edgecron("--db", named, "add", "job", "--every", "1h", "--", "true")

    assert said.code == 5
    assert "refuses this role (permission denied for database" in said.err
    assert "GRANT CREATE ON DATABASE" in said.err


def add_engines(url: str) -> None:
    """Let the engines of two machines be alive; the second one gets no notices."""
    with psycopg.connect(url, autocommit=True) as connection:
        for number, name in enumerate(("web1", "web2")):
            connection.execute(
                """INSERT INTO edgecron.engines (key, pid, boot_id, queues, version, max_running,
                       started_at, machine, heartbeat_at, stale_after, polls_ms)
                   SELECT %(name)s, %(pid)s, 'b', '["command"]', '1', 8, now, %(name)s || '/1',
                       now - 30000, now + 30000, nullif(%(pid)s, 70) * 0 + 5000
                   FROM (SELECT edgecron.server_ms() AS now) AS clock""",
                {"name": name, "pid": 70 + number},
            )


def test_status_shows_the_load_and_the_last_sign_of_each_machine(
    edgecron: Edgecron, url: str
) -> None:
    edgecron("add", "job", "--every", "1h", "--", "true")
    add_engines(url)

    said = edgecron("status").out
    first, second = edgecron("status", "--json").json[0]["engines"]

    assert "pid 70 on web1" in said
    assert "0 of 8 running, seen 30s ago" in said
    assert (first["machine"], first["running"], first["state"]) == ("web1", 0, "running")
    assert second["seen_at"] is not None
    assert (first["polls_s"], second["polls_s"]) == (None, 5)
    assert said.count("looks for changes every 5 s") == 1


def test_a_run_whose_engine_gets_no_notices_is_not_said_to_wait_for_a_place(
    edgecron: Edgecron, url: str
) -> None:
    edgecron("add", "job", "--on-demand", "--", "true")
    edgecron("run", "job")
    add_engines(url)

    said = edgecron("show", "job").out

    assert "run 1 is queued, manual: waits until its engine looks for changes" in said


def test_logs_name_the_machine_of_a_running_run(edgecron: Edgecron, url: str) -> None:
    edgecron("add", "job", "--on-demand", "--", "true")
    edgecron("run", "job")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """WITH engine AS (
                   INSERT INTO edgecron.engines (key, pid, boot_id, queues, version, started_at,
                       machine, heartbeat_at, stale_after)
                   SELECT 'k', 70, 'b', '["command"]', '1', now, 'web9/1', now, now + 60000
                   FROM (SELECT edgecron.server_ms() AS now) AS clock RETURNING id)
               UPDATE edgecron.executions SET status = 'running', claimed_at = queued_at,
                   started_at = queued_at, lease_token = 't', supervisor_id = 's',
                   engine_id = engine.id
               FROM engine"""
        )

    said = edgecron("logs", "1")

    assert said.err == "run 1 of job is still running on web9: to follow it to its end, use -f\n"


@pytest.fixture
def reader_url(edgecron: Edgecron, url: str) -> Iterator[str]:
    """The URL for a role that only reads a database with the schedule `job`."""
    edgecron("add", "job", "--on-demand", "--", "sleep", "60")
    role = f"reader_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"""CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA edgecron TO {role};
                GRANT SELECT ON ALL TABLES IN SCHEMA edgecron TO {role};
                GRANT SELECT ON ALL SEQUENCES IN SCHEMA edgecron TO {role}""".encode()
        )
        yield url.replace("postgres:geheim@", f"{role}@")
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_an_engine_with_a_role_that_only_reads_ends_with_the_reason(
    edgecron: Edgecron, reader_url: str
) -> None:
    seen = edgecron("--db", reader_url, "list")
    said = edgecron("--db", reader_url, "daemon")

    assert (seen.code, said.code) == (0, 5)
    assert "lets this role only read" in said.err


def test_a_role_that_only_reads_sees_the_runs_of_a_dead_engine(
    edgecron: Edgecron, url: str, reader_url: str
) -> None:
    daemon = Daemon(read_location(url))
    edgecron("run", "job")
    daemon.wait_for("started", schedule="job")
    daemon.kill()

    seen = edgecron("--db", reader_url, "history", "--json")
    status = edgecron("--db", reader_url, "status")
    edgecron("cancel", "1")

    assert [run["status"] for run in seen.json] == ["running"]
    assert status.code == 0


def test_a_role_that_only_reads_can_copy_the_database(
    edgecron: Edgecron, reader_url: str, tmp_path: Path
) -> None:
    said = edgecron("migrate", "--from", reader_url, "--to", str(tmp_path / "app.db"))

    assert said.out.startswith("copied 1 schedule, 0 runs")


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://u:geh?eim@host/jobs",
        "POSTGRESQL://u:geheim@host/jobs",
        "postgresql+psycopg://u:geheim@host/jobs",
        "postgresql://u:geheim%zz@host/jobs",
        "postgresql://u:geheim@[::1/jobs",
        "postgresql://host/jobs?pass%77ord=geheim",
    ],
)
def test_no_form_of_a_url_shows_its_password(
    edgecron: Edgecron, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "1")

    said = edgecron("--db", given, "list")

    assert said.code != 0
    assert "geh" not in said.out + said.err
    assert "eim" not in said.out + said.err
