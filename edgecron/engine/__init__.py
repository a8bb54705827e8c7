"""The scheduler loop: what is due is decided, claimed and started, and its end is written.

core.py        step(): one pass           loop.py      run(): steps, and sleep between them
host.py        an engine's surroundings   sleep.py     waiting for an instant or an event
wake.py        FIFOs that wake engines    catalogue.py schedules, compiled once
recovery.py    what dead engines left     liveness.py  who is alive
events.py      what was done, as values   telling.py   and how it is reported
handover.py    from a grant to a claim    peers.py     engines, seen by who is none
health.py      alive, silent or stalled
"""
