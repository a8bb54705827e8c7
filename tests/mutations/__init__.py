"""Mutations: each guard of edgecron matters, and the checkers notice where one is missing.

    python -m tests.mutations [NAME...] [--json FILE] [--jobs N] [--list]

A mutation takes one guard out of a copy of the package: a few texts of its source, each found
exactly once, are replaced by others. Then a checker runs on that copy: the simulation, the power
loss laboratory, the differential tests, or tests of the thing itself. It must fail, and say what
is wrong; the very test that failed must pass on a copy that nothing was taken from.

A mutation that survives is a hole in the checkers.

    mutation      a mutation, its edits and where it is hunted, as values
    hunts         the checkers
    copies        copies of the package, with edits and without
    hunting       a checker run on a copy, and what it found
    warden        what a checker started does not outlive it
    report        the table of what was found
    table         all mutations

The others hold the mutations, by what they take away.
"""
