"""Schedules as text: a TOML document, and the texts of the options that make one up.

The names of the options of `add` are the keys of a document, and one set of readers serves both.

    values     the text of an option or key to its value, and why not
    counts     those of them that are numbers or closed choices
    keys       a specification as the keys and values of a document
    toml       keys and values as TOML text
    writing    schedules to a document
    document   what a document says, and what is wrong with one
    tables     the table of one schedule, read
    reading    a whole document, read
    lines      at which line of a document a key stands
    comparing  what a document would change of the schedules that there are
"""
