-- The conditions that must hold during a run, and what happens to the run if one is lost.
ALTER TABLE schedules ADD COLUMN while_needs TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(while_needs));
ALTER TABLE schedules ADD COLUMN while_lost TEXT NOT NULL DEFAULT 'end' CHECK (while_lost IN ('end', 'suspend'));
