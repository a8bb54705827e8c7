"""Run due schedules: find, plan, claim and start fires; collect and record ends.

step.py           Engine.step: one pass       fire.py           find, plan, claim, start
finish.py         collect, record, start      claim.py          who claims, and what is started
runners.py        all runners of an engine    events.py         reports to its host
loop.py           run(): step and sleep       sleep.py          timers and watched descriptors
recovery.py       take over from the dead     other_engines.py  who is alive, adopt, ring
clock_watch.py    clocks and zones            retiming.py       correct stored times
conditions.py     what waiting runs need, and active runs with --while
presence.py       settings and own row        state_folder.py   locks and doorbells
upkeep.py         progress, history, notices  host.py           all that an engine needs
"""
