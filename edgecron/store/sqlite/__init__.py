"""The store in one SQLite file. `store` holds `SqliteStore`."""
