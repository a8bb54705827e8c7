"""The scheduler loop: what is due is decided, claimed and started, and its end is written.

core.py        step(): one pass           loop.py      run(): steps, and sleep between them
firing.py      what is fired in a pass    catalogue.py schedules, compiled once
claiming.py    who claims, and starts    ends.py      what has ended, written
batches.py     what a pass has claimed   ahead.py     claims right before their time
leftover.py    functions that outlive it
handover.py    from a grant to a claim    liveruns.py  what runs, and under whom
host.py        an engine's surroundings   sleep.py     waiting for an instant or an event
place.py       its lock and doorbell       wake.py      FIFOs that wake engines
watch.py       the end of a peer's process
rescue.py      when to look for the dead  recovery.py  taking over what they left
adoption.py    their supervisors          strays.py    and their files
liveness.py    who is alive               health.py    alive, silent or stalled
events.py      what was done, as values   telling.py   and how it is reported
peers.py       engines, seen by who is none
owner.py       whose a database is         timekeeping.py  what clocks and zones do
registration.py  an engine's row in its database
retiming.py    stored times put right in slices
"""
