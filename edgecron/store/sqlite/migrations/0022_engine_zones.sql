-- The zone that `local` means for an engine, so that people see engines of one database that differ.
-- NULL for an engine of an older version.
ALTER TABLE engines ADD COLUMN local_timezone TEXT;
