"""Many lives over fresh seeds: `python -m tests.simulation --fires 1000000 --seed N --jobs 2`.

Each life is a virtual machine on which engines, supervisors and people run, are killed, stalled and
meet faults at any point, and is judged after each recovery. Seeds are N, N+1, ... until that many
fires were simulated. Progress goes to stderr, the figures to stdout at the end; exit code 1 where
an invariant did not hold, with the command that replays it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count, repeat
from multiprocessing import get_context
from pathlib import Path

from tests.simulation.workers import begin, databases, live, tell_all

_HASH_SEED = "0"


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        # The order of sets is chance as well, and a seed is to tell everything.
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    begin()
    arguments = _parse()
    if arguments.replay is not None:
        return _replay(arguments.replay, on_server=arguments.on_server)
    return _run(arguments)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description="Simulate many lives of edgecron."
    )
    parser.add_argument("--fires", type=int, default=10_000, help="how many to simulate at least")
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: any)")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument(
        "--stories", action="store_true", help="something at each point of the core stories instead"
    )
    parser.add_argument(
        "--on-server", action="store_true", help="on private PostgreSQL servers instead of files"
    )
    parser.add_argument(
        "--replay",
        type=_replayed,
        metavar="WHAT",
        help="live one SEED, or tell one STORY:KIND:POINT, and show it",
    )
    return parser.parse_args()


def _replayed(text: str) -> str:
    from tests.simulation.points import Fault, Hit
    from tests.simulation.stories import STORIES

    name, _, rest = text.partition(":")
    kind, _, number = rest.partition(":")
    is_point = name in STORIES and kind in [*Hit, *Fault] and number.isdecimal()
    if text.isdecimal() or is_point:
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is no seed and no STORY:KIND:POINT")


def _replay(what: str, *, on_server: bool) -> int:
    from tests.simulation.seeds import Violation, live_once
    from tests.simulation.stories import kind_of, tell_once

    try:
        with databases(on_server=on_server) as make:
            if what.isdecimal():
                print(json.dumps(vars(live_once(int(what), url=make())), indent=2))
            else:
                name, kind, number = what.split(":")
                hit = int(number), kind_of(kind)
                print("\n".join(tell_once(name, hit=hit, url=make()).trail))
    except Violation as violation:
        print("\n".join(violation.trail))
        print(f"violation: {violation}", file=sys.stderr)
        return 1
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from tests.simulation.lives import Figures
    from tests.simulation.seeds import Violation

    first = int(time.time()) % 1_000_000_000 if arguments.seed is None else arguments.seed
    if arguments.stories:
        return _tell_stories(arguments.jobs, on_server=arguments.on_server)
    print(f"seeds from {first} on, {arguments.fires:,} fires", file=sys.stderr)
    total, begin_s, told_s = Figures(), time.monotonic(), 0.0
    violations: list[Violation] = []
    for outcome in _lives(first, arguments.jobs, on_server=arguments.on_server):
        if isinstance(outcome, Violation):
            violations.append(outcome)
            _tell(outcome, on_server=arguments.on_server)
        else:
            assert isinstance(outcome, Figures)
            total.add(outcome)
        elapsed_s = time.monotonic() - begin_s
        if elapsed_s - told_s >= 10:
            told_s = elapsed_s
            print(
                f"{elapsed_s:6.0f} s {total.lives:6} lives {total.fires:9,} fires"
                f" {len(violations)} violations",
                file=sys.stderr,
            )
        if total.fires >= arguments.fires or len(violations) >= 5:
            break
    found = _table(total, first, len(violations), time.monotonic() - begin_s)
    for name, value in found.items():
        print(f"{name:28}{value:>16,}" if isinstance(value, int) else f"{name:28}{value:>16}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"details": vars(total)} | found, indent=2) + "\n")
    return 1 if violations else 0


def _replay_words(what: object, *, on_server: bool) -> str:
    where = " --on-server" if on_server else ""
    return f"replay: python -m tests.simulation{where} --replay {what}"


def _tell_stories(jobs: int, *, on_server: bool) -> int:
    """Each story once for each of its points and each thing that can happen there."""
    from tests.simulation.points import Fault, Hit
    from tests.simulation.stories import STORIES

    tellings, wrong = 0, 0
    kinds = [*(kind for kind in Hit if kind is not Hit.FAULT), *Fault]
    pairs = [(kind.value, name) for kind in kinds for name in STORIES]
    with _pool(jobs) as pool:
        found = pool.map(tell_all, *zip(*pairs, strict=True), repeat(on_server))
        for (kind, name), (points, violations) in zip(pairs, found, strict=True):
            tellings += points
            wrong += len(violations)
            told = f"{points:5} points, {len(violations)} violations"
            print(f"{kind:8} {name:16} {told}", file=sys.stderr)
            for told, why in violations[:3]:
                print(f"  {why[:2000]}", file=sys.stderr)
                print(f"  {_replay_words(told, on_server=on_server)}", file=sys.stderr)
    print(f"{tellings:,} tellings of {len(STORIES)} stories, {wrong} violations")
    return 1 if wrong else 0


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Each worker a fresh interpreter: no thread or descriptor of another life is in it.
    return ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=begin, max_tasks_per_child=200
    )


def _lives(first: int, jobs: int, *, on_server: bool) -> Iterator[object]:
    """What became of each seed, in the order in which they end."""
    seeds = count(first)
    with _pool(jobs) as pool:
        going: set[Future[object]] = {
            pool.submit(live, next(seeds), on_server) for _ in range(jobs + 1)
        }
        try:
            while True:
                done, going = wait(going, return_when=FIRST_COMPLETED)
                going |= {pool.submit(live, next(seeds), on_server) for _ in done}
                yield from (future.result() for future in done)
        finally:
            for future in going:
                future.cancel()


def _tell(violation: object, *, on_server: bool) -> None:
    trail = violation.trail[-20:]  # type: ignore[attr-defined]
    print("\n".join(["", "VIOLATION", *trail, str(violation)[:4000]]), file=sys.stderr)
    seed = violation.seed  # type: ignore[attr-defined]
    print(f"{_replay_words(seed, on_server=on_server)}\n", file=sys.stderr)


def _table(total: object, first: int, violations: int, elapsed_s: float) -> dict[str, object]:
    figures = vars(total)
    faults: Counter[str] = figures["faults"]
    rows: dict[str, object] = {
        "first seed": first,
        "lives": figures["lives"],
        "fires": figures["fires"],
        "runs": figures["runs"],
        "ranges not run": figures["ranges"],
        "points passed": figures["points"],
        "kills": sum(figures["kills"].values()),
    }
    rows |= {f"  {name}": value for name, value in sorted(_by_place(figures["kills"]).items())}
    rows["faults and stalls"] = sum(faults.values())
    rows |= {f"  {name}": value for name, value in sorted(faults.items())}
    rows |= {
        "verbs of people": sum(v for k, v in figures["verbs"].items() if k[0].islower()),
        "recoveries judged": figures["recoveries"],
        "punctual fires judged": figures["punctual"],
        "simulated hours": figures["simulated_s"] // 3600,
        "processor seconds": round(figures["took_s"]),
        "elapsed seconds": round(elapsed_s),
        "fires per processor second": round(figures["fires"] / (figures["took_s"] or 1)),
        "violations": violations,
    }
    return rows


def _by_place(kills: Counter[str]) -> Counter[str]:
    """Kills by who was killed: an engine, a supervisor, a command line."""
    found: Counter[str] = Counter()
    for name, value in kills.items():
        who, _, where = name.partition(" ")
        who = "command line" if who.endswith("-") else who
        found[f"{who} {where}" if who != "command line" else who] += value
    return found


if __name__ == "__main__":
    raise SystemExit(main())
