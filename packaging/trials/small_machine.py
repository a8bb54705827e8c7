"""edgecron on a small machine: 512 MB, one core, 200 schedules, the dashboard open all the time.

    sudo python3 packaging/trials/small_machine.py [--minutes 5] -- "$(which edgecron)"

What stands after `--` is the program as people call it: that of a wheel, or the single binary. It
runs as it does for them: a daemon with its supervisor, the dashboard on a terminal, commands beside
it, about twenty jobs a minute. Backups and `prune` run meanwhile, a job eats all memory there is,
and the disk is full for a while. Prints a table, and exits with 1 where something was not as it
should be. The limits are those of a cgroup, which takes root; see smallbox.py for what that is not.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from looks import cpu_s, is_alive, pss_bytes, watchers
from smallbox import Box, small_box, small_disk

BOUND_S = 120.0
DISK_BYTES = 64 * 1024 * 1024
# How many schedules of a kind, every how many seconds, and what they do: twenty runs a minute.
CROWD = (
    (12, 60, "date; seq 1 200; sleep 0.2"),
    (12, 120, "head -c 20000 /dev/urandom | base64 | sort"),
    (6, 180, "seq 1 2000 | awk '{s += $1} END {print s}'; sleep 20"),
    (85, 3_600, "true"),
    (85, 86_400, "true"),
)
_READS = (("list",), ("history", "-n", "50"), ("status",), ("why", "c0-0"), ("doctor",))


@dataclass
class Machine:
    """The program on the small machine, and what was seen of it."""

    program: list[str]
    database: Path
    box: Box
    troubles: list[str] = field(default_factory=list)
    peaks: dict[str, int] = field(default_factory=dict)
    took_ms: dict[str, list[float]] = field(default_factory=dict)

    def call(self, *words: str, is_timed: bool = False) -> subprocess.CompletedProcess[str]:
        """A command, from a process of its own in the box."""
        began = time.monotonic()
        done = subprocess.run(
            [*self.program, "--db", str(self.database), *words],
            capture_output=True,
            text=True,
            check=False,
        )
        if is_timed:
            self.took_ms.setdefault(words[0], []).append((time.monotonic() - began) * 1000)
        return done

    def objects(self, *words: str) -> list[dict[str, Any]]:
        done = self.call(*words, "--json")
        if done.returncode:
            self.blame(f"{' '.join(words)} exited with {done.returncode}: {done.stderr.strip()}")
            return []
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def blame(self, words: str) -> None:
        self.troubles.append(words)
        print(f"  not as it should be: {words}", file=sys.stderr)

    def rise(self, name: str, value: int) -> None:
        self.peaks[name] = max(self.peaks.get(name, 0), value)


def main() -> int:
    options = _options()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="small-")))
        has_disk = stack.enter_context(small_disk(folder / "disk", DISK_BYTES))
        box = stack.enter_context(small_box(options.memory_mb * 1024 * 1024))
        machine = Machine(options.program, folder / "disk" / "edgecron.db", box)
        box.enter()
        stack.callback(box.leave)
        _make_schedules(machine, pace=options.pace)
        lines = list(_story(machine, minutes=options.minutes, has_disk=has_disk))
    print(f"\n| {options.memory_mb} MB, one core, for {options.minutes:g} min | |\n|---|---|")
    for name, value in lines:
        print(f"| {name} | {value} |")
    for trouble in machine.troubles:
        print(f"- NOT AS IT SHOULD BE: {trouble}")
    return 1 if machine.troubles else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--pace", type=float, default=1.0, help="so many times as often")
    parser.add_argument("--memory-mb", type=int, default=512)
    parser.add_argument("program", nargs="+")
    return parser.parse_args()


def _story(machine: Machine, *, minutes: float, has_disk: bool) -> Iterator[tuple[str, str]]:
    with _daemon(machine) as engine, _dashboard(machine) as screen:
        watched = {"engine": [engine], "dashboard": [screen], "watchers": watchers(engine)}
        before = {name: cpu_s(pids) for name, pids in watched.items()}
        _live(machine, watched, seconds=minutes * 60)
        spent = {name: cpu_s(pids) - before[name] for name, pids in watched.items()}
        yield from _memory_lines(machine)
        for name in ("engine", "watchers", "dashboard"):
            share = spent[name] / (minutes * 60)
            yield f"processor time of {_WORDS[name]}", f"{share:.2%} of the core"
        yield from _run_lines(machine)
        yield from _command_lines(machine)
        yield "a job that eats all memory", _eat(machine, engine, watched["watchers"])
        full_s = min(30.0, minutes * 60)
        yield "a full disk", _fill(machine, full_s) if has_disk else "not tried: none could be made"
    if (code := machine.call("doctor", "--deep").returncode) not in (0, 1):
        machine.blame(f"doctor --deep exited with {code}")
    yield "size of the database at the end", f"{machine.database.stat().st_size / 1e6:.1f} MB"


_WORDS = {
    "engine": "the engine",
    "watchers": "supervisor and guardian",
    "dashboard": "the dashboard",
}


def _make_schedules(machine: Machine, *, pace: float) -> None:
    """Each kind is spread over its interval, as the schedules of people are."""
    tables = []
    now = datetime.now(UTC).replace(microsecond=0)
    for kind, (count, every_s, line) in enumerate(CROWD):
        step_s = every_s / pace
        for number in range(count):
            start = (now + timedelta(seconds=step_s * number / count)).isoformat()
            when = f'every = "{max(1, round(step_s))}s from {start}"'
            shell = json.dumps(line)
            tables.append(f"[schedules.c{kind}-{number}]\n{when}\nshell = {shell}\n")
    file = machine.database.with_name("schedules.toml")
    file.write_text("\n".join(tables), encoding="utf-8")
    done = machine.call("apply", str(file))
    # In bytes, and of all that it may have: by far more than there is.
    eater = ("add", "eater", "--every", "30d", "--shell", "exec tail /dev/zero")
    for said in (done, machine.call(*eater)):
        if said.returncode:
            raise SystemExit(f"schedules can't be made: {said.stderr}")


@contextmanager
def _daemon(machine: Machine) -> Iterator[int]:
    log = machine.database.with_name("daemon.log")
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*machine.program, "--db", str(machine.database), "daemon"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        _wait(lambda: b"engine_started" in log.read_bytes(), "the engine has started")
        yield int(machine.objects("status")[0]["engines"][0]["pid"])
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(BOUND_S)
        if code:
            machine.blame(f"the daemon exited with {code}: {log.read_text()[-300:]}")


@contextmanager
def _dashboard(machine: Machine) -> Iterator[int]:
    """The dashboard on a terminal, whose other end reads all that it draws."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        command = [*machine.program, "--db", str(machine.database), "tui"]
        os.execvp(command[0], command)
    is_over = threading.Event()
    reader = threading.Thread(target=_read_all, args=(terminal, is_over), name="terminal")
    reader.start()
    try:
        yield pid
    finally:
        with suppress(OSError):
            os.write(terminal, b"q")
        _wait(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid, "the dashboard has ended")
        is_over.set()
        reader.join()
        os.close(terminal)


