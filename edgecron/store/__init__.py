"""The store: the only place that knows SQL.

`sqlite` holds `SqliteStore`. `protocol.Store` is what an engine asks of a store.
"""
