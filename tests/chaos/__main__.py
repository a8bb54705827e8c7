"""Chaos with real processes: engines, supervisors and jobs on one database, and all that goes
wrong with them at once. Afterwards the jobs' own log is held against the rows.

Where it is started as root it runs without root's powers, in a world of processes of its own that
ends with it, with a small disk that can be full.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.chaos import program

ROOT = Path(__file__).parents[2]
_DISK_MIB = 128
_WORLD = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_POWERLESS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


def main() -> int:
    options = _parse()
    if options.inside is not None:
        return program.run(options, options.inside)
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(10**6)
    again = f"python -m tests.chaos --seed {options.seed} --duration {options.duration}"
    again += f" --engines {options.engines}"
    print(f"seed {options.seed}; again: {again}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="edgecron-chaos-"))
    code = 2
    try:
        code = subprocess.run(_command(options, folder), cwd=ROOT, check=False).returncode
    finally:
        if options.keep or code != 0:
            print(f"logs, database and journals: {folder}")
        else:
            shutil.rmtree(folder)
    if code:
        print(f"seed {options.seed} failed; again: {again}")
    return code


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the plan (a new one)")
    parser.add_argument("--duration", type=int, default=60, metavar="S", help="of faults (60)")
    parser.add_argument("--engines", type=int, default=3, metavar="N", help="at once (3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    parser.add_argument(
        "--pace", type=int, default=1, choices=(1, 2, 3, 5), help="fire so many times less often"
    )
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--has-disk", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.json is not None:
        options.json = options.json.absolute()
    return options


def _command(options: argparse.Namespace, folder: Path) -> list[str]:
    """The same again, in a world of its own where we may have one."""
    inside = [sys.executable, "-m", "tests.chaos", "--inside", str(folder)]
    for name in ("seed", "duration", "engines", "pace"):
        inside += [f"--{name}", str(getattr(options, name))]
    if options.json is not None:
        inside += ["--json", str(options.json)]
    if not _can_have_world():
        return inside
    disk = folder / "disk"
    disk.mkdir(mode=0o700)
    mount = f"mount -t tmpfs -o size={_DISK_MIB}m,mode=0700 edgecron-chaos {shlex.quote(str(disk))}"
    # The shell stays as the first process there: it reaps whoever loses its parent.
    line = f"{mount} || exit 2; {shlex.join([*_POWERLESS, '--', *inside, '--has-disk'])}; exit $?"
    return [*_WORLD, "sh", "-c", line]


def _can_have_world() -> bool:
    """Whether we are root, with all that it takes."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "mount"))):
        return False
    with tempfile.TemporaryDirectory() as folder:
        trial = f"mount -t tmpfs none {shlex.quote(folder)} && {shlex.join([*_POWERLESS, 'true'])}"
        command = [*_WORLD, "sh", "-c", trial]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
