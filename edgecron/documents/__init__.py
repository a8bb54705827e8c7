"""Schedules as text: a TOML document, and the texts of the options that make one up.

The names of the options of `add` are the keys of a document, and one set of readers serves both.

    values    the text of an option or key to its value, and why not
    counts    those of them that are numbers or closed choices
    keys      a specification as the keys and values of a document
"""
