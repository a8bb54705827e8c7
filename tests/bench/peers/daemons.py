"""busybox crond, Debian's cron and cronstable: a thousand commands due when a minute begins.

The command writes down when it began; measured is from the minute until the last of them began.
Debian's cron, whose places are fixed, gets a namespace with mounts of its own.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.front_door import Contestant, Starts
from tests.bench.machine import Setting
from tests.bench.peers.programs import Programs
from tests.bench.processes import wait_until
from tests.bench.stamps import read_stamps, stamp_command

NEVER = "0 0 29 2 *"
# Mounts that only this process and what it starts can see: nothing of the system's own runs.
_APART = """set -e
mount -t overlay none -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc
cp "$1/crontab" /etc/crontab
[ ! -d /etc/cron.d ] || mount -t tmpfs none /etc/cron.d
mount -t tmpfs none /var/spool
mkdir -p /var/spool/cron/crontabs
mount -t tmpfs none /run
exec "$2" -f"""

# Writes the tables of a crontab in a folder, and gives the command that reads it.
Prepare = Callable[[Path, Path, str, list[str], int], list[str]]


def contestants(programs: Programs) -> dict[str, Contestant]:
    """Those that are here."""
    found = {}
    for peer, (program, prepare) in available(programs).items():

        def measure(
            setting: Setting, count: int, program: Path = program, prepare: Prepare = prepare
        ) -> Starts:
            return _measure(setting, program, prepare, count)

        found[peer] = Contestant(measure=measure)
    return found


def available(programs: Programs) -> dict[str, tuple[Path, Prepare]]:
    """The daemons that are here, and how each is given its crontab."""
    found: dict[str, tuple[Path, Prepare]] = {}
    if "busybox" in programs.paths:
        found["busybox crond"] = (programs.paths["busybox"], _prepare_busybox)
    if "cron" in programs.paths and os.geteuid() == 0:
        found["Debian cron"] = (programs.paths["cron"], _prepare_cron)
    if "cronstable" in programs.pythons:
        program = programs.pythons["cronstable"].with_name("cronstable")
        found["cronstable"] = (program, _prepare_cronstable)
    return found


@contextmanager
def running(folder: Path, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in the foreground, ended afterwards with what it is the leader of."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def _measure(setting: Setting, program: Path, prepare: Prepare, count: int) -> Starts:
    with setting.place() as folder:
        command, stamps, _ = stamp_command(folder)
        _wait_for_second(45)  # so that it has read its tables when the minute begins
        with running(folder, prepare(folder, program, "* * * * *", command, count)):
            minute_s = (int(time.time()) // 60 + 1) * 60

            def have_begun() -> bool:
                # It may miss the first minute, where it is slow to begin.
                return len(read_stamps(stamps)) >= count

            wait_until(have_begun, f"{count} commands of {program.name} have begun")
            began_ms = sorted(at_ms for _, at_ms in read_stamps(stamps))[:count]
        first_s = began_ms[0] / 1000
        minute_s = max(minute_s, int(first_s) // 60 * 60)
    return Starts(first_ms=began_ms[0] - minute_s * 1000, last_ms=began_ms[-1] - minute_s * 1000)


def _wait_for_second(latest: int) -> None:
    """Until a minute is young enough that what is started now is ready before it ends."""
    second = time.time() % 60
    if second > latest:
        time.sleep(60 - second + 1)


def _prepare_busybox(
    folder: Path, program: Path, time_text: str, command: list[str], count: int
) -> list[str]:
    tables = folder / "tables"
    tables.mkdir()
    (tables / "root").write_text(f"{time_text} {' '.join(command)}\n" * count, encoding="ascii")
    return [str(program), "crond", "-f", "-c", str(tables), "-L", os.devnull]


def _prepare_cron(
    folder: Path, program: Path, time_text: str, command: list[str], count: int
) -> list[str]:
    for name in ("upper", "work"):
        (folder / name).mkdir()
    lines = f"{time_text} root {' '.join(command)}\n" * count
    (folder / "crontab").write_text(lines, encoding="ascii")
    (folder / "crontab").chmod(0o600)
    return ["unshare", "--mount", "sh", "-c", _APART, "sh", str(folder), str(program)]


def _prepare_cronstable(
    folder: Path, program: Path, time_text: str, command: list[str], count: int
) -> list[str]:
    jobs = "".join(
        f"  - name: job-{number}\n    command:\n"
        + "".join(f"      - {word}\n" for word in command)
        + f'    schedule: "{time_text}"\n    captureStderr: false\n'
        for number in range(count)
    )
    (folder / "cronstable.yaml").write_text(f"jobs:\n{jobs}", encoding="ascii")
    return [str(program), "-c", str(folder / "cronstable.yaml")]
