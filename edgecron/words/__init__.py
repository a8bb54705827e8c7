"""Values in plain words, for the command line and the dashboard.

Nothing here is cleaned or coloured: that is done where it is put.

    times      instants and durations
    letters    text measured and cut in columns
    phrases    values in a few words
    acts       what was done, in a sentence each
    engines    who runs what is in a queue, and that nobody does
    schedules  what a schedule is, how it behaves, and what is on record of it
    cautions   what was taken as it is, but may not be what was meant
    runs       a run: what it waits for, what becomes of it, how it ended
    prospects  what will happen next, and why
    reasons    why a schedule ran, or did not
    frontend   what these ask of the program that shows them
"""
