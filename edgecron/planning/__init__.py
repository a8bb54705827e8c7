"""Pure decisions: the next fire, what follows a missed or overlapping one, retries, retention.

Nothing here reads a clock, a file or a database: the engine carries the decisions out.
"""
