-- How often a claim of a schedule's due fire found the database locked by another process.
ALTER TABLE schedules ADD COLUMN lock_failures INTEGER NOT NULL DEFAULT 0;