def _read_all(terminal: int, is_over: threading.Event) -> None:
    while not is_over.is_set():
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                os.read(terminal, 1 << 16)
            except OSError:  # it has closed its end
                return


def _live(machine: Machine, watched: dict[str, list[int]], *, seconds: float) -> None:
    """So long things go their way; people look, back up and prune meanwhile."""
    began = time.monotonic()
    acts = [_READS[at % len(_READS)] for at in range(20)]
    acts[5] = ("backup", str(machine.database.with_name("copy.db")))
    acts[10] = ("prune",)
    while (elapsed_s := time.monotonic() - began) < seconds:
        machine.rise("held", machine.box.held_bytes())
        for name, pids in watched.items():
            machine.rise(name, sum(map(pss_bytes, pids)))
        if elapsed_s >= seconds * (20 - len(acts)) / 20:
            words = acts.pop(0)
            if machine.call(*words, is_timed=True).returncode not in (0, 1):
                machine.blame(f"{words[0]} failed")
        time.sleep(0.5)


def _memory_lines(machine: Machine) -> Iterator[tuple[str, str]]:
    if machine.box.folder is None:
        yield "memory", machine.box.limit_words
    else:
        held = f"{machine.peaks['held'] / 1e6:.0f} MB"
        yield "memory that all of it held at most, jobs and commands included", held
    for name, words in _WORDS.items():
        yield f"memory of {words} at most (PSS)", f"{machine.peaks[name] / 1e6:.0f} MB"


