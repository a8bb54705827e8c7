"""What each program is put through: the same acts, whichever scheduler is in it.

Run as a script of its own, by the Python that has that scheduler: `edgecron_app.py ACT DATABASE
COUNT`. Prints one line of JSON. It loads nothing that it can do without: what a program is at rest
is to be that of its scheduler.

Each has an `App(DATABASE)` with a scheduler in it, its store in that file:

    add_s                how long one schedule takes to be made, at most
    grain_s              the finest time that it knows, and would else call too early at
    prepare(instants)    have `calls.note` called at each of these instants, once
    start()              begin to work
    enqueue(count)       have it called so often, as soon as can be, each time by a wish of its own
    recorded() -> int    how many calls are done, and on record as far as it keeps such a record
    register(count)      have so many functions called every hour
    stop()               end all
"""

import json
import math
import sys
import threading
import time

BOUND_S = 600.0
LEAD_S = 3.0  # between the last of the preparations and the first instant
APART_S = 1.0
THREADS = 8  # that ask at the same time
_LOOK_S = 0.002
# Parts of a second, so that no tick of a scheduler, or of the machine, is met by all of them.
_SPREAD = 0.618


class Calls:
    """When `note` was called."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self._wanted = 0
        self._all = threading.Event()

    def note(self) -> int:
        self.at.append(time.time())
        if len(self.at) == self._wanted:
            self._all.set()
        return len(self.at)

    def want(self, count: int) -> None:
        self._wanted = count

    def wait(self) -> None:
        assert self._all.wait(BOUND_S), f"{len(self.at)} of {self._wanted} were called"


calls = Calls()


def main(make) -> None:
    act, database, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    app = make(database)
    calls.want(count)
    print(json.dumps(ACTS[act](app, count)), flush=True)
    if act == "idle":
        sys.stdin.read()
    app.stop()


def burst(app, count: int) -> dict:
    """So many due at one instant: until the last has begun, and the last end is on record."""
    due = time.time() + LEAD_S + count * app.add_s
    app.prepare([due] * count)
    app.start()
    assert time.time() < due, "they were made too late"
    calls.wait()
    ended = _wait_recorded(app, count)
    return {"started_s": max(calls.at) - due, "took_s": ended - due}


def stream(app, count: int) -> dict:
    """So many asked for one after the other, while they are worked on."""
    app.start()
    time.sleep(LEAD_S)  # It is at rest.
    began = time.time()
    app.enqueue(count)
    asked = time.time()
    calls.wait()
    ended = _wait_recorded(app, count)
    return {"asked_s": asked - began, "took_s": ended - began}


def threads(app, count: int) -> dict:
    """The same, asked for by so many threads at the same time."""
    app.start()
    time.sleep(LEAD_S)
    crowd = [threading.Thread(target=app.enqueue, args=(count // THREADS,)) for _ in range(THREADS)]
    began = time.time()
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    asked = time.time()
    calls.wait()
    ended = _wait_recorded(app, count)
    return {"asked_s": asked - began, "took_s": ended - began}


def latency(app, count: int) -> dict:
    """How late each of so many is called that are due one after the other."""
    first = time.time() + LEAD_S + count * app.add_s
    instants = [first + n * APART_S + (n * _SPREAD) % 1 * APART_S / 2 for n in range(count)]
    instants = [math.ceil(one / app.grain_s) * app.grain_s for one in instants]
    app.prepare(instants)
    app.start()
    calls.wait()
    return {"late_s": [at - due for at, due in zip(calls.at, instants, strict=True)]}


def idle(app, count: int) -> dict:
    app.register(count)
    app.start()
    return {}


ACTS = {"burst": burst, "stream": stream, "threads": threads, "latency": latency, "idle": idle}


def _wait_recorded(app, count: int) -> float:
    """When so many were on record."""
    until = time.monotonic() + BOUND_S
    while (found := app.recorded()) < count:
        assert time.monotonic() < until, f"{found} of {count} are on record"
        time.sleep(_LOOK_S)
    return time.time()
