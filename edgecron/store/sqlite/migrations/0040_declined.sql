-- A monitor that heard of the start of a run also hears if its function had nothing to do.
DROP TRIGGER executions_noted;
CREATE TRIGGER executions_noted AFTER UPDATE OF status, missed_count ON executions
WHEN EXISTS (SELECT 1 FROM notify_rules) AND (NEW.status IN ('failed', 'interrupted')
    OR NEW.status = 'skipped' AND NEW.reason IN ('misfire', 'condition')
    OR NEW.status = 'success' AND (NEW.flags LIKE '%"stalled"%' OR EXISTS (
        SELECT 1 FROM incidents WHERE schedule_id = NEW.schedule_id) OR EXISTS (
        SELECT 1 FROM happenings WHERE schedule_id = NEW.schedule_id))
    OR (NEW.status NOT IN ('queued', 'skipped') OR NEW.reason = 'declined')
        AND EXISTS (SELECT 1 FROM notify_rules WHERE wants_runs))
BEGIN
    INSERT INTO happenings (at, status, schedule_id, execution_id)
    VALUES (coalesce(NEW.finished_at, NEW.claimed_at),
        iif(NEW.reason = 'declined', 'declined', NEW.status), NEW.schedule_id, NEW.id);
END;
