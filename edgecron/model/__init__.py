"""Schedules, runs and engines as frozen values that are checked once, when they are made.

`*_at` is an aware UTC datetime. `*_ms` is milliseconds; if the name holds an instant (`plan_ms`,
`due_ms`, `now_ms`), milliseconds since 1970.
"""
