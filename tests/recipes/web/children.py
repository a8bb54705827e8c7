"""Children of multiprocessing, each with an engine: `python children.py fork|forkserver|spawn`."""

import multiprocessing
import sys

from jobs import scheduler


def work() -> None:
    scheduler.start()
    with open("gate", "rb", buffering=0) as gate:  # what a child does
        gate.read(3)  # and leaves the others' to them
    # It ends without a word to its engine.


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    with scheduler:
        children = [multiprocessing.Process(target=work) for _ in range(3)]
        for child in children:
            child.start()
        for child in children:
            child.join()
    sys.exit(any(child.exitcode for child in children))
