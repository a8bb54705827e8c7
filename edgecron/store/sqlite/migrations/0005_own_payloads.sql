-- A run by hand may have a payload of its own; of others the schedule's is theirs.

ALTER TABLE executions ADD COLUMN payload TEXT;
