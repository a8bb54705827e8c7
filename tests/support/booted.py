"""A machine on which systemd runs: this one's files under an overlay, in namespaces of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.tools import need_tools

_BOUND_S = 120.0
# What such a machine has no use for: devices, networks, terminals, file systems of the kernel.
_MASKED = (
    "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-networkd.service",
    "systemd-resolved.service", "systemd-timesyncd.service", "systemd-modules-load.service",
    "systemd-sysctl.service", "systemd-remount-fs.service", "systemd-update-utmp.service",
    "systemd-tmpfiles-setup-dev.service", "getty.target", "console-getty.service",
    "proc-sys-fs-binfmt_misc.automount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
    "dev-hugepages.mount", "dev-mqueue.mount",
)  # fmt: skip
_MOUNT = """set -e
mount -t overlay overlay -o lowerdir=/,upperdir="$1",workdir="$2" "$3"
mount -t sysfs sysfs "$3/sys"
mount -t cgroup2 cgroup2 "$3/sys/fs/cgroup"
"""
_BOOT = f"""{_MOUNT}
cd "$3"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
init="$4"
shift 4
for place in "$@"; do
  mkdir -p ".$place"
  mount --bind "$place" ".$place"
  mount -o remount,bind,ro ".$place"
done
mkdir -p mnt/old
pivot_root . mnt/old
cd /
umount -l mnt/old
exec "$init" --system --unit=multi-user.target --log-target=null
"""
_NAMESPACES = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--cgroup", "--fork")


class BootedMachine:
    """A machine that is booted within `with`; `files` are laid over those of this machine.

    Skips the test if the kernel or the container refuses.
    """

    def __init__(self, folder: Path, files: Path) -> None:
        need_tools("systemctl", "unshare", "nsenter", "pivot_root")
        self._folder = folder
        self._files = files
        self._group = _cgroups() / f"edgecron-test-{os.getpid()}"

    def __enter__(self) -> Self:
        units = self._files / "etc/systemd/system"
        units.mkdir(parents=True, exist_ok=True)
        for name in _MASKED:
            (units / name).symlink_to("/dev/null")
        (self._files / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
        places = [self._files, self._folder / "work", self._folder / "root"]
        for place in places[1:]:
            place.mkdir()
        tried = subprocess.run(
            [*_NAMESPACES, "sh", "-c", _MOUNT, "sh", *map(str, places)],
            capture_output=True,
            text=True,
            check=False,
        )
        if tried.returncode:
            pytest.skip(f"needs namespaces and an overlay, which are refused: {tried.stderr}")
        self._group.mkdir()
        name = f"edgecron-test-{os.getpid()}"
        join = f'echo $$ > "{self._group}/cgroup.procs"; exec "$@"'
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(f"\0{name}")
            ready.settimeout(_BOUND_S)
            self._process = subprocess.Popen(
                [
                    *("sh", "-c", join, "sh", *_NAMESPACES, "--kill-child"),
                    *("sh", "-c", _BOOT, "sh", *map(str, places), "/lib/systemd/systemd"),
                    *_below_tmp(),
                ],
                env={"PATH": os.environ["PATH"], "container": "lxc", "NOTIFY_SOCKET": f"@{name}"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            while b"READY=1" not in ready.recv(4096):
                pass
        pid = self._process.pid
        self._first = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.kill(self._first, signal.SIGKILL)  # The kernel then ends all others there.
        self._process.wait(_BOUND_S)
        for path, _, _ in os.walk(self._group, topdown=False):
            os.rmdir(path)

    def run(self, *argv: str, is_checked: bool = True) -> str:
        """Run a program there; return what it printed."""
        said = subprocess.run(
            ["nsenter", "-t", str(self._first), "-a", *argv],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "HOME": "/root",
                "EDGECRON_CONFIG": "none",
                "EDGECRON_DB": "/root/edgecron.db",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=_BOUND_S,
        )
        assert not is_checked or said.returncode == 0, said.stderr
        return said.stdout


def _below_tmp() -> list[str]:
    """Find what tests need there of a folder that the machine has anew: the project, Python."""
    places = [str(Path(__file__).parents[2]), sys.prefix]
    return [place for place in dict.fromkeys(places) if place.startswith("/tmp/")]


def _cgroups() -> Path:
    """Find where the second version of control groups is mounted; skip the test without it."""
    rows = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    found = next((row[1] for row in rows if row[2] == "cgroup2"), None)
    if found is None:
        pytest.skip("needs control groups of version 2, which this system has not mounted")
    return Path(found)
