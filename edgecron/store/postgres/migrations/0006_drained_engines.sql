-- Since when an engine takes nothing new, until somebody resumes it.
ALTER TABLE engines ADD COLUMN drained_at BIGINT;
