"""What edgecron costs, against references that are measured in the same run on the same machine.

    python -m tests.bench [ROWS] [--quick] [--json FILE] [--markdown] [--strict] [--list]
    python -m tests.bench --peers [--install]      other schedulers, against the same bare loops

Measurements, not tests. A ratio is the median of the ratios of neighbours: each round measures
edgecron and its reference one right after the other, so that what else the machine does meets
both. Where work can only become slower by what else goes on, the best of many takes its place.

    table        a row, its reach, and how rows are shown
    timing       rounds, ratios, percentiles
    machine      what this machine is, and where the databases lie
    schedules    databases with many schedules, made fast
    bare         the statements of claims and ends, and nothing around them
    enginerig    an engine whose runs end at once
    stamps       a command that says when it began
    processes    daemons and commands, and what the kernel says of them
    screens      programs on a terminal, and what they draw there

The others hold the rows, one subject each; `__main__` lists them.
"""
