-- The largest fence that a claim of a schedule was given, and the fence of each run.
ALTER TABLE schedules ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE executions ADD COLUMN fence INTEGER;

-- `rows_affected` and `stale_after` are filled from now on, and shown.
DROP VIEW executions_view;
CREATE VIEW executions_view AS
SELECT e.id, s.name AS schedule, e.scope_kind, e.scope_id,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.plan_at / 1000.0, 'unixepoch') AS plan_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.due_at / 1000.0, 'unixepoch') AS due_at,
    e.fire_key, e.cause, e.trigger_text, e.attempt, e.max_attempts, e.queue, e.priority,
    e.status, e.reason, e.exit_code, e.error_code, e.error_msg, e.result, e.rows_affected,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.started_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.finished_at / 1000.0, 'unixepoch') AS finished_at,
    e.duration_ms, e.engine_id, e.fence,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.stale_after / 1000.0, 'unixepoch') AS stale_after,
    e.flags, e.progress, e.waiting_for,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.wait_until / 1000.0, 'unixepoch') AS wait_until,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.missed_from_at / 1000.0, 'unixepoch') AS missed_from_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', e.missed_to_at / 1000.0, 'unixepoch') AS missed_to_at,
    e.missed_count
FROM executions AS e JOIN schedules AS s ON s.id = e.schedule_id;
