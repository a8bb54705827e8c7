"""Simulations: virtual machines whose every move is told by a seed.

Down to every statement: real engines, supervisors and command lines, one moving at a time.

    steppers      processes, each with a stack of its own      points    where what can go wrong
    machine       clock, processes, commands, who moves        links     sockets as queues
    virtual       the real supervisor over virtual commands    daemons   the real engine and loop
    lines         people at command lines                      casts     schedules by dice
    lives         what happens to a machine, until its end     clocks    the same in strange times
    witness       what the database says, and said             judging   the invariants; TABLE
    listening     a program that subscribes to events
    seeds         a life for each seed                         stories   something at each point
    __main__      python -m tests.simulation                   workers   its processes

Down to calls of the store, and older: `world`, with `people`, `accounts` and `invariants`, upon
which tests elsewhere tell stories too.
"""
