"""The base of every other room. Nothing here knows schedules or runs."""
