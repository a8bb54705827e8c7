"""APScheduler's example of a remote scheduler. It needs no calls over a network: see the client."""

from edgecron import Scheduler

if __name__ == "__main__":
    Scheduler("rpc.db").run_forever()
    print("ended", flush=True)
