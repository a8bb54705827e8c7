-- How many runs an engine runs at once, so that people see which places are taken. NULL for an engine
-- of an older version.
ALTER TABLE engines ADD COLUMN max_running INTEGER;
