"""Chaos: real engines, supervisors and commands, and everything that goes wrong at once.

    python -m tests.chaos --seed 7 --duration 600
    python -m tests.chaos --duration 3600 --engines 3 --json chaos.json

__main__.py    the command: a field of its own, and the table at the end
program.py     the same from within that field
plan.py        what goes wrong, and what people do, by the seed
field.py       folders, and who of ours is alive in them
engines.py     engines as a service manager keeps them
faults.py      what goes wrong, done and undone
people.py      the real command line, and what it promised
verbs.py       many command lines at once, to begin with
foreign.py     a foreign program that has the database open
twins.py       copies of the database that run
job.py         what the schedules run: keeps a log of its own
crowd.py       the schedules
watch.py       looks at the rows meanwhile: what is final may not change
storm.py       the order of events, until all is quiet again
history.py     all that is known afterwards, as values
reading.py     those values, out of the database and the jobs' log
verdicts.py    every invariant, by its number
rows.py, bodies.py, times.py, surroundings.py    the invariants themselves
figures.py     the table

The same seed makes the same plan. What the machine makes of it differs from run to run: that is
what real processes are for.
"""
