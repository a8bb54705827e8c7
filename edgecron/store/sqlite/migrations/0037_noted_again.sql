-- A run that is queued again can be late. A run can stall while no engine is there to record it.
DROP TRIGGER executions_noted;
CREATE TRIGGER executions_noted AFTER UPDATE OF status, missed_count ON executions
WHEN EXISTS (SELECT 1 FROM notify_rules) AND (NEW.status IN ('failed', 'interrupted')
    OR NEW.status = 'skipped' AND NEW.reason IN ('misfire', 'condition')
    OR NEW.status = 'success' AND (NEW.flags LIKE '%"stalled"%' OR EXISTS (
        SELECT 1 FROM incidents WHERE schedule_id = NEW.schedule_id) OR EXISTS (
        SELECT 1 FROM happenings WHERE schedule_id = NEW.schedule_id))
    OR NEW.status NOT IN ('queued', 'skipped')
        AND EXISTS (SELECT 1 FROM notify_rules WHERE wants_runs))
BEGIN
    INSERT INTO happenings (at, status, schedule_id, execution_id)
    VALUES (coalesce(NEW.finished_at, NEW.claimed_at), NEW.status, NEW.schedule_id, NEW.id);
END;

DROP TRIGGER executions_watched;
CREATE TRIGGER executions_watched AFTER UPDATE OF status ON executions
WHEN NEW.status != OLD.status
    AND EXISTS (SELECT 1 FROM notify_rules WHERE late_ms > 0 OR slow_ms > 0)
BEGIN
    DELETE FROM watches WHERE execution_id = NEW.id AND (NEW.status = 'queued' AND event = 'slow'
        OR at > coalesce(NEW.finished_at, NEW.claimed_at));
    INSERT INTO watches (execution_id, event, at)
    SELECT NEW.id, 'late', NEW.due_at + least_ms
    FROM (SELECT min(late_ms) AS least_ms FROM notify_rules)
    WHERE least_ms > 0 AND NEW.status = 'queued'
    ON CONFLICT (execution_id, event) DO NOTHING;
    INSERT INTO watches (execution_id, event, at)
    SELECT NEW.id, 'slow', NEW.claimed_at + least_ms
    FROM (SELECT min(slow_ms) AS least_ms FROM notify_rules)
    WHERE least_ms > 0 AND NEW.status = 'running';
END;
