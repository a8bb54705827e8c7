"""The store: the only place that knows SQL.

`protocol.Store` is what an engine asks of a store. `sqlite` keeps it in one SQLite file.
"""
