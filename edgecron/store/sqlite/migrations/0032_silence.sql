-- How long a run can print nothing, and what edgecron then does.
ALTER TABLE schedules ADD COLUMN stall_timeout_s REAL CHECK (stall_timeout_s > 0);
ALTER TABLE schedules ADD COLUMN stall_action TEXT NOT NULL DEFAULT 'notice' CHECK (stall_action IN ('notice', 'end'));
-- How often a rule wants a sign of life of each engine, instead of notices.
ALTER TABLE notify_rules ADD COLUMN beat_ms INTEGER CHECK (beat_ms >= 1000);
