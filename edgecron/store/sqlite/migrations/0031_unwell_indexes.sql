-- The conditions of two indexes, each written so that SQLite compares instead of making a table of the four words for each
-- row that is inserted or updated.
DROP INDEX executions_unwell;
DROP INDEX executions_unwell_by_schedule;
CREATE INDEX executions_unwell ON executions (status, id)
    WHERE status = 'failed' OR status = 'skipped' OR status = 'cancelled' OR status = 'interrupted';
CREATE INDEX executions_unwell_by_schedule ON executions (schedule_id, status, id)
    WHERE status = 'failed' OR status = 'skipped' OR status = 'cancelled' OR status = 'interrupted';
