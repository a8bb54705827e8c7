"""What every other room builds on. Nothing here knows schedules or runs."""
