"""Reads: what front ends read of schedules and runs, without the code that writes.

A command that only reads, such as `edgecron list`, starts in two thirds of the time.
"""

from __future__ import annotations

from edgecron.planning.corrections import ClockMarks
from edgecron.store.sql import history, schedule_lists, schedules
from edgecron.store.sql.connection import Connection


class Reads(Connection):
    """The reads of a store. Most methods are functions that take the connection first."""

    # Schedules.

    get_schedule = schedules.get_schedule
    find_schedule = schedules.find_schedule
    find_id = schedules.find_id
    find_ids_of_name = schedules.find_ids_of_name
    find_last_removed = schedules.find_last_removed
    find_schedules = schedules.find_schedules
    find_definitions = schedules.find_definitions
    find_schedule_page = schedules.find_schedule_page
    find_each_schedule = schedules.find_each_schedule
    find_names = schedules.find_names
    find_names_in_queue = schedules.find_names_in_queue
    find_upstreams = schedules.find_upstreams
    find_needs = schedules.find_needs
    find_demands = schedules.find_demands
    coming_schedules = schedules.coming_schedules
    count_waiting = schedules.count_waiting
    is_decided_early = schedules.is_decided_early
    has_active = schedules.has_active
    compiled_of = schedules.compiled_of
    find_standings = schedule_lists.find_standings
    count_schedules = schedule_lists.count_schedules
    find_suspects = schedule_lists.find_suspects
    find_streak = schedule_lists.find_streak
    find_removals = history.find_removals
    find_state = schedules.find_state
    count_state = schedules.count_state
    find_acknowledged = schedules.find_acknowledged

    # Runs.

    find_execution = history.find_execution
    find_executions = history.find_executions
    find_waiting = history.find_waiting
    find_later = history.find_later
    find_active_ids = history.find_active_ids
    find_ended_ids = history.find_ended_ids
    find_runs_by_id = history.find_runs_by_id
    find_next_attempt = history.find_next_attempt
    last_execution_of = history.last_execution_of
    count_active = history.count_active
    is_removed = history.is_removed

    # The clock: the trusted mark, and when it was last set.

    def find_clock_marks(self) -> ClockMarks:
        """Return what the database has recorded about the clock and zones."""
        row = self.row(
            """SELECT trusted_high_at, tzdata_version, local_timezone, clock_set_at, clock_set_by_ms
               FROM meta"""
        )
        assert row is not None
        return ClockMarks(
            trusted_high_ms=row[0],
            tzdata_version=row[1],
            local_timezone=row[2],
            set_at_ms=row[3],
            set_by_ms=row[4],
        )

    def note_clock_set(self, *, at_ms: int, by_ms: int) -> None:
        """Record that the clock was set: when, by the new time, and by how much."""
        with self.transaction():
            self.change(
                "UPDATE meta SET clock_set_at = :at, clock_set_by_ms = :by",
                {"at": at_ms, "by": by_ms},
            )

    def note_trusted(self, mark_ms: int, *, was_ms: int | None) -> bool:
        """Move the trusted mark; False if another engine has moved it."""
        with self.transaction():
            changed = self.change(
                "UPDATE meta SET trusted_high_at = :mark WHERE trusted_high_at IS :was",
                {"mark": mark_ms, "was": was_ms},
            )
        return changed == 1
