"""What the schedules of a storm run. It tells what it does in a log of its own, and nobody else.

    job.py LOG KIND SECONDS CODE

Every line is one write to the end of the file. Nothing of edgecron is imported, and it is started
without the site packages: it must be cheap, and judge by itself.
"""

import json
import os
import signal
import sys
import time

_PAUSE_S = 0.4  # between two signs of life


def main() -> int:
    path, kind, seconds, code = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    if kind == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    attempt = int(os.environ["EDGECRON_ATTEMPT"])
    tell(
        log,
        "start",
        kind=kind,
        schedule=os.environ["EDGECRON_SCHEDULE"],
        plan=os.environ["EDGECRON_PLAN_AT"],
        cause=os.environ["EDGECRON_CAUSE"],
        host=os.uname().nodename,
        scope=[os.environ["EDGECRON_SCOPE_KIND"], os.environ["EDGECRON_SCOPE_ID"]],
        attempt=attempt,
        key=os.environ["EDGECRON_IDEMPOTENCY_KEY"],
        fence=int(os.environ["EDGECRON_FENCE"]),
    )
    if kind == "parent":
        have_child(log, seconds * 2)
    if kind == "loud":
        shout()
    live(log, seconds)
    if kind == "flaky" and attempt >= 3:
        code = 0
    # What was ended is said to have ended by itself only when nothing can come in between.
    tell(log, "end", code=code)
    os._exit(code)


def live(log: int, seconds: float) -> None:
    """Be there for so long, and say so now and then."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _PAUSE_S))
        if left > _PAUSE_S:
            tell(log, "alive")


def have_child(log: int, seconds: float) -> None:
    """Leave somebody behind who keeps our stdout open, and outlives us."""
    if os.fork() == 0:
        time.sleep(seconds)
        tell(log, "child")
        os._exit(0)


def shout() -> None:
    """Much more than is kept, with what a terminal would obey."""
    line = b"\x1b]0;pwned\x07" + b"x" * 1000 + b"\xff\n"
    for number in range(600):
        os.write(1 + number % 2, line)


def tell(log: int, what: str, **more: object) -> None:
    entry = {
        "what": what,
        "run": int(os.environ["EDGECRON_RUN_ID"]),
        "by": os.environ.get("LC_CHAOS", ""),
        "pid": os.getpid(),
        "mono_ms": time.monotonic_ns() // 1_000_000,
        "wall_ms": time.time_ns() // 1_000_000,
        **more,
    }
    os.write(log, json.dumps(entry, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
