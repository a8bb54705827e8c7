"""The verbs as tools for AI assistants, over the Model Context Protocol: `edgecron mcp`.

A tool is a verb: it has its name, takes what it takes and answers the objects of its `--json`.
What is written of a schedule has the keys of a TOML document.

    tools.py      the table of tools: what each says of itself, and the shape of what it takes
    reading.py    arguments to the words of a verb
    collecting.py a session that collects what a verb says
    calling.py    a call, and its answer: bounded, cleaned, without secrets
    changing.py   add and edit, by the keys of a document
    printed.py    what jobs print: data of strangers, and marked as such
    serving.py    the protocol on stdin and stdout; alone to know the library
"""
