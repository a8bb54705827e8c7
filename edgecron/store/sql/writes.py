"""Writes: what engines and clients ask of a store, beside its reads.

Each method is a function of another module that takes the connection first. Work for a single
command (prune, doctor, backup, statistics, the dashboard's pages) has no method here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgecron.store.sql import (
    claims,
    corrections,
    due,
    ends,
    engines,
    explanations,
    limits,
    machine_scopes,
    manual_runs,
    notices,
    outbox,
    queue,
    retention,
    revisions,
    schedule_changes,
    schedules,
    statistics,
    waiting_rows,
)
from edgecron.store.sql.reads import Reads

if TYPE_CHECKING:
    from edgecron.store.protocol import Leases


class Writes(Reads):
    """What an engine's `protocol.Store` has beside its file, and more for clients."""

    # Engines.

    register_engine = engines.register_engine
    note_offers = engines.note_offers
    note_supervisor = engines.note_supervisor
    note_zone = engines.note_zone
    note_presence = engines.note_presence
    note_distrust = engines.note_distrust
    note_trust = engines.note_trust
    note_death = engines.note_death
    find_presence = engines.find_presence
    close_queues = engines.close_queues
    find_loads = engines.find_loads
    drain_engine = engines.drain_engine
    resume_engine = engines.resume_engine
    is_drained = engines.is_drained
    retire_engine = engines.retire_engine
    find_engines = engines.find_engines

    # Due fires and their claims.

    find_due = due.find_due
    has_priority_due = due.has_priority_due
    find_boot_due = due.find_boot_due
    next_due_ms = due.next_due_ms
    next_wake_ms = due.next_wake_ms
    has_calendars = due.has_calendars
    find_calendar_users = due.find_calendar_users
    is_used = due.is_used
    find_placed = due.find_placed
    join_machine = machine_scopes.join_machine
    forget_machine = machine_scopes.forget_machine
    upcoming = due.upcoming
    find_next = due.find_next
    find_subject = due.find_subject
    load_schedules = revisions.load_schedules
    claim_due = claims.claim_due
    claim_boot = claims.claim_boot
    claim_queued = queue.claim_queued
    find_waited = waiting_rows.find_waited
    find_last_success_ms = limits.find_last_success_ms
    wake_waiting = waiting_rows.wake_waiting
    note_wait = waiting_rows.note_wait
    has_queued = queue.has_queued
    mark_broken = revisions.mark_broken

    # Active runs and their ends.

    finish = ends.finish
    finish_and_fill = ends.finish_and_fill
    find_running = engines.find_running
    find_running_row = engines.find_running_row
    find_cancelled = engines.find_cancelled
    note_suspension = engines.note_suspension
    requeue = ends.requeue
    adopt = engines.adopt
    beat = engines.beat
    request_cancel = engines.request_cancel
    cancel_queued = manual_runs.cancel_queued
    enqueue_together = manual_runs.enqueue_together
    find_covered = manual_runs.find_covered
    queue_backfill = manual_runs.queue_backfill

    # Notices.

    has_notify_rules = outbox.has_rules
    next_notice_ms = notices.next_notice_ms
    find_beat_ms = outbox.find_beat_ms
    note_stalls = notices.note_stalls

    # Clock, zones and corrections of times.

    find_last_schedule_id = corrections.find_last_id
    find_misdated = corrections.find_misdated
    find_intervals = corrections.find_intervals
    find_zoned = corrections.find_zoned
    find_times = corrections.find_times
    find_set_back = corrections.find_set_back
    find_timeless = corrections.find_timeless
    settle_timeless = corrections.settle_timeless
    retime = corrections.retime
    bring_back_queued = corrections.bring_back_queued
    bring_back_successes = corrections.bring_back_successes

    # Definitions, and changes of schedules.

    find_prospects = explanations.find_prospects
    find_recurring = statistics.find_recurring
    find_origins = revisions.find_origins
    find_changes = revisions.find_changes
    find_definition = revisions.find_definition
    find_defined = revisions.find_defined
    find_last_changed = revisions.find_last_changed
    insert_schedules = schedule_changes.insert_schedules
    update_schedule = schedule_changes.update_schedule
    pause_schedule = schedule_changes.pause_schedule
    resume_schedule = schedule_changes.resume_schedule
    reschedule = schedule_changes.reschedule
    remove_schedule = schedule_changes.remove_schedule
    restore_removed = schedule_changes.restore_removed
    remove_unreadable = schedule_changes.remove_unreadable
    set_group_limit = limits.set_group_limit
    acknowledge = schedules.acknowledge
    decide_apply = revisions.decide_apply
    find_pending_apply = revisions.find_pending_apply
    finish_apply = revisions.finish_apply
    definition_texts = revisions.definition_texts
    find_imported = revisions.find_imported
    find_imported_before = revisions.find_imported_before
    note_imported = revisions.note_imported

    # Output and reports of runs.
    find_output = ends.find_output
    note_progress = ends.note_progress
    report_progress = ends.report_progress

    if TYPE_CHECKING:

        @property
        def leases(self) -> Leases | None:
            """The leases of engines on several machines; see `Store.leases`."""

        def mend(self) -> bool:
            """After an error, recover the open files if that loses nothing; see `Store.mend`."""

        def tidy(self) -> None:
            """Do housekeeping that keeps the store fast, outside of any transaction."""

    # Retention.

    begin_pruning = retention.begin_pruning
