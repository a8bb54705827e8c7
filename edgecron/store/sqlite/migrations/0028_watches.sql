-- Notices of runs that start late or take long. A watch says when somebody has to look at a run. Triggers set and remove
-- it, if a rule has such a limit.

ALTER TABLE notify_rules ADD COLUMN late_ms INTEGER CHECK (late_ms >= 1);
ALTER TABLE notify_rules ADD COLUMN slow_ms INTEGER CHECK (slow_ms >= 1);

CREATE TABLE watches (
    execution_id INTEGER NOT NULL,
    event TEXT NOT NULL CHECK (event IN ('late', 'slow')),
    at INTEGER NOT NULL,
    PRIMARY KEY (execution_id, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX watches_due ON watches (at);

CREATE TRIGGER executions_watched_new AFTER INSERT ON executions
WHEN NEW.status IN ('queued', 'running')
    AND EXISTS (SELECT 1 FROM notify_rules WHERE late_ms > 0 OR slow_ms > 0)
BEGIN
    INSERT INTO watches (execution_id, event, at)
    SELECT NEW.id, 'late', NEW.due_at + least_ms
    FROM (SELECT min(late_ms) AS least_ms FROM notify_rules)
    WHERE least_ms > 0 AND (NEW.status = 'queued' OR NEW.claimed_at - NEW.due_at >= least_ms);
    INSERT INTO watches (execution_id, event, at)
    SELECT NEW.id, 'slow', NEW.claimed_at + least_ms
    FROM (SELECT min(slow_ms) AS least_ms FROM notify_rules)
    WHERE least_ms > 0 AND NEW.status = 'running';
END;

CREATE TRIGGER executions_watched AFTER UPDATE OF status ON executions
WHEN NEW.status != OLD.status
    AND EXISTS (SELECT 1 FROM notify_rules WHERE late_ms > 0 OR slow_ms > 0)
BEGIN
    DELETE FROM watches WHERE execution_id = NEW.id AND (NEW.status = 'queued' AND event = 'slow'
        OR at > coalesce(NEW.finished_at, NEW.claimed_at));
    INSERT INTO watches (execution_id, event, at)
    SELECT NEW.id, 'slow', NEW.claimed_at + least_ms
    FROM (SELECT min(slow_ms) AS least_ms FROM notify_rules)
    WHERE least_ms > 0 AND NEW.status = 'running';
END;
