"""The server of a storm, its pooler, and machines that reach it over cables of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.chaos.engines import Slot
from tests.chaos.field import Field
from tests.support.postgres import PostgresServer, as_postgres
from tests.support.tools import find_postgres

_FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
_PORT, _POOLER_PORT = 5432, 6432
# How far each machine's clock is ahead, and whether a pooler is between it and the server.
MACHINES = (("+0", False), ("+7m", False), ("-9m", True))
# libfaketime sometimes refuses what `time.sleep` calls: clock_nanosleep until an instant.
_SLEEP = """import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds)[0] or None
"""
_POOLER = """[databases]
* = host={host} user=postgres
[pgbouncer]
unix_socket_dir = {folder}
listen_addr = {listen}
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = 10
"""


class ServerField(Field):
    """Folders and processes of a storm; `has_cables` if each machine is a network namespace."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, abilities=frozenset())
        self.has_cables = os.geteuid() == 0 and shutil.which("ip") is not None
        self._name = f"ecs{os.getpid()}"
        self._site = folder / "site"
        self._site.mkdir()
        (self._site / "sitecustomize.py").write_text(_SLEEP)
        if self.has_cables:
            self._lay_cables()
        server_folder = folder / "server"
        server_folder.mkdir(mode=0o755)
        programs = find_postgres()
        assert programs is not None
        if os.geteuid() == 0:
            folder.chmod(0o755)
            shutil.chown(server_folder, "postgres", "postgres")
        self.server = PostgresServer(
            server_folder,
            programs,
            within=self.inside(None),
            listen="*" if self.has_cables else "",
        )
        self.own_url = self.server.create_database()
        self._database_name = self.own_url.partition("@/")[2].partition("?")[0]
        self._pooler: subprocess.Popen[bytes] | None = None
        self.start_pooler()

    def inside(self, machine: int | None) -> Sequence[str]:
        """The words before a command that runs on a machine; None: on the server's."""
        if not self.has_cables:
            return ()
        if machine is None:
            return ("ip", "netns", "exec", self._name)
        script = 'hostname "$0" && exec "$@"'
        own = ("unshare", "--uts", "sh", "-c", script, self.host(machine))
        return ("ip", "netns", "exec", f"{self._name}m{machine}", *own)

    def host(self, machine: int) -> str:
        """The host name of a machine; without cables, all have that of this one."""
        return f"storm{machine}" if self.has_cables else os.uname().nodename

    def environment(self, label: str) -> dict[str, str]:
        """The environment of an engine; its label begins with `engine-NUMBER`."""
        machine = int(label.partition("-")[2].partition(".")[0]) % len(MACHINES)
        wrong, is_pooled = MACHINES[machine]
        found = super().environment(label)
        found["EDGECRON_DB"] = self._url(machine, is_pooled=is_pooled)
        found["XDG_STATE_HOME"] = str(self.folder / f"machine-{machine}")
        if wrong != "+0" and _FAKETIME.exists():
            found |= {
                "LD_PRELOAD": str(_FAKETIME),
                "FAKETIME": wrong,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1",
                "PYTHONPATH": f"{self._site}:{found['PYTHONPATH']}",
            }
        return found

    def _url(self, machine: int, *, is_pooled: bool) -> str:
        if self.has_cables:
            port = _POOLER_PORT if is_pooled else _PORT
            return f"postgresql://postgres@10.213.{machine}.1:{port}/{self._database_name}"
        folder = self._pooler_folder if is_pooled else self.server.folder
        return self.server.url(self._database_name, folder=folder)

    # Cables.

    def _lay_cables(self) -> None:
        self._ip("netns", "add", self._name)
        self._ip("-n", self._name, "link", "set", "lo", "up")
        for machine in range(len(MACHINES)):
            own = f"{self._name}m{machine}"
            self._ip("netns", "add", own)
            self._ip("-n", own, "link", "set", "lo", "up")
            self._ip(
                *("link", "add", f"far{machine}", "netns", self._name),
                *("type", "veth", "peer", "name", "near", "netns", own),
            )
            for name, link, host in ((self._name, f"far{machine}", 1), (own, "near", 2)):
                self._ip("-n", name, "addr", "add", f"10.213.{machine}.{host}/24", "dev", link)
                self._ip("-n", name, "link", "set", link, "up")

    def cut(self, machine: int) -> None:
        """Pull the cable of a machine: nobody is told, packets go nowhere."""
        self._set_link(machine, "down")

    def plug_in(self, machine: int) -> None:
        """Plug the cable in again."""
        self._set_link(machine, "up")

    def _set_link(self, machine: int, state: str) -> None:
        self._ip("-n", self._name, "link", "set", f"far{machine}", state)

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=30)

    # The pooler.

    @property
    def _pooler_folder(self) -> Path:
        return self.server.folder / "pooler"

    def start_pooler(self) -> None:
        """Start PgBouncer, in transaction mode."""
        folder = self._pooler_folder
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
        listen, port = ("*", _POOLER_PORT) if self.has_cables else ("", _PORT)
        text = _POOLER.format(host=self.server.folder, folder=folder, listen=listen, port=port)
        (folder / "pgbouncer.ini").write_text(text)
        command = as_postgres(["pgbouncer", "-q", str(folder / "pgbouncer.ini")])
        with (self.logs / "pgbouncer.log").open("ab") as log:
            self._pooler = subprocess.Popen(
                [*self.inside(None), *command], cwd=folder, stdout=log, stderr=log
            )

    def kill_pooler(self) -> None:
        """Kill PgBouncer with SIGKILL."""
        if self._pooler is not None:
            self._pooler.kill()
            self._pooler.wait()
            (self._pooler_folder / f".s.PGSQL.{_POOLER_PORT}").unlink(missing_ok=True)
            (self._pooler_folder / f".s.PGSQL.{_PORT}").unlink(missing_ok=True)

    def close(self) -> None:
        """Stop pooler and server, and remove the cables."""
        self.kill_pooler()
        self.server.close()
        if self.has_cables:
            for name in (self._name, *(f"{self._name}m{one}" for one in range(len(MACHINES)))):
                with suppress(subprocess.CalledProcessError):
                    self._ip("netns", "del", name)


class MachineSlot(Slot):
    """A place for engines on one machine."""

    def __init__(self, field: ServerField, number: int) -> None:
        super().__init__(field, number, start_at=0.0, within=field.inside(number % len(MACHINES)))
        self.machine = number % len(MACHINES)
        self.policy = (*self.policy, "--on-lost", ("end", "leave")[number % 2])
