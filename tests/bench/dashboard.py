"""Is the dashboard there at once, does it follow each key, and does it cost nothing to keep open?

A hundred thousand schedules and a million runs, on a terminal of its own, against a bare Textual
application with one line of text: what is drawn, and what that costs, is measured at the other end
of the terminal and by the kernel. From the start until the terminal has the name of the first
schedule; from a key until the terminal has the whole of the frame that it leads to.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from edgecron.base.clock import SystemClock
from tests.bench.history import HOUR_MS, add_runs
from tests.bench.machine import Setting
from tests.bench.processes import cpu_s_of, memory_kb_of, wakes_of
from tests.bench.schedules import make_times_of_day
from tests.bench.screens import Screen, on_screen
from tests.bench.table import Row, at_most
from tests.bench.timing import interleave, percentile

NAME = b"backup"  # of the first schedule; the others have it and a number
SCHEDULES = 100_000
TIMES = 400  # of day, at which as many schedules each are due
SIZES = ((80, 24), (160, 48))
# What any Textual application does: a line of text that each key changes.
BARE = """
from textual.app import App
from textual.widgets import Static

class Bare(App):
    BINDINGS = [("j", "count"), ("q", "quit")]
    shown = 0

    def compose(self):
        yield Static("backup")

    def action_count(self):
        self.shown += 1
        self.query_one(Static).update(f"backup-{self.shown}")

