"""A private PostgreSQL server in a temporary folder, with a database for each test."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import cast

import psycopg

from edgecron.store.postgres.store import open_store
from edgecron.store.sqlite.store import SqliteStore
from tests.support.places import small_disk
from tests.support.tools import find_postgres, need_postgres, need_tools

_TEMPLATE = "edgecron_template"
_FAST = "-c fsync=off -c max_connections=50 -c shared_buffers=16MB -c max_wal_size=64MB"


class PostgresServer:
    """A server that only its folder leads to. It loses its data in a power cut, to be fast."""

    def __init__(
        self,
        folder: Path,
        programs: Path,
        *,
        within: Sequence[str] = (),
        listen: str = "",
        options: str = _FAST,
    ) -> None:
        """`within` are words before its commands; `listen` is for TCP, which it trusts."""
        self._options = options
        self.folder = folder
        self.programs = programs
        self._within = within
        self._listen = listen
        self._numbers = count(1)
        self._created: list[str] = []  # databases of the test that is running
        self._run("initdb", "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale", "C")
        if listen:
            with (folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")
        self.start()
        self._create(_TEMPLATE, "template1")
        self._created.clear()  # The template stays.
        open_store(self.url(_TEMPLATE), now_ms=0, seed=bytes(16)).close()

    def start(self) -> None:
        """Start the server, also after `kill`."""
        options = f"-k {self.folder} -c listen_addresses={self._listen} {self._options}"
        command = self._command("postgres", *options.split())
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        until_s = monotonic() + 60
        while not self._is_ready():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert monotonic() < until_s, "the server is not ready after a minute"
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.02)
        self._connection = psycopg.connect(self.url("postgres"), autocommit=True)

    def start_again(self) -> None:
        """Start the server if it has stopped."""
        if self._process.poll() is not None:
            self._connection.close()
            self.start()

    def _is_ready(self) -> bool:
        try:
            found = (self.folder / "data" / "postmaster.pid").read_text().split()
        except FileNotFoundError:
            return False
        return found[:1] == [str(self._process.pid)] and "ready" in found

    def kill(self) -> None:
        """Kill all processes of the server with SIGKILL."""
        self._connection.close()
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
        for pid in (main, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in map(int, children):
            wait_for_end(pid)
        self._process.wait(10)
        # In a container, perhaps no process reads its end, and its id still seems to be in use.
        for name in ("data/postmaster.pid", ".s.PGSQL.5432.lock"):
            (self.folder / name).unlink()

    def url(self, name: str, *, folder: Path | None = None) -> str:
        """The URL of a database, through the socket of the server or in another folder."""
        return f"postgresql://postgres@/{name}?host={folder or self.folder}"

    def create_empty(self) -> str:
        """Create a database without tables; its URL."""
        return self._create(f"empty_{next(self._numbers)}", "template1")

    def create_database(self) -> str:
        """Create a database of edgecron without schedules; its URL."""
        return self._create(f"test_{next(self._numbers)}", _TEMPLATE)

    def copy_database(self, url: str) -> str:
        """Copy a database, as a standby has it, and end all connections; its URL."""
        name = _name_in(url)
        with self._alone(name):
            return self._create(f"{name}_copy", name)

    def fail_over(self, url: str, standby: str) -> None:
        """Let such a copy take the place of its database, and end all connections."""
        name, copy = _name_in(url), _name_in(standby)
        with self._alone(name):
            self._connection.execute(f"ALTER DATABASE {name} RENAME TO {name}_lost".encode())
            self._connection.execute(f"ALTER DATABASE {copy} RENAME TO {name}".encode())
        self._created[self._created.index(copy)] = f"{name}_lost"

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Refuse connections to a database within the block."""
        allow = f"ALTER DATABASE {name} ALLOW_CONNECTIONS {{}}"
        self._connection.execute(allow.format(False).encode())
        self.end_connections()
        yield
        self._connection.execute(allow.format(True).encode())

    def new_database(self) -> Callable[..., SqliteStore]:
        """Create such a database; what opens its store.

        The suite asks only what both stores have, so the type of one stands for both.
        """
        url = self.create_database()

        def open_one(*, busy_wait_s: float = 30.0) -> SqliteStore:
            return cast("SqliteStore", open_store(url, now_ms=0, busy_wait_s=busy_wait_s))

        return open_one

    def _create(self, name: str, template: str) -> str:
        # A copy of files writes no log, which would grow to a gigabyte.
        self._connection.execute(
            f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode()
        )
        self._created.append(name)
        return self.url(name)

    def drop_databases(self) -> None:
        """Drop all databases that tests have created, with the connections that are left."""
        while self._created:
            self._connection.execute(f"DROP DATABASE {self._created[-1]} WITH (FORCE)".encode())
            self._created.pop()

    def ask_password(self, role: str, password: str) -> None:
        """Make a role that the server lets in only with its password."""
        self._connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'".encode())
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text(f"local all {role} scram-sha-256\n{rules.read_text()}")
        self._connection.execute("SELECT pg_reload_conf()")

    def end_connections(self) -> None:
        """End all other connections, as a restart of the server does."""
        self._connection.execute(
            """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
               WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"""
        )

    def close(self) -> None:
        self._connection.close()
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")
        self._process.wait(10)

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = [str(self.programs / program), "-D", f"{self.folder}/data", *arguments]
        return [*self._within, *as_postgres(command)]

    def _run(self, program: str, *arguments: str) -> None:
        command = self._command(program, *arguments)
        subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, timeout=60)

    @contextmanager
    def pooler(self, mode: str = "transaction") -> Iterator[Path]:
        """Run PgBouncer in this mode, with two connections; the folder of its socket."""
        need_tools("pgbouncer")
        folder = self.folder / "pooler"
        folder.mkdir()
        folder.chmod(0o777)
        (folder / "pgbouncer.ini").write_text(
            f"""[databases]
            * = host={self.folder} user=postgres
            [pgbouncer]
            unix_socket_dir = {folder}
            listen_addr =
            listen_port = 5432
            auth_type = any
            pool_mode = {mode}
            default_pool_size = 2
            """.replace(" " * 12, "")
        )
        command = as_postgres(["pgbouncer", "-q", str(folder / "pgbouncer.ini")])
        with subprocess.Popen(command, cwd=folder) as process:
            try:
                while not (folder / ".s.PGSQL.5432").exists():
                    assert process.poll() is None, "pgbouncer has ended"
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(0.01)
                yield folder
            finally:
                process.terminate()
                process.wait(10)
                shutil.rmtree(folder)


def _name_in(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


def as_postgres(command: list[str]) -> list[str]:
    """A command that runs as the user postgres: programs of PostgreSQL refuse to run as root.

    It ends with the process that starts it, however that ends.
    """
    user = ["--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", "--pdeathsig=INT", *user, *command]


def wait_for_end(pid: int) -> None:
    """Wait until a process of another parent is gone, or only its parent has not read its end."""
    with suppress(ProcessLookupError):
        watch = os.pidfd_open(pid)
        select.select([watch], [], [], 10)
        os.close(watch)


@contextmanager
def private_server(
    *, disk_kib: int | None = None, parent: Path = Path("/dev/shm"), options: str = _FAST
) -> Iterator[PostgresServer]:
    """Start a server in a folder of its own below `parent`; stop it and remove that at the end.

    `disk_kib` is the size of its disk. Only root can make one.
    """
    need_postgres()
    programs = find_postgres()
    assert programs is not None
    # A short path: that of a socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=parent))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        if disk_kib is not None:
            stack.enter_context(small_disk(folder, kib=disk_kib))
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        server = PostgresServer(folder, programs, options=options)
        stack.callback(server.close)
        yield server
