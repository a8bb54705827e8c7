"""The other process: it adds a schedule, watches a run of it, and removes it."""

import threading

import texts

from edgecron import Scheduler

scheduler = Scheduler("rpc.db")
has_run = threading.Event()

if __name__ == "__main__":
    with scheduler.subscribe(lambda event: has_run.set(), "success", job="hello"):
        entry = scheduler.add("hello", "every 1s", call=texts.print_text, args=["hello, world"])
        has_run.wait(30)
        entry.remove()
    print("removed", flush=True)
