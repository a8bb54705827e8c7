-- A run by hand can have a timeout of its own, and can be due later. Until then it takes no place of its schedule.
ALTER TABLE executions ADD COLUMN timeout_s REAL CHECK (timeout_s > 0);
DROP INDEX executions_active;
CREATE INDEX executions_active
    ON executions (status, schedule_id, scope_kind, scope_id, cause, engine_id, due_at)
    WHERE status IN ('queued', 'running');
-- A key is unique as long as its run is in the history. It was so for a day only: of runs that shared a key, the
-- newest keeps it.
DROP TRIGGER executions_final;
UPDATE executions SET fire_key = fire_key || '.' || id
WHERE cause = 'manual' AND length(fire_key) = 39 AND id NOT IN (
    SELECT max(id) FROM executions WHERE cause = 'manual' AND length(fire_key) = 39
    GROUP BY schedule_id, scope_kind, scope_id, fire_key);
CREATE TRIGGER executions_final BEFORE UPDATE ON executions
WHEN OLD.status NOT IN ('queued', 'running') AND (
    OLD.status = 'skipped' AND NEW.status = 'skipped' AND NEW.reason = OLD.reason
    AND NEW.plan_at = OLD.plan_at AND NEW.fire_key = OLD.fire_key
    AND NEW.missed_count > OLD.missed_count AND NEW.missed_to_at > OLD.missed_to_at) IS NOT TRUE
BEGIN
    SELECT RAISE(ABORT, 'a terminal execution does not change');
END;
CREATE UNIQUE INDEX executions_keyed ON executions (schedule_id, fire_key, scope_kind, scope_id)
    WHERE cause = 'manual' AND length(fire_key) = 39;