def _run_lines(machine: Machine) -> Iterator[tuple[str, str]]:
    runs = [run for run in machine.objects("history", "-n", "1000") if run["started_at"]]
    bad = [run for run in runs if run["status"] not in ("success", "running")]
    if bad:
        machine.blame(f"{len(bad)} runs did not succeed, the first: {bad[-1]}")
    if not runs:
        machine.blame("nothing was run")
        return
    late_ms = sorted(
        (_instant(run["started_at"]) - _instant(run["due_at"])) * 1000
        for run in runs
        if run["cause"] == "schedule"
    )
    p99 = late_ms[int(len(late_ms) * 0.99)]
    yield "runs, all successful", str(len(runs))
    middle = statistics.median(late_ms)
    words = f"{middle:.0f} ms in the middle, {p99:.0f} ms at p99, {late_ms[-1]:.0f} ms at most"
    yield "from due to started", words


def _command_lines(machine: Machine) -> Iterator[tuple[str, str]]:
    for command, took in sorted(machine.took_ms.items()):
        yield f"`{command}` beside all that", f"{statistics.median(took):.0f} ms"


def _eat(machine: Machine, engine: int, beside: list[int]) -> str:
    if machine.box.folder is None:
        return "not tried: memory is not limited"
    machine.call("run", "eater", "--wait")
    (run,) = machine.objects("history", "eater", "-n", "1")
    if (run["status"], run["reason"]) != ("failed", "signal"):
        machine.blame(f"the job that ate all memory ended otherwise: {run}")
    if not all(map(is_alive, [engine, *beside])):
        machine.blame("engine or supervisor were ended with it")
    _wait_for_runs(machine, "after memory had run out")
    kills = machine.box.oom_kills()
    return f"it alone is ended ({run['error_msg']}; {kills} in all), the others go on"


def _fill(machine: Machine, seconds: float) -> str:
    """Fill the disk for so long, then give the space back."""
    filler = machine.database.with_name("filler")
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 65_536)
    time.sleep(seconds)
    said = machine.call("doctor").stdout
    is_told = "space" in said
    filler.unlink()
    began = time.monotonic()
    _wait_for_runs(machine, "after the disk had been full")
    if not is_told:
        machine.blame(f"doctor said nothing of the full disk: {said}")
    return f"doctor tells it; runs go on {time.monotonic() - began:.0f} s after it has room again"


def _wait_for_runs(machine: Machine, when: str) -> None:
    last = machine.objects("history", "-n", "1")[0]["id"]

    def goes_on() -> bool:
        runs = machine.objects("history", "-n", "20", "--status", "success")
        return any(run["id"] > last for run in runs)

    try:
        _wait(goes_on, f"something ran {when}")
    except TimeoutError as error:
        machine.blame(str(error))


def _wait(is_so: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + BOUND_S
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {BOUND_S:.0f} s: {what}")
        time.sleep(0.2)


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


if __name__ == "__main__":
    sys.exit(main())
