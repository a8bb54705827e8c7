"""A storm over a real PostgreSQL server: engines on several machines, and all that goes wrong.

    python -m tests.storm_on_server --duration 3600

The machines are network namespaces. One reaches the server directly, one with a clock that is
minutes ahead, one through PgBouncer with a clock that is minutes behind. Without root, they differ
only by their folders, and no cable can be cut.

field.py       the server, the pooler, the machines and their cables
faults.py      what goes wrong, and what ends it
verdicts.py    what must hold of the rows and of the jobs' own log
__main__.py    the command: the order of events, and the figures
"""
