-- A clock that was set back repeats a span of time. Schedules that follow elapsed time go on in it.

-- When the clock was set last, by the new time, and by how much: less than 0 is back.
ALTER TABLE meta ADD COLUMN clock_set_at INTEGER;
ALTER TABLE meta ADD COLUMN clock_set_by_ms INTEGER;
-- Since when a schedule repeats plan times up to `decided_until`; NULL if it repeats none.
ALTER TABLE schedules ADD COLUMN repeats_since INTEGER;
