-- Retention removes snapshots that no run needs. Until when a snapshot held, if retention has
-- removed the one after it.
ALTER TABLE schedule_revisions ADD COLUMN known_until INTEGER;

-- Most schedules are never changed: a pass of retention looks only at those that were.
CREATE INDEX schedule_revisions_changed ON schedule_revisions (schedule_id) WHERE revision > 1;
