-- Limits of a run as text, and what it asks of the machine's power and of the disk.
ALTER TABLE schedules ADD COLUMN ionice TEXT;
ALTER TABLE schedules ADD COLUMN memory_max TEXT;
ALTER TABLE schedules ADD COLUMN cpu_max TEXT;
ALTER TABLE schedules ADD COLUMN keep_awake INTEGER NOT NULL DEFAULT 0
    CHECK (keep_awake IN (0, 1));
ALTER TABLE schedules ADD COLUMN wake INTEGER NOT NULL DEFAULT 0 CHECK (wake IN (0, 1));
ALTER TABLE schedules ADD COLUMN durability TEXT NOT NULL DEFAULT 'full'
    CHECK (durability IN ('full', 'normal', 'volatile'));
-- The next run for which the machine must be awake.
CREATE INDEX schedules_waking ON schedules (next_run_at) WHERE wake AND next_run_at IS NOT NULL;
-- What an engine has written to the disk, and by when.
ALTER TABLE engines ADD COLUMN written_bytes INTEGER;
ALTER TABLE engines ADD COLUMN written_at INTEGER;