Bare().run()
"""
_BARE = (sys.executable, "-c", BARE)
_HAVE_RUN = """UPDATE schedules SET last_status = 'success', last_run_at = :at, run_count = 10,
    success_count = 10, last_success_at = :at"""


def rows(setting: Setting) -> Iterator[Row]:
    runs = setting.pick(1_000_000, 100_000)
    with setting.place() as folder:
        database = folder / "dashboard.db"
        began = time.monotonic()
        _make(database, runs)
        setting.say(f"  {runs:,} runs took {time.monotonic() - began:.0f} s to make")
        ours = (sys.executable, "-m", "edgecron", "--db", str(database), "tui")
        for size in SIZES:
            yield _first_paint(setting, ours, size, runs)
        for size in SIZES:
            yield from _keys(setting, ours, size, runs)
        yield from _rest(setting, ours)


def _make(database: Path, runs: int) -> None:
    """Schedules of which each has a time of day, hours from now, and their runs."""
    make_times_of_day(database, NAME.decode(), count=SCHEDULES, times=TIMES)
    add_runs(database, runs=runs, schedules=SCHEDULES)
    connection = apsw.Connection(str(database))
    connection.execute(_HAVE_RUN, {"at": SystemClock().now_ms() - HOUR_MS})
    connection.close()


def _first_paint(setting: Setting, ours: tuple[str, ...], size: tuple[int, int], runs: int) -> Row:
    cpu: dict[tuple[str, ...], list[float]] = {ours: [], _BARE: []}

    def took_s(command: tuple[str, ...]) -> float:
        with on_screen(command, size=size) as screen:
            found = screen.show(NAME)
            cpu[command].append(cpu_s_of(screen.pid))
            screen.rest()
        return found

    for command in cpu:
        took_s(command)
    pairs = interleave(setting.pick(25, 5), lambda: took_s(ours), lambda: took_s(_BARE))
    ours_cpu, bare_cpu = (statistics.median(found) * 1000 for found in cpu.values())
    return Row(
        bench="dashboard",
        what=f"first paint, {SCHEDULES:,} schedules, {runs:,} runs, {size[0]}x{size[1]}",
        measured=f"{pairs.our_median * 1000:.0f} ms",
        reference=f"bare Textual {pairs.their_median * 1000:.0f} ms",
        ratio=pairs.ratio,
        low=pairs.middle[0],
        high=pairs.middle[1],
        reach=at_most(350, "ms"),
        value=pairs.our_median * 1000,
        figures=pairs.figures(),
        note=f"processor time until then {ours_cpu:.0f} ms, bare {bare_cpu:.0f} ms;"
        f" ratio of the best of each {pairs.best_ratio:.2f}",
    )


def _keys(
    setting: Setting, ours: tuple[str, ...], size: tuple[int, int], runs: int
) -> Iterator[Row]:
    count = setting.pick(400, 60)
    with on_screen(_BARE, size=size) as bare, on_screen(ours, size=size) as screen:
        for one in (bare, screen):
            one.show(NAME)
            one.rest(1.5)
        screen.press(b"2")  # A key that changes nothing draws nothing.
        for number, name in enumerate(_PRESSED):
            if name == "upcoming":
                screen.press(b"3")
            screen.press(str(number).encode())
            screen.rest()
            for what, keys in _PRESSED[name].items():
                yield _key_row(f"{what} in {name}", screen, bare, keys, count, size)


# What is pressed in each list, one after the other.
_PRESSED: dict[str, dict[str, tuple[bytes, ...]]] = {
    "timeline": {"j": (b"j",), "page down": (b"\x06",), "G and g": (b"G", b"g")},
    "schedules": {"j": (b"j",), "page down": (b"\x06",), "G and g": (b"G", b"g")},
    "upcoming": {"j": (b"j",)},
    "runs": {"j": (b"j",), "page down": (b"\x06",), "G and g": (b"G", b"g")},
}


def _key_row(
    what: str,
    screen: Screen,
    bare: Screen,
    keys: tuple[bytes, ...],
    count: int,
    size: tuple[int, int],
) -> Row:
    pressed = 0

    def mine() -> float:
        nonlocal pressed
        pressed += 1
        took_s = screen.press(keys[pressed % len(keys)], NAME)
        screen.rest(0.02)
        return took_s

    def others() -> float:
        took_s = bare.press(b"j", NAME)
        bare.rest(0.02)
        return took_s

    before, before_bare = cpu_s_of(screen.pid), cpu_s_of(bare.pid)
    pairs = interleave(count, mine, others, within_s=30)
    done = len(pairs.ours)
    used = (cpu_s_of(screen.pid) - before) * 1000 / done
    used_bare = (cpu_s_of(bare.pid) - before_bare) * 1000 / done
    p95, bare_p95 = (percentile(found, 0.95) * 1000 for found in (pairs.ours, pairs.theirs))
    return Row(
        bench="dashboard",
        what=f"{what}, {size[0]}x{size[1]}: key to its effect, median",
        measured=f"{pairs.our_median * 1000:.1f} ms, p95 {p95:.1f}",
        reference=f"bare Textual {pairs.their_median * 1000:.1f} ms, p95 {bare_p95:.1f}",
        ratio=pairs.ratio,
        low=pairs.middle[0],
        high=pairs.middle[1],
        reach=at_most(16, "ms"),
        value=pairs.our_median * 1000,
        figures=pairs.figures() | {"cpu_ms": used, "bare_cpu_ms": used_bare},
        note=f"processor time of a key {used:.1f} ms, bare {used_bare:.1f} ms",
    )


def _rest(setting: Setting, ours: tuple[str, ...]) -> Iterator[Row]:
    seconds = setting.pick(60, 10)
    with on_screen(_BARE, size=SIZES[1]) as bare, on_screen(ours, size=SIZES[1]) as screen:
        bare.show(NAME)
        screen.show(NAME)
        for key in (b"3", b"G", b"g", b"2", b"G", b"1", b"G", b"g"):
            screen.press(key)
            screen.rest(0.5)
        screen.watch(setting.pick(20, 5))
        before = {one.pid: (cpu_s_of(one.pid), wakes_of(one.pid)) for one in (bare, screen)}
        drawn = screen.watch(seconds)
        shares, wakes = (
            [(read(one.pid) - before[one.pid][at]) / seconds for one in (screen, bare)]
            for at, read in enumerate((cpu_s_of, wakes_of))
        )
        memory, bare_memory = memory_kb_of(screen.pid), memory_kb_of(bare.pid)
    yield Row(
        bench="dashboard",
        what=f"idle {seconds} s, {SIZES[1][0]}x{SIZES[1][1]}: share of a core",
        measured=f"{shares[0] * 100:.2f} %",
        reference=f"bare Textual {shares[1] * 100:.2f} %",
        reach=at_most(0.5, "%"),
        value=shares[0] * 100,
        note=f"its main thread woke {wakes[0]:.1f} times a second, bare {wakes[1]:.1f};"
        f" {drawn:,} bytes drawn",
    )
    yield Row(
        bench="dashboard",
        what="memory, resident, after all lists were gone through",
        measured=f"{memory['Rss'] / 1024:.1f} MB",
        reference=f"bare Textual {bare_memory['Rss'] / 1024:.1f} MB",
        ratio=memory["Rss"] / bare_memory["Rss"],
        reach=at_most(60, "MB"),
        value=memory["Rss"] / 1024,
        figures={"memory_kb": memory, "bare_kb": bare_memory},
        note=f"its proportional share {memory['Pss'] / 1024:.1f} MB",
    )
